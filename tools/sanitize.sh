#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds with a sanitizer, and runs the C tests and the essential Python tests under it.
#
# usage: [STOKER_LONG=1] tools/sanitize.sh address|thread    STOKER_LONG=1: also tests that take minutes
set -eu
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python
case $1 in
address)
	build=build-asan flags=address,undefined runtime=libasan.so skip= ;;
thread)
	build=build-tsan flags=thread runtime=libtsan.so
	skip='--no-suite=kernel --no-suite=codec --no-suite=order' ;; # these suites use no threads
*)
	echo "usage: tools/sanitize.sh address|thread" >&2
	exit 2 ;;
esac
export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tools/tsan.txt
# Optimises little and adds debugging information only for lines: GCC then compiles checked code in a third of the time, and stack traces show the same lines.
# At this level GCC warns of structs that a call initializes, so the warning is off here; the ordinary build has it.
tools/build.sh $build -Dtests=enabled -Dcuda=emulated -Doptimization=1 -Ddebug=true "-Dc_args=-g1 -Wno-maybe-uninitialized" \
	-Dcpp_args=-g1 -Db_sanitize=$flags -Db_lundef=false
long=--no-suite=long
[ "${STOKER_LONG:-0}" = 0 ] || long=
# shellcheck disable=SC2086
meson test -C $build --print-errorlogs --timeout-multiplier 4 $skip $long

[ -d test/python ] || exit 0
# CPython and torch are not built with a sanitizer, so the sanitizer's runtime has to be preloaded. Leaks are not checked, because CPython and torch leak too.
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
# ThreadSanitizer sees the locking of torch's mutexes but not the unlocking, and would report that.
export TSAN_OPTIONS=$TSAN_OPTIONS:report_mutex_bugs=0
# libstdc++ is preloaded too, because the sanitizer's runtime replaces its throw function and has to find the original.
preload="$(${CC:-cc} -print-file-name=$runtime) $(${CC:-cc} -print-file-name=libstdc++.so.6)"
# Tests that use threads in a forked child are left out: ThreadSanitizer refuses them, and with AddressSanitizer (before GCC 14) the child may wait for ever
# for a lock of the allocator that another thread held at the fork.
PARTS=2 AT_ONCE=2 MOST_UNSTEADY=0 tools/python_tests.sh env LD_PRELOAD="$preload" STOKER_BUILD=$build PYTHONPATH=$build/python PYTHONMALLOC=malloc \
	"$python" -m pytest -q -p no:cacheprovider --timeout 600 -m essential -k "not fork"
