/* SPDX-License-Identifier: Apache-2.0
 * Order: the shuffle is a bijection that looks random, all ranks together deliver the epoch, a restored run continues the same sequence, and contiguous
 * shards equal those of DALI 2.4 (its results were recorded from readers.file). */
#include "test.h"

#include "base/memory.h"
#include "base/philox.h"
#include "order/order.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns the index of the sample at position i of an epoch of n shuffled samples. */
static int64_t shuffled(uint64_t seed, int64_t epoch, int64_t n, int64_t i)
{
	const struct stk_order o = {.size = n, .seed = seed, .shuffle = true, .batch = 1, .ranks = 1};
	const struct stk_shuffle s = stk__order_shuffle(&o, epoch);
	return (int64_t)stk__shuffle_hd(&s, (uint64_t)i);
}

static void assert_bijection(uint64_t seed, int64_t epoch, int64_t n)
{
	uint8_t *seen = stk__calloc((size_t)n, 1);
	assert_non_null(seen);
	for (int64_t i = 0; i < n; i++) {
		int64_t s = shuffled(seed, epoch, n, i);
		if (s < 0 || s >= n || seen[s]++)
			fail_msg("seed %llu epoch %lld n %lld: %lld -> %lld", (unsigned long long)seed, (long long)epoch, (long long)n,
				(long long)i, (long long)s);
	}
	stk__free(seen);
}

static void test_shuffle_is_a_bijection(void **state)
{
	(void)state;
	for (int64_t n = 1; n <= 300; n++)
		for (int64_t epoch = 0; epoch < 3; epoch++)
			assert_bijection(7, epoch, n);
	const int64_t sizes[] = {997, 4095, 4096, 4097, 50000, 65535, 65537, 104729, 1281167};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		assert_bijection(i, (int64_t)i, sizes[i]);
}

/* A shuffle of 10^9 samples: a million consecutive positions must have different samples, which fill 1000 bins evenly. */
static void test_shuffle_of_a_billion(void **state)
{
	(void)state;
	enum { N = 1000000, BINS = 1000 };
	const int64_t size = 1000000000;
	uint8_t *seen = stk__calloc((size_t)size / 8, 1);
	assert_non_null(seen);
	double chi = 0;
	static int bins[BINS];
	for (int64_t i = 0; i < N; i++) {
		int64_t s = shuffled(3, 5, size, 400000000 + i);
		assert_true(s >= 0 && s < size);
		assert_false(seen[s / 8] >> (s % 8) & 1);
		seen[s / 8] |= (uint8_t)(1 << (s % 8));
		bins[s / (size / BINS)]++;
	}
	for (int b = 0; b < BINS; b++)
		chi += (bins[b] - N / BINS) * (double)(bins[b] - N / BINS) / (N / BINS);
	assert_true(fabs(chi - (BINS - 1)) < 5 * sqrt(2.0 * (BINS - 1)));
	stk__free(seen);
}

/* Checks that the chi^2 of `cells` counts, which should be equal, differs from its mean by at most 5 sigma + 4. freedom: degrees of freedom. The seeds are
 * fixed, so the test does not fail by chance. */
static void assert_even(const int *counts, int cells, double total, double freedom, const char *what, int64_t n)
{
	double expect = total / cells, chi = 0;
	for (int i = 0; i < cells; i++)
		chi += (counts[i] - expect) * (counts[i] - expect) / expect;
	if (fabs(chi - freedom) > 5 * sqrt(2 * freedom) + 4)
		fail_msg("%s, n = %lld: chi^2 %.1f for %.0f degrees of freedom", what, (long long)n, chi, freedom);
}

