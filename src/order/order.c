/* SPDX-License-Identifier: Apache-2.0
 * Distributes the global sequence of an epoch to the ranks, batch by batch. */
#include "order/order.h"

#include "base/error.h"
#include "base/philox.h"
#include "order/shard.h"
#include "order/streams.h"
#include "order/wide.h"

#include <assert.h>
#include <stddef.h>

static int64_t ceil_div(int64_t a, int64_t b)
{
	return a <= 0 ? 0 : (a + b - 1) / b;
}

static int64_t global_batch(const struct stk_order *o)
{
	return (int64_t)o->batch * o->ranks;
}

enum stk_status stk__order_check(const struct stk_order *o, struct stk_error *err)
{
	if (o->size < 1)
		return stk__fail(err, STK_INVALID, "the data set is empty");
	if (o->size > (int64_t)1 << 48)
		return stk__fail(err, STK_LIMIT, "%lld samples: an order holds up to 2^48", (long long)o->size);
	if (o->batch < 1)
		return stk__fail(err, STK_INVALID, "batch size %d: it must be at least 1", o->batch);
	if (o->ranks < 1 || o->rank < 0 || o->rank >= o->ranks)
		return stk__fail(err, STK_INVALID, "shard %d of %d: shards are numbered from 0 to their number - 1", o->rank, o->ranks);
	if (o->start_epoch < 0 || o->start_position < 0)
		return stk__fail(err, STK_INVALID, "a run cannot start at epoch %lld, position %lld", (long long)o->start_epoch,
			(long long)o->start_position);
	if (o->streams && global_batch(o) != stk__streams_slots(o->streams))
		return stk__fail(err, STK_INVALID,
			"streams=%d is not the batch size times the number of shards, %d x %d: each slot of a batch follows a stream of its own",
			stk__streams_slots(o->streams), o->batch, o->ranks);
	if (o->contiguous && o->shuffle)
		return stk__fail(err, STK_INVALID, "contiguous shards are for reading in order; a shuffled epoch is dealt to all ranks");
	if (o->contiguous && o->ranks > o->size)
		return stk__fail(err, STK_INVALID, "%lld samples cannot be cut into %d shards", (long long)o->size, o->ranks);
	if (o->tail == STK_TAIL_DROP && (o->contiguous ? o->size / o->ranks / o->batch : o->size / global_batch(o)) == 0)
		return stk__fail(err, STK_INVALID,
			"%lld samples are fewer than one step (%d rank%s x batch %d), and incomplete steps are dropped: use a smaller batch, or "
			"keep the last one (last_batch=\"keep\" of a Loader, tail=\"keep\" of a reader)",
			(long long)o->size, o->ranks, o->ranks == 1 ? "" : "s", o->batch);
	return STK_OK;
}

/* Returns the first position of an epoch in this run. Do not call it for STK_TAIL_WRAP: positions are then counted from the run's start, across epochs. */
static int64_t first_position(const struct stk_order *o, int64_t epoch)
{
	return epoch == o->start_epoch ? o->start_position : 0;
}

/* For STK_TAIL_WRAP: returns the number of steps of this run before the first step of `epoch`. */
static int64_t steps_before(const struct stk_order *o, int64_t epoch)
{
	return ceil_div((epoch - o->start_epoch) * o->size - o->start_position, global_batch(o));
}

int64_t stk__order_steps(const struct stk_order *o, int64_t epoch)
{
	if (o->contiguous)
		return stk__shard_steps(o, epoch);
	if (epoch < o->start_epoch)
		return 0;
	if (o->tail == STK_TAIL_WRAP)
		return steps_before(o, epoch + 1) - steps_before(o, epoch);
	int64_t left = o->size - first_position(o, epoch);
	if (o->tail == STK_TAIL_DROP)
		return left > 0 ? left / global_batch(o) : 0;
	return ceil_div(left, global_batch(o));
}

/* Returns the position of the rank's first sample at a step, counted from the position at which the epoch begins in this run. */
static int64_t rank_position(const struct stk_order *o, int64_t step)
{
	return (step * o->ranks + o->rank) * o->batch;
}

struct stk_order_step stk__order_batch(const struct stk_order *o, int64_t k)
{
	assert(k >= 0);
	if (o->contiguous)
		return stk__shard_batch(o, k);
	struct stk_order_step b = {.epoch = o->start_epoch, .step = k, .count = o->batch};
	if (o->tail == STK_TAIL_WRAP) {
		b.epoch += (o->start_position + k * global_batch(o)) / o->size;
		b.step = k - steps_before(o, b.epoch);
		b.last = k + 1 == steps_before(o, b.epoch + 1);
		return b;
	}
	int64_t first = stk__order_steps(o, o->start_epoch), steps = first;
	if (k >= first) {
		steps = stk__order_steps(o, o->start_epoch + 1);
		assert(steps > 0);
		b.epoch = o->start_epoch + 1 + (k - first) / steps;
		b.step = (k - first) % steps;
	}
	b.last = b.step + 1 == steps;
	if (o->tail == STK_TAIL_KEEP) {
		int64_t left = o->size - first_position(o, b.epoch) - rank_position(o, b.step);
		b.count = stk__kept_count(left, o->batch);
	}
	return b;
}

/* Returns the entry at a position of an epoch whose blocks are shuffled. In each epoch the first block starts at another sample, so that the borders of the
 * blocks differ between epochs. The few samples that are left after the last whole block come last; they too differ between epochs. */
