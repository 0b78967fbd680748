#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Long fuzzing: each target of test/fuzz under libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, from its corpus. Inputs that crash
# are left in build-fuzz/found; put them into the corpus once they are mended. Needs clang with its runtime libraries.
#
# usage: tools/fuzz.sh [TARGET...]      environment: FUZZ_SECONDS, for each target (default 60)
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang >/dev/null; then
	echo "fuzz: needs clang and its runtime (Debian: clang, and libclang-rt-N-dev for its version N)" >&2
	exit 1
fi
build=build-fuzz
[ -f $build/build.ninja ] ||
	CC=clang meson setup $build --buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false -Dtests=enabled -Dpython=disabled \
		-Dc_args=-fsanitize=fuzzer-no-link >&2
targets=$*
[ -n "$targets" ] || targets=$(for f in test/fuzz/fuzz_*.c; do basename "$f" .c | sed 's/^fuzz_//'; done)
mkdir -p $build/found
failed=0
for target in $targets; do
	ninja -C $build --quiet "test/fuzz/fuzz_$target"
	mkdir -p "$build/corpus/$target"
	cp -n test/fuzz/corpus/"$target"/* "$build/corpus/$target/"
	echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
	"$build/test/fuzz/fuzz_$target" -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=4096 -timeout=10 -print_final_stats=0 -verbosity=0 \
		-artifact_prefix="$build/found/$target-" "$build/corpus/$target" || failed=$((failed + 1))
done
echo "fuzz: $failed targets failed"
[ $failed -eq 0 ]
