/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates and destroys pipelines. */
#include "base/clock.h"
#include "base/environment.h"
#include "base/machine_memory.h"
#include "exec/device.h"
#include "exec/engine.h"
#include "exec/feed.h"
#include "exec/fetch.h"
#include "exec/resident.h"
#include "format/list.h"
#include "op/video/clip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- configuration ---- */

static enum stk_status check_config(struct stk_pipeline_config *c, struct stk_error *err)
{
	if (c->batch_size < 1 || c->batch_size > 1 << 20)
		return stk__fail(err, STK_INVALID, "batch_size is %d; it must be from 1 to %d", c->batch_size, 1 << 20);
	if (c->prefetch < 0 || c->prefetch > 1024)
		return stk__fail(err, STK_INVALID, "prefetch is %d; it must be from 0 (the default, 2) to 1024", c->prefetch);
	if (c->device_id < -1)
		return stk__fail(err, STK_INVALID, "device_id is %d; it must be -1 (no GPU) or the number of a GPU", c->device_id);
	if ((unsigned)c->on_error > STK_ON_ERROR_REPLACE)
		return stk__fail(err, STK_INVALID, "on_error is %d; it must be one of enum stk_on_error", (int)c->on_error);
	if (!(c->max_errors >= 0 || c->max_errors == STK_NO_BAD_SAMPLES)) /* also refuses NaN */
		return stk__fail(err, STK_INVALID, "max_errors is %g; it must be at least 0", c->max_errors);
	if ((unsigned)c->decode > STK_DECODE_CORES)
		return stk__fail(err, STK_INVALID, "decode is %d; it must be one of enum stk_decoding", (int)c->decode);
	if (c->read_requests < 0 || c->read_requests > STK_MOST_READ_REQUESTS)
		return stk__fail(err, STK_INVALID, "read_requests is %d; it must be from 0 (the default) to %d", c->read_requests,
			STK_MOST_READ_REQUESTS);
	if (c->max_batches < 0)
		return stk__fail(err, STK_INVALID, "max_batches is %d; it must be at least 0", c->max_batches);
	if (c->memory_limit > PTRDIFF_MAX || c->gpu_memory > PTRDIFF_MAX || c->read_bytes > PTRDIFF_MAX || c->held_limit > PTRDIFF_MAX)
		return stk__fail(err, STK_INVALID,
			"memory_limit, gpu_memory, read_bytes and held_limit must be below 2^63; they are %zu, %zu, %zu and %zu",
			c->memory_limit, c->gpu_memory, c->read_bytes, c->held_limit);
	if (c->timeout_ms < 0)
		return stk__fail(err, STK_INVALID, "timeout_ms is %lld; it must be at least 0", (long long)c->timeout_ms);
	if (c->trace && stk__is_uri(c->trace))
		return stk__fail(err, STK_INVALID, "trace is the path of a file on this machine, not a URI");
	c->prefetch = c->prefetch ? c->prefetch : 2;
	c->memory_limit = c->memory_limit ? c->memory_limit : (size_t)2 << 30;
	const char *fuse = getenv("STOKER_FUSE"), *side = getenv("STOKER_DECODE");
	if (c->decode == STK_DECODE_AUTO && side)
		c->decode = strcmp(side, "gpu") == 0 ? STK_DECODE_GPU : strcmp(side, "cores") == 0 ? STK_DECODE_CORES : STK_DECODE_AUTO;
	c->no_fuse |= fuse && strcmp(fuse, "0") == 0;
	return stk__environment_check(err);
}

/* Sets the defaults for reads. If the data set is remote, also prepares io, and returns STK_CANCELLED if access->interrupted returns true. The defaults are
 * larger for object stores: they answer out of order, some requests a second late, and answers that arrive before a late one occupy buffers. */