/* Over many epochs each sample is at each position equally often, and follows each other sample equally often. */
static void test_small_shuffles_are_even(void **state)
{
	(void)state;
	const int sizes[] = {2, 3, 4, 5, 6, 7, 13, 16, 17, 31};
	static int at[32 * 32], after[32 * 32];
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		const int n = sizes[k], epochs = 20000;
		memset(at, 0, sizeof at);
		memset(after, 0, sizeof after);
		for (int e = 0; e < epochs; e++) {
			int last = -1;
			for (int i = 0; i < n; i++) {
				int s = (int)shuffled(99, e, n, i);
				at[i * n + s]++;
				if (last >= 0)
					after[last * (n - 1) + (s > last ? s - 1 : s)]++;
				last = s;
			}
		}
		assert_even(at, n * n, (double)n * epochs, (n - 1) * (n - 1), "positions", n);
		assert_even(after, n * (n - 1), (double)(n - 1) * epochs, n * (n - 1) - 1, "neighbours", n);
	}
}

/* Returns the number of a permutation of 0 .. n-1 among all permutations, which is below n!. */
static int permutation_number(const int *p, int n)
{
	int number = 0;
	for (int i = 0; i < n; i++) {
		int smaller = 0;
		for (int j = i + 1; j < n; j++)
			smaller += p[j] < p[i];
		number = number * (n - i) + smaller;
	}
	return number;
}

/* All n! orders of 2 to 7 samples are equally likely, over epochs and over seeds. */
static void test_all_permutations(void **state)
{
	(void)state;
	enum { MOST = 7, FACTORIAL = 5040, EACH = 20, LEAST = 50000 };
	for (int n = 2, cells = 2; n <= MOST; cells *= ++n)
		for (int over_seeds = 0; over_seeds < 2; over_seeds++) {
			static int counts[FACTORIAL];
			int total = cells * EACH > LEAST ? cells * EACH : LEAST;
			memset(counts, 0, sizeof counts);
			for (int e = 0; e < total; e++) {
				int p[MOST];
				for (int i = 0; i < n; i++)
					p[i] = (int)shuffled(over_seeds ? (uint64_t)e : 1, over_seeds ? 0 : e, n, i);
				counts[permutation_number(p, n)]++;
			}
			assert_even(
				counts, cells, total, cells - 1, over_seeds ? "permutations over seeds" : "permutations over epochs", n);
		}
}

/* All pairs of samples are equally frequent at two positions: at neighbours, and at the first and the last position. */
static void test_pairs(void **state)
{
	(void)state;
	enum { MOST = 1000, LEAST = 50000 };
	const int sizes[] = {2, 3, 5, 8, 16, 17, 50, 100, 256, 317, MOST};
	int *counts = stk__calloc((size_t)MOST * (MOST - 1), sizeof *counts);
	assert_non_null(counts);
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		for (int far = 0; far < 2; far++) {
			int n = sizes[k], cells = n * (n - 1), total = cells > LEAST ? cells : LEAST;
			memset(counts, 0, (size_t)cells * sizeof *counts);
			for (int e = 0; e < total; e++) {
				int64_t a = shuffled(31, e, n, 0), b = shuffled(31, e, n, far ? n - 1 : 1);
				assert_true(a != b);
				counts[a * (n - 1) + (b > a ? b - 1 : b)]++;
			}
			assert_even(counts, cells, total, cells - 1, far ? "first and last" : "neighbours", n);
		}
	stk__free(counts);
}

/* In one epoch of realistic size, the differences of neighbours, the fixed points, and the samples at the same position in the next epoch are as in a random
 * permutation. */
static void test_large_shuffle_has_no_pattern(void **state)
{
	(void)state;
	const int64_t sizes[] = {50000, 65536, 104729, 1281167};
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		enum { CELLS = 64 };
		int64_t n = sizes[k], same = 0, fixed = 0, next = 0;
		static int pairs[CELLS * CELLS], steps[CELLS];
		memset(pairs, 0, sizeof pairs);
		memset(steps, 0, sizeof steps);
		int64_t last = shuffled(1, 0, n, n - 1);
		for (int64_t i = 0; i < n; i++) {
			int64_t s = shuffled(1, 0, n, i), d = (s - last + n) % n;
			pairs[last * CELLS / n * CELLS + s * CELLS / n]++;
			steps[d * CELLS / n]++;
			same += s == shuffled(1, 1, n, i);
			fixed += s == i;
			next += d == 1;
			last = s;
		}
		assert_even(pairs, CELLS * CELLS, (double)n, (CELLS - 1) * (CELLS - 1), "pairs", n);
		assert_even(steps, CELLS, (double)n, CELLS - 1, "differences", n);
		assert_true(
			same < 10 && fixed < 10 && next < 10); /* expected: Poisson with mean 1, which is 10 or more in 1e-7 of all cases */
	}
}

