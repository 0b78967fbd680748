#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Long fuzzing. Each target of test/fuzz runs under libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, starting from its corpus. The
# target `own`, the decoders that call no other library, also runs under MemorySanitizer. Three targets make random graphs: `random_graphs` compares the
# results of different ways to run a graph, `random_graphs-gpu` those of the CPU and the emulated GPU, and `dali_graphs` those of Stoker and of DALI from
# $VENV. Each run prints its CPU time and the command that repeats it. Inputs that crash are written to build-fuzz/found; add them to the corpus after the
# fault is fixed. Needs clang with its runtime libraries.
#
# usage: tools/fuzz.sh [TARGET...]
# environment: VENV; BUILD, the build folder that dali_graphs uses (default build); FUZZ_SECONDS, for each target (default 60); FUZZ_JOBS, the number of
#              runs at a time (default: the number of cores); FUZZ_SEED (default: random); FUZZ_BUILD_ONLY=1: only builds the programs
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang >/dev/null; then
	echo "fuzz: needs clang and its runtime (Debian: clang, and libclang-rt-N-dev for its version N)" >&2
	exit 1
fi
build="build-fuzz"
export FUZZ_SECONDS="${FUZZ_SECONDS:-60}" FUZZ_SEED="${FUZZ_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}"
export ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

# --run NAME: runs one target. The script calls itself with this option, so that targets run in parallel.
if [ "${1:-}" = --run ]; then
	name=$2
	case $name in
	random_graphs*)
		set -- --graphs 1000000000 --seconds "$FUZZ_SECONDS" --seed "${FUZZ_SEED}000"
		if [ "$name" = random_graphs ]; then
			set -- "$build/test/fuzz/random_graphs" "$@"
		else
			set -- env LD_LIBRARY_PATH="$build-gpu/test/cuda" STOKER_EMULATED_CUDA=strict "$build-gpu/test/fuzz/random_graphs" --gpu "$@"
		fi
		;;
	dali_graphs)
		set -- env STOKER_BUILD="${BUILD:-build}" PYTHONPATH="${BUILD:-build}/python" "${VENV:-.venv}/bin/python" \
			test/python/parity/random_graphs.py --graphs 1000000000 --seconds "$FUZZ_SECONDS" --seed "${FUZZ_SEED}000"
		;;
	*)
		target=${name%-memory}
		folder=$build
		[ "$target" = "$name" ] || folder=$build-memory
		mkdir -p "$build/corpus/$target"
		for file in test/fuzz/corpus/"$target"/* "$build/seeds/$target"/*; do
			[ ! -f "$file" ] || cp "$file" "$build/corpus/$target/"
		done
		set -- "$folder/test/fuzz/fuzz_$target" -seed="$FUZZ_SEED" -max_total_time="$FUZZ_SECONDS" -rss_limit_mb=4096 -timeout=20 \
			-print_final_stats=1 -verbosity=0 -artifact_prefix="$build/found/$name-" "$build/corpus/$target"
		;;
	esac
	log=$build/log/$name
	if "$@" >"$log" 2>&1; then state=ok; else state=FAILED; fi
	times >"$log-times" # line 1: user and system time of this shell; line 2: of the target
	said=$(sed -n 's/^stat::number_of_executed_units: *//p; s/^\([0-9]* graphs\).*/\1/p' "$log")
	printf 'fuzz: %-18s %-7s %12s inputs in %s s, %s of CPU: %s\n' "$name" "$state" "$said" "$FUZZ_SECONDS" "$(sed -n '2s/ .*//p' "$log-times")" "$*"
	[ "$state" = ok ] || {
		tail -n 40 "$log" >&2
		exit 1
	}
	exit 0
fi

# configure FOLDER SANITIZERS COMPILER OPTION...: configures a build folder, unless it is configured.
configure() {
	folder=$1 sanitizers=$2 compiler=$3
	shift 3
	[ -f "$folder/build.ninja" ] || CC=$compiler meson setup "$folder" --buildtype=debugoptimized -Db_sanitize="$sanitizers" -Db_lundef=false \
		-Dtests=enabled -Dpython=disabled "$@" >&2
}
fuzzed="-Dcuda=disabled -Dc_args=-fsanitize=fuzzer-no-link"

targets=$*
[ -n "$targets" ] || targets="$(for f in test/fuzz/fuzz_*.c; do basename "$f" .c | sed 's/^fuzz_//'; done | grep -v _seeds) own-memory random_graphs random_graphs-gpu dali_graphs"
# shellcheck disable=SC2086
configure $build address,undefined clang $fuzzed
built=
for target in $targets; do
	case $target in
	*-memory)
		# shellcheck disable=SC2086
		configure $build-memory memory clang $fuzzed
		ninja -C $build-memory --quiet "test/fuzz/fuzz_${target%-memory}"
		;;
	random_graphs-gpu)
		configure $build-gpu address,undefined gcc -Dcuda=emulated # GCC, since the emulated GPU is compiled by g++, and a process can have only one sanitizer runtime
		ninja -C $build-gpu --quiet test/fuzz/random_graphs test/cuda/libcuda.so.1
		;;
	dali_graphs) tools/build.sh "${BUILD:-build}" ;;
	random_graphs) built="$built test/fuzz/random_graphs" ;;
	*) built="$built test/fuzz/fuzz_$target" ;;
	esac
done
# shellcheck disable=SC2086
[ -z "$built" ] || ninja -C $build --quiet $built test/fuzz/replay_image
mkdir -p $build/found $build/log $build/seeds/own $build/seeds/image $build/seeds/jpeg_gpu
[ -z "$built" ] || for target in own image jpeg_gpu; do
	"$build/test/fuzz/replay_image" --write "$build/seeds/$target"
done
[ -z "${FUZZ_BUILD_ONLY:-}" ] || exit 0
# shellcheck disable=SC2086
if printf '%s\n' $targets | xargs -P "${FUZZ_JOBS:-$(nproc)}" -n 1 "$0" --run; then
	echo "fuzz: no finding; seed $FUZZ_SEED, $FUZZ_SECONDS s for each of $(echo $targets | wc -w) targets"
else
	echo "fuzz: findings, in $build/found and $build/log; seed $FUZZ_SEED" >&2
	exit 1
fi
