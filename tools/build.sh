#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Configures a build folder with the given options, or changes the options of an existing one, and builds it. As with meson itself, an option that is not
# given keeps its last value. Afterwards BUILD/python can be put on PYTHONPATH: it holds the package with its built module.
#
# usage: [TARGETS="a b"] tools/build.sh BUILD [meson options: -Dname=value or --name=value]    TARGETS: builds only these files
#        LEFT_OUT_LATER=1: does not print what the build leaves out; the caller does that later
set -eu
cd "$(dirname "$0")/.."
build=$1
shift

# Returns whether the folder was configured with all of these options. Meson stores its options in cmd_line.txt.
configured() {
	for option in "$@"; do
		pair=${option#-D}
		pair=${pair#--}
		grep -qxF "${pair%%=*} = ${pair#*=}" "$build/meson-private/cmd_line.txt" || return 1
	done
}

# Returns whether the meson that configured the folder still exists. For `pip install .`, pip installs a meson and deletes it afterwards.
has_its_meson() {
	meson=$(sed -n '/^rule REGENERATE_BUILD/,/^ command/s/^ command = \(\/[^ ]*\) .*/\1/p' "$build/build.ninja" | head -n 1)
	[ -z "$meson" ] || [ -e "$meson" ]
}

if [ ! -f "$build/build.ninja" ]; then
	tools/step.sh "build: configuring $build" meson setup "$build" "$@"
elif ! has_its_meson; then
	tools/step.sh "build: configuring $build anew, as the meson that made it is gone" meson setup --wipe "$build" "$@"
elif ! configured "$@"; then
	tools/step.sh "build: configuring $build with $*" meson setup --reconfigure "$build" "$@"
fi
# If a meson.build has changed, ninja runs meson first. Meson's long output is shown only if it fails.
said=$(ninja -C "$build" build.ninja 2>&1) || {
	printf '%s\n' "$said" >&2
	exit 1
}
quiet=--quiet
[ ! -t 1 ] || quiet= # on a terminal, ninja shows its progress in one line
# shellcheck disable=SC2086
ninja -C "$build" -j "${JOBS:-$(nproc)}" $quiet ${TARGETS:-}
[ -n "${TARGETS:-}${LEFT_OUT_LATER:-}" ] || tools/left_out.sh "$build"
