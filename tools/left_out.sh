#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Says what a build leaves out, a line each with what it would take; nothing if it has everything. meson.build writes the lines.
#
# usage: tools/left_out.sh BUILD
set -eu
[ -s "$1/left-out.txt" ] || exit 0
sed -n 's/^..*/this build leaves out: &/p' "$1/left-out.txt"
