/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates the GPU part of a pipeline and its batches, and runs the thread that waits for them. */
#include "exec/device.h"
#include "exec/engine.h"

#include "base/clock.h"
#include "kernel/arithmetic/arithmetic.h"
#include "thread/thread.h"

#include <string.h>

/* ---- batches ---- */

static enum stk_status make_batch(struct stk_pipeline *p, struct stk_device_batch *b, struct stk_error *err)
{
	const struct stk_program *g = p->program;
	struct stk_gpu_device *dev = p->parts.device->dev;
	size_t batch = (size_t)p->config.batch_size, decodes = batch * (size_t)g->n_decodes + 1;
	pthread_mutex_init(&b->lock, NULL);
	stk__arena_init(&b->jobs.arena);
	struct stk_device_largest_needs *needs = &p->parts.device->largest_needs;
	stk__device_memory_init(&b->files, dev, true, &needs->files);
	stk__device_memory_init(&b->staging, dev, true, &needs->staging);
	stk__device_memory_init(&b->scratch, dev, false, &needs->scratch);
	b->jobs.first = stk__calloc((size_t)g->n_steps * batch + 1, sizeof *b->jobs.first);
	b->jobs.pending = stk__calloc(batch, sizeof *b->jobs.pending);
	b->jobs.submitted = stk__calloc(batch, sizeof *b->jobs.submitted);
	b->mirrors.staged = stk__calloc((size_t)g->n_values + 1, sizeof *b->mirrors.staged);
	b->mirrors.sent = stk__calloc((size_t)g->n_values + 1, sizeof *b->mirrors.sent);
	b->tables = stk__calloc((size_t)g->n_steps + 1, sizeof *b->tables);
	b->decodes.jobs = stk__calloc(decodes, sizeof(struct stk_device_job *));
	b->decodes.items = stk__calloc(decodes, sizeof *b->decodes.items);
	b->gpu_verdicts.list = stk__calloc(batch, sizeof *b->gpu_verdicts.list);
	if (!b->jobs.first || !b->jobs.pending || !b->jobs.submitted || !b->mirrors.staged || !b->mirrors.sent || !b->tables ||
		!b->decodes.jobs || !b->decodes.items || !b->gpu_verdicts.list)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for batches of %zu on the GPU", batch);
	enum stk_status s = p->parts.device->jpeg ? stk__jpeg_gpu_batch_create(p->parts.device->jpeg, &b->decodes.jpeg, err) : STK_OK;
	if (!s && b->decodes.jpeg)
		stk__jpeg_gpu_measure(b->decodes.jpeg, p->trace != NULL);
	return s ? s : stk__gpu_event_create(dev, false, &b->done, err);
}

/* Frees a batch. entered: whether the caller is inside stk__gpu_enter; false if that failed. Functions that free memory enter the device themselves. */
static void free_batch(struct stk_pipeline *p, struct stk_device_batch *b, bool entered)
{
	struct stk_gpu_device *dev = p->parts.device->dev;
	if (!b->files.dev)
		return;
	if (entered) {
		stk__jpeg_gpu_batch_destroy(b->decodes.jpeg);
		stk__device_trace_free(dev, &b->traced_events);
		for (int32_t k = 0; b->tables && k < p->program->n_steps; k++)
			stk__device_tables_free(dev, &b->tables[k]);
		stk__gpu_event_destroy(dev, b->done);
	}
	stk__device_memory_destroy(&b->files);
	stk__device_memory_destroy(&b->staging);
	stk__device_memory_destroy(&b->scratch);
	stk__arena_destroy(&b->jobs.arena);
	stk__free(b->jobs.first);
	stk__free((void *)b->jobs.pending);
	stk__free(b->jobs.submitted);
	stk__free((void *)b->mirrors.staged);
	stk__free((void *)b->mirrors.sent);
	stk__free(b->tables);
	stk__free(b->decodes.jobs);
	stk__free(b->decodes.items);
	stk__free(b->gpu_verdicts.list);
	stk__free(b->uploads.jobs);
	pthread_mutex_destroy(&b->lock);
}

