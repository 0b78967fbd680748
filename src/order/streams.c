/* SPDX-License-Identifier: Apache-2.0 */
#include "order/streams.h"

#include "base/error.h"
#include "base/memory.h"
#include "order/order.h"

enum { MOST_CYCLES = 512, MOST_PIECES = 1 << 18 };

/* A sequence in a slot, and how many samples of the slot come before it. */
struct piece {
	int64_t begin;
	int32_t first;
};

struct stk_streams {
	struct piece *pieces; /* of slot 0, then of slot 1, ... */
	int64_t *piece;       /* where those of each slot begin, and where the last's end */
	int64_t *period;      /* samples of each slot before its pieces come again */
	int32_t slots;
};

void stk__streams_destroy(struct stk_streams *s)
{
	if (!s)
		return;
	stk__free(s->pieces);
	stk__free(s->piece);
	stk__free(s->period);
	stk__free(s);
}

int32_t stk__streams_slots(const struct stk_streams *s)
{
	return s->slots;
}

static void deal(struct stk_streams *s, const int32_t *sequences, int64_t count, int64_t cycles, bool shuffle, uint64_t seed)
{
	const struct stk_order order = {.size = count, .seed = seed};
	int64_t at = 0;
	for (int32_t slot = 0; slot < s->slots; slot++) {
		int64_t begin = 0;
		s->piece[slot] = at;
		for (int64_t cycle = 0; cycle < cycles; cycle++) {
			const struct stk_shuffle permutation = stk__order_shuffle(&order, cycle);
			for (int64_t i = slot; i < count; i += s->slots) {
				int64_t next = shuffle ? (int64_t)stk__shuffle_hd(&permutation, (uint64_t)i) : i;
				s->pieces[at++] = (struct piece){begin, sequences[next]};
				begin += sequences[next + 1] - sequences[next];
			}
		}
		s->period[slot] = begin;
	}
	s->piece[s->slots] = at;
}

enum stk_status stk__streams_create(const int32_t *sequences, int64_t count, int32_t slots, bool shuffle, uint64_t seed,
	struct stk_streams **out, struct stk_error *err)
{
	int64_t cycles = !shuffle || count > MOST_PIECES / 2 ? 1 + shuffle : MOST_PIECES / count;
	cycles = cycles < MOST_CYCLES ? cycles : MOST_CYCLES;
	if (count < slots)
		return stk__fail(err, STK_INVALID,
			"%d slots of a batch, over all shards, cannot share %lld sequences: lower the batch size, or cut scenes with split_scenes",
			slots, (long long)count);
	struct stk_streams *s = stk__calloc(1, sizeof *s);
	if (s) {
		s->slots = slots;
		s->pieces = stk__alloc((size_t)(cycles * count) * sizeof *s->pieces);
		s->piece = stk__alloc(((size_t)slots + 1) * sizeof *s->piece);
		s->period = stk__alloc((size_t)slots * sizeof *s->period);
	}
	if (!s || !s->pieces || !s->piece || !s->period) {
		stk__streams_destroy(s);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the order of %lld sequences", (long long)count);
	}
	deal(s, sequences, count, cycles, shuffle, seed);
	*out = s;
	return STK_OK;
}

int64_t stk__streams_sample(const struct stk_streams *s, uint64_t n)
{
	int32_t slot = (int32_t)(n % (uint64_t)s->slots);
	int64_t at = (int64_t)(n / (uint64_t)s->slots % (uint64_t)s->period[slot]);
	int64_t low = s->piece[slot], high = s->piece[slot + 1]; /* the last piece that begins at or before `at` */
	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;
		if (s->pieces[middle].begin <= at)
			low = middle;
		else
			high = middle;
	}
	return s->pieces[low].first + (at - s->pieces[low].begin);
}
