#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests a released wheel with the oldest and the newest supported versions of CPython, NumPy and PyTorch, as far as a release of Debian has the CPython. Each
# combination runs in a fresh clone, with nothing else installed. The versions of CPython in between are not run; abi3audit (release.py) checks that they have
# every function that the wheel's modules call.
#
# usage: tools/release/test_versions.sh WHEEL [SUITE...]       as root; needs debootstrap
# environment: FRESH_HOME, as for tools/fresh.sh; TORCH=none leaves out PyTorch, whose download with NVIDIA's libraries is 3 GB
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/debian.sh
[ $# -gt 0 ] || fail "which wheel? test_versions.sh WHEEL [SUITE...]"
need python3:python3
wheel=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- bookworm trixie forky

# suite: Python packages. bookworm has CPython 3.11, trixie 3.13, forky 3.14.
packages() {
	case $1 in
	bookworm) echo 'numpy==1.26.4 torch==2.4.1' ;;
	*) echo 'numpy torch' ;;
	esac
}

# The tests that need only NumPy, and those that need PyTorch.
tests='test/python/test_arithmetic.py test/python/test_images.py test/python/test_limits.py'
torch_tests='test/python/test_state.py test/python/test_handover.py test/python/test_iterators.py test/python/test_dataloader.py'

# The wheel comes from a server on loopback, because a fresh clone has no dist/.
log=$(mktemp)
python3 -u -m http.server --bind 127.0.0.1 --directory "$(dirname "$wheel")" 0 > "$log" 2> /dev/null &
server=$!
trap 'kill $server; rm -f "$log"' EXIT
until grep -q port "$log"; do sleep 0.1; done
port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$log")

for suite in "$@"; do
	wanted=$(packages "$suite")
	run=$tests
	if [ "${TORCH:-}" = none ]; then wanted=$(printf '%s' "$wanted" | sed 's/ *torch[^ ]*//'); else run="$run $torch_tests"; fi
	tools/fresh.sh "$suite" "
		set -e
		apt-get update -q > /dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv > /dev/null
		python3 -m venv /srv/venv
		/srv/venv/bin/pip install -q --progress-bar off $wanted pillow pytest pytest-timeout http://127.0.0.1:$port/$(basename "$wheel") 2> /dev/null
		/srv/venv/bin/python -c 'import importlib.metadata as m, sys; print(\"versions: CPython\", sys.version.split()[0], *[f\"{n} {m.version(n)}\" for n in \"$wanted\".replace(\"==\", \" \").split() if n.isalpha()])'
		/srv/venv/bin/python tools/wheel_probe.py numpy torch
		PATH=/srv/venv/bin:\$PATH /srv/venv/bin/python -m pytest -q -p no:cacheprovider $run"
done
