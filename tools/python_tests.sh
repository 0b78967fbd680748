#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the Python tests, but those against DALI, in two processes side by side: most of them wait for servers, timers and other processes. They are
# pytest's own processes and no workers of another: tests end them by signals, fork them and look at their threads.
#
# usage: [BORDER=m] tools/python_tests.sh COMMAND... as PYTHON -m pytest -q; files are added to it
# BORDER: where the second part begins, in the order of the files' names behind test_, where other tests than all of them are chosen
set -eu
cd "$(dirname "$0")/.."

# The files of a part, by their names: with all tests the two take about as long as each other.
files() {
	find test/python -name 'test_*.py' ! -path 'test/python/parity/*' ! -name test_ops_parity.py | sort | awk -F/ -v part="$1" -v border="${BORDER:-loader_s}" '
		{ first = substr($NF, 6) < border }
		(part == "first") == first'
}

if [ "$1" = --part ]; then
	part=$2 log=$3
	shift 3
	# shellcheck disable=SC2046
	"$@" $(files "$part") > "$log/$part" 2>&1
	exit
fi
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
code=0
# By xargs: what a shell starts in the background ignores SIGINT, and so would the programs whose Ctrl-C is tested.
printf '%s\n' first second | xargs -P 2 -I '{part}' "$0" --part '{part}' "$log" "$@" || code=$?
cat "$log/first" "$log/second"
exit $code
