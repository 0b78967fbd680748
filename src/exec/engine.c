/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves a batch from its opening to the object that the consumer receives: begins and ends its levels, applies on_error to failed samples, and handles
 * events from other parts of the pipeline. */
#include "exec/engine.h"

#include "base/error.h"
#include "base/machine_memory.h"
#include "exec/device.h"
#include "exec/feed.h"
#include "exec/fetch.h"

#include <stdio.h>

/* ---- a sample ---- */

/* Makes the sample ready for each chain of the level, at once or when the chain's bytes have arrived. */
static void begin_sample(struct stk_record *r, int32_t i)
{
	const struct stk_level *level = &r->pipeline->program->levels[r->level];
	struct stk_sample_state *s = &r->samples[i];
	s->failed_by = -1;
	s->chains_left = level->n_chains;
	for (int32_t c = 0; c < level->n_chains; c++)
		if (!stk__fetch_is_reading(s, c))
			stk__ready_chain(r, c, i);
}

void stk__on_bytes(struct stk_sample_state *s, int32_t chain)
{
	stk__ready_chain(s->record, chain, (int32_t)(s - s->record->samples));
}

static void set_failure(struct stk_sample_state *s, int32_t chain, int32_t reader, const struct stk_error *err)
{
	struct stk_error full = *err;
	stk__name_sample(s->record->pipeline, s, reader, &full);
	s->failed_by = chain;
	stk__set_error(&s->error, &full);
}

void stk__sample_fails(struct stk_record *r, int32_t i, int32_t chain, const struct stk_error *err)
{
	struct stk_sample_state *s = &r->samples[i];
	if (s->failed_by < 0 || s->failed_by > chain)
		set_failure(s, chain, stk__chain_reader(r->pipeline->program, r->level, chain), err);
}

/* Returns whether an error is raised even if on_error allows bad samples, because the machine or its GPU fails rather than the sample. A single object that
 * cannot be read is a bad sample; many in a row are an error (stk__bad_check_row). */
static bool is_fatal(const struct stk_pipeline *p, const struct stk_sample_state *s, const struct stk_error *err)
{
	const bool source = err->code == STK_IO || err->code == STK_TIMEOUT;
	return (source && !stk__fetch_object_failed(s)) || err->code == STK_SYSTEM || err->code == STK_NO_MEMORY || err->code == STK_CUDA ||
	       err->code == STK_CANCELLED || stk__fetch_source_down(p);
}

static void forget_sample(struct stk_sample_state *s)
{
	stk__fetch_release(s);
	stk__free(s->error);
	s->error = NULL;
}

/* Applies on_error to a failed sample, after all chains of the level have ended. Returns true if the sample was replaced and starts again, or false if it
 * was dropped. Also fails the batch if the error is fatal, or if on_error allows neither to replace nor to drop the sample. */
static bool replace_or_drop(struct stk_record *r, int32_t i)
{
	struct stk_pipeline *p = r->pipeline;
	struct stk_sample_state *s = &r->samples[i];
	static const struct stk_error no_memory = {
		.code = STK_NO_MEMORY, .sample = -1, .epoch = -1, .offset = -1, .message = "out of memory"};
	const struct stk_error *err = s->error ? s->error : &no_memory;
	stk__bad_add(r, i, err);
	bool replace =
		p->config.on_error == STK_ON_ERROR_REPLACE && p->program->reader >= 0 && r->level == 0 && s->attempt < STK_MAX_ATTEMPTS;
	if (is_fatal(p, s, err) || (!replace && p->config.on_error != STK_ON_ERROR_SKIP)) {
		stk__record_error(r, err, p->program->n_nodes + i);
		replace = false;
	}
	forget_sample(s);
	if (!replace) {
		s->dropped = true;
		return false;
	}
	STK_COUNT(p, replaced, 1);
	struct stk_place original = stk__order_place(&p->order, r->k, i);
	s->place = stk__order_replacement(&p->order, &original, ++s->attempt);
	stk__fetch_again(s);
	begin_sample(r, i);
	return true;
}