void stk__device_batch_clean(struct stk_pipeline *p, struct stk_device_batch *b)
{
	if (!b->used)
		return;
	b->used = false;
	stk__device_memory_reset(&b->files);
	stk__device_memory_reset(&b->staging);
	stk__device_memory_reset(&b->scratch);
	stk__arena_reset(&b->jobs.arena);
	for (int32_t v = 0; v < p->program->n_values; v++) {
		atomic_store_explicit(&b->mirrors.staged[v], 0, memory_order_relaxed);
		atomic_store_explicit(&b->mirrors.sent[v], 0, memory_order_relaxed);
	}
	memset(b->jobs.first, 0, (size_t)p->program->n_steps * (size_t)p->config.batch_size * sizeof(struct stk_device_job *));
	for (int32_t i = 0; i < p->config.batch_size; i++)
		atomic_store_explicit(&b->jobs.pending[i], false, memory_order_relaxed);
}

struct stk_device_batch *stk__device_batch_take(struct stk_pipeline *p, struct stk_record *r)
{
	struct stk_device_batch *b = p->parts.device->free_batches;
	if (!b)
		return NULL;
	p->parts.device->free_batches = b->next;
	b->next = NULL;
	b->record = r;
	b->current.k = r->k;
	b->current.use++;
	b->current.side = stk__decode_side_of_batch(p);
	b->used = true;
	return b;
}

void stk__device_batch_give(struct stk_pipeline *p, struct stk_device_batch *b)
{
	b->record = NULL;
	b->next = p->parts.device->free_batches;
	p->parts.device->free_batches = b;
}

void stk__device_batch_end(struct stk_pipeline *p, struct stk_device_batch *b)
{
	pthread_mutex_unlock(&p->lock);
	stk__device_batch_clean(p, b);
	pthread_mutex_lock(&p->lock);
	stk__device_batch_give(p, b);
}

/* Returns the size in bytes of the GPU memory for decoding, for `depth` batches under way and for the consumer's batch; 0 if this is not known before the
 * first submission. */
static size_t memory_at(const struct stk_pipeline *p, int32_t depth)
{
	const struct stk_device_stage *d = p->parts.device;
	size_t batch = atomic_load(&d->largest);
	return batch ? (d->jpeg ? stk__jpeg_gpu_memory(d->jpeg) : 0) + batch * ((size_t)depth + 1) : 0;
}

/* Returns whether the memory limit allows one more batch under way, and sets memory_limited if it does not. */
static bool may_add_batch(const struct stk_pipeline *p)
{
	size_t needed = memory_at(p, p->flight.depth + 1);
	if (needed > p->parts.device->memory_limit)
		p->parts.device->memory_limited = true;
	return needed && needed <= p->parts.device->memory_limit;
}

static void explain_videos(const struct stk_pipeline *p, struct stk_text *t)
{
	char why[200];
	const int64_t frames = atomic_load(&p->counters.video_frames), on_gpu = atomic_load(&p->counters.video_frames_on_gpu);
	stk__nvdec_core_reason(p->parts.device->nvdec, why, sizeof why);
	stk__text_add(t, "the GPU's video decoder has made %lld of %lld frames\n", (long long)on_gpu, (long long)frames);
	if (why[0])
		stk__text_add(t, "the cores decoded the others, the last of them because of this: %s\n", why);
}

void stk__device_explain(struct stk_pipeline *p, struct stk_text *t)
{
	const struct stk_device_stage *d = p->parts.device;
	pthread_mutex_lock(&p->lock);
	bool held_back = d->memory_limited;
	int32_t depth = p->flight.depth, most = p->flight.most_depth;
	size_t needed = memory_at(p, most);
	pthread_mutex_unlock(&p->lock);
	if (d->jpeg)
		stk__decode_side_explain(p, t);
	stk__text_add(t, "up to %zu MiB of the GPU for decoding and for batches under way beyond those ahead\n", d->memory_limit >> 20);
	if (d->nvdec)
		explain_videos(p, t);
	if (held_back)
		stk__text_add(t,
			"that limit kept it at %d batches under way while the consumer waited: gpu_memory_limit=%zu << 20 has room for %d\n",
			depth, (needed >> 20) + 1, most);
}

/* Returns the number of consecutive finished batches, beginning with the next one to deliver. */
static int32_t count_ready(struct stk_pipeline *p)
{
	int32_t n = 0;
	for (int64_t k = p->flight.next_deliver; k < p->flight.next_open && stk__record(p, k)->state == STK_BATCH_FINISHED; k++)
		n++;
	return n;
}

