#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs a build under the prefix that it was configured with, and prints the variables that a user has to set to find it there. The command and programs
# built with pkg-config contain the library's folder (rpath); other programs find the library through the loader's cache.
#
# usage: tools/install.sh BUILD PREFIX      environment: DESTDIR, a folder to install into, for making packages
set -eu
cd "$(dirname "$0")/.."
build=$1 prefix=$2
meson install -C "$build" --no-rebuild --quiet
echo "installed under ${DESTDIR:-}$prefix"
tools/left_out.sh "$build"
[ -z "${DESTDIR:-}" ] || exit 0
case $prefix in
/usr | /usr/local)
	# The loader's cache covers only these two folders, and only root can write it.
	[ "$(id -u)" != 0 ] || ldconfig ;;
*) echo "to use it:  export PATH=$prefix/bin:\$PATH PKG_CONFIG_PATH=$prefix/lib/pkgconfig" ;;
esac