static enum stk_status prepare_reads(struct stk_pipeline *p, const struct stk_access *access, struct stk_error *err)
{
	char uri[STK_MAX_URI];
	size_t n = stk__sample_uri(p->program, 0, uri, sizeof uri);
	bool remote = n > 0 && n < sizeof uri && stk__io_remote(p->io, uri);
	struct stk_pipeline_config *c = &p->config;
	c->read_requests = c->read_requests ? c->read_requests : remote ? 1024 : 256;
	c->read_bytes = c->read_bytes ? c->read_bytes : (size_t)(remote ? 160 : 32) << 20;
	if (!remote)
		return STK_OK;
	/* here, since the environment may only be read on the user's thread */
	const enum stk_status status = stk__io_refresh(p->io, uri, access, err);
	const bool interrupted = access->interrupted && access->interrupted(access->user);
	return interrupted ? stk__fail(err, STK_CANCELLED, "making the pipeline was interrupted") : status;
}

/* Returns the byte with which STOKER_POISON=BYTE fills memory, or -1 for no fill. With such a byte the library also checks the addresses of GPU jobs
 * (submit.c). Builds without optimisation, which are for finding mistakes, fill memory by default. */
static int32_t poison_byte(void)
{
#ifdef __OPTIMIZE__
	enum { DEFAULT = -1 };
#else
	enum { DEFAULT = 0xa5 };
#endif
	const char *value = getenv("STOKER_POISON");
	return value && *value ? (int32_t)(stk__environment_number("STOKER_POISON") & 0xff) : DEFAULT;
}

/* ---- parts ---- */

static enum stk_status set_fixed_values(const struct stk_program *g, struct stk_tensor *values, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	for (int32_t i = 0; i < g->n_nodes && s == STK_OK; i++) {
		const struct stk_program_node *n = &g->nodes[i];
		const struct stk_call call = {.def = n->def,
			.args = n->node->args,
			.shared = n->shared,
			.out = &values[n->first_value],
			.n_out = n->node->n_outputs};
		if (stk__program_fixed(g, i))
			s = n->def->infer(&call, err);
	}
	return s;
}

static bool calls_functions(const struct stk_program *g)
{
	for (int32_t i = 0; i < g->n_nodes; i++)
		if ((g->nodes[i].def->flags & STK_OP_FUNCTION) && !g->nodes[i].pruned)
			return true;
	return false;
}

/* Gives the pipeline a pool of its own if its graph calls users' functions. Such a function may wait for another pipeline. If both had the same workers, all of
 * them could be inside such functions, and none would be left for what the functions wait for. */
static enum stk_status make_pool(struct stk_pipeline *p, struct stk_error *err)
{
	struct stk_pool *own = NULL;
	if (!calls_functions(p->program))
		return STK_OK;
	enum stk_status s = stk__pool_create(stk_context_threads(p->ctx), &own, err);
	if (s == STK_OK)
		p->pool = own;
	return s;
}

static enum stk_status make_workers(struct stk_pipeline *p, struct stk_error *err)
{
	const struct stk_codec_limits limits = stk__codec_limits(p->config.lenient);
	p->crew.n = stk__pool_threads(p->pool);
	p->crew.workers = stk__calloc((size_t)p->crew.n, sizeof *p->crew.workers);
	if (!p->crew.workers)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for workers");
	for (int32_t i = 0; i < p->crew.n; i++) {
		struct stk_exec_worker *w = &p->crew.workers[i];
		stk__arena_init(&w->arena);
		w->values = stk__calloc((size_t)p->program->n_values, sizeof *w->values);
		w->calls = stk__calloc((size_t)p->program->max_nodes + 1, sizeof *w->calls);
		if (!w->values || !w->calls)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for workers");
		w->tools = (struct stk_tools){.arena = &w->arena,
			.cpu_jobs = {.arena = &w->arena, .cpu = p->ctx->cpu},
			.kernels = &p->ctx->kernels,
			.lenient = p->config.lenient,
			.limits = limits,
			.cancel = &p->run.halt,
			.storage = p->storage};
		enum stk_status s = stk__decoder_create(&limits, p->ctx->cpu, &w->arena, &w->tools.decoder, err);
		if (s || (s = set_fixed_values(p->program, w->values, err)))
			return s;
	}
	return STK_OK;
}

