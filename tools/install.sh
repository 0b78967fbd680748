#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a build folder holds under the prefix that it was configured with, and says what a user has to set to find it there. The command and
# programs built with pkg-config name the library's folder (rpath); the loader's cache serves whoever links otherwise.
#
# usage: tools/install.sh BUILD PREFIX      environment: DESTDIR, a folder to install below, for who makes packages
set -eu
cd "$(dirname "$0")/.."
build=$1 prefix=$2
meson install -C "$build" --no-rebuild --quiet
echo "installed under ${DESTDIR:-}$prefix"
tools/left_out.sh "$build"
[ -z "${DESTDIR:-}" ] || exit 0
case $prefix in
/usr | /usr/local)
	# Only root can write the loader's cache, and only there is it read for these folders.
	[ "$(id -u)" != 0 ] || ldconfig ;;
*) echo "to use it:  export PATH=$prefix/bin:\$PATH PKG_CONFIG_PATH=$prefix/lib/pkgconfig" ;;
esac