/* Lowers the number of batches under way if more batches than needed have been ready at every delivery for a while, since each one occupies memory and
 * caches. The number does not fall below config.prefetch. Called when the consumer finds its next batch ready. */
static void update_surplus(struct stk_pipeline *p)
{
	enum { KEPT = 2 };
	struct stk_device_surplus *s = &p->parts.device->surplus;
	int32_t ready = count_ready(p);
	s->min_finished = s->deliveries && s->min_finished < ready ? s->min_finished : ready;
	if (++s->deliveries < s->window)
		return;
	int32_t spare = s->min_finished - KEPT, more = p->flight.depth - p->config.prefetch;
	spare = spare < more ? spare : more;
	if (spare > 0) {
		p->flight.depth -= (spare + 1) / 2;
		s->lowered = true;
	}
	s->deliveries = 0;
}

void stk__device_adapt_batches(struct stk_pipeline *p, bool waits)
{
	enum { MOST = 1024 };
	struct stk_device_surplus *s = &p->parts.device->surplus;
	const struct stk_record *r = stk__record(p, p->flight.next_deliver);
	if (r->state == STK_BATCH_FINISHED) {
		update_surplus(p);
		return;
	}
	if (!waits)
		return;
	s->deliveries = 0;
	if (r->state != STK_BATCH_ON_GPU || r->device->resting || p->flight.depth >= p->flight.most_depth || !may_add_batch(p))
		return;
	p->flight.depth++;
	if (s->lowered) /* depth was lowered too far or too soon, so more deliveries must pass before it is lowered again */
		s->window = s->window < MOST ? 2 * s->window : MOST;
	s->lowered = false;
}

/* ---- waiting for the GPU ---- */

static void append(struct stk_device_stage *d, struct stk_device_list *l, struct stk_device_batch *b)
{
	b->next = NULL;
	*l->end = b;
	l->end = &b->next;
	pthread_cond_signal(&d->work);
}

static struct stk_device_batch *take_first(struct stk_device_list *l)
{
	struct stk_device_batch *b = l->first;
	if (b && !(l->first = b->next))
		l->end = &l->first;
	return b;
}

void stk__device_queue(struct stk_pipeline *p, struct stk_record *r)
{
	stk__record_enter(r, STK_BATCH_ON_GPU);
	r->device->resting = !stk__slot_streams_done(r->slot);
	if (r->device->resting)
		append(p->parts.device, &p->parts.device->resting, r->device);
	else
		stk__ready_submit(r);
}

void stk__device_submitted(struct stk_pipeline *p, struct stk_record *r)
{
	r->device->current.begin_ns = stk__clock_ns();
	append(p->parts.device, &p->parts.device->submitted, r->device);
}

bool stk__device_has_work(const struct stk_device_stage *d)
{
	return d->submitted.first || d->resting.first || d->processing;
}

/* Returns the graph node of the first operator of a step; NULL if the level has no such step. */
static const struct stk_graph_node *node_of_step(const struct stk_program *g, int32_t level, int32_t step)
{
	const struct stk_level *l = &g->levels[level];
	for (int32_t c = 0; c < l->n_chains; c++)
		for (int32_t k = 0; k < l->chains[c].n_groups; k++)
			if (l->chains[c].groups[k].step == step)
				return g->nodes[l->chains[c].groups[k].nodes[0]].node;
	return NULL;
}

/* Returns the error of a step's jobs that have set their flag, which always means that they divided by zero. The error is made at the first call, and kept
 * in the step for later batches. */
static const struct stk_error *division_error(const struct stk_program *g, struct stk_device_batch *b, int32_t step)
{
	static const struct stk_error no_memory = {
		.code = STK_NO_MEMORY, .sample = -1, .epoch = -1, .offset = -1, .message = "out of memory"};
	const struct stk_graph_node *node = node_of_step(g, b->record->level, step);
	struct stk_error **err = &b->tables[step].error;
	char title[STK_MAX_TITLE];
	if (!*err && !(*err = stk__calloc(1, sizeof **err)))
		return &no_memory;
	if (stk__fail(*err, STK_INVALID, STK_DIVIDED_BY_ZERO) && node) {
		stk__node_title(node, title, sizeof title);
		stk__error_set_op(*err, title);
	}
	return *err;
}

