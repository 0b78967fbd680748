#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Tests the newest wheel in DIST on a GPU. The wheel is unpacked into a separate folder. Builds and downloads nothing, so a machine needs only a Python
# with torch, numpy, pillow, opencv, pytest and pytest-timeout. Fails if there is no GPU.
#
# usage: [PYTHON=python3] tools/test_gpu.sh DIST [pytest arguments]
set -eu
cd "$(dirname "$0")/.."
wheel=$(ls -t "$1"/stoker-*.whl | head -n 1)
shift
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT

"$python" -m pip install -q --no-index --no-deps --no-compile --target "$site" "$wheel"
unset STOKER_BUILD
export PYTHONPATH="$site" PATH="$site/bin:$PATH" STOKER_TEST_GPU=1
printf 'gpu: %s\n' "$(basename "$wheel")"
stoker doctor || [ $? -eq 1 ]
"$python" -m pytest -q test/python/gpu test/python/test_training.py "$@"