/* The order must never change, since a change breaks every checkpoint. The expected values come from another implementation. */
static void test_shuffle_known_answers(void **state)
{
	(void)state;
	static const struct {
		uint64_t seed;
		int64_t epoch, n, i, want;
	} known[] = {
		{0u, 0, 1, 0, 0},
		{0u, 0, 2, 0, 1},
		{0u, 1, 2, 0, 0},
		{1u, 0, 10, 3, 3},
		{1u, 1, 10, 3, 6},
		{42u, 7, 4096, 4095, 2121},
		{18446744073709551615u, 3, 1000, 999, 688},
		{12345u, 1000000, 7, 6, 5},
		{7u, 8589934592, 3000, 1234, 1845},
		{42u, 7, 50000, 49999, 12713},
		{42u, 89, 1281167, 0, 1182521},
		{18446744073709551615u, 3, 1281167, 640000, 794601},
		{12345u, 1000000, 1000000000, 123456789, 354079463},
		{7u, 8589934592, 1099511627776, 549755813889, 1071255245318},
	};
	for (size_t k = 0; k < sizeof known / sizeof *known; k++)
		assert_int_equal(shuffled(known[k].seed, known[k].epoch, known[k].n, known[k].i), known[k].want);
}

/* A run that began with version 1 continues in its order; these results were recorded with version 1. Sets of more than 4096 samples have the same order in
 * both versions. */
static void test_order_of_version_1(void **state)
{
	(void)state;
	static const struct {
		uint64_t seed;
		int64_t epoch, n, i, want;
	} known[] = {
		{0u, 0, 2, 0, 0},
		{1u, 0, 10, 3, 0},
		{1u, 1, 10, 3, 6},
		{42u, 7, 50000, 49999, 12713},
	};
	for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
		struct stk_order o = {
			.size = known[k].n, .seed = known[k].seed, .shuffle = true, .version_1 = true, .batch = 1, .ranks = 1};
		o.start_epoch = known[k].epoch;
		assert_int_equal(stk__order_place(&o, known[k].i, 0).sample, known[k].want);
	}
	for (int64_t n = 1; n < 5000; n += n < 100 ? 1 : 997) {
		uint8_t seen[5000] = {0};
		struct stk_order o = {.size = n, .seed = 3, .shuffle = true, .version_1 = true, .batch = 1, .ranks = 1};
		for (int64_t k = 0; k < n; k++)
			assert_int_equal(seen[stk__order_place(&o, k, 0).sample]++, 0);
	}
}

/* ---- distribution over ranks ---- */

static const enum stk_tail tails[] = {STK_TAIL_WRAP, STK_TAIL_FILL, STK_TAIL_KEEP, STK_TAIL_DROP};

