/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the work of a group of operators on the GPU, for one sample, into jobs: infers the operators on the cores as usual, copies the host values that
 * they read to pinned memory, and allocates their outputs. Decodes a file here on the cores if the GPU cannot decode it or the cores have time. */
#include "codec/orient.h"
#include "exec/chain.h"
#include "exec/device.h"

#include "base/clock.h"
#include "exec/feed.h"
#include "exec/fetch.h"
#include "kernel/copy/copy.h"
#include "kernel/image/image.h"

#include <string.h>

static void no_memory(struct stk_error *err)
{
	if (stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's work on the GPU")) {
		/* stk__fail's result is not needed: callers report the failure by returning NULL */
	}
}

/* Returns memory for a job, or NULL if memory runs out. A worker takes memory for many jobs at a time, since all workers share the arena's lock. */
static void *take_job(struct stk_exec_worker *w, struct stk_device_batch *b, size_t size)
{
	enum { PIECE = 16 << 10 };
	size = (size + STK_CACHE_LINE - 1) / STK_CACHE_LINE * STK_CACHE_LINE;
	if (w->jobs.batch != b || w->jobs.use != b->current.use || w->jobs.left < size) {
		size_t piece = size > PIECE ? size : PIECE;
		pthread_mutex_lock(&b->lock);
		w->jobs.at = stk__arena_take(&b->jobs.arena, piece);
		pthread_mutex_unlock(&b->lock);
		w->jobs.batch = b;
		w->jobs.use = b->current.use;
		w->jobs.left = w->jobs.at ? piece : 0;
	}
	if (!w->jobs.at)
		return NULL;
	void *job = w->jobs.at;
	w->jobs.at += size;
	w->jobs.left -= size;
	return job;
}

/* Appends a job to the list of its step and sample, with `more` bytes of memory after it. Returns NULL and sets err if memory runs out. */
static struct stk_device_job *add_job_with(
	const struct stk_chain_run *run, int32_t step, enum stk_device_job_kind kind, size_t more, struct stk_error *err)
{
	static const size_t sizes[] = {[STK_DEVICE_JOB_UPLOAD] = offsetof(struct stk_device_job, made_by),
		[STK_DEVICE_JOB_TENSORS] = offsetof(struct stk_device_job, made_by),
		[STK_DEVICE_JOB_PASS] = offsetof(struct stk_device_job, decode),
		[STK_DEVICE_JOB_DECODE] = sizeof(struct stk_device_job)};
	struct stk_device_batch *b = run->record->device;
	struct stk_device_job *j = take_job(run->worker, b, sizes[kind] + more);
	if (!j) {
		no_memory(err);
		return NULL;
	}
	struct stk_device_job **first = &b->jobs.first[(size_t)step * (size_t)run->pipeline->config.batch_size + (size_t)run->sample];
	j->next = NULL;
	j->kind = kind;
	j->sample = run->sample;
	if (*first)
		(*first)->last->next = j;
	else
		*first = j;
	(*first)->last = j;
	return j;
}

static struct stk_device_job *add_job(const struct stk_chain_run *run, int32_t step, enum stk_device_job_kind kind, struct stk_error *err)
{
	return add_job_with(run, step, kind, 0, err);
}

/* Returns an address in `memory` for a sample of a value, or 0 with *err filled. If all samples of the value have one size, which the graph determines,
 * they are adjacent, so that one copy can move all of them; mirrors[value] is then the address of the first sample. */
static uintptr_t allocate_sample(const struct stk_chain_run *run, struct stk_device_memory *memory, _Atomic uintptr_t *mirrors,
	int32_t value, size_t bytes, struct stk_error *err)
{
	struct stk_device_batch *b = run->record->device;
	int64_t known = stk_desc_bytes(&run->pipeline->program->values[value].desc);
	if (known <= 0 || (size_t)known != bytes)
		return stk__device_memory_take(memory, bytes, err);
	uintptr_t mirror = atomic_load_explicit(&mirrors[value], memory_order_acquire);
	if (!mirror) {
		pthread_mutex_lock(&b->lock);
		mirror = atomic_load_explicit(&mirrors[value], memory_order_relaxed);
		if (!mirror)
			mirror = stk__device_memory_take(memory, bytes * (size_t)run->pipeline->config.batch_size, err);
		atomic_store_explicit(&mirrors[value], mirror, memory_order_release);
		pthread_mutex_unlock(&b->lock);
	}
	return mirror ? mirror + (size_t)run->sample * bytes : 0;
}

