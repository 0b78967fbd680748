/* SPDX-License-Identifier: Apache-2.0 */
#include "order/streams.h"

#include "base/error.h"
#include "base/memory.h"
#include "order/order.h"

enum { MOST_CYCLES = 512, MOST_PIECES = 1 << 18 };

/* A sequence in a slot. begin: number of samples that the slot has before it; first: its first sample. */
struct piece {
	int64_t begin;
	int32_t first;
};

struct stk_streams {
	struct piece *pieces; /* pieces of slot 0, then of slot 1, and so on */
	int64_t *first_piece; /* [slot]: index of the slot's first piece; the last entry is the number of all pieces */
	int64_t *period;      /* [slot]: number of samples after which the slot's pieces repeat */
	int32_t slots;
};

void stk__streams_destroy(struct stk_streams *s)
{
	if (!s)
		return;
	stk__free(s->pieces);
	stk__free(s->first_piece);
	stk__free(s->period);
	stk__free(s);
}

int32_t stk__streams_slots(const struct stk_streams *s)
{
	return s->slots;
}

/* Returns the number of the sequence at index `index` of a cycle. */
static int64_t sequence_at(const struct stk_streams_options *o, const struct stk_shuffle *permutation, int64_t cycle, int64_t index)
{
	if (o->order)
		return o->order[cycle * o->count + index];
	return o->shuffle ? (int64_t)stk__shuffle_hd(permutation, (uint64_t)index) : index;
}

static void deal(struct stk_streams *s, const struct stk_streams_options *o, int64_t cycles)
{
	const struct stk_order order = {.size = o->count, .seed = o->seed};
	int64_t used = 0;
	for (int32_t slot = 0; slot < s->slots; slot++) {
		int64_t begin = 0;
		s->first_piece[slot] = used;
		for (int64_t cycle = 0; cycle < cycles; cycle++) {
			const struct stk_shuffle permutation = stk__order_shuffle(&order, cycle);
			for (int64_t i = slot; i < o->count; i += s->slots) {
				int64_t next = sequence_at(o, &permutation, cycle, i);
				s->pieces[used++] = (struct piece){begin, o->sequences[next]};
				begin += o->sequences[next + 1] - o->sequences[next];
			}
		}
		s->period[slot] = begin;
	}
	s->first_piece[s->slots] = used;
}

static int64_t cycles_of(const struct stk_streams_options *o)
{
	if (o->order)
		return o->order_count / o->count;
	int64_t cycles = !o->shuffle || o->count > MOST_PIECES / 2 ? 1 + o->shuffle : MOST_PIECES / o->count;
	return cycles < MOST_CYCLES ? cycles : MOST_CYCLES;
}

static enum stk_status check(const struct stk_streams_options *o, struct stk_error *err)
{
	if (o->count < o->slots)
		return stk__fail(err, STK_INVALID,
			"%d slots of a batch, over all shards, cannot share %lld sequences: lower the batch size, or cut scenes with split_scenes",
			o->slots, (long long)o->count);
	if (o->order && (o->order_count == 0 || o->order_count % o->count))
		return stk__fail(err, STK_INVALID, "the order of sequences has %lld entries, which are no cycles of %lld sequences",
			(long long)o->order_count, (long long)o->count);
	for (int64_t i = 0; o->order && i < o->order_count; i++)
		if (o->order[i] < 0 || o->order[i] >= o->count)
			return stk__fail(err, STK_INVALID, "the order of sequences names %lld; there are 0 to %lld", (long long)o->order[i],
				(long long)o->count - 1);
	return STK_OK;
}

enum stk_status stk__streams_create(const struct stk_streams_options *o, struct stk_streams **out, struct stk_error *err)
{
	enum stk_status status = check(o, err);
	if (status)
		return status;
	int64_t pieces = cycles_of(o) * o->count;
	struct stk_streams *s = stk__calloc(1, sizeof *s);
	if (s) {
		s->slots = o->slots;
		s->pieces = stk__alloc((size_t)pieces * sizeof *s->pieces);
		s->first_piece = stk__alloc(((size_t)o->slots + 1) * sizeof *s->first_piece);
		s->period = stk__alloc((size_t)o->slots * sizeof *s->period);
	}
	if (!s || !s->pieces || !s->first_piece || !s->period) {
		stk__streams_destroy(s);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the order of %lld sequences", (long long)o->count);
	}
	deal(s, o, cycles_of(o));
	*out = s;
	return STK_OK;
}

int64_t stk__streams_sample(const struct stk_streams *s, uint64_t n)
{
	int32_t slot = (int32_t)(n % (uint64_t)s->slots);
	int64_t position = (int64_t)(n / (uint64_t)s->slots % (uint64_t)s->period[slot]);
	int64_t low = s->first_piece[slot], high = s->first_piece[slot + 1]; /* finds the last piece that begins at or before `position` */
	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;
		if (s->pieces[middle].begin <= position)
			low = middle;
		else
			high = middle;
	}
	return s->pieces[low].first + (position - s->pieces[low].begin);
}
