/* SPDX-License-Identifier: Apache-2.0
 * A batch of a resident data set, from its number to its slot. */
#include "exec/resident.h"

#include "base/clock.h"

static void fill_runs(const struct stk_pipeline *p, const struct stk_record *r, struct stk_recipe_batch *b)
{
	struct stk_order_run runs[STK_RECIPE_RUNS];
	const struct stk_order *o = &p->order;
	b->count = r->count;
	b->n_runs = stk__order_runs(o, r->k, r->count, runs, STK_RECIPE_RUNS); /* resident.c saw that there are no more */
	for (int32_t i = 0; i < b->n_runs; i++)
		b->runs[i] = (struct stk_recipe_run){.first = runs[i].first,
			.count = runs[i].count,
			.epoch = (uint32_t)runs[i].epoch,
			.shuffled = o->shuffle,
			.position = runs[i].position,
			.step = runs[i].step,
			.padded = runs[i].padded,
			.shuffle = stk__order_shuffle_key(o->seed, runs[i].epoch, o->size)};
}

static void *place_of(const struct stk_pipeline *p, const struct stk_slot *slot, int32_t value)
{
	return slot->values[p->program->values[value].slot].region;
}

static enum stk_status launch(struct stk_pipeline *p, struct stk_record *r, struct stk_error *err)
{
	struct stk_resident *d = p->resident;
	struct stk_recipe_batch *first = &d->views[0].batch;
	enum stk_status s = stk__slot_wait(r->slot, d->stream, err);
	fill_runs(p, r, first);
	for (int32_t t = 0; t < d->n_tables; t++)
		first->tables[t].to = place_of(p, r->slot, d->tables[t]);
	for (int32_t v = 0; v < d->n_views && r->count && s == STK_OK; v++) {
		struct stk_recipe_batch *b = &d->views[v].batch;
		if (v)
			fill_runs(p, r, b);
		b->to = place_of(p, r->slot, d->views[v].value);
		s = stk__recipe_gpu_launch(d->dev, d->kernel, b, d->stream, err);
	}
	return s ? s : stk__slot_written(r->slot, d->stream, err);
}

void stk__resident_submit(struct stk_pipeline *p, struct stk_record *r)
{
	struct stk_resident *d = p->resident;
	int64_t begin = p->trace ? stk__clock_ns() : 0;
	enum stk_status s = stk__gpu_enter(d->dev, &r->error);
	if (s == STK_OK) {
		s = launch(p, r, &r->error);
		if (s && stk__gpu_stream_sync(d->dev, d->stream, NULL)) {
			/* The device is lost, and with it what was under way. Else that has ended: the slot is used again at once. */
		}
		stk__gpu_leave(d->dev);
	}
	if (s)
		stk__error_set_op(&r->error, "the GPU");
	STK_COUNT(p, units, 1);
	STK_COUNT(p, samples, r->count);
	STK_COUNT(p, passes, (int64_t)r->count * d->n_views);
	STK_COUNT(p, resident_batches, 1);
	if (p->trace)
		stk__trace_add(p->trace, p->n_workers + 1,
			&(struct stk_trace_span){.kind = STK_SPAN_SUBMIT,
				.batch = r->k,
				.count = r->count,
				.stage = -1,
				.begin_ns = begin,
				.end_ns = stk__clock_ns()});
}

enum stk_status stk__resident_await(struct stk_pipeline *p, struct stk_slot *slot, int64_t k, struct stk_error *err)
{
	int64_t begin = p->trace ? stk__clock_ns() : 0;
	enum stk_status s = stk__slot_await(slot, err);
	if (s && err)
		stk__error_set_op(err, "the GPU");
	if (p->trace)
		stk__trace_add(p->trace, p->n_workers + 2,
			&(struct stk_trace_span){.kind = STK_SPAN_GPU,
				.batch = k,
				.count = p->config.batch_size,
				.stage = -1,
				.begin_ns = begin,
				.end_ns = stk__clock_ns()});
	return s;
}