static enum stk_status upload(
	const struct stk_chain_run *run, int32_t step, const void *from, uintptr_t to, size_t bytes, struct stk_error *err)
{
	struct stk_device_job *j = add_job(run, step, STK_DEVICE_JOB_UPLOAD, err);
	if (!j)
		return STK_NO_MEMORY;
	j->from = (uintptr_t)from;
	j->to = to;
	j->bytes = bytes;
	return STK_OK;
}

/* Allocates GPU memory for a value of a sample, in the slot or in scratch memory. sent: the cores compute the value. Its samples in scratch memory are then
 * adjacent if the value has a known size, so that one copy can send all of them. */
static enum stk_status allocate_value(const struct stk_chain_run *run, int32_t value, bool sent, struct stk_error *err)
{
	struct stk_device_batch *b = run->record->device;
	struct stk_tensor *t = &run->worker->values[value];
	const struct stk_value *v = &run->pipeline->program->values[t->data ? value : stk__value_destination(run, value)];
	int64_t bytes = stk_desc_bytes(&t->desc);
	if (bytes < 0)
		return stk__fail(err, STK_LIMIT, "the output is too large to be addressed");
	if ((size_t)bytes > run->pipeline->config.memory_limit && !t->data)
		return stk__fail_memory_limit(err, (size_t)bytes, run->pipeline->config.memory_limit);
	if (v->slot < 0) {
		if (!stk__arena_charge(&run->worker->arena, (size_t)bytes))
			return stk__fail(err, STK_NO_MEMORY, "no memory on the GPU for a value of %lld bytes", (long long)bytes);
		t->data = (void *)(sent ? allocate_sample(run, &b->scratch, b->mirrors.sent, value, (size_t)bytes, err)
					: stk__device_memory_take(&b->scratch, (size_t)bytes, err));
		return t->data ? STK_OK : STK_NO_MEMORY;
	}
	if (!stk__slot_place(run->record->slot, v->slot, run->sample, &t->desc))
		return stk__fail(err, STK_NO_MEMORY, "out of memory on the GPU for an output of %lld bytes", (long long)bytes);
	t->data = run->record->slot->values[v->slot].samples[run->sample].data;
	return STK_OK;
}

enum stk_status stk__device_place(const struct stk_chain_run *run, int32_t value, struct stk_error *err)
{
	return allocate_value(run, value, false, err);
}

/* Copies a host tensor to pinned memory, and adds a job that copies it from there to the address `to` on the GPU. */
static enum stk_status send(
	const struct stk_chain_run *run, int32_t step, int32_t value, const struct stk_tensor *host, uintptr_t to, struct stk_error *err)
{
	struct stk_device_batch *b = run->record->device;
	size_t bytes = (size_t)stk_desc_bytes(&host->desc);
	void *staged = (void *)allocate_sample(run, &b->staging, b->mirrors.staged, value, bytes, err);
	if (!staged)
		return STK_NO_MEMORY;
	memcpy(staged, host->data, bytes);
	return upload(run, step, staged, to, bytes, err);
}

/* Adds jobs that copy to the GPU the host values that a group's first operator reads, and makes the worker's values point to the copies. host_data: receives
 * the original addresses, for restore_inputs. */
static enum stk_status send_inputs(
	const struct stk_chain_run *run, const struct stk_program_node *head, int32_t step, void **host_data, struct stk_error *err)
{
	const struct stk_program *g = run->pipeline->program;
	struct stk_device_batch *b = run->record->device;
	enum stk_status s = STK_OK;
	for (int32_t k = 0; k < head->node->n_inputs; k++)
		host_data[k] = run->worker->values[head->inputs[k]].data;
	for (int32_t k = 0; k < head->node->n_inputs && s == STK_OK; k++) {
		int32_t value = head->inputs[k];
		struct stk_tensor *t = &run->worker->values[value];
		if (g->values[value].on_gpu || stk__op_host_input(head->def, k) ||
			t->data != host_data[k]) /* on the GPU, read on the cores, or already sent for an earlier input */
			continue;
		uintptr_t to = allocate_sample(run, &b->scratch, b->mirrors.sent, value, (size_t)stk_desc_bytes(&t->desc), err);
		s = to ? send(run, step, value, t, to, err) : STK_NO_MEMORY;
		t->data = (void *)to;
	}
	return s;
}

static void restore_inputs(const struct stk_chain_run *run, const struct stk_program_node *head, void *const *host_data)
{
	for (int32_t k = 0; k < head->node->n_inputs; k++)
		run->worker->values[head->inputs[k]].data = host_data[k];
}