static void add_verdict(struct stk_device_batch *b, int32_t sample, const struct stk_error *failed)
{
	for (int32_t k = 0; k < b->gpu_verdicts.n; k++)
		if (b->gpu_verdicts.list[k].sample == sample)
			return;
	b->gpu_verdicts.list[b->gpu_verdicts.n++] = (struct stk_gpu_verdict){sample, failed};
}

static void add_flag_verdicts(const struct stk_pipeline *p, struct stk_device_batch *b, int32_t step)
{
	struct stk_device_tables *t = &b->tables[step];
	size_t batch = (size_t)p->config.batch_size;
	bool any = false;
	for (uint32_t k = 0; k < t->n_flags; k++)
		any |= t->flags[k] != 0;
	for (int32_t i = 0; i < b->record->count && any; i++) {
		bool failed = false;
		for (const struct stk_device_job *j = b->jobs.first[(size_t)step * batch + (size_t)i]; b->jobs.submitted[i] && j;
			j = j->next)
			failed |= j->kind == STK_DEVICE_JOB_TENSORS && j->index < t->n_flags && t->flags[j->index];
		if (failed)
			add_verdict(b, i, division_error(p->program, b, step));
	}
	t->n_flags = 0;
}

/* Collects the samples that the GPU refused or in which a job failed. A sample is listed once, with the first reason. */
static void collect_verdicts(const struct stk_pipeline *p, struct stk_device_batch *b)
{
	const struct stk_level *l = &p->program->levels[b->record->level];
	b->gpu_verdicts.n = 0;
	for (int32_t k = l->first_step; k < l->first_step + l->n_steps; k++)
		add_flag_verdicts(p, b, k);
	for (int32_t i = 0; i < b->decodes.n; i++)
		if (stk__jpeg_gpu_verdict(b->decodes.jpeg, i) != STK_JPEG_GPU_OK)
			add_verdict(b, b->decodes.jobs[i]->sample, NULL);
	b->decodes.n = 0;
}

/* Returns whether no later level needs the device batch: none runs on the GPU, fetches data from it, or reads files, which may lie in the batch's pinned
 * memory. */
static bool last_level_here(const struct stk_program *g, int32_t level)
{
	if (level < g->last_read_level)
		return false;
	for (int32_t l = level + 1; l < g->n_levels; l++) {
		if (g->levels[l].n_steps)
			return false;
		for (int32_t k = 0; k < g->levels[l].n_gathers; k++)
			if (stk__program_fetches(g, g->levels[l].gathers[k]))
				return false;
	}
	return true;
}

/* Lets the record continue after its jobs on the GPU have ended or failed. Gives it the list of samples that the GPU has refused or could not process, or the
 * error. If nothing is left to do on the GPU, then also cleans the batch, which may allocate and must not delay the consumer, and makes it free. */
static void batch_done(struct stk_pipeline *p, struct stk_device_batch *b, enum stk_status s, const struct stk_error *err)
{
	struct stk_record *r = b->record;
	b->gpu_verdicts.n = 0;
	if (s == STK_OK)
		collect_verdicts(p, b);
	bool finished = s == STK_OK && !b->gpu_verdicts.n && last_level_here(p->program, r->level);
	pthread_mutex_lock(&p->lock);
	if (finished)
		r->device = NULL;
	stk__on_gpu_done(r, b->gpu_verdicts.list, finished ? 0 : b->gpu_verdicts.n, s ? err : NULL);
	if (finished)
		stk__device_batch_end(p, b);
	pthread_mutex_unlock(&p->lock);
	stk__pool_wake(p->pool);
}

static enum stk_status wait_for(struct stk_pipeline *p, struct stk_device_batch *b, struct stk_error *err)
{
	enum stk_status s = stk__gpu_enter(p->parts.device->dev, err);
	if (s)
		return s;
	s = stk__gpu_event_sync(p->parts.device->dev, b->done, err);
	if (!s && b->decodes.n)
		s = stk__jpeg_gpu_wait(b->decodes.jpeg, err);
	if (s && (stk__gpu_stream_sync(p->parts.device->dev, b->stream, NULL) ||
			 (b->decodes.jpeg && stk__jpeg_gpu_sync(p->parts.device->jpeg, NULL)))) {
		/* nothing to do: either no work is under way any more, or the device is lost */
	}
	if (!s)
		stk__device_trace(p, b);
	stk__gpu_leave(p->parts.device->dev);
	return s;
}