static bool make_record(struct stk_pipeline *p, struct stk_record *r)
{
	size_t batch = (size_t)p->config.batch_size;
	r->pipeline = p;
	r->samples = stk__calloc(batch, sizeof *r->samples);
	r->ready.items = stk__calloc((size_t)stk__ready_room(p), sizeof *r->ready.items);
	r->gathered = stk__calloc((size_t)p->program->n_gathers, sizeof *r->gathered);
	r->gather_readers = stk__calloc((size_t)p->program->n_gathers, sizeof *r->gather_readers);
	if (!r->samples || !r->ready.items || !r->gathered || !r->gather_readers)
		return false;
	for (size_t i = 0; i < batch; i++)
		r->samples[i].record = r;
	return true;
}

/* Refuses records that take 16 MiB or more and at least half of the available memory. All of them are written when the pipeline is made, and the kernel would
 * first grant the memory and then kill the process. */
static enum stk_status check_records(const struct stk_pipeline *p, struct stk_error *err)
{
	const int64_t sample = (int64_t)(sizeof(struct stk_sample_state) + sizeof(int32_t)) + stk__fetch_sample_bytes(p);
	const int64_t bytes = p->flight.n * ((int64_t)sizeof(struct stk_record) + p->config.batch_size * sample);
	if ((size_t)bytes < (size_t)16 << 20 || (size_t)bytes < stk__memory_available() / 2)
		return STK_OK;
	return stk__fail(err, STK_NO_MEMORY,
		"out of memory: keeping track of %d batches of %d takes %lld MiB, more than half of what is free; lower read_requests (%d), prefetch (%d) or "
		"batch_size",
		p->flight.n, p->config.batch_size, (long long)(bytes >> 20), p->config.read_requests, p->config.prefetch);
}

/* Makes records for most_depth + 2 batches and, if the program reads files, for 2 * read_requests samples that are read ahead: half of these reads may be in
 * flight, while the other half have ended before their batches are open. */
static enum stk_status make_records(struct stk_pipeline *p, struct stk_error *err)
{
	int32_t window = p->program->reads ? (2 * p->config.read_requests + p->config.batch_size - 1) / p->config.batch_size : 0;
	p->flight.depth = p->flight.most_depth = p->config.prefetch;
	if (p->program->n_steps) /* about 3000 images in flight keep a GPU busy, even while cores decode the largest images */
		p->flight.most_depth += p->config.batch_size > 1024 ? 2 : p->config.batch_size < 128 ? 24 : 3072 / p->config.batch_size;
	p->flight.n = p->flight.most_depth + 2 + window;
	p->flight.begun = -1;
	enum stk_status s = check_records(p, err);
	if (s)
		return s;
	p->flight.records = stk__calloc((size_t)p->flight.n, sizeof *p->flight.records);
	p->crew.cost_ns = stk__calloc((size_t)p->program->n_levels * (size_t)p->program->max_chains, sizeof *p->crew.cost_ns);
	bool ok = p->flight.records && p->crew.cost_ns;
	for (int32_t i = 0; ok && i < p->flight.n; i++)
		ok = make_record(p, &p->flight.records[i]);
	return ok ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for %d batches of %d", p->flight.n, p->config.batch_size);
}

static void on_slot_return(void *pool)
{
	stk__pool_wake_one(pool);
}

