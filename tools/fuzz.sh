#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Long fuzzing: each target of test/fuzz under libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, from its corpus. Inputs that crash
# are left in build-fuzz/found; put them into the corpus once they are mended. Needs clang with its runtime libraries. The target random_graphs is no
# parser: it runs FUZZ_GRAPHS random graphs from the seed FUZZ_SEED, and a failure names the seed of its graph.
#
# usage: tools/fuzz.sh [TARGET...]      environment: FUZZ_SECONDS, for each target (default 60); FUZZ_GRAPHS (default 20000), FUZZ_SEED (default 1)
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang >/dev/null; then
	echo "fuzz: needs clang and its runtime (Debian: clang, and libclang-rt-N-dev for its version N)" >&2
	exit 1
fi
build=build-fuzz
[ -f $build/build.ninja ] ||
	CC=clang meson setup $build --buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false -Dpython=disabled \
		-Dc_args=-fsanitize=fuzzer-no-link >&2
targets=$*
[ -n "$targets" ] || targets=$(for f in test/fuzz/fuzz_*.c; do basename "$f" .c | sed 's/^fuzz_//'; done; echo random_graphs)
mkdir -p $build/found
failed=0
for target in $targets; do
	if [ "$target" = random_graphs ]; then
		ninja -C $build --quiet test/fuzz/random_graphs
		echo "fuzz: ${FUZZ_GRAPHS:-20000} random graphs"
		ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
			"$build/test/fuzz/random_graphs" --graphs "${FUZZ_GRAPHS:-20000}" --seed "${FUZZ_SEED:-1}" || failed=$((failed + 1))
		continue
	fi
	ninja -C $build --quiet "test/fuzz/fuzz_$target"
	mkdir -p "$build/corpus/$target"
	cp -n test/fuzz/corpus/"$target"/* "$build/corpus/$target/"
	echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
	"$build/test/fuzz/fuzz_$target" -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=4096 -timeout=10 -print_final_stats=0 -verbosity=0 \
		-artifact_prefix="$build/found/$target-" "$build/corpus/$target" || failed=$((failed + 1))
done
echo "fuzz: $failed targets failed"
[ $failed -eq 0 ]