void stk__sample_part_done(struct stk_record *r, int32_t i)
{
	struct stk_sample_state *s = &r->samples[i];
	if (--s->chains_left > 0)
		return;
	if (s->failed_by >= 0 && replace_or_drop(r, i))
		return;
	if (r->level >= r->pipeline->program->last_read_level)
		stk__fetch_read_through(s);
	stk__level_part_done(r);
}

/* ---- levels ---- */

/* Ends the work on the batch's samples, frees their bytes, and queues the batch for stk__end_records. */
static void end_batch(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	stk__record_enter(r, STK_BATCH_ENDING);
	for (int32_t i = 0; i < r->placed; i++)
		forget_sample(&r->samples[i]);
	r->next_ending = p->flight.ending;
	p->flight.ending = r;
}

/* Begins level r->level, or the first later level that has work. Ends the batch if no level has. */
static void begin_level(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	if (r->state == STK_BATCH_ON_GPU)
		stk__record_enter(r, STK_BATCH_OPEN);
	for (; r->level < p->program->n_levels; r->level++) {
		const struct stk_level *level = &p->program->levels[r->level];
		r->unfinished = level->n_gathers + (level->n_callbacks ? 1 : 0);
		for (int32_t i = 0; i < r->count; i++) {
			r->samples[i].present = !r->samples[i].dropped;
			r->unfinished += level->n_chains && r->samples[i].present;
		}
		if (r->unfinished == 0)
			continue;
		for (int32_t i = 0; level->n_chains && i < r->count; i++)
			if (!r->samples[i].dropped)
				begin_sample(r, i);
		for (int32_t k = 0; k < level->n_gathers; k++)
			stk__ready_push(r, stk__gather_item(p, level->gathers[k]));
		if (level->n_callbacks)
			stk__feed_wake(p);
		return;
	}
	end_batch(r);
}

void stk__level_over(struct stk_record *r)
{
	r->level++;
	if (r->result.kind) /* the batch has failed or ended, so no level begins */
		r->level = r->pipeline->program->n_levels;
	begin_level(r);
}

void stk__level_part_done(struct stk_record *r)
{
	const struct stk_pipeline *p = r->pipeline;
	if (--r->unfinished > 0)
		return;
	if (p->program->levels[r->level].n_steps &&
		r->result.kind != STK_RESULT_END) /* also after an error: the GPU may report the error of an earlier sample */
		stk__device_queue(r->pipeline, r);
	else
		stk__level_over(r);
}

/* Applies the sources' reports about samples. If a source failed to deliver a sample, the sample is bad, like one that cannot be decoded; in a pipeline
 * with a reader the whole batch fails instead. The level cannot end meanwhile, since the callback counts as an unfinished part of the level. */
static void apply_feed_reports(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	for (int32_t i = 0; i < r->count; i++) {
		struct stk_sample_state *s = &r->samples[i];
		s->fed = stk__feed_sample_report(r, i);
		if (!s->fed || !s->fed->failure || s->dropped)
			continue;
		struct stk_error err = {.code = STK_USER, .sample = -1, .epoch = -1, .offset = -1};
		snprintf(err.message, sizeof err.message, "%s", s->fed->failure);
		if (p->program->reader >= 0) { /* a replacement would get the source's data for the sample that it replaces */
			stk__name_sample(p, s, p->program->leading_reader, &err);
			stk__record_error(r, &err, p->program->n_nodes + i);
			continue;
		}
		bool runs = s->chains_left > 0; /* true for samples with chains that do not need the source's data */
		if (!runs) {
			r->unfinished++;
			s->chains_left = 1;
			s->failed_by = -1;
		}
		if (s->failed_by < 0)
			set_failure(s, 0, p->program->leading_reader, &err);
		if (!runs)
			stk__sample_part_done(r, i);
	}
}