static enum stk_status make_ring(struct stk_pipeline *p, struct stk_error *err)
{
	const struct stk_program *g = p->program;
	struct stk_desc *known = stk__calloc((size_t)g->n_slot_values + 1, sizeof *known);
	for (int32_t v = 0; known && v < g->n_slot_values; v++)
		known[v] = g->values[g->slot_values[v]].desc;
	enum { HELD_WITHOUT_A_WORD = 16 };
	bool hard = p->config.max_batches > 0;
	int32_t limit = hard ? p->config.max_batches : p->flight.most_depth + HELD_WITHOUT_A_WORD;
	p->ring = known ? stk__ring_create(known, g->n_slot_values, p->config.batch_size, limit, hard, p->config.held_limit) : NULL;
	stk__free(known);
	if (!p->ring)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the ring of slots");
	p->ring->on_free = stk__batch_free_data;
	p->ring->on_return = on_slot_return;
	p->ring->owner = p->pool;
	p->ring->sample_limit = p->config.memory_limit;
	return STK_OK;
}

/* Fails if the GPU with the number config.device_id cannot be opened, even if the program uses no GPU. */
static enum stk_status check_device(struct stk_pipeline *p, struct stk_error *err)
{
	struct stk_gpu_device *dev = NULL;
	enum stk_status s = stk__context_device(p->ctx, p->config.device_id, &dev, err);
	stk__gpu_device_close(dev);
	return s;
}

static enum stk_status use_device(struct stk_pipeline *p, struct stk_error *err)
{
	if (!p->program->n_steps)
		return check_device(p, err);
	enum stk_status s = stk__resident_create(p, err);
	return s || p->parts.resident ? s : stk__device_create(p, err);
}

static enum stk_status make_trace(struct stk_pipeline *p, struct stk_error *err)
{
	static const char *const rows[] = {"sources", "consumer", "batches on the GPU", "reads ahead", "GPU: steps"};
	int32_t streams = p->config.device_id >= 0 ? STK_JPEG_GPU_STREAMS : 0;
	p->trace = stk__trace_create(p->crew.n + STK_ROW_DECODER_STREAMS + streams, 1 << 14);
	if (!p->trace)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a trace");
	for (int32_t i = 0; i < p->crew.n + STK_ROW_DECODER_STREAMS + streams; i++) {
		char name[32];
		int32_t row = i - p->crew.n;
		snprintf(name, sizeof name, row < 0 ? "worker %d" : "GPU: files, stream %d", row < 0 ? i : row - STK_ROW_DECODER_STREAMS);
		stk__trace_name(p->trace, i, row >= 0 && row < STK_ROW_DECODER_STREAMS ? rows[row] : name);
	}
	return STK_OK;
}

/* Logs the notices of readers that are being opened. */
static void log_notice(void *user, const char *text)
{
	stk__notify(user, STK_LOG_WARNING, "%s", text);
}

enum stk_status stk_pipeline_create(struct stk_context *ctx, struct stk_graph *graph, const struct stk_pipeline_config *config,
	struct stk_pipeline **out, struct stk_error *err)
{
	if (STK_NEED(err, out))
		return STK_INVALID;
	*out = NULL;
	if (STK_NEED(err, ctx, graph, config))
		return STK_INVALID;
	if (config->size != sizeof *config)
		return stk__fail(
			err, STK_INVALID, "stk_pipeline_config.size is %zu; this library expects %zu", config->size, sizeof *config);
	struct stk_pipeline *p = stk__calloc(1, sizeof *p);
	if (!p)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a pipeline");
	p->client.work = stk__exec_work;
	p->callbacks = &stk__made_by_workers;
	p->ctx = stk_context_ref(ctx);
	p->pool = ctx->pool;
	p->storage = stk_storage_ref(config->storage ? config->storage : ctx->storage);
	p->io = stk__storage_io(p->storage);
	p->config = *config;
	p->crew.poison = poison_byte();
	pthread_mutexattr_t kind;
	pthread_mutexattr_init(&kind);
#ifdef STK_DEBUG
	pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK); /* needed by stk__assert_unlocked */
