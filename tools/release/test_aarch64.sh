#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs tests of a released wheel for aarch64 under qemu-user, with the Python of a Debian for that processor. Debian's packages are unpacked, not
# installed, and only Python is run. This cannot test a memory order that is weaker than this machine's, or times.
#
# usage: tools/release/test_aarch64.sh WHEEL [PYTEST_ARGUMENT...]        needs debootstrap and qemu-user-static; as root
# environment: FRESH_HOME, the folder that keeps the system (default /var/tmp/stoker-fresh)
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/debian.sh
[ $# -gt 0 ] || fail "which wheel? test_aarch64.sh WHEEL [PYTEST_ARGUMENT...]"
need_root
need qemu-user-static:qemu-aarch64-static python3:python3
wheel=$(realpath "$1")
shift
# The tests that need only NumPy and Pillow.
[ $# -gt 0 ] || set -- test/python/test_arithmetic.py test/python/test_images.py test/python/test_limits.py
suite=bookworm
system=${FRESH_HOME:-/var/tmp/stoker-fresh}/aarch64-$suite

if [ ! -d "$system" ]; then
	unpacked "$suite" "$system" arm64 python3
	tools/step.sh "aarch64: Python packages" python3 -m pip install -q --target "$system.new/site" --python-version 3.11 --only-binary=:all: \
		--platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 numpy==1.26.4 pillow pytest pytest-timeout
	mv "$system.new" "$system"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m zipfile -e "$wheel" "$scratch/site"
chmod 755 "$scratch"/site/stoker/_bin/stoker
# Tests also start other interpreters. They go through this script, because the kernel cannot run another processor's programs.
cat > "$scratch/python3" << EOF
#!/bin/sh
exec qemu-aarch64-static -0 "$scratch/python3" -L "$system" "$system/usr/bin/python3.11" "\$@"
EOF
chmod 755 "$scratch/python3"
export PYTHONHOME=/usr PYTHONPATH=$scratch/site:$system/site PYTHONDONTWRITEBYTECODE=1
"$scratch/python3" -c 'import numpy, platform, stoker; print("aarch64:", platform.machine(), "CPython", platform.python_version(), "NumPy", numpy.__version__)'
"$scratch/python3" -m pytest -q -p no:cacheprovider -o timeout=1800 "$@"