static int64_t block_entry(const struct stk_order *o, int64_t epoch, int64_t position)
{
	int64_t blocks = o->size / o->block, index = position;
	if (blocks > 1 && position < blocks * o->block) {
		struct stk_order block_order = *o;
		block_order.size = blocks;
		const struct stk_shuffle s = stk__order_shuffle(&block_order, epoch);
		index = (int64_t)stk__shuffle_hd(&s, (uint64_t)(position / o->block)) * o->block + position % o->block;
	}
	struct stk_random r = stk__random(o->seed, stk__random_stream("order.blocks"), epoch, 0);
	return (int64_t)((index + (int64_t)(stk__random_double(&r) * (double)o->size)) % o->size);
}

/* Returns the sample at a position of an epoch, 0 <= position < size. */
static int64_t sample_at(const struct stk_order *o, int64_t epoch, int64_t position)
{
	int64_t i = position;
	if (o->as_met)
		return i;
	if (o->streams)
		return stk__streams_sample(o->streams, (uint64_t)epoch * (uint64_t)o->size + (uint64_t)position);
	if (o->shuffle && o->block > 1) {
		i = block_entry(o, epoch, position);
	} else if (o->shuffle) {
		const struct stk_shuffle s = stk__order_shuffle(o, epoch);
		i = (int64_t)stk__shuffle_hd(&s, (uint64_t)position);
	}
	return o->indices ? o->indices[i] : i;
}

struct stk_place stk__order_place(const struct stk_order *o, int64_t k, int32_t i)
{
	assert(k >= 0 && i >= 0 && i < o->batch);
	struct stk_place p = {0};
	if (o->contiguous) {
		p = stk__shard_place(o, k, i);
		p.from = p.sample;
		p.sample = sample_at(o, p.epoch, p.from);
		return p;
	}
	if (o->tail == STK_TAIL_WRAP) {
		int64_t index = o->start_position + rank_position(o, k) + i;
		p.epoch = o->start_epoch + index / o->size;
		p.position = index % o->size;
	} else {
		struct stk_order_step b = stk__order_batch(o, k);
		p.epoch = b.epoch;
		p.position = first_position(o, b.epoch) + rank_position(o, b.step) + i;
	}
	p.padded = p.position >= o->size;
	p.from = p.padded ? o->size - 1 : p.position;
	p.sample = sample_at(o, p.epoch, p.from);
	return p;
}

/* Returns whether `count` samples from *first to *last are one run. Within an epoch positions advance by a fixed step unless a shard starts again, so
 * comparing the two ends is enough. */
static bool is_run(const struct stk_place *first, const struct stk_place *last, int32_t count)
{
	return first->epoch == last->epoch && first->padded == last->padded &&
	       (first->padded || last->position - first->position == count - 1);
}

int32_t stk__order_runs(const struct stk_order *o, int64_t k, int32_t count, struct stk_order_run *out, int32_t most)
{
	int32_t n = 0;
	struct stk_order unshuffled = *o; /* without the samples, since only positions matter here */
	unshuffled.shuffle = false;
	unshuffled.indices = NULL;
	unshuffled.streams = NULL;
	for (int32_t at = 0; at < count; n++) {
		if (n == most)
			return most + 1;
		struct stk_place first = stk__order_place(&unshuffled, k, at), last = stk__order_place(&unshuffled, k, count - 1);
		int32_t low = 1, high = count - at;
		if (is_run(&first, &last, high))
			low = high;
		while (low < high) {
			int32_t middle = low + (high - low + 1) / 2;
			last = stk__order_place(&unshuffled, k, at + middle - 1);
			if (is_run(&first, &last, middle))
				low = middle;
			else
				high = middle - 1;
		}
		out[n] = (struct stk_order_run){.first = at,
			.count = low,
			.epoch = first.epoch,
			.position = first.position,
			.step = first.padded && o->contiguous ? o->ranks : 1,
			.padded = first.padded ? stk__order_place(o, k, at).sample : -1};
		at += low;
	}
	return n;
}

int64_t stk__order_consumed(const struct stk_order *o, int64_t epoch, int64_t step)
{
	if (o->contiguous)
		return stk__shard_consumed(o, epoch, step);
	if (o->tail == STK_TAIL_WRAP)
		return o->start_position + (steps_before(o, epoch) + step) * global_batch(o) - (epoch - o->start_epoch) * o->size;
	int64_t consumed = first_position(o, epoch) + step * global_batch(o);
	return consumed < o->size ? consumed : o->size;
}

struct stk_place stk__order_replacement(const struct stk_order *o, const struct stk_place *place, int attempt)
{
	struct stk_random r = stk__random(o->seed, stk__random_stream("order.replacement"), place->epoch, place->position);
	struct stk_place out = *place;
	int64_t choices = o->size;
	if (o->as_met && place->position < choices)
		choices = place->position > STK_ORDER_FIRST ? place->position : choices < STK_ORDER_FIRST ? choices : STK_ORDER_FIRST;
	r.draw = 4 * (uint32_t)attempt;
	out.from = (int64_t)(stk__random_double(&r) * (double)choices);
	out.sample = sample_at(o, out.epoch, out.from);
	if (out.sample == place->sample) {
		out.from = (out.from + 1) % choices;
		out.sample = sample_at(o, out.epoch, out.from);
	}
	return out;
}

struct stk_place stk__order_follow(const struct stk_order *o, const struct stk_order *leading, const struct stk_place *place)
{
	struct stk_quotient split = stk__wide_divide(place->epoch, leading->size, place->from, o->size);
	struct stk_place out = {.epoch = split.quotient, .position = split.remainder, .padded = place->padded};
	out.from = out.position;
	out.sample = sample_at(o, out.epoch, out.position);
	return out;
}