#endif
	pthread_mutex_init(&p->lock, &kind);
	pthread_mutexattr_destroy(&kind);
	stk__cond_init(&p->delivered);
	const struct stk_access access = {.storage = p->storage,
		.interrupted = config->interrupted,
		.listed = config->listed,
		.user = config->interrupted_user,
		.notice = log_notice,
		.notice_user = p->ctx};
	enum stk_status s;
	if ((s = stk__context_check(ctx, err)) || (s = check_config(&p->config, err)) ||
		(s = stk__program_create(graph, config->seed, !p->config.no_fuse, p->config.device_id >= 0, &access, &p->program, err)))
		goto out;
	if ((s = prepare_reads(p, &access, err)) || (s = stk__orders_create(p, err)) || (s = stk__surveyed_create(p, err)) ||
		(s = make_records(p, err)) || (s = stk__deliver_create(p, err)) || (s = stk__open_create(p, err)) ||
		(s = stk__fetch_create(p, err)) || (s = stk__feed_create(p, err)) || (s = make_pool(p, err)) ||
		(s = make_workers(p, err)) || (s = make_ring(p, err)))
		goto out;
	if (config->trace && (s = make_trace(p, err)))
		goto out;
	if ((p->config.device_id >= 0 && (s = use_device(p, err))) || (!p->program->n_steps && (s = stk__resident_create(p, err))))
		goto out;
out:
	if (s) {
		stk_pipeline_destroy(p);
		return s;
	}
	stk__watch_add(p);
	*out = p;
	return STK_OK;
}

/* ---- ending ---- */

static void free_records(struct stk_pipeline *p)
{
	for (int32_t i = 0; p->flight.records && i < p->flight.n; i++) {
		struct stk_record *r = &p->flight.records[i];
		for (int32_t g = 0; r->gathered && g < p->program->n_gathers; g++)
			stk__free(r->gathered[g].data);
		for (int32_t g = 0; r->gather_readers && g < p->program->n_gathers; g++)
			stk__free(r->gather_readers[g].rank);
		stk__free(r->gathered);
		stk__free(r->gather_readers);
		stk__free(r->samples);
		stk__free(r->ready.items);
	}
	stk__free(p->flight.records);
}

static void *destroy_elsewhere(void *p)
{
	stk_pipeline_destroy(p);
	return NULL;
}

/* Destroys a pipeline from one of the workers that serve it. Uses another thread, since the destruction waits for that worker. If no thread can be started,
 * the pipeline does no more work, but is never freed. */
static void destroy_from_worker(struct stk_pipeline *p)
{
	pthread_t thread;
	stk_pipeline_cancel(p);
	if (stk__thread_start(&thread, "stoker-end", destroy_elsewhere, p, NULL) == STK_OK)
		pthread_detach(thread);
}

/* Returns a reference to the GPU on which the pipeline makes batches; NULL: it makes them on the cores. */
static struct stk_gpu_device *device_of(const struct stk_pipeline *p)
{
	struct stk_gpu_device *dev = p->parts.device ? p->parts.device->dev : p->parts.resident ? p->parts.resident->dev : NULL;
	return dev ? stk__gpu_device_ref(dev) : NULL;
}