/* In each epoch all ranks together have every sample once (apart from a dropped tail), and all ranks have the same number of steps. */
static void check_union(struct stk_order o)
{
	enum { EPOCHS = 4 };
	static int seen[EPOCHS + 64][64];
	memset(seen, 0, sizeof seen);
	int64_t steps = 0;
	for (int e = 0; e < EPOCHS; e++)
		steps += stk__order_steps(&o, e);
	for (o.rank = 0; o.rank < o.ranks; o.rank++) {
		int64_t own = 0;
		for (int e = 0; e < EPOCHS; e++)
			own += stk__order_steps(&o, e);
		assert_int_equal(own, steps);
		for (int64_t k = 0; k < steps; k++) {
			struct stk_order_step b = stk__order_batch(&o, k);
			assert_true(b.step >= 0 && b.step < stk__order_steps(&o, b.epoch));
			assert_int_equal(b.last, b.step + 1 == stk__order_steps(&o, b.epoch));
			assert_true(b.count >= 1 && b.count <= o.batch);
			if (o.tail == STK_TAIL_KEEP && b.count > 1)
				assert_false(stk__order_place(&o, k, b.count - 1).padded);
			for (int i = 0; i < b.count; i++) {
				struct stk_place p = stk__order_place(&o, k, i);
				if (p.sample < 0 || p.sample >= o.size || p.epoch >= EPOCHS + 64 || p.padded != (p.position >= o.size))
					fail_msg("n %lld tail %d: step %lld gives sample %lld", (long long)o.size, o.tail, (long long)k,
						(long long)p.sample);
				if (!p.padded)
					seen[p.epoch][p.sample]++;
			}
		}
	}
	int64_t round = (int64_t)o.batch * o.ranks;
	for (int e = 0; e < EPOCHS; e++) {
		int64_t total = 0;
		for (int i = 0; i < o.size; i++) {
			if (seen[e][i] > 1)
				fail_msg("n %lld tail %d: sample %d comes twice", (long long)o.size, o.tail, i);
			total += seen[e][i];
		}
		assert_int_equal(total, o.tail == STK_TAIL_DROP ? o.size / round * round : o.size);
	}
}

static void test_union_over_ranks_is_the_epoch(void **state)
{
	(void)state;
	const int ranks[] = {1, 2, 3, 8};
	for (size_t t = 0; t < 4; t++)
		for (int64_t n = 1; n <= 60; n++)
			for (size_t r = 0; r < 4; r++)
				for (int batch = 1; batch <= 5; batch++) {
					struct stk_order o = {.size = n,
						.seed = 5,
						.shuffle = n % 2,
						.batch = batch,
						.ranks = ranks[r],
						.tail = tails[t]};
					if (stk__order_check(&o, NULL) == STK_OK)
						check_union(o);
				}
}

/* Lists the positions that all ranks deliver in `steps` steps, in the order of the global sequence, without padding. Returns their number, at most
 * `capacity`. */
static int64_t trace(struct stk_order o, int64_t steps, struct stk_place *out, int64_t capacity)
{
	int64_t n = 0;
	for (int64_t k = 0; k < steps; k++)
		for (o.rank = 0; o.rank < o.ranks; o.rank++) {
			int32_t count = stk__order_batch(&o, k).count;
			for (int i = 0; i < count && n < capacity; i++) {
				struct stk_place p = stk__order_place(&o, k, i);
				if (!p.padded)
					out[n++] = p;
			}
		}
	return n;
}

static void assert_continues(const struct stk_order *old, int64_t done, int64_t epoch, int64_t step, int32_t ranks, int32_t batch)
{
	enum { LOOK = 100 };
	static struct stk_place want[4000], got[LOOK];
	struct stk_order fresh = *old;
	fresh.start_epoch = epoch;
	fresh.start_position = stk__order_consumed(old, epoch, step);
	fresh.ranks = ranks;
	fresh.batch = batch;
	int64_t skip = trace(*old, done, want, 4000), n = trace(*old, done + 30, want, 4000);
	int64_t m = trace(fresh, 30, got, LOOK);
	assert_true(m > 0 && skip < n);
	for (int64_t i = 0; i < m && skip + i < n; i++) {
		const struct stk_place *w = &want[skip + i];
		if (w->epoch != got[i].epoch || w->position != got[i].position || w->sample != got[i].sample)
			fail_msg("n %lld tail %d: after step %lld of epoch %lld with %d ranks, sample %lld is %lld/%lld, not %lld/%lld",
				(long long)old->size, old->tail, (long long)step, (long long)epoch, ranks, (long long)i,
				(long long)got[i].epoch, (long long)got[i].position, (long long)w->epoch, (long long)w->position);
	}
}

