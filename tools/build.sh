#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Configures a build folder once and builds it. BUILD/python is then a Python path that holds the package with its built module.
#
# usage: tools/build.sh BUILD [meson options]
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
[ -f "$build/build.ninja" ] || meson setup "$build" "$@" >&2
ninja -C "$build" -j "${JOBS:-$(nproc)}" --quiet
