#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Configures a build folder with the given options, or makes an existing one take them over, and builds it. As with meson itself, an option that is not
# given stays as it was given last. BUILD/python is then a Python path that holds the package with its built module.
#
# usage: [TARGETS="a b"] tools/build.sh BUILD [meson options: -Dname=value or --name=value]    TARGETS: only these files of the folder
#        LEFT_OUT_LATER=1: the caller says at its own end what the build leaves out
set -eu
cd "$(dirname "$0")/.."
build=$1
shift

# True if the folder was configured with all of the options; meson keeps there what it was given.
configured() {
	for option in "$@"; do
		pair=${option#-D}
		pair=${pair#--}
		grep -qxF "${pair%%=*} = ${pair#*=}" "$build/meson-private/cmd_line.txt" || return 1
	done
}

if [ ! -f "$build/build.ninja" ]; then
	tools/step.sh "build: configuring $build" meson setup "$build" "$@"
elif ! configured "$@"; then
	tools/step.sh "build: configuring $build with $*" meson setup --reconfigure "$build" "$@"
fi
# Where a meson.build has changed ninja runs meson first, which says what it does at length.
said=$(ninja -C "$build" build.ninja 2>&1) || {
	printf '%s\n' "$said" >&2
	exit 1
}
quiet=--quiet
[ ! -t 1 ] || quiet= # on a terminal ninja's one line shows how far it is
# shellcheck disable=SC2086
ninja -C "$build" -j "${JOBS:-$(nproc)}" $quiet ${TARGETS:-}
[ -n "${TARGETS:-}${LEFT_OUT_LATER:-}" ] || tools/left_out.sh "$build"