/* Stops after each step of the first epochs and continues with another number of ranks and another batch size: the global sequence must be the same. If
 * tails are dropped, the sequence depends on both numbers, so the run continues with the old ones. */
static void test_restored_run_continues(void **state)
{
	(void)state;
	for (size_t t = 0; t < 4; t++)
		for (int64_t n = 23; n <= 26; n++)
			for (int32_t ranks = 1; ranks <= 4; ranks++) {
				struct stk_order o = {.size = n, .seed = 5, .shuffle = true, .batch = 2, .ranks = ranks, .tail = tails[t]};
				int64_t done = 0;
				for (int64_t e = 0; e < 3; done += stk__order_steps(&o, e++))
					for (int64_t step = 0; step <= stk__order_steps(&o, e); step++)
						for (int32_t other = 1; other <= 4; other++) {
							if (tails[t] == STK_TAIL_DROP && other != ranks)
								continue;
							assert_continues(
								&o, done + step, e, step, other, tails[t] == STK_TAIL_DROP ? 2 : other);
						}
			}
}

/* ---- DALI's shards ---- */

static void test_contiguous_shards_are_dalis(void **state)
{
	(void)state;
	static const struct {
		int size, batch, ranks, rank, pad, stick;
		const char *samples; /* a letter for each sample that is delivered */
	} known[] = {
#include "order_dali.inc"
	};
	for (size_t t = 0; t < sizeof known / sizeof *known; t++) {
		struct stk_order o = {.size = known[t].size,
			.batch = known[t].batch,
			.ranks = known[t].ranks,
			.rank = known[t].rank,
			.contiguous = true,
			.stick_to_shard = known[t].stick,
			.tail = known[t].pad ? STK_TAIL_FILL : STK_TAIL_WRAP};
		assert_int_equal(stk__order_check(&o, NULL), STK_OK);
		for (int i = 0; known[t].samples[i]; i++) {
			struct stk_place p = stk__order_place(&o, i / o.batch, i % o.batch);
			if (p.sample != known[t].samples[i] - 'a')
				fail_msg("row %zu, sample %d: %lld", t, i, (long long)p.sample);
		}
	}
}

/* Runs epochs on a rank that was restored from a state. It must deliver the same batches as an uninterrupted run. */
static void test_contiguous_shards_restore(void **state)
{
	(void)state;
	for (size_t t = 0; t < 4; t++)
		for (int stick = 0; stick < 2; stick++)
			for (int64_t n = 11; n < 17; n++)
				for (int32_t rank = 0; rank < 4; rank++) {
					struct stk_order o = {.size = n,
						.batch = 2,
						.ranks = 4,
						.rank = rank,
						.contiguous = true,
						.stick_to_shard = stick,
						.tail = tails[t]};
					int64_t done = 0;
					for (int64_t e = 0; e < 6; done += stk__order_steps(&o, e++))
						for (int64_t step = 0; step <= stk__order_steps(&o, e); step++) {
							struct stk_order r = o;
							r.start_epoch = e;
							r.start_position = stk__order_consumed(&o, e, step);
							for (int64_t k = 0; k < 12; k++) {
								struct stk_order_step a = stk__order_batch(&o, done + step + k),
										      b = stk__order_batch(&r, k);
								assert_int_equal(a.epoch, b.epoch);
								assert_int_equal(a.count, b.count);
								assert_int_equal(a.last, b.last);
								assert_int_equal(b.step, a.step - (a.epoch == e ? step : 0));
								for (int i = 0; i < a.count; i++) {
									struct stk_place x = stk__order_place(&o, done + step + k, i),
											 y = stk__order_place(&r, k, i);
									assert_int_equal(x.sample, y.sample);
									assert_int_equal(x.position, y.position);
									assert_int_equal(x.epoch, y.epoch);
								}
							}
						}
				}
}

