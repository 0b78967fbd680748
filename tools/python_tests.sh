#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the Python tests, except those that compare with DALI, in PARTS processes of which AT_ONCE run at the same time, because most tests wait for servers,
# timers and other processes. Each process is a separate run of pytest, because tests send signals to their process, fork it and look at its threads.
#
# A test that fails is run three more times, without other tests. If it passes each time, it is unsteady: it is listed with its failure but does not fail the
# run, since a busy machine may be the reason. If more than MOST_UNSTEADY (3) tests fail, none is run again, and the run fails.
#
# usage: [PARTS=n] [AT_ONCE=n] [MOST_UNSTEADY=n] tools/python_tests.sh COMMAND...      COMMAND: for example PYTHON -m pytest -q; the files are appended
set -eu
export PARTS="${PARTS:-6}"
AT_ONCE=${AT_ONCE:-3}
MOST_UNSTEADY=${MOST_UNSTEADY:-3}
cd "$(dirname "$0")/.."

# Prints the files of a part: every PARTS-th in the order of names, so that all parts take about the same time.
files() {
	find test/python -name 'test_*.py' ! -path 'test/python/parity/*' ! -name test_ops_parity.py | sort | awk -v part="$1" -v parts="$PARTS" 'NR % parts + 1 == part'
}

if [ "$1" = --part ]; then
	part=$2 log=$3
	shift 3
	# shellcheck disable=SC2046
	"$@" $(files "$part") > "$log/part-$part" 2>&1 && code=0 || code=$?
	echo "$code" > "$log/code-$part"
	exit "$code"
fi
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
code=0
seq "$PARTS" | xargs -P "$AT_ONCE" -I '{part}' "$0" --part '{part}' "$log" "$@" || code=$?
# Returns whether each part either passed, or ended with failed tests (code 1) that it names.
only_tests_failed() {
	for part in $(seq "$PARTS"); do
		case $(cat "$log/code-$part") in
		0) ;;
		1) grep -q '^FAILED ' "$log/part-$part" || return 1 ;;
		*) return 1 ;;
		esac
	done
}

# The identifiers of failed tests. conftest.py prints each on a separate line.
failed=$(sed -n 's/^FAILED \(.*::.*\) (\(setup\|call\|teardown\))$/\1/p' "$log"/part-* | sort -u)
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
	[ "$code" -ne 0 ] || sed -i '/^[0-9].* in [0-9.]*s/ s/\([0-9]*\) \(failed\|errors\{0,1\}\)\>/\1 unsteady/g' "$log"/part-*
fi
cat "$log"/part-*
[ "$code" -ne 0 ] || [ "$count" -eq 0 ] || printf 'unsteady (failed once, then passed three times by itself):\n%s\n' "$failed"
exit $code
