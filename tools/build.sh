#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Configures a build folder once and builds it; then lays out BUILD/package, a Python path that holds the package with its built module.
#
# usage: tools/build.sh BUILD [meson options]
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
python=${VENV:-.venv}/bin/python
[ -f "$build/build.ninja" ] || meson setup "$build" "$@" >&2
ninja -C "$build" -j "${JOBS:-$(nproc)}" --quiet

[ -d python/stoker ] || exit 0
package=$build/package/stoker
mkdir -p "$package"
find python/stoker -mindepth 1 -maxdepth 1 ! -name __pycache__ ! -name '*.so' -exec ln -sfn "$PWD/{}" "$package/" \;
for module in "$build"/python/*.abi3.so; do
	[ -f "$module" ] && ln -sf "$PWD/$module" "$package/"
done
exit 0
