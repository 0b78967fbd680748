/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the batches of a resident data set: on the GPU with one launch for each view, on the cores sample by sample. */
#include "exec/resident.h"

#include "base/clock.h"
#include "exec/chain.h"

#include <string.h>
#include <time.h>

static void fill_runs(const struct stk_pipeline *p, const struct stk_record *r, struct stk_recipe_batch *b)
{
	struct stk_order_run runs[STK_RECIPE_RUNS];
	const struct stk_order *o = &p->order;
	b->count = r->count;
	b->n_runs = stk__order_runs(o, r->k, r->count, runs, STK_RECIPE_RUNS); /* at most STK_RECIPE_RUNS: resident.c has checked this */
	for (int32_t i = 0; i < b->n_runs; i++)
		b->runs[i] = (struct stk_recipe_run){.first = runs[i].first,
			.count = runs[i].count,
			.epoch = (uint32_t)runs[i].epoch,
			.shuffled = o->shuffle,
			.position = runs[i].position,
			.step = runs[i].step,
			.padded = runs[i].padded,
			.shuffle = stk__order_shuffle(o, runs[i].epoch)};
}

static void *place_of(const struct stk_pipeline *p, const struct stk_slot *slot, int32_t value)
{
	return slot->values[p->program->values[value].slot].region;
}

static enum stk_status launch(struct stk_pipeline *p, struct stk_record *r, stk_gpu_stream stream, struct stk_error *err)
{
	struct stk_resident *d = p->parts.resident;
	struct stk_recipe_batch *first = &d->views[0].batch;
	enum stk_status s = stk__slot_wait(r->slot, stream, err);
	fill_runs(p, r, first);
	for (int32_t t = 0; t < d->n_tables; t++)
		first->tables[t].to = place_of(p, r->slot, d->tables[t]);
	for (int32_t v = 0; v < d->n_views && r->count && s == STK_OK; v++) {
		struct stk_recipe_batch *b = &d->views[v].batch;
		if (v)
			fill_runs(p, r, b);
		b->to = place_of(p, r->slot, d->views[v].value);
		s = stk__recipe_gpu_launch(d->dev, d->kernel, b, stream, err);
	}
	return s ? s : stk__slot_written(r->slot, stream, err);
}

static enum stk_status make_image(const struct stk_chain_run *run, const struct stk_resident_view *view, struct stk_error *err)
{
	enum { STREAM_SLOT = 2 << 20 }; /* slots of at least this size in bytes are written past the caches, as in exec/pass.c */
	struct stk_exec_worker *w = run->worker;
	struct stk_slot *slot = run->record->slot;
	const struct stk_place *place = &run->record->samples[run->sample].place;
	const struct stk_value *v = &run->pipeline->program->values[view->value];
	struct stk_pass p;
	void *scratch = stk__arena_take(&w->arena, view->scratch);
	if (!scratch || !stk__slot_place(slot, v->slot, run->sample, &v->desc))
		return stk__fail(err, STK_NO_MEMORY, "out of memory for an image");
	stk__recipe_pass(&view->recipe, (uint32_t)place->epoch, (uint64_t)place->position, &p);
	p.cancel = w->tools.cancel;
	p.stream = slot->bytes[STK_SPACE_HOST] >= STREAM_SLOT;
	uint8_t *from = (uint8_t *)(uintptr_t)(view->batch.images + place->sample * view->batch.image_bytes);
	void *to = slot->values[v->slot].samples[run->sample].data;
	struct stk_image src = stk__image_hwc(from, STK_UINT8, p.in_w, p.in_h, p.in_c);
	enum stk_dtype dtype = (enum stk_dtype)p.dtype;
	struct stk_image dst = view->batch.planar ? stk__image_chw(to, dtype, p.w, p.h, p.c) : stk__image_hwc(to, dtype, p.w, p.h, p.c);
	stk__pass_run(&p, w->tools.kernels, &src, 0, 0, &dst, scratch);
	STK_COUNT(run->pipeline, passes, 1);
	return STK_OK;
}

static bool is_value_of(const struct stk_chain_run *run, int32_t value)
{
	const struct stk_program *g = run->pipeline->program;
	return g->nodes[g->values[value].node].chain == run->chain;
}