void stk__on_fed(struct stk_record *r, enum stk_status status, const struct stk_error *err)
{
	if (status == STK_END)
		r->result.kind = STK_RESULT_END;
	else if (status)
		stk__record_error(r, err, -1);
	else
		apply_feed_reports(r);
	stk__level_part_done(r);
	stk__end_records(r->pipeline);
}

/* Makes a sample bad if its GPU job failed. If the GPU refused a sample's file, runs the sample's chains again, in which the cores decode the file; the
 * level ends after these chains and their copies. */
static void apply_verdict(struct stk_record *r, const struct stk_gpu_verdict *v)
{
	struct stk_sample_state *s = &r->samples[v->sample];
	if (s->dropped || (!v->failed && s->on_cores))
		return;
	r->unfinished++;
	if (v->failed) {
		s->chains_left = 1;
		stk__sample_fails(r, v->sample, 0, v->failed);
		stk__sample_part_done(r, v->sample);
		return;
	}
	STK_COUNT(r->pipeline, gpu_refused, 1);
	s->on_cores = true;
	begin_sample(r, v->sample);
}

void stk__on_gpu_done(struct stk_record *r, const struct stk_gpu_verdict *verdicts, int32_t count, const struct stk_error *err)
{
	if (err) {
		stk__record_error(r, err, -1);
		stk__error_set_op(&r->result.error, "the GPU");
	}
	if (err || !count || r->pipeline->run.stopping) {
		stk__level_over(r);
	} else {
		stk__record_enter(r, STK_BATCH_OPEN);
		r->unfinished = 1; /* prevents the end of the level before all verdicts have been applied */
		for (int32_t k = 0; k < count; k++)
			apply_verdict(r, &verdicts[k]);
		stk__level_part_done(r);
	}
	stk__end_records(r->pipeline);
}

/* ---- how workers make batches ---- */

static void begin(struct stk_record *r)
{
	begin_level(r);
	stk__end_records(r->pipeline);
}

static bool arrived(struct stk_record *r)
{
	(void)r;
	return true;
}

static const char *stage(const struct stk_record *r, const struct stk_sample_state **s)
{
	if (stk__feed_waits(r))
		return "its external source";
	if (r->state == STK_BATCH_ON_GPU)
		return r->device->resting ? "the consumer's own work on the GPU, which still reads the slot" : "the GPU";
	for (int32_t i = 0; i < r->placed && i < r->count; i++)
		if (!r->samples[i].dropped && r->samples[i].chains_left > 0) {
			*s = &r->samples[i];
			return stk__fetch_complete(*s) ? "decoding and augmenting" : "its read";
		}
	return "an operator that needs the whole batch";
}

const struct stk_batch_maker stk__made_by_workers = {.places = true, .crew = true, .begin = begin, .arrived = arrived, .stage = stage};

/* ---- beginning and end ---- */

/* Writes how much memory is free to `text`, which stays empty if that is not known. on_gpu: `available` is memory of the GPU. */
static void say_available(size_t available, bool on_gpu, char text[64])
{
	text[0] = 0;
	if (available != SIZE_MAX)
		snprintf(text, 64, ", where about %zu MB of %s are free", available / 1000000, on_gpu ? "the GPU's memory" : "main memory");
}

/* Fails a batch because there is no memory for its outputs. The message says how much memory they need, as far as that is known, and how much is free. */
static void fail_without_memory(struct stk_record *r)
{
	static const char advice[] = "make samples or batches smaller, prefetch less, or keep fewer batches";
	struct stk_pipeline *p = r->pipeline;
	struct stk_error *err = &r->result.error;
	const struct stk_desc largest = stk__ring_largest(p->ring);
	const int64_t bytes = stk_desc_bytes(&largest);
	size_t available;
	const bool on_gpu = stk__ring_lacked_gpu(p->ring, err, &available);
	const char *where = on_gpu ? " on the GPU" : "";
	char shape[128] = "", free_bytes[64];

	r->result.kind = STK_RESULT_ERROR;
	say_available(on_gpu ? available : stk__memory_available(), on_gpu, free_bytes);
	for (int32_t k = 0, n = 0; k < largest.ndim && n < (int)sizeof shape; k++)
		n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%lld", k ? "x" : "", (long long)largest.shape[k]);
	const bool is_short = !on_gpu || err->code == STK_NO_MEMORY; /* otherwise the GPU failed in another way, which `err` describes */
	if (is_short && bytes > 0)
		err->code = stk__fail(err, STK_NO_MEMORY,
			"out of memory%s for a batch: its largest output, of %d times %s, takes %.0f MB%s; %s", where, p->config.batch_size,
			shape, (double)bytes * p->config.batch_size / 1e6, free_bytes, advice);
	else if (is_short)
		err->code = stk__fail(err, STK_NO_MEMORY, "out of memory%s for a batch%s: %s", where, free_bytes, advice);
	err->epoch = stk__shown_epoch(p, r->at.epoch);
	err->sample = err->offset = -1;
}

