#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command, and shows only one line for it on stderr: "TEXT ... 12 s". The command's output goes to a log, whose end is shown if the command fails. On
# a terminal, the line also shows the time so far and the last line that the command printed.
#
# usage: tools/step.sh TEXT COMMAND [ARGUMENT...]
set -u
text=$1
shift
log=$(mktemp "${TMPDIR:-/tmp}/stoker-step-XXXXXX")
ticker=
begin=$(date +%s)
seconds() { echo $(($(date +%s) - begin)); }
tick() {
	width=$(($(stty size <&2 2>/dev/null | cut -d' ' -f2) + 0))
	[ "$width" -gt 40 ] || width=80
	while sleep 1; do
		last=$(tr '\r' '\n' <"$log" | grep -v '^ *$' | tail -n 1)
		printf '\r\033[K%s' "$(printf '%s ... %s s: %s' "$text" "$(seconds)" "$last" | cut -c "1-$((width - 1))")" >&2
	done
}
finish() {
	[ -z "$ticker" ] || kill "$ticker" 2>/dev/null
	ticker=
}
trap finish EXIT
trap 'finish; exit 130' INT TERM

if [ -t 2 ]; then
	tick &
	ticker=$!
else
	printf '%s ...' "$text" >&2
fi
rc=0
"$@" </dev/null >"$log" 2>&1 || rc=$?
finish
[ ! -t 2 ] || printf '\r\033[K%s ...' "$text" >&2
if [ $rc -eq 0 ]; then
	printf ' %s s\n' "$(seconds)" >&2
	rm -f "$log"
else
	printf ' failed after %s s (exit status %s). The end of its output:\n' "$(seconds)" "$rc" >&2
	tail -n 40 "$log" | sed 's/^/    /' >&2
	printf 'All of it: %s\n' "$log" >&2
fi
exit $rc