/* Waits on this thread until the consumer's kernels no longer read the slot, so that no stream of the library has to wait on the GPU. Then queues the
 * batch's jobs for submission, or fails the batch. */
static void wait_for_readers(struct stk_pipeline *p, struct stk_device_batch *b)
{
	struct stk_error err = {0};
	enum stk_status s = stk__slot_wait_streams(b->record->slot, &err);
	pthread_mutex_lock(&p->lock);
	b->resting = false;
	if (!s)
		stk__ready_submit(b->record);
	pthread_mutex_unlock(&p->lock);
	if (s)
		batch_done(p, b, s, &err);
	else
		stk__pool_wake(p->pool);
}

static void finish_submitted(struct stk_pipeline *p, struct stk_device_batch *b)
{
	struct stk_error err = {0};
	stk__range_begin(p->ctx->ranges, STK_SPAN_GPU, b->current.k); /* this range covers only the wait; the span in the trace begins with
								    * the submission */
	enum stk_status s = wait_for(p, b, &err);
	stk__range_end(p->ctx->ranges);
	stk__trace_row(p, STK_ROW_GPU,
		&(struct stk_trace_span){.kind = STK_SPAN_GPU,
			.batch = b->current.k,
			.count = b->record->count,
			.level = (int16_t)b->record->level,
			.stage = -1,
			.begin_ns = b->current.begin_ns,
			.end_ns = stk__clock_ns()});
	batch_done(p, b, s, &err);
}