/* Checks that runs, which describe consecutive positions compactly, give the same positions as stk__order_place, for every kind of order. */
static void test_runs_are_the_places(void **state)
{
	(void)state;
	enum { MOST = 64, ROUNDS = 4000 };
	uint64_t rng = 77;
	for (int round = 0; round < ROUNDS; round++) {
		struct stk_order_run runs[MOST];
		uint32_t d[8];
		for (int i = 0; i < 8; i++) {
			rng = rng * 6364136223846793005u + 1442695040888963407u;
			d[i] = (uint32_t)(rng >> 33);
		}
		struct stk_order o = {.size = 5 + d[0] % 40,
			.seed = d[1],
			.contiguous = d[2] % 2,
			.shuffle = d[2] % 4 == 0,
			.stick_to_shard = d[3] % 2,
			.batch = 1 + (int32_t)(d[4] % 20),
			.ranks = 1 + (int32_t)(d[5] % 4),
			.tail = (enum stk_tail)(d[6] % 4),
			.start_epoch = d[7] % 3};
		o.rank = (int32_t)(d[3] / 2 % (uint32_t)o.ranks);
		if (stk__order_check(&o, NULL))
			continue;
		for (int64_t k = 0; k < 30; k++) {
			int32_t count = stk__order_batch(&o, k).count, seen = 0;
			int32_t n = stk__order_runs(&o, k, count, runs, MOST);
			assert_true(n <= MOST && (n > 0 || count == 0));
			for (int32_t i = 0; i < n; i++)
				for (int32_t j = 0; j < runs[i].count; j++, seen++) {
					struct stk_place p = stk__order_place(&o, k, runs[i].first + j);
					struct stk_shuffle s = stk__order_shuffle(&o, runs[i].epoch);
					int64_t position = runs[i].position + j * runs[i].step, sample = position;
					assert_int_equal(runs[i].first + j, seen);
					if (o.shuffle && runs[i].padded < 0)
						sample = (int64_t)stk__shuffle_hd(&s, (uint64_t)position);
					if (p.epoch != runs[i].epoch || p.position != position || p.padded != (runs[i].padded >= 0) ||
						p.sample != (runs[i].padded >= 0 ? runs[i].padded : sample))
						fail_msg("round %d, batch %lld, sample %d", round, (long long)k, seen);
				}
			assert_int_equal(seen, count);
			if (n > 1)
				assert_int_equal(stk__order_runs(&o, k, count, runs, 1), 2);
		}
	}
}

/* Compares with the table in DALI's manual: 7 samples in batches of 2. The manual counts samples from 1, and this test from 0. */
static void test_seven_samples_in_twos(void **state)
{
	(void)state;
	static const struct {
		enum stk_tail tail;
		int64_t steps;
		int last_count, last[2], next[2];
	} rows[] = {
		{STK_TAIL_FILL, 4, 2, {6, 6}, {0, 1}},
		{STK_TAIL_WRAP, 4, 2, {6, 0}, {1, 2}},
		{STK_TAIL_KEEP, 4, 1, {6}, {0, 1}},
		{STK_TAIL_DROP, 3, 2, {4, 5}, {0, 1}},
	};
	for (size_t t = 0; t < sizeof rows / sizeof *rows; t++)
		for (int contiguous = 0; contiguous < 2; contiguous++) {
			struct stk_order o = {.size = 7, .batch = 2, .ranks = 1, .contiguous = contiguous, .tail = rows[t].tail};
			assert_int_equal(stk__order_steps(&o, 0), rows[t].steps);
			struct stk_order_step b = stk__order_batch(&o, rows[t].steps - 1);
			assert_true(b.last && b.epoch == 0 && b.count == rows[t].last_count);
			for (int i = 0; i < b.count; i++)
				assert_int_equal(stk__order_place(&o, rows[t].steps - 1, i).sample, rows[t].last[i]);
			for (int i = 0; i < 2; i++)
				assert_int_equal(stk__order_place(&o, rows[t].steps, i).sample, rows[t].next[i]);
			assert_int_equal(stk__order_batch(&o, rows[t].steps).epoch, 1);
		}
}