enum stk_status stk__resident_sample(const struct stk_chain_run *run, struct stk_error *err)
{
	const struct stk_resident *d = run->pipeline->parts.resident;
	const struct stk_program *g = run->pipeline->program;
	struct stk_slot *slot = run->record->slot;
	enum stk_status s = STK_OK;
	for (int32_t t = 0; t < d->n_tables; t++) {
		const struct stk_value *v = &g->values[d->tables[t]];
		size_t bytes = d->views[0].batch.tables[t].bytes;
		if (!is_value_of(run, d->tables[t]))
			continue;
		if (!stk__slot_place(slot, v->slot, run->sample, &v->desc))
			return stk__fail(err, STK_NO_MEMORY, "out of memory for an output of %zu bytes", bytes);
		memcpy(slot->values[v->slot].samples[run->sample].data,
			d->host_tables[t] + (size_t)run->record->samples[run->sample].place.sample * bytes, bytes);
	}
	for (int32_t v = 0; v < d->n_views && s == STK_OK; v++)
		if (is_value_of(run, d->views[v].value))
			s = make_image(run, &d->views[v], err);
	return s;
}

static void fails(struct stk_record *r, struct stk_error *err)
{
	stk__error_set_op(err, "the GPU");
	r->result = (struct stk_result){.kind = STK_RESULT_ERROR, .error = *err};
}

/* Launches the batch's kernels. Call without the lock; no other thread uses the batch. */
static void submit(struct stk_pipeline *p, struct stk_record *r)
{
	struct stk_resident *d = p->parts.resident;
	int64_t begin = d->begin_ns[r - p->flight.records] = stk__clock_ns();
	stk__range_begin(p->ctx->ranges, STK_SPAN_SUBMIT, r->k);
	struct stk_error err = {0};
	enum stk_status s = stk__gpu_enter(d->dev, &err);
	if (s == STK_OK) {
		stk_gpu_stream stream = d->streams[r->k % STK_RESIDENT_STREAMS];
		s = launch(p, r, stream, &err);
		if (s && stk__gpu_stream_sync(d->dev, stream, NULL)) {
			/* Waits for the work under way, since the slot is reused at once. If the wait fails, the device is lost, and its work with it. */
		}
		stk__gpu_leave(d->dev);
	}
	if (s)
		fails(r, &err);
	stk__range_end(p->ctx->ranges);
	int64_t end = stk__clock_ns();
	STK_COUNT(p, busy_ns, end - begin);
	STK_COUNT(p, units, 1);
	STK_COUNT(p, samples, r->count);
	STK_COUNT(p, passes, (int64_t)r->count * d->n_views);
	STK_COUNT(p, resident_batches, 1);
	stk__trace_row(p, STK_ROW_CONSUMER,
		&(struct stk_trace_span){
			.kind = STK_SPAN_SUBMIT, .batch = r->k, .count = r->count, .stage = -1, .begin_ns = begin, .end_ns = end});
}

static void begin(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	pthread_mutex_unlock(&p->lock);
	submit(p, r);
	pthread_mutex_lock(&p->lock);
	stk__record_enter(r, STK_BATCH_ENDING);
	stk__record_enter(r, STK_BATCH_FINISHED);
}

/* Returns whether the batch can be delivered: the GPU has finished it, or it has failed. */
static bool arrived(struct stk_record *r)
{
	const struct stk_pipeline *p = r->pipeline;
	struct stk_error err = {0};
	bool ready = true;
	if (r->result.kind) /* the batch has failed, so there is nothing to wait for */
		return true;
	if (stk__slot_is_written(r->slot, &ready, &err)) {
		fails(r, &err);
		return true;
	}
	if (ready && p->trace)
		stk__trace_row(p, STK_ROW_GPU,
			&(struct stk_trace_span){.kind = STK_SPAN_GPU,
				.batch = r->k,
				.count = r->count,
				.stage = -1,
				.begin_ns = p->parts.resident->begin_ns[r - p->flight.records],
				.end_ns = stk__clock_ns()});
	return ready;
}

/* Waits about 2 us without sleeping, or 50 us asleep once the consumer has waited longer than AWAKE_NS. A batch takes about 10 us, which is less than the
 * shortest sleep. Call with the lock held; it is released meanwhile. */
static void wait_briefly(struct stk_pipeline *p, int64_t waited_ns)
{
	enum { AWAKE_NS = 100000, LOOK_NS = 2000, DOZE_NS = 50000 };
	int64_t until = stk__clock_ns() + LOOK_NS;
	pthread_mutex_unlock(&p->lock);
	if (waited_ns > AWAKE_NS)
		nanosleep(&(struct timespec){.tv_nsec = DOZE_NS}, NULL);
	while (waited_ns <= AWAKE_NS && stk__clock_ns() < until) {
	}
	pthread_mutex_lock(&p->lock);
}

static const char *stage(const struct stk_record *r, const struct stk_sample_state **s)
{
	(void)r, (void)s;
	return "the GPU";
}

const struct stk_batch_maker stk__made_resident = {.begin = begin, .arrived = arrived, .wait = wait_briefly, .stage = stage};