/* ---- files ---- */

/* Returns pinned memory for a file of `size` bytes, or NULL with file_buffer_error filled. user: the worker, which allocates a piece of memory for several
 * files at a time. With many workers and small batches the pieces are smaller; otherwise most of the batch's memory would be unused ends of pieces. */
static uint8_t *file_memory(void *user, size_t size)
{
	enum { MOST = 2 << 20, LEAST = 256 << 10, FILE_BYTES = 128 << 10, SLACK = 64 };
	struct stk_exec_worker *w = user;
	if (w->file_buffer_left < size + SLACK) {
		const struct stk_pipeline *p = w->reading->record->pipeline;
		size_t share = (size_t)p->config.batch_size * FILE_BYTES / (size_t)p->crew.n, piece = share < LEAST  ? LEAST
												      : share > MOST ? MOST
														     : share;
		piece = size + SLACK > piece ? size + SLACK : piece;
		w->file_buffer = (uint8_t *)stk__device_memory_take(&w->reading->files, piece, &w->file_buffer_error);
		w->file_buffer_left = w->file_buffer ? piece : 0;
	}
	return w->file_buffer;
}

void stk__file_buffer_begin(struct stk_exec_worker *w, struct stk_device_batch *b, struct stk_request *q)
{
	if (w->reading != b || w->reading_use != b->current.use)
		w->file_buffer_left = 0;
	w->reading = b;
	w->reading_use = b->current.use;
	w->file_buffer_error.code = STK_OK;
	q->allocate = file_memory;
	q->allocate_user = w;
}

const uint8_t *stk__file_buffer_end(struct stk_exec_worker *w, size_t used)
{
	enum { ALIGN = 128 }; /* the 64 bytes after a file must be readable */
	const uint8_t *at = w->file_buffer;
	size_t size = (used + 64 + ALIGN - 1) / ALIGN * ALIGN;
	size = size < w->file_buffer_left ? size : w->file_buffer_left;
	w->file_buffer += size;
	w->file_buffer_left -= size;
	return at;
}

/* Sets *h to the header of a JPEG file. Returns false if it is damaged. */
static bool header_of(const struct stk_chain_run *run, const struct stk_encoded *e, struct stk_jpeg_header *h)
{
	const struct stk_jpeg_header *peeked = stk__jpeg_peeked(run->worker->tools.decoder, e->info);
	if (!peeked)
		return stk__jpeg_header_parse(e->data, e->size, h, NULL) == STK_OK;
	*h = *peeked;
	return true;
}

/* Returns whether the GPU can decode the window that the pass reads. If so, fills `d`, except for the address of the file. */
static bool gpu_can_decode(
	const struct stk_chain_run *run, const struct stk_encoded *e, const struct stk_pass *pass, struct stk_decode_job *d)
{
	struct stk_rect seen = stk__pass_source(pass);
	if (e->denom > 1 || !seen.w || !seen.h || !header_of(run, e, &d->header))
		return false;
	d->orientation = e->orient ? d->header.orientation : 1;
	d->window = stk__orient_rect(d->orientation, d->header.width, d->header.height, seen);
	d->size = e->size;
	d->type = e->type;
	d->need = (struct stk_jpeg_gpu_limits){0};
	struct stk_jpeg_gpu_item item = {.data = e->data,
		.size = e->size,
		.header = &d->header,
		.window = d->window,
		.type = e->type,
		.max_scans = run->worker->tools.limits.max_scans,
		.orientation = d->orientation,
		.pass = pass};
	return stk__jpeg_gpu_need(&item, &d->need);
}

/* Returns whether the cores could certainly decode the file within memory_limit. Files that are close to the limit go to the cores, which refuse those that
 * need more. So the same files are refused with and without a GPU. */
static bool within_limit(const struct stk_chain_run *run, const struct stk_decode_job *d, const struct stk_pass *pass)
{
	size_t part = (size_t)d->window.w * (size_t)d->window.h * (d->type == STK_GRAY ? 1 : 3),
	       left = stk__arena_left(&run->worker->arena);
	size_t decode = stk__jpeg_memory(&d->header) + (d->orientation > 1 ? part : 0);
	/* the pass then fits too: its scratch memory is less than 16 times as large as these two together */
	if (part + decode <= left / 16)
		return true;
	size_t scratch = stk__pass_scratch(pass);
	return part + (decode > scratch ? decode : scratch) + STK_ARENA_SLACK <= left;
}

