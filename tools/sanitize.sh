#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds with a sanitizer and runs the tests in C and the essential ones in Python under it.
#
# usage: [STOKER_LONG=1] tools/sanitize.sh address|thread    STOKER_LONG=1: those of minutes too
set -eu
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python
case $1 in
address)
	build=build-asan flags=address,undefined runtime=libasan.so skip= ;;
thread)
	build=build-tsan flags=thread runtime=libtsan.so
	skip='--no-suite=kernel --no-suite=codec --no-suite=order' ;; # no threads in those
*)
	echo "usage: tools/sanitize.sh address|thread" >&2
	exit 2 ;;
esac
export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tools/tsan.txt
# Little optimisation, and debugging information only for lines: GCC then takes a third of the time for checked code, and stacks name the same lines.
# With so little, GCC takes structs that a call fills for uninitialized ones; the ordinary build warns of those that are.
tools/build.sh $build -Dtests=enabled -Dcuda=emulated -Doptimization=1 -Ddebug=true "-Dc_args=-g1 -Wno-maybe-uninitialized" \
	-Dcpp_args=-g1 -Db_sanitize=$flags -Db_lundef=false
long=--no-suite=long
[ "${STOKER_LONG:-0}" = 0 ] || long=
# shellcheck disable=SC2086
meson test -C $build --print-errorlogs --timeout-multiplier 4 $skip $long

[ -d test/python ] || exit 0
# CPython and torch are not built with a sanitizer: its runtime has to come first, and their own leaks are not ours.
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
# torch's mutexes are locked where ThreadSanitizer looks and unlocked where it does not.
export TSAN_OPTIONS=$TSAN_OPTIONS:report_mutex_bugs=0
# libstdc++ comes along, or the runtime would not find the throw that it stands in for.
preload="$(${CC:-cc} -print-file-name=$runtime) $(${CC:-cc} -print-file-name=libstdc++.so.6)"
# Not those that use threads in a forked child: ThreadSanitizer refuses them, and AddressSanitizer's allocator (before GCC 14) leaves the child
# a lock that another thread held as it forked, so that the child waits for ever.
BORDER=l MOST_UNSTEADY=0 tools/python_tests.sh env LD_PRELOAD="$preload" STOKER_BUILD=$build PYTHONPATH=$build/python PYTHONMALLOC=malloc \
	"$python" -m pytest -q -p no:cacheprovider --timeout 600 -m essential -k "not fork"