void stk_pipeline_destroy(struct stk_pipeline *p)
{
	if (!p || stk__context_check(p->ctx, NULL)) /* a forked child has no workers to wait for, and leaves the pipeline as it is */
		return;
	if (stk__feed_is_calling(p)) { /* a garbage collector may destroy the pipeline inside a callback of the pipeline's own source */
		stk__feed_abandon(p, stk_pipeline_destroy);
		return;
	}
	if (stk__pool_is_worker(p->pool)) {
		destroy_from_worker(p);
		return;
	}
	stk__watch_remove(p);
	if (p->run.started)
		stk__drain(p);
	struct stk_error err = {0};
	if (p->trace && p->config.trace[0] && stk__trace_write(p->trace, p->config.trace, &err))
		stk__notify(p->ctx, STK_LOG_WARNING, "%s", err.message);
	if (p->ring)
		stk__ring_close(p->ring);
	struct stk_gpu_device *dev = device_of(p);
	stk__device_destroy(p);
	stk__resident_destroy(p);
	stk__trace_destroy(p->trace);
	if (p->ring)
		stk__ring_release_owner(p->ring);
	for (int32_t i = 0; p->crew.workers && i < p->crew.n; i++) {
		struct stk_exec_worker *w = &p->crew.workers[i];
		stk__decoder_destroy(w->tools.decoder);
		stk__video_tool_destroy(w->tools.video);
		stk__arena_destroy(&w->arena);
		stk__free(w->values);
		stk__free(w->calls);
	}
	stk__free(p->crew.workers);
	stk__feed_destroy(p);
	stk__surveyed_destroy(p);
	stk__fetch_destroy(p);
	free_records(p);
	stk__free((void *)p->crew.cost_ns);
	stk__free(p->orders);
	stk__bad_free(p);
	stk__changes_free(p);
	stk__open_destroy(p);
	stk__deliver_destroy(p->parts.delivery);
	stk__program_unref(p->program);
	stk__gpu_device_end_use(dev); /* after all parts, since decoders of the program and of workers retire memory too */
	if (p->pool != p->ctx->pool)
		stk__pool_destroy(p->pool);
	pthread_cond_destroy(&p->delivered);
	pthread_mutex_destroy(&p->lock);
	stk_storage_unref(&p->storage);
	stk_context_unref(&p->ctx);
	stk__free(p);
}

/* State shared by the caller of stk_pipeline_destroy_within and the thread that destroys the pipeline. The last of the two to leave frees it. */
struct ending {
	struct stk_pipeline *pipeline;
	pthread_mutex_t lock;
	pthread_cond_t done;
	int users;
	bool ended;
};

/* Leaves the shared state, and frees it if the other user has left already. Call with the lock held, which this function releases. */
static void leave_ending(struct ending *e)
{
	bool last = --e->users == 0;
	pthread_mutex_unlock(&e->lock);
	if (!last)
		return;
	pthread_cond_destroy(&e->done);
	pthread_mutex_destroy(&e->lock);
	stk__free(e);
}

static void *end_pipeline(void *arg)
{
	struct ending *e = arg;
	stk_pipeline_destroy(e->pipeline);
	pthread_mutex_lock(&e->lock);
	e->ended = true;
	pthread_cond_signal(&e->done);
	leave_ending(e);
	return NULL;
}

static struct ending *start_ending(struct stk_pipeline *p)
{
	struct ending *e = stk__calloc(1, sizeof *e);
	pthread_t thread;
	if (!e)
		return NULL;
	*e = (struct ending){.pipeline = p, .users = 2};
	pthread_mutex_init(&e->lock, NULL);
	stk__cond_init(&e->done);
	if (stk__thread_start(&thread, "stoker-end", end_pipeline, e, NULL) == STK_OK) {
		pthread_detach(thread);
		return e;
	}
	pthread_cond_destroy(&e->done);
	pthread_mutex_destroy(&e->lock);
	stk__free(e);
	return NULL;
}

enum stk_status stk_pipeline_destroy_within(struct stk_pipeline *p, int64_t ms, struct stk_error *err)
{
	if (!p || stk__context_check(p->ctx, NULL))
		return STK_OK;
	bool inside = stk__feed_is_calling(p) || stk__pool_is_worker(p->pool); /* a callback or worker must not wait for its own end */
	struct ending *e = inside ? NULL : start_ending(p);
	if (!e) {
		stk_pipeline_destroy(p);
		return STK_OK;
	}
	const int64_t end = stk__clock_deadline(ms);
	const struct timespec until = {end / 1000000000, end % 1000000000};
	pthread_mutex_lock(&e->lock);
	for (int late = 0; !e->ended && !late;)
		late = pthread_cond_timedwait(&e->done, &e->lock, &until);
	bool ended = e->ended;
	leave_ending(e);
	return ended ? STK_OK : stk__fail(err, STK_TIMEOUT, "a user's source or function, or a read, has not returned");
}