static const uint8_t *keep_file(struct stk_device_batch *b, const struct stk_encoded *e, struct stk_error *err)
{
	void *to = (void *)stk__device_memory_take(&b->files, e->size, err);
	return to ? memcpy(to, e->data, e->size) : NULL;
}

/* The processor that decodes a file for an operator on the GPU. */
enum side {
	GPU,
	CORES_HAVE_TIME, /* the GPU could decode it too */
	CORES_MUST,
};

static enum stk_status describe_decode(
	const struct stk_chain_run *run, struct stk_pass_group *g, int32_t step, enum side *side, struct stk_error *err)
{
	struct stk_encoded e;
	g->calls[0].def->encoded(&g->calls[0], &e);
	struct stk_decode_job d;
	bool can = !run->record->samples[run->sample].on_cores && gpu_can_decode(run, &e, &g->pass, &d) && within_limit(run, &d, &g->pass);
	bool cores = can && stk__decode_side_is_cores(run->pipeline, run->record->device, d.header.process == STK_JPEG_PROGRESSIVE, e.size);
	*side = !can ? CORES_MUST : cores ? CORES_HAVE_TIME : GPU;
	if (*side != GPU)
		return STK_OK;
	struct stk_sample_state *s = &run->record->samples[run->sample];
	const uint8_t *file = stk__fetch_is_pinned(s, e.data) ? e.data : keep_file(run->record->device, &e, err);
	struct stk_device_job *j = file ? add_job(run, step, STK_DEVICE_JOB_DECODE, err) : NULL;
	if (!j)
		return STK_NO_MEMORY;
	d.file = file;
	stk__fetch_keep_pinned(s, e.data, file);
	j->decode = d;
	j->pass = g->pass;
	j->dst = stk__frames_of(&run->worker->values[g->value]).image;
	STK_COUNT(run->pipeline, decodes, 1);
	STK_COUNT(run->pipeline, gpu_decodes, 1);
	return STK_OK;
}

/* Returns pinned memory for a result that the cores compute for the GPU, or NULL with *err filled. spare: the GPU could decode the file. The results for
 * these files are adjacent if the cores decode the whole batch or many of all files, so that few copies move them to the GPU. */
static void *take_result(const struct stk_chain_run *run, int32_t value, size_t bytes, bool spare, struct stk_error *err)
{
	enum { MANY = 10 }; /* results are adjacent if the cores decode at least this percentage of the files */
	struct stk_device_batch *b = run->record->device;
	bool adjacent = spare && (b->current.side == STK_BATCH_BY_CORES || stk__decode_side_share(run->pipeline) >= MANY);
	return (void *)(adjacent ? allocate_sample(run, &b->staging, b->mirrors.staged, value, bytes, err)
				 : stk__device_memory_take(&b->staging, bytes, err));
}

static int64_t thread_cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Runs a pass on the cores over a file that the GPU could decode. Measures the time, which later decisions use (decode_side.h). */
static enum stk_status decode_on_idle_core(
	const struct stk_chain_run *run, struct stk_pass_group *g, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_pipeline *p = run->pipeline;
	int64_t begin = stk__clock_ns(), cpu = thread_cpu_ns();
	enum stk_status s = stk__pass_group_cores(run, g, out, err);
	int64_t end = stk__clock_ns();
	STK_COUNT(p, core_decodes, 1);
	STK_COUNT(p, core_decode_ns, end - begin);
	STK_COUNT(p, core_decode_cpu_ns, thread_cpu_ns() - cpu);
	stk__trace_add(p->trace, (int32_t)(run->worker - p->crew.workers),
		&(struct stk_trace_span){.name = "decode in spare time",
			.kind = STK_SPAN_CHAIN,
			.batch = run->record->k,
			.first = run->sample,
			.count = 1,
			.level = (int16_t)run->level,
			.stage = (int16_t)run->chain,
			.begin_ns = begin,
			.end_ns = end});
	return s;
}

/* Computes the group on the cores, and copies the result to the GPU through pinned memory. The counter on_cores counts all work that was assigned to the GPU
 * but done on the cores. spare: whether the GPU could decode the file. */
static enum stk_status run_on_cores(
	const struct stk_chain_run *run, struct stk_pass_group *g, int32_t step, bool spare, struct stk_error *err)
{
	struct stk_tensor out = run->worker->values[g->value];
	size_t bytes = (size_t)stk_desc_bytes(&out.desc);
	uintptr_t to = (uintptr_t)out.data;
	STK_COUNT(run->pipeline, on_cores, 1);
	out.data = take_result(run, g->value, bytes, spare, err);
	if (!out.data)
		return STK_NO_MEMORY;
	enum stk_status s = spare ? decode_on_idle_core(run, g, &out, err) : stk__pass_group_cores(run, g, &out, err);
	return s ? s : upload(run, step, out.data, to, bytes, err);
}

