#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Analyses the C sources with the pinned Cppcheck of the virtual environment. With STOKER_TIDY=1, runs clang-tidy too, which takes minutes.
#
# usage: tools/analyse.sh BUILD      environment: VENV (default .venv)
set -eu
cd "$(dirname "$0")/.."
build=$1
cppcheck=${VENV:-.venv}/bin/cppcheck
"$cppcheck" --version
# Renames pthread_cond_init: Cppcheck believes that its attributes must not be NULL, and knows nothing about a function of another name.
"$cppcheck" -q -j "${JOBS:-$(nproc)}" --std=c11 --enable=warning,performance,portability --error-exitcode=1 --inline-suppr \
	--suppressions-list=tools/cppcheck.txt --library=posix -D_GNU_SOURCE -D__x86_64__ '-DSTK_VERSION="0"' "-Dpthread_cond_init(condition, attributes)=stk__cond_init(condition)" -Iinclude -Isrc -I"$build/cli" src cli examples
if [ "${STOKER_TIDY:-0}" = 1 ]; then
	git ls-files 'src/*.c' 'cli/*.c' | xargs -P "${JOBS:-$(nproc)}" -n 4 clang-tidy -p "$build" --quiet
fi