static void *wait_thread(void *arg)
{
	struct stk_pipeline *p = arg;
	struct stk_device_stage *d = p->parts.device;
	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (!d->submitted.first && !d->resting.first && !d->ending)
			pthread_cond_wait(&d->work, &p->lock);
		struct stk_device_batch *b = take_first(d->submitted.first ? &d->submitted : &d->resting);
		if (!b)
			break;
		d->processing = true;
		pthread_mutex_unlock(&p->lock);
		if (b->resting)
			wait_for_readers(p, b);
		else
			finish_submitted(p, b);
		pthread_mutex_lock(&p->lock);
		d->processing = false;
		if (p->run.stopping)
			pthread_cond_broadcast(&p->delivered);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* ---- the stage ---- */

size_t stk__device_memory_limit(const struct stk_pipeline *p, size_t available)
{
	/* Memory that only makes the pipeline faster is limited by default, because training needs most of the GPU. The limit is ENOUGH bytes (batches of 256
	 * then reach half of the speed that more memory allows), or a 32nd of the free memory if that is larger, but at most a quarter of the free memory. */
	enum { ENOUGH = 928 << 20 };
	size_t share = available / 32 > ENOUGH ? available / 32 : ENOUGH;
	return p->config.gpu_memory ? p->config.gpu_memory : share < available / 4 ? share : available / 4;
}

static enum stk_status make_batches(struct stk_pipeline *p, struct stk_error *err)
{
	struct stk_device_stage *d = p->parts.device;
	size_t available = 0;
	enum stk_status s = stk__pass_gpu_kernels_load(d->dev, &d->pass_kernels, err);
	if (s || (s = stk__job_gpu_kernels_load(d->dev, &d->job_kernels, err)) || (s = stk__gpu_memory_free(d->dev, &available, err)))
		return s;
	d->memory_limit = stk__device_memory_limit(p, available);
	p->ring->lag_limit = d->memory_limit;
	if (p->program->n_decodes) { /* half of the memory is for the decoder, the rest for batches */
		s = stk__jpeg_gpu_create(d->dev, d->memory_limit / 2, &d->jpeg, err);
		p->ring->lag_limit -= d->memory_limit / 2;
	}
	int32_t streams = d->jpeg ? 1 : d->n_batches < STK_DEVICE_STREAMS ? d->n_batches : STK_DEVICE_STREAMS;
	for (int32_t i = 0; i < streams && s == STK_OK; i++)
		s = stk__gpu_stream_create(d->dev, STK_GPU_LOW, &d->streams[i], err);
	for (int32_t i = 0; i < d->n_batches && s == STK_OK; i++) {
		d->batches[i].stream = d->streams[i % streams];
		s = make_batch(p, &d->batches[i], err);
		stk__device_batch_give(p, &d->batches[i]);
	}
	return s;
}

enum stk_status stk__device_place_values(struct stk_pipeline *p, struct stk_gpu_device *dev, struct stk_error *err)
{
	const struct stk_program *g = p->program;
	bool *on_gpu = stk__calloc((size_t)g->n_slot_values + 1, sizeof *on_gpu);
	if (!on_gpu)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the ring of slots");
	for (int32_t v = 0; v < g->n_slot_values; v++)
		on_gpu[v] = g->values[g->slot_values[v]].on_gpu;
	enum stk_status s = stk__ring_on_gpu(p->ring, dev, on_gpu, err);
	stk__free(on_gpu);
	return s;
}

/* Opens the GPU's video decoder if an operator can use it, unless config.decode leaves all decoding to the cores. */
static enum stk_status open_nvdec(struct stk_pipeline *p, struct stk_error *err)
{
	const struct stk_program *g = p->program;
	bool decodes_videos = false;
	for (int32_t i = 0; i < g->n_nodes; i++)
		decodes_videos |= g->nodes[i].on_gpu && g->nodes[i].def->flags & STK_OP_NVDEC;
	if (!decodes_videos || p->config.decode == STK_DECODE_CORES)
		return STK_OK;
	return stk__nvdec_open(p->parts.device->dev, &p->parts.device->nvdec, err);
}

enum stk_status stk__device_create(struct stk_pipeline *p, struct stk_error *err)
{
	struct stk_device_stage *d = stk__calloc(1, sizeof *d);
	if (!d)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the GPU's part of a pipeline");
	p->parts.device = d;
	d->submitted.end = &d->submitted.first;
	d->resting.end = &d->resting.first;
	stk__decode_side_init(&d->side);
	d->surplus.window = 64;
	pthread_cond_init(&d->work, NULL);
	d->n_batches = p->flight.most_depth + 1;
	d->batches = stk__calloc((size_t)d->n_batches, sizeof *d->batches);
	if (!d->batches)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the GPU's part of a pipeline");
	enum stk_status s = stk__context_device(p->ctx, p->config.device_id, &d->dev, err);
	if (s)
		return s;
	stk__context_pin_workers(p->ctx, p->pool, "", d->dev); /* before pinned memory is allocated, so that it is near the GPU */
	if ((s = stk__gpu_enter(d->dev, err)))
		return s;
	s = make_batches(p, err);
	stk__gpu_leave(d->dev);
	if (s || (s = open_nvdec(p, err)) || (s = stk__device_place_values(p, d->dev, err)))
		return s;
	s = stk__thread_start(&d->thread, "stoker-gpu", wait_thread, p, err);
	d->runs = s == STK_OK;
	return s;
}

void stk__device_destroy(struct stk_pipeline *p)
{
	struct stk_device_stage *d = p->parts.device;
	if (!d)
		return;
	if (d->runs) {
		pthread_mutex_lock(&p->lock);
		d->ending = true;
		pthread_cond_signal(&d->work);
		pthread_mutex_unlock(&p->lock);
		stk__thread_join(d->thread);
	}
	bool entered = d->dev && !stk__gpu_enter(d->dev, NULL);
	for (int32_t i = 0; d->batches && i < d->n_batches; i++)
		free_batch(p, &d->batches[i], entered);
	if (entered) {
		stk__jpeg_gpu_destroy(d->jpeg);
		for (int32_t i = 0; i < STK_DEVICE_STREAMS; i++)
			stk__gpu_stream_destroy(d->dev, d->streams[i]);
		stk__device_clock_free(d->dev, &d->clock);
		stk__gpu_leave(d->dev);
	}
	stk__nvdec_close(d->nvdec);
	stk__gpu_device_close(d->dev);
	pthread_cond_destroy(&d->work);
	stk__free(d->batches);
	stk__free(d);
	p->parts.device = NULL;
}