/* ---- groups ---- */

/* Finds the job that makes the pass's input image, if only this pass reads that image and the pass's thread blocks can compute its pixels. The image is then
 * never stored. Returns NULL if this is not possible. */
static struct stk_device_job *find_maker(const struct stk_chain_run *run, const struct stk_group *group, const struct stk_device_job *pass)
{
	if (group->image_step < 0)
		return NULL;
	size_t batch = (size_t)run->pipeline->config.batch_size;
	struct stk_device_job *j = run->record->device->jobs.first[(size_t)group->image_step * batch + (size_t)run->sample];
	bool makes = j && !j->next && j->kind == STK_DEVICE_JOB_TENSORS && j->job->dst == (const uint8_t *)pass->src.data &&
		     stk__image_makes(j->job, pass->src.width, pass->src.height) &&
		     stk__pass_gpu_takes_made(&pass->pass, &pass->src, &pass->dst);
	return makes ? j : NULL;
}

static enum stk_status add_pass(const struct stk_chain_run *run, const struct stk_pass_group *g, const struct stk_frames *src,
	const struct stk_frames *dst, struct stk_error *err)
{
	const struct stk_pass *pass = &g->pass;
	if (!stk__pass_gpu_supports(pass))
		return stk__fail(err, STK_UNSUPPORTED,
			"this has no GPU version for images of %s with %d channels yet; place it on the cores",
			stk_dtype_name((enum stk_dtype)pass->in_dtype), pass->in_c);
	if (!pass->w || !pass->h)
		return STK_OK;
	for (int32_t f = 0; f < dst->count; f++) {
		struct stk_device_job *j = add_job(run, g->group->step, STK_DEVICE_JOB_PASS, err);
		if (!j)
			return STK_NO_MEMORY;
		j->pass = *pass;
		j->src = src->image;
		j->dst = dst->image;
		j->src.data = (char *)j->src.data + (pass->first_frame + f) * src->stride;
		j->dst.data = (char *)j->dst.data + f * dst->stride;
		j->made_by = find_maker(run, g->group, j);
		if (j->made_by) {
			j->made_by->makes = true;
			STK_COUNT(run->pipeline, images_in_passes, 1);
		}
	}
	return STK_OK;
}

static enum stk_status describe_pass(const struct stk_chain_run *run, struct stk_pass_group *g, struct stk_error *err)
{
	struct stk_frames dst = stk__frames_of(&run->worker->values[g->value]);
	if (!g->planes)
		return add_pass(run, g, &g->src, &dst, err);
	for (int32_t c = 0; c < g->src.image.channels; c++) {
		enum stk_status s = c ? stk__pass_group_lower(g, c, err) : STK_OK;
		struct stk_frames from = stk__frames_plane(&g->src, c, 1), to = stk__frames_plane(&dst, c, g->pass.c);
		if (s || (s = add_pass(run, g, &from, &to, err)))
			return s;
	}
	return STK_OK;
}

/* If the image that the group reads is in host memory, adds a job that copies it to the GPU, and makes the pass read the copy. The value itself stays in
 * host memory, since it may also be an argument. */
static enum stk_status send_image(const struct stk_chain_run *run, struct stk_pass_group *g, struct stk_error *err)
{
	int32_t value = run->pipeline->program->nodes[g->group->nodes[0]].inputs[0];
	const struct stk_tensor *in = &g->calls[0].in[0];
	if (run->pipeline->program->values[value].on_gpu)
		return STK_OK;
	uintptr_t to = stk__device_memory_take(&run->record->device->scratch, (size_t)stk_desc_bytes(&in->desc), err);
	if (!to)
		return STK_NO_MEMORY;
	g->src.image.data = (void *)(to + ((uintptr_t)g->src.image.data - (uintptr_t)in->data));
	return send(run, g->group->step, value, in, to, err);
}

static enum stk_status describe_pass_group(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	struct stk_pass_group g;
	enum side side;
	enum stk_status s = stk__pass_group_infer(run, group, &g, err);
	if (s || (s = stk__device_place(run, g.value, err)))
		return s;
	STK_COUNT(run->pipeline, passes, 1);
	if (!g.calls[0].def->fetch) {
		s = send_image(run, &g, err);
		return s ? s : describe_pass(run, &g, err);
	}
	s = describe_decode(run, &g, group->step, &side, err);
	if (s || side == GPU)
		return s;
	return run_on_cores(run, &g, group->step, side == CORES_HAVE_TIME, err);
}

