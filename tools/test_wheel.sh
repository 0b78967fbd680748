#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the wheel in an empty environment without a compiler, and uses it there: the package, a small pipeline, the command. If VENV exists, also loads the
# wheel's libraries in one process with the copies of the same libraries that VENV's packages contain.
#
# usage: tools/test_wheel.sh DIST
set -eu
cd "$(dirname "$0")/.."
wheel=$(realpath "$(ls -t "$1"/stoker-*.whl | head -n 1)")
python3 tools/check_hardening.py "$wheel"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
venv=${VENV:-.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac

say() { printf 'wheel: %s\n' "$*"; }

python3 -m venv "$scratch/venv"
# Runs where nothing of this build can be found: in another folder, with an empty PATH and no library path.
cp tools/wheel_probe.py "$scratch/"
cd "$scratch"
clean() { env -i HOME="$scratch" PATH="$scratch/venv/bin:/usr/bin/false" "$@"; }
clean "$scratch/venv/bin/python" -m pip install -q --no-index --no-deps "$wheel"
clean stoker --version
clean "$scratch/venv/bin/python" -m stoker --version
clean stoker ops > ops.txt
clean "$scratch/venv/bin/python" wheel_probe.py
clean stoker doctor || [ $? -eq 1 ]
if [ -x "$venv/bin/python" ]; then
	# Loads Stoker before, and then after, other packages that contain a libjpeg.
	site=$("$scratch/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	for order in "stoker torch PIL.Image cv2" "torch PIL.Image cv2 stoker"; do
		env -i HOME="$scratch" PATH=/usr/bin PYTHONPATH="$site" "$venv/bin/python" wheel_probe.py $order
	done
fi
say "$(basename "$wheel") works in an empty environment ($(wc -c < "$wheel") bytes)"
