#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prints a line for each part that a build leaves out, with the package that it needs. Prints nothing for a complete build. meson.build writes the lines.
#
# usage: tools/left_out.sh BUILD
set -eu
[ -s "$1/left-out.txt" ] || exit 0
sed -n 's/^..*/this build leaves out: &/p' "$1/left-out.txt"