/* ---- operators on tensors ---- */

/* Receives an operator's jobs and stores copies of them, with their constants, until the batch's step runs. */
struct kept_jobs {
	struct stk_jobs jobs;
	const struct stk_chain_run *run;
	int32_t step;
};

static enum stk_status keep_job(struct stk_jobs *jobs, const struct stk_job *job, struct stk_error *err)
{
	const struct kept_jobs *to = (const struct kept_jobs *)jobs;
	enum { ALIGN = 16 };
	size_t head = (offsetof(struct stk_device_job, made_by) + ALIGN - 1) / ALIGN * ALIGN,
	       constants = (sizeof *job + ALIGN - 1) / ALIGN * ALIGN;
	if (job->n > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT,
			"the GPU works on tensors of up to %d values, not of %lld; place this operator on the cores", STK_JOB_MOST,
			(long long)job->n);
	struct stk_device_job *j = add_job_with(to->run, to->step, STK_DEVICE_JOB_TENSORS, ALIGN + constants + job->constant_bytes, err);
	if (!j)
		return STK_NO_MEMORY;
	j->job = (struct stk_job *)(void *)((uint8_t *)j + head);
	stk__job_clone(j->job, job);
	j->index = 0;
	j->makes = false;
	if (job->constant_bytes)
		j->job->constants = memcpy((uint8_t *)j->job + constants, job->constants, job->constant_bytes);
	return STK_OK;
}

/* Describes an output that is a view of an input. Copies a view of a host value to the GPU. Copies a view of a GPU value only if it is an output of the
 * graph; otherwise the view refers to the input's data, since scratch memory and the data of user sources live as long as the batch. */
static enum stk_status describe_view(const struct stk_chain_run *run, const struct stk_group *group, const struct stk_tensor *view,
	bool host, int32_t value, struct stk_error *err)
{
	const struct stk_tensor from = *view;
	int32_t slot = run->pipeline->program->values[value].slot;
	struct stk_tensor *output = slot < 0 ? NULL : &run->record->slot->values[slot].samples[run->sample];
	/* the addresses are equal if a branch has written a merged value to its final address */
	bool in_place = !output || !run->pipeline->program->values[value].is_output || from.data == output->data;
	if (!host && in_place) {
		if (output)
			*output = from;
		return STK_OK;
	}
	enum stk_status s = allocate_value(run, value, host, err);
	if (s)
		return s;
	uintptr_t to = (uintptr_t)run->worker->values[value].data;
	if (host)
		return send(run, group->step, value, &from, to, err);
	struct kept_jobs kept_jobs = {{keep_job, &run->worker->arena}, run, group->step};
	return stk__job_copy_bytes(&kept_jobs.jobs, from.data, (void *)to, stk_desc_bytes(&from.desc), err);
}

/* Runs an operator on the cores; all its inputs are host values. Adds jobs that copy its outputs to the GPU, except an output that the operator writes on
 * the GPU itself, and outputs that stay in host memory. */
static enum stk_status run_single_on_cores(
	const struct stk_chain_run *run, const struct stk_program_node *n, struct stk_call *call, int32_t step, struct stk_error *err)
{
	struct stk_tensor *out = stk__arena_take(&run->worker->arena, (size_t)call->n_out * sizeof *out);
	const int32_t sent = call->gpu ? 1 : 0; /* index of the first output that is copied */
	if (!out)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	for (int32_t k = 0; k < call->n_out; k++) {
		const bool on_host = stk__op_host_output(n->def, k);
		enum stk_status s =
			on_host ? stk__value_place(run, n->first_value + k, err) : allocate_value(run, n->first_value + k, k >= sent, err);
		out[k] = call->out[k];
		if (k >= sent && !on_host)
			out[k].data = stk__arena_take(&run->worker->arena, (size_t)stk_desc_bytes(&out[k].desc));
		if (s || !out[k].data)
			return s ? s : stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	}
	const struct stk_tensor *gpu_outputs = call->out;
	call->out = out;
	STK_COUNT(run->pipeline, on_cores, !call->gpu);
	enum stk_status s = stk__op_run(call, err);
	for (int32_t k = sent; k < call->n_out && s == STK_OK; k++)
		if (!stk__op_host_output(n->def, k))
			s = send(run, step, n->first_value + k, &out[k], (uintptr_t)gpu_outputs[k].data, err);
	return s;
}

