#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the Python tests, but those against DALI, in two processes side by side: most of them wait for servers, timers and other processes. They are
# pytest's own processes and no workers of another: tests end them by signals, fork them and look at their threads.
#
# A test that fails is run three times more, by itself. If it passes each time, it is unsteady: it is listed with its failure, and does not fail the run, since
# a busy machine may be the reason. More than MOST_UNSTEADY (3) of them are failures.
#
# usage: [BORDER=m] [MOST_UNSTEADY=n] tools/python_tests.sh COMMAND... as PYTHON -m pytest -q; files are added to it
# BORDER: where the second part begins, in the order of the files' names behind test_, where other tests than all of them are chosen
set -eu
MOST_UNSTEADY=${MOST_UNSTEADY:-3}
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
	"$@" $(files "$part") > "$log/$part" 2>&1 && code=0 || code=$?
	echo "$code" > "$log/$part.code"
	exit "$code"
fi
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
code=0
# By xargs: what a shell starts in the background ignores SIGINT, and so would the programs whose Ctrl-C is tested.
printf '%s\n' first second | xargs -P 2 -I '{part}' "$0" --part '{part}' "$log" "$@" || code=$?
# Returns whether each part either passed, or ended with failed tests (code 1) that it names.
only_tests_failed() {
	for part in first second; do
		case $(cat "$log/$part.code") in
		0) ;;
		1) grep -q '^FAILED ' "$log/$part" || return 1 ;;
		*) return 1 ;;
		esac
	done
}

# The identifiers of failed tests, which conftest.py prints on lines of their own.
failed=$(sed -n 's/^FAILED \(.*::.*\) (\(setup\|call\|teardown\))$/\1/p' "$log/first" "$log/second" | sort -u)
count=$(printf '%s' "$failed" | grep -c '' || :)
if [ "$code" -ne 0 ] && [ "$count" -gt 0 ] && [ "$count" -le "$MOST_UNSTEADY" ] && only_tests_failed; then
	code=0
	printf '%s\n' "$failed" > "$log/failed"
	while IFS= read -r test; do
		for _ in 1 2 3; do
			"$@" "$test" > "$log/again" 2>&1 < /dev/null || { code=1 && break; }
		done
		[ "$code" -eq 0 ] || break
	done < "$log/failed"
	[ "$code" -ne 0 ] || sed -i 's/\([0-9]*\) failed\(, .* in [0-9.]*s\)/\1 unsteady\2/' "$log/first" "$log/second"
fi
cat "$log/first" "$log/second"
[ "$code" -ne 0 ] || [ "$count" -eq 0 ] || printf 'unsteady (failed once, then passed three times by itself):\n%s\n' "$failed"
exit $code
