/* SPDX-License-Identifier: Apache-2.0
 * Several readers: the positions of the others for each position of the leading reader. */
#include "test.h"

#include "order/order.h"
#include "order/wide.h"

static const enum stk_tail tails[] = {STK_TAIL_WRAP, STK_TAIL_FILL, STK_TAIL_KEEP, STK_TAIL_DROP};

/* A second reader of the same size as the leading one is at the same position, whatever the ranks and the tail. A shorter one wraps around, through whole
 * epochs of its own. */
static void test_readers_beside_the_leading_one(void **state)
{
	(void)state;
	for (int32_t ranks = 1; ranks <= 3; ranks++)
		for (int t = 0; t < 8; t++) {
			struct stk_order lead = {.size = 23, .seed = 5, .batch = 4, .ranks = ranks, .tail = tails[t % 4], .shuffle = t < 4};
			lead.contiguous = !lead.shuffle;
			struct stk_order same = lead, less = {.size = 7, .seed = 9, .shuffle = true, .batch = 4, .ranks = ranks};
			int seen[3][7] = {{0}};
			for (lead.rank = 0; lead.rank < ranks; lead.rank++)
				for (int64_t k = 0; k < 20; k++)
					for (int32_t i = 0; i < stk__order_batch(&lead, k).count; i++) {
						struct stk_place p = stk__order_place(&lead, k, i), q = stk__order_follow(&same, &lead, &p);
						assert_int_equal(q.sample, p.sample);
						assert_int_equal(q.epoch, p.epoch);
						q = stk__order_follow(&less, &lead, &p);
						assert_int_equal(q.epoch, (p.epoch * 23 + p.from) / 7);
						if (q.epoch < 3 && !p.padded)
							seen[q.epoch][q.sample]++;
						struct stk_place r = stk__order_replacement(&lead, &p, 1);
						assert_int_equal(stk__order_follow(&same, &lead, &r).sample, r.sample);
					}
			for (int e = 0; e < 3 && lead.tail != STK_TAIL_DROP && !lead.contiguous; e++)
				for (int i = 0; i < 7; i++)
					assert_int_equal(seen[e][i], 1);
		}
}

/* Compares with the compiler's division: products of few and of many bits, and quotients up to the largest. */
static void test_wide_division(void **state)
{
	(void)state;
	uint64_t seed = 7;
	for (int i = 0; i < 200000; i++) {
		int64_t n[4];
		for (int k = 0; k < 4; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			n[k] = (int64_t)(seed >> 1 >> (seed >> 7) % 63);
		}
		stk_wide d = (stk_wide)(n[3] ? n[3] : 1), wide = (stk_wide)n[0] * (stk_wide)n[1] + (stk_wide)n[2];
		if (wide / d > INT64_MAX)
			continue;
		struct stk_quotient q = stk__wide_divide(n[0], n[1], n[2], (int64_t)d);
		assert_int_equal(q.quotient, (int64_t)(wide / d));
		assert_int_equal(q.remainder, (int64_t)(wide % d));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_readers_beside_the_leading_one), cmocka_unit_test(test_wide_division)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