static void test_padding_has_positions_of_its_own(void **state)
{
	(void)state;
	for (int contiguous = 0; contiguous < 2; contiguous++) {
		static uint8_t seen[256];
		memset(seen, 0, sizeof seen);
		struct stk_order o = {.size = 11, .batch = 4, .ranks = 3, .contiguous = contiguous, .tail = STK_TAIL_FILL};
		for (; o.rank < o.ranks; o.rank++)
			for (int64_t k = 0; k < stk__order_steps(&o, 0); k++)
				for (int i = 0; i < 4; i++)
					assert_int_equal(seen[stk__order_place(&o, k, i).position]++, 0);
	}
}

static void test_replacement_is_another_sample(void **state)
{
	(void)state;
	const int64_t indices[] = {50, 60, 70};
	int counts[100] = {0};
	struct stk_order o = {.size = 3, .seed = 1, .batch = 1, .ranks = 1, .indices = indices};
	for (int64_t e = 0; e < 1000; e++) {
		struct stk_place p = {.epoch = e, .position = 1, .sample = 60};
		for (int attempt = 1; attempt < 4; attempt++) {
			struct stk_place s = stk__order_replacement(&o, &p, attempt), again = stk__order_replacement(&o, &p, attempt);
			assert_int_equal(s.sample, again.sample);
			assert_int_equal(s.sample, indices[s.from]);
			assert_int_equal(s.position, 1);
			counts[s.sample]++;
		}
	}
	assert_int_equal(counts[60], 0);
	assert_true(counts[50] > 300 && counts[70] > 300 && counts[50] + counts[70] == 3000);
	o.size = 1;
	struct stk_place only = {.sample = 50};
	assert_int_equal(stk__order_replacement(&o, &only, 1).sample, 50);
}

static void test_check_refuses(void **state)
{
	(void)state;
	const struct stk_order ok = {.size = 10, .batch = 2, .ranks = 2};
	struct stk_order bad[9];
	for (int i = 0; i < 9; i++)
		bad[i] = ok;
	bad[0].size = 0;
	bad[1].batch = 0;
	bad[2].rank = 2;
	bad[3].rank = -1;
	bad[4].ranks = 0;
	bad[5].shuffle = bad[5].contiguous = true;
	bad[6].contiguous = true, bad[6].ranks = 11;
	bad[7].tail = STK_TAIL_DROP, bad[7].batch = 6;
	bad[8].start_position = -1;
	assert_int_equal(stk__order_check(&ok, NULL), STK_OK);
	for (int i = 0; i < 9; i++) {
		struct stk_error err = {0};
		assert_int_equal(stk__order_check(&bad[i], &err), STK_INVALID);
		assert_true(strlen(err.message) > 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shuffle_is_a_bijection),
		cmocka_unit_test(test_shuffle_of_a_billion),
		cmocka_unit_test(test_small_shuffles_are_even),
		cmocka_unit_test(test_all_permutations),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_large_shuffle_has_no_pattern),
		cmocka_unit_test(test_shuffle_known_answers),
		cmocka_unit_test(test_order_of_version_1),
		cmocka_unit_test(test_union_over_ranks_is_the_epoch),
		cmocka_unit_test(test_restored_run_continues),
		cmocka_unit_test(test_contiguous_shards_are_dalis),
		cmocka_unit_test(test_contiguous_shards_restore),
		cmocka_unit_test(test_runs_are_the_places),
		cmocka_unit_test(test_seven_samples_in_twos),
		cmocka_unit_test(test_padding_has_positions_of_its_own),
		cmocka_unit_test(test_replacement_is_another_sample),
		cmocka_unit_test(test_check_refuses),
	};
	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