/* The access to the GPU for an operator that decodes videos. */
struct gpu_call {
	struct stk_gpu_call call;
	struct kept_jobs jobs;
};

static void *take_on_gpu(void *user, size_t size, struct stk_error *err)
{
	const struct stk_chain_run *run = user;
	return (void *)stk__device_memory_take(&run->record->device->scratch, size, err);
}

static void set_gpu_call(const struct stk_chain_run *run, const struct stk_group *group, struct stk_call *call, struct gpu_call *gpu_call)
{
	const struct stk_program *g = run->pipeline->program;
	const struct stk_program_node *n = &g->nodes[group->nodes[0]];
	if (!(n->def->flags & STK_OP_NVDEC) || !run->pipeline->parts.device->nvdec)
		return;
	gpu_call->jobs = (struct kept_jobs){{keep_job, &run->worker->arena}, run, group->step};
	gpu_call->call = (struct stk_gpu_call){.nvdec = run->pipeline->parts.device->nvdec,
		.jobs = &gpu_call->jobs.jobs,
		.now = g->values[stk__value_destination(run, n->first_value)].slot < 0, /* false if the value is in the slot, which the
		                                                                         * consumer's streams may still read */
		.take = take_on_gpu,
		.user = (void *)(uintptr_t)run};
	call->gpu = &gpu_call->call;
}

static bool all_host(const struct stk_chain_run *run, const struct stk_program_node *n)
{
	for (int32_t k = 0; k < n->node->n_inputs; k++)
		if (run->pipeline->program->values[n->inputs[k]].on_gpu)
			return false;
	return true;
}

static enum stk_status describe_call(
	const struct stk_chain_run *run, const struct stk_group *group, struct stk_call *call, bool host, struct stk_error *err)
{
	const struct stk_program_node *n = &run->pipeline->program->nodes[group->nodes[0]];
	if (host && !n->def->lower_jobs)
		return run_single_on_cores(run, n, call, group->step, err);
	if (!n->def->lower_jobs)
		return stk__fail(err, STK_UNSUPPORTED, "%s has no GPU version yet; place it on the cores (device=\"cpu\")", n->def->name);
	void *host_data[STK_MAX_INPUTS];
	enum stk_status s = STK_OK;
	/* Places the outputs first: their addresses may depend on a predicate, which may be one of the inputs. */
	for (int32_t k = 0; k < call->n_out && s == STK_OK; k++)
		s = stk__device_place(run, n->first_value + k, err);
	if (s)
		return s;
	s = send_inputs(run, n, group->step, host_data, err);
	struct stk_tensor *in = (struct stk_tensor *)call->in; /* this worker's copies of the tensors, so they may be changed */
	for (int32_t k = 0; k < call->n_in; k++)
		in[k].data = stk__op_host_input(n->def, k)
				     ? host_data[k]
				     : run->worker->values[n->inputs[k]].data; /* a value may be a host input and a GPU input at once */
	struct kept_jobs kept_jobs = {{keep_job, &run->worker->arena}, run, group->step};
	if (s == STK_OK)
		s = call->def->lower_jobs(call, &kept_jobs.jobs, err);
	restore_inputs(run, n, host_data);
	return s;
}

/* Returns whether an output that is a view refers to host memory. An operator may have inputs in host memory and on the GPU, so the input that contains the
 * view decides. */
static bool is_host_view(
	const struct stk_chain_run *run, const struct stk_program_node *n, const struct stk_call *call, const struct stk_tensor *view)
{
	if (call->gpu)
		return false;
	for (int32_t k = 0; k < call->n_in; k++) {
		const struct stk_tensor *in = &call->in[k];
		size_t bytes = (size_t)stk_desc_bytes(&in->desc);
		if (in->data && (uintptr_t)view->data - (uintptr_t)in->data < (bytes ? bytes : 1))
			return !run->pipeline->program->values[n->inputs[k]].on_gpu && !stk__feed_on_gpu(run->record, n->inputs[k]);
	}
	return all_host(run, n);
}

