/* SPDX-License-Identifier: Apache-2.0
 * Computes the steps and places of contiguous shards. With STK_TAIL_FILL, KEEP and DROP each epoch is separate; with STK_TAIL_WRAP a rank's shards form one
 * endless stream. */
#include "order/shard.h"

#include "order/wide.h"

#include <assert.h>

int32_t stk__kept_count(int64_t left, int32_t batch)
{
	return left < 1 ? 1 : left < batch ? (int32_t)left : batch;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* Returns the first position of shard s. For s >= ranks the result is after the data set's end, as rotation needs. */
static int64_t shard_start(const struct stk_order *o, int64_t s)
{
	return stk__wide_divide(o->size, s, 0, o->ranks).quotient;
}

static int64_t own_shard(const struct stk_order *o, int64_t epoch)
{
	return o->stick_to_shard ? o->rank : (o->rank + epoch) % o->ranks;
}

static int64_t own_size(const struct stk_order *o)
{
	return shard_start(o, o->rank + 1) - shard_start(o, o->rank);
}

static int64_t start_step(const struct stk_order *o)
{
	return o->start_position / ((int64_t)o->batch * o->ranks);
}

/* The next functions are for STK_TAIL_WRAP. samples_before returns the number of samples that the rank has in the epochs 0 to `epoch` - 1; steps_before
 * returns the number of its steps in them, which is the number of its first step in `epoch`. */
static int64_t samples_before(const struct stk_order *o, int64_t epoch)
{
	if (o->stick_to_shard)
		return epoch * own_size(o);
	return shard_start(o, o->rank + epoch) - shard_start(o, o->rank);
}

static int64_t steps_before(const struct stk_order *o, int64_t epoch)
{
	return ceil_div(samples_before(o, epoch), o->batch);
}

/* For STK_TAIL_WRAP: returns the epoch and the sample at index t of the rank's stream. The last shard that starts at or before position a = start + t has
 * the number floor(((a + 1) * ranks - 1) / size). */
static struct stk_place stream_place(const struct stk_order *o, int64_t t)
{
	int64_t epoch, position, first = shard_start(o, o->rank);
	if (o->stick_to_shard) {
		epoch = t / own_size(o);
		position = first + t % own_size(o);
	} else {
		epoch = stk__wide_divide(first + t, o->ranks, o->ranks - 1, o->size).quotient - o->rank;
		position = (first + t) % o->size;
	}
	return (struct stk_place){.epoch = epoch, .position = position, .sample = position};
}

/* For STK_TAIL_WRAP: returns the number of the run's first step, counted from epoch 0. */
static int64_t stream_start(const struct stk_order *o)
{
	int64_t step = steps_before(o, o->start_epoch) + start_step(o), end = steps_before(o, o->start_epoch + 1);
	return step < end ? step : end;
}

static int64_t full_steps(const struct stk_order *o, int64_t epoch)
{
	if (o->tail == STK_TAIL_WRAP)
		return steps_before(o, epoch + 1) - steps_before(o, epoch);
	if (o->tail == STK_TAIL_DROP)
		return o->size / o->ranks / o->batch;
	return ceil_div(ceil_div(o->size, o->ranks), o->batch);
}

int64_t stk__shard_begun(const struct stk_order *o)
{
	return o->tail == STK_TAIL_WRAP ? stream_start(o) : o->start_epoch * full_steps(o, 0) + start_step(o);
}

int64_t stk__shard_steps(const struct stk_order *o, int64_t epoch)
{
	if (epoch < o->start_epoch)
		return 0;
	int64_t steps = full_steps(o, epoch) - (epoch == o->start_epoch ? start_step(o) : 0);
	return steps > 0 ? steps : 0;
}

/* Returns the batch's step, counted from the beginning of the epoch even if the run was restored in its middle. */
static int64_t whole_step(const struct stk_order *o, const struct stk_order_step *b)
{
	return b->step + (b->epoch == o->start_epoch ? start_step(o) : 0);
}

static struct stk_order_step stream_batch(const struct stk_order *o, int64_t k)
{
	int64_t first = stream_start(o), step = first + k;
	struct stk_order_step b = {.epoch = stream_place(o, step * o->batch).epoch, .count = o->batch};
	int64_t begin = steps_before(o, b.epoch);
	b.step = step - (begin > first ? begin : first);
	b.last = step + 1 == steps_before(o, b.epoch + 1);
	return b;
}

struct stk_order_step stk__shard_batch(const struct stk_order *o, int64_t k)
{
	if (o->tail == STK_TAIL_WRAP)
		return stream_batch(o, k);
	struct stk_order_step b = {.epoch = o->start_epoch, .step = k, .count = o->batch};
	int64_t first = stk__shard_steps(o, o->start_epoch), steps = first;
	if (k >= first) {
		steps = full_steps(o, 0);
		assert(steps > 0);
		b.epoch = o->start_epoch + 1 + (k - first) / steps;
		b.step = (k - first) % steps;
	}
	b.last = b.step + 1 == steps;
	if (o->tail == STK_TAIL_KEEP) {
		int64_t s = own_shard(o, b.epoch);
		int64_t left = shard_start(o, s + 1) - shard_start(o, s) - whole_step(o, &b) * o->batch;
		b.count = stk__kept_count(left, o->batch);
	}
	return b;
}

struct stk_place stk__shard_place(const struct stk_order *o, int64_t k, int32_t i)
{
	if (o->tail == STK_TAIL_WRAP)
		return stream_place(o, (stream_start(o) + k) * o->batch + i);
	struct stk_order_step b = stk__shard_batch(o, k);
	int64_t s = own_shard(o, b.epoch), first = shard_start(o, s), size = shard_start(o, s + 1) - first;
	int64_t j = whole_step(o, &b) * o->batch + i;
	struct stk_place p = {.epoch = b.epoch, .position = first + j, .sample = first + j};
	if (j >= size) {
		p.padded = true;
		p.position = o->size + (j - size) * o->ranks + o->rank;
		p.sample = first + size - 1;
	}
	return p;
}

int64_t stk__shard_consumed(const struct stk_order *o, int64_t epoch, int64_t step)
{
	return (epoch == o->start_epoch ? o->start_position : 0) + step * o->batch * o->ranks;
}