void stk__record_open(struct stk_record *r, bool no_memory)
{
	stk__fetch_opened(r);
	stk__record_enter(r, STK_BATCH_OPEN);
	if (!no_memory && !r->result.kind) {
		r->pipeline->callbacks->begin(r);
		return;
	}
	if (!r->result.kind)
		fail_without_memory(r);
	end_batch(r);
	stk__end_records(r->pipeline);
}

void stk__record_error(struct stk_record *r, const struct stk_error *err, int64_t rank)
{
	if (r->result.kind == STK_RESULT_ERROR && r->result.rank <= rank)
		return;
	r->result = (struct stk_result){STK_RESULT_ERROR, *err, rank};
}

/* Checks the outputs of a batch that has not failed, and makes the consumer's object, so that the consumer's thread does not have to. Sets r->result if the
 * outputs of the samples do not fit together. Returns false, and does nothing, if the batch has failed. Call without any lock, since outputs may have to be
 * moved in memory. */
static bool make_batch(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	stk__assert_unlocked(p);
	if (r->result.kind)
		return false;
	for (int32_t v = 0; v < p->program->n_slot_values; v++)
		if (!p->program->values[p->program->slot_values[v]].is_output)
			stk__slot_learn(r->slot, v);
	if (stk__batch_check(p, r, &r->result.error))
		r->result.kind = STK_RESULT_MISFIT;
	else
		r->batch = stk__batch_make(p, r);
	return true;
}

void stk__end_records(struct stk_pipeline *p)
{
	for (struct stk_record *r; (r = p->flight.ending);) {
		p->flight.ending = r->next_ending;
		pthread_mutex_unlock(&p->lock);
		const bool made = make_batch(r);
		pthread_mutex_lock(&p->lock);
		struct stk_device_batch *b = made || (r->device && !r->device->used) ? r->device : NULL;
		if (b)
			r->device = NULL;
		stk__record_enter(r, STK_BATCH_FINISHED);
		pthread_cond_broadcast(&p->delivered);
		if (b) /* data that was fetched from the GPU is no longer needed */
			stk__device_batch_end(p, b);
	}
}

void stk__record_return(struct stk_record *r)
{
	stk__assert_unlocked(r->pipeline);
	stk__feed_release(r);
	stk_batch_unref(&r->batch); /* the slot is released separately */
	if (r->slot)
		stk__slot_return(r->slot);
	r->slot = NULL;
	if (r->device)
		stk__device_batch_clean(r->pipeline, r->device);
}

void stk__record_reset(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	bool left = stk__record_under_way(r); /* true if the run is abandoned; otherwise end_batch has released the samples */
	stk__record_enter(r, STK_BATCH_FREE);
	for (int32_t i = 0; i < r->placed; i++) {
		if (left)
			forget_sample(&r->samples[i]);
		stk__fetch_forget(&r->samples[i]);
	}
	if (r->device)
		stk__device_batch_give(p, r->device);
	r->device = NULL;
	r->result.kind = STK_RESULT_BATCH;
	r->ready.count = r->ready.head = 0;
	stk__bad_drop(r);
	r->level = r->unfinished = 0;
}