static enum stk_status describe_single(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	const struct stk_program_node *n = &run->pipeline->program->nodes[group->nodes[0]];
	struct stk_call call;
	struct gpu_call set_call;
	enum stk_status s = stk__call_prepare(run, group->nodes[0], &call, err);
	if (s)
		return s;
	set_gpu_call(run, group, &call, &set_call);
	if ((s = stk__call_infer(run, group->nodes[0], &call, err)))
		return s;
	bool views = true;
	for (int32_t k = 0; k < call.n_out; k++)
		views &= call.out[k].data != NULL;
	if (!views)
		return describe_call(run, group, &call, all_host(run, n), err);
	for (int32_t k = 0; k < call.n_out && s == STK_OK; k++)
		s = describe_view(run, group, &call.out[k], is_host_view(run, n, &call, &call.out[k]), n->first_value + k, err);
	return s;
}

/* ---- operators that run for each frame ---- */

/* Describes the jobs of one frame, over inputs on the GPU. */
static enum stk_status describe_frame(
	const struct stk_chain_run *frame, const struct stk_group *group, struct stk_tensor *out, struct stk_error *err)
{
	int32_t node = group->nodes[0];
	struct stk_call call;
	struct stk_pass_group g;
	const struct stk_group pass = {.nodes = &node, .count = 1, .pass = true, .step = group->step, .image_step = -1};
	enum stk_status s = stk__call_prepare(frame, node, &call, err);
	if (s || (s = stk__call_infer(frame, node, &call, err)))
		return s;
	if (stk__by_frame_passes(&call)) {
		if ((s = stk__pass_group_infer(frame, &pass, &g, err)))
			return s;
		frame->worker->values[g.value] = *out;
		STK_COUNT(frame->pipeline, passes, 1);
		return describe_pass(frame, &g, err);
	}
	if (!call.def->lower_jobs)
		return stk__fail(err, STK_UNSUPPORTED, "%s has no GPU version yet; place it on the cores (device=\"cpu\")", call.def->name);
	call.out = out;
	struct kept_jobs kept_jobs = {{keep_job, &frame->worker->arena}, frame, group->step};
	return call.def->lower_jobs(&call, &kept_jobs.jobs, err);
}

/* Runs the frames on the cores, and copies the result to the output's address on the GPU. All inputs must be host values. */
static enum stk_status frames_on_cores(
	const struct stk_chain_run *run, const struct stk_group *group, int32_t value, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_tensor host = {.desc = out->desc, .data = stk__arena_take(&run->worker->arena, (size_t)stk_desc_bytes(&out->desc))};
	if (!host.data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	STK_COUNT(run->pipeline, on_cores, 1);
	enum stk_status s = stk__by_frame_cores(run, group->nodes[0], &host, err);
	return s ? s : send(run, group->step, value, &host, (uintptr_t)out->data, err);
}

static enum stk_status describe_frames(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	const struct stk_program_node *n = &run->pipeline->program->nodes[group->nodes[0]];
	struct stk_tensor *value = &run->worker->values[n->first_value], out = {0};
	struct stk_chain_run frame = *run;
	int64_t frames;
	enum stk_status s = stk__by_frame_infer(run, group->nodes[0], &out.desc, &frames, err);
	*value = out;
	if (s || (s = stk__device_place(run, n->first_value, err)))
		return s;
	out = *value;
	if (all_host(run, n) && !n->def->lower_jobs && !n->def->lower) {
		s = frames_on_cores(run, group, n->first_value, &out, err);
	} else {
		void *host_data[STK_MAX_INPUTS];
		s = send_inputs(run, n, group->step, host_data, err);
		for (int64_t k = 0; k < frames && s == STK_OK; k++) {
			struct stk_tensor part = stk__by_frame_part(&out, k);
			const struct stk_desc common = part.desc;
			frame.frame = (int32_t)k + 1;
			frame.common = &common;
			s = describe_frame(&frame, group, &part, err);
		}
		restore_inputs(run, n, host_data);
	}
	*value = out;
	return s;
}

void stk__device_skip(const struct stk_chain_run *run, const struct stk_group *group)
{
	run->record->device->jobs.first[(size_t)group->step * (size_t)run->pipeline->config.batch_size + (size_t)run->sample] = NULL;
}

enum stk_status stk__device_describe(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	struct stk_device_batch *b = run->record->device;
	b->jobs.first[(size_t)group->step * (size_t)run->pipeline->config.batch_size + (size_t)run->sample] = NULL;
	atomic_store(&b->jobs.pending[run->sample], true);
	if (run->pipeline->program->nodes[group->nodes[0]].node->by_frame)
		return describe_frames(run, group, err);
	bool serves = group->pass && stk__pass_serves(run, group->nodes[0]);
	if (!group->pass || (group->count == 1 && !serves))
		return describe_single(run, group, err);
	return serves ? describe_pass_group(run, group, err) : stk__pass_group_refuse(run, group, err);
}
