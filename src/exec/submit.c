/* SPDX-License-Identifier: Apache-2.0
 *
 * Submits the jobs of a record's level to the GPU: first the staged values, then the files of all steps together, then step after step.
 *
 * All batches share a few streams. Staged values are copied on one of the stage's streams; files, and the steps that follow them, run on decoder
 * streams. A stream waits for another stream only if the other stream has work that its own work needs. */
#include "exec/device.h"

#include <stdlib.h>
#include <string.h>

/* ---- the jobs of the level ---- */

/* A function that is called for each job of a step, if the job's sample was described since the last submission and was not dropped. */
typedef enum stk_status job_fn(
	struct stk_pipeline *p, struct stk_device_batch *b, int32_t step, struct stk_device_job *j, struct stk_error *err);

static enum stk_status for_each_job(struct stk_pipeline *p, struct stk_record *r, int32_t step, job_fn *f, struct stk_error *err)
{
	struct stk_device_batch *b = r->device;
	size_t batch = (size_t)p->config.batch_size;
	for (int32_t i = 0; i < r->count; i++) {
		if (r->samples[i].dropped || !atomic_load_explicit(&b->jobs.pending[i], memory_order_relaxed))
			continue;
		for (struct stk_device_job *j = b->jobs.first[(size_t)step * batch + (size_t)i]; j; j = j->next) {
			enum stk_status s = f(p, b, step, j, err);
			if (s)
				return s;
		}
	}
	return STK_OK;
}

/* ---- uploads ---- */

static int by_address(const void *a, const void *b)
{
	const struct stk_device_job *x = *(struct stk_device_job *const *)a, *y = *(struct stk_device_job *const *)b;
	return x->to < y->to ? -1 : x->to > y->to;
}

static enum stk_status collect_upload(
	struct stk_pipeline *p, struct stk_device_batch *b, int32_t step, struct stk_device_job *j, struct stk_error *err)
{
	(void)p, (void)step;
	if (j->kind != STK_DEVICE_JOB_UPLOAD)
		return STK_OK;
	if (b->uploads.n == b->uploads.capacity) {
		int32_t capacity = b->uploads.capacity ? 2 * b->uploads.capacity : 256;
		void *more = stk__realloc(b->uploads.jobs, (size_t)capacity * sizeof *b->uploads.jobs);
		if (!more)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for the copies of a batch");
		b->uploads.jobs = more;
		b->uploads.capacity = capacity;
	}
	b->uploads.jobs[b->uploads.n++] = j;
	return STK_OK;
}

/* Copies the staged values, and merges copies whose sources and destinations are both contiguous. Contiguous pieces always belong to one allocation: pieces
 * of staging memory do not touch, so only samples of one value are contiguous, in that value's mirror; a value with a mirror has a known size, and so a
 * region of the slot or of scratch memory that touches no other region. A value that several groups read is copied once. */
static enum stk_status upload(struct stk_pipeline *p, struct stk_device_batch *b, struct stk_error *err)
{
	if (b->uploads.n)
		qsort(b->uploads.jobs, (size_t)b->uploads.n, sizeof *b->uploads.jobs, by_address);
	for (int32_t i = 0, j; i < b->uploads.n; i = j) {
		const struct stk_device_job *first = b->uploads.jobs[i];
		size_t bytes = first->bytes;
		for (j = i + 1; j < b->uploads.n; j++) {
			const struct stk_device_job *last = b->uploads.jobs[j - 1], *next = b->uploads.jobs[j];
			if (next->to == last->to && next->from == last->from && next->bytes == last->bytes)
				continue;
			if (next->to != first->to + bytes || next->from != first->from + bytes)
				break;
			bytes += next->bytes;
		}
		enum stk_status s =
			bytes ? stk__gpu_upload(p->parts.device->dev, b->stream, first->to, (void *)first->from, bytes, err) : STK_OK;
		if (s)
			return s;
	}
	return STK_OK;
}

/* ---- files ---- */

static enum stk_status collect_decode(
	struct stk_pipeline *p, struct stk_device_batch *b, int32_t step, struct stk_device_job *j, struct stk_error *err)
{
	(void)p, (void)step, (void)err;
	if (j->kind == STK_DEVICE_JOB_DECODE)
		b->decodes.jobs[b->decodes.n++] = j;
	else
		b->jobs.steps |= j->kind != STK_DEVICE_JOB_UPLOAD;
	return STK_OK;
}

static int by_file(const void *a, const void *b)
{
	const struct stk_device_job *x = *(struct stk_device_job *const *)a, *y = *(struct stk_device_job *const *)b;
	return x->decode.file < y->decode.file ? -1 : x->decode.file > y->decode.file;
}

static enum stk_status decode(struct stk_device_batch *b, struct stk_error *err)
{
	for (int32_t i = 0; i < b->decodes.n; i++) {
		const struct stk_device_job *j = b->decodes.jobs[i];
		b->decodes.items[i] = (struct stk_jpeg_gpu_item){.data = j->decode.file,
			.size = j->decode.size,
			.header = &j->decode.header,
			.window = j->decode.window,
			.type = j->decode.type,
			.orientation = j->decode.orientation,
			.pass = &j->pass,
			.dst = j->dst,
			.need = j->decode.need};
	}
	return stk__jpeg_gpu_submit(b->decodes.jpeg, b->decodes.items, b->decodes.n, err);
}

/* ---- steps ---- */

/* Returns n and a quarter more, so that the capacity probably suffices for the next batch too. */
static uint32_t room_for(uint32_t n)
{
	return n + n / 4 < n ? n : n + n / 4;
}

void stk__device_tables_free(struct stk_gpu_device *dev, struct stk_device_tables *t)
{
	stk__pass_gpu_destroy(t->passes);
	stk__job_gpu_destroy(t->tensor_jobs);
	stk__gpu_host_retire(dev, t->host, t->host_bytes);
	stk__gpu_host_retire(dev, t->flags, t->tensor_limits.jobs * sizeof *t->flags);
	stk__gpu_retire(dev, t->device, t->device_bytes);
	stk__free(t->error);
	*t = (struct stk_device_tables){0};
}

static enum stk_status need(
	struct stk_pipeline *p, struct stk_device_batch *b, int32_t step, struct stk_device_job *j, struct stk_error *err)
{
	(void)p, (void)step, (void)err;
	if (j->kind == STK_DEVICE_JOB_PASS)
		stk__pass_gpu_need(&j->pass, &b->need.pass);
	else if (j->kind == STK_DEVICE_JOB_TENSORS)
		stk__job_gpu_need(j->job, &b->need.tensors);
	return STK_OK;
}

/* Returns the address of the first byte of a source that a job reads, since j->src may be an address outside of the source. Returns 0 if the job reads
 * nothing of it. */
static uintptr_t first_byte_read(const struct stk_job *j, int32_t source)
{
	uintptr_t at = (uintptr_t)j->src[source];
	for (int32_t d = 0; d < j->ndim && at; d++)
		at = j->dim[d].begin < j->dim[d].end ? at + (uintptr_t)(j->dim[d].begin * j->dim[d].src[source]) : 0;
	return at;
}

/* Returns whether kernels may access the addresses of a job. Only called if memory is filled with a byte (STOKER_POISON), to find mistakes. */
static bool is_reachable(struct stk_gpu_device *dev, const struct stk_device_job *j)
{
	if (j->kind == STK_DEVICE_JOB_PASS) {
		bool reads = !j->made_by && j->src.width && j->src.height, writes = j->dst.width && j->dst.height;
		return (!reads || stk__gpu_reaches(dev, (uintptr_t)j->src.data)) &&
		       (!writes || stk__gpu_reaches(dev, (uintptr_t)j->dst.data));
	}
	for (int32_t k = 0; k < STK_JOB_SOURCES && j->kind == STK_DEVICE_JOB_TENSORS; k++) {
		uintptr_t at = first_byte_read(j->job, k);
		if (at && !stk__gpu_reaches(dev, at))
			return false;
	}
	return j->kind != STK_DEVICE_JOB_TENSORS || j->makes || stk__gpu_reaches(dev, (uintptr_t)j->job->dst);
}

static enum stk_status add(
	struct stk_pipeline *p, struct stk_device_batch *b, int32_t step, struct stk_device_job *j, struct stk_error *err)
{
	struct stk_device_tables *t = &b->tables[step];
	bool ok = true;
	if (p->crew.poison >= 0 && !is_reachable(p->parts.device->dev, j))
		return stk__fail(
			err, STK_CUDA, "the work of a step uses memory that the GPU cannot reach: a mistake in Stoker, please report it");
	if (j->kind == STK_DEVICE_JOB_PASS && j->made_by)
		ok = stk__pass_gpu_add_made(t->passes, &j->pass, &j->src, j->made_by->maker, &j->dst);
	else if (j->kind == STK_DEVICE_JOB_PASS)
		ok = stk__pass_gpu_add(t->passes, &j->pass, &j->src, 0, 0, &j->dst);
	else if (j->kind == STK_DEVICE_JOB_TENSORS && j->makes)
		ok = stk__job_gpu_add_maker(t->tensor_jobs, j->job, &j->maker);
	else if (j->kind == STK_DEVICE_JOB_TENSORS)
		ok = stk__job_gpu_add(t->tensor_jobs, j->job, &j->index);
	return ok ? STK_OK : stk__fail(err, STK_LIMIT, "the work of one step for a batch does not fit on the GPU: make batches smaller");
}

static enum stk_status take_tables(
	struct stk_gpu_device *dev, struct stk_device_tables *t, size_t tables, size_t work, uint32_t flags, struct stk_error *err)
{
	t->host_bytes = tables;
	t->device_bytes = tables + work;
	enum stk_status s = stk__gpu_host_alloc(dev, t->host_bytes, &t->host, err);
	if (!s && flags)
		s = stk__gpu_host_alloc(dev, flags * sizeof *t->flags, (void **)&t->flags, err);
	return s ? s : stk__gpu_alloc(dev, t->device_bytes, &t->device, err);
}

static enum stk_status ready_passes(
	struct stk_gpu_device *dev, struct stk_device_batch *b, struct stk_device_tables *t, struct stk_error *err)
{
	if (t->passes && b->need.pass.images <= t->pass_limits.images && b->need.pass.taps <= t->pass_limits.taps)
		return STK_OK;
	stk__device_tables_free(dev, t);
	struct stk_pass_gpu_limits l = {room_for(b->need.pass.images), room_for(b->need.pass.taps)};
	struct stk_pass_gpu_sizes sizes = stk__pass_gpu_sizes(&l);
	enum stk_status s = take_tables(dev, t, sizes.tables, sizes.work, 0, err);
	t->pass_limits = l;
	return s ? s : stk__pass_gpu_create(&l, t->host, &t->passes, err);
}

static enum stk_status ready_jobs(
	struct stk_gpu_device *dev, struct stk_device_batch *b, struct stk_device_tables *t, struct stk_error *err)
{
	const struct stk_job_gpu_limits *n = &b->need.tensors, *have = &t->tensor_limits;
	if (t->tensor_jobs && n->jobs <= have->jobs && n->constants <= have->constants && n->work <= have->work)
		return STK_OK;
	stk__device_tables_free(dev, t);
	struct stk_job_gpu_limits l = {room_for(n->jobs), n->constants + n->constants / 4, n->work + n->work / 4};
	struct stk_job_gpu_sizes sizes = stk__job_gpu_sizes(&l);
	enum stk_status s = take_tables(dev, t, sizes.tables, sizes.work, l.jobs, err);
	t->tensor_limits = l;
	return s ? s : stk__job_gpu_create(&l, t->host, t->device, t->device + sizes.tables, &t->tensor_jobs, err);
}

static enum stk_status upload_passes(struct stk_pipeline *p, struct stk_record *r, int32_t step, struct stk_error *err)
{
	struct stk_gpu_device *dev = p->parts.device->dev;
	struct stk_device_tables *t = &r->device->tables[step];
	enum stk_status s = ready_passes(dev, r->device, t, err);
	if (s)
		return s;
	stk__pass_gpu_begin(t->passes, &t->pass_limits, t->device, t->device + stk__pass_gpu_sizes(&t->pass_limits).tables);
	s = for_each_job(p, r, step, add, err);
	return s ? s : stk__gpu_upload(dev, r->device->stream, t->device, t->host, stk__pass_gpu_end(t->passes), err);
}

static enum stk_status upload_jobs(struct stk_pipeline *p, struct stk_record *r, int32_t step, struct stk_error *err)
{
	struct stk_gpu_device *dev = p->parts.device->dev;
	struct stk_device_batch *b = r->device;
	struct stk_device_tables *t = &b->tables[step];
	enum stk_status s = ready_jobs(dev, b, t, err);
	if (s)
		return s;
	stk__job_gpu_begin(t->tensor_jobs);
	s = for_each_job(p, r, step, add, err);
	return s ? s : stk__gpu_upload(dev, b->stream, t->device, t->host, stk__job_gpu_end(t->tensor_jobs), err);
}

static enum stk_status launch_jobs(struct stk_pipeline *p, struct stk_device_batch *b, int32_t step, struct stk_error *err)
{
	struct stk_gpu_device *dev = p->parts.device->dev;
	struct stk_device_tables *t = &b->tables[step];
	enum stk_status s = stk__job_gpu_launch(dev, &p->parts.device->job_kernels, t->tensor_jobs, b->steps_stream, err);
	if (s)
		return s;
	t->n_flags = stk__job_gpu_flags(t->tensor_jobs);
	return t->n_flags ? stk__gpu_download(dev, b->steps_stream, t->flags, t->device, t->n_flags * sizeof *t->flags, err) : STK_OK;
}

/* Copies a step's tables to the GPU. Called before any stream waits for files: a copy after such a wait would delay the copies of other batches. */
static enum stk_status upload_step(struct stk_pipeline *p, struct stk_record *r, int32_t step, struct stk_error *err)
{
	struct stk_device_batch *b = r->device;
	struct stk_device_tables *t = &b->tables[step];
	b->need = (struct stk_device_need){0};
	t->n_flags = 0;
	enum stk_status s = for_each_job(p, r, step, need, err);
	if (s == STK_OK && b->need.pass.images)
		s = upload_passes(p, r, step, err);
	if (s == STK_OK && b->need.tensors.jobs)
		s = upload_jobs(p, r, step, err);
	t->images = b->need.pass.images; /* only now, since the calls above may have replaced the tables */
	t->jobs = b->need.tensors.jobs;
	return s;
}

static enum stk_status launch_step(struct stk_pipeline *p, struct stk_record *r, int32_t step, struct stk_error *err)
{
	struct stk_device_batch *b = r->device;
	const struct stk_device_tables *t = &b->tables[step];
	enum stk_status s = STK_OK;
	if (t->images) {
		s = stk__pass_gpu_launch(p->parts.device->dev, &p->parts.device->pass_kernels, t->passes, b->steps_stream, err);
		stk__device_mark(p, b, STK_SPAN_KERNEL, "passes");
	}
	if (s == STK_OK && t->jobs) {
		s = launch_jobs(p, b, step, err);
		stk__device_mark(p, b, STK_SPAN_KERNEL, "jobs");
	}
	return s;
}

/* ---- submission ---- */

static enum stk_status collect(struct stk_pipeline *p, struct stk_record *r, struct stk_error *err)
{
	struct stk_device_batch *b = r->device;
	const struct stk_level *level = &p->program->levels[r->level];
	enum stk_status s = STK_OK;
	b->uploads.n = b->decodes.n = 0;
	b->jobs.steps = false;
	for (int32_t k = 0; k < level->n_steps && s == STK_OK; k++) {
		s = for_each_job(p, r, level->first_step + k, collect_upload, err);
		if (s == STK_OK)
			s = for_each_job(p, r, level->first_step + k, collect_decode, err);
	}
	qsort(b->decodes.jobs, (size_t)b->decodes.n, sizeof *b->decodes.jobs, by_file); /* adjacent files can share a copy */
	return s;
}

/* Makes the stream of the batch's steps wait for the copies on b->stream. Files are decoded first, so the steps run on the decoder stream of the last part
 * of the batch's files or, without files, on the decoder stream whose turn it is. Any other stream would have to wait for the decoder stream, and while
 * waiting would block all streams that share its hardware queue. */
static enum stk_status leave_copies(struct stk_pipeline *p, struct stk_device_batch *b, struct stk_error *err)
{
	struct stk_gpu_device *dev = p->parts.device->dev;
	stk_gpu_stream next = stk__jpeg_gpu_stream_of_turn(p->parts.device->jpeg, b->current.k),
		       stream = b->decodes.n ? stk__jpeg_gpu_last_stream(b->decodes.jpeg, next) : next;
	enum stk_status s = stk__gpu_event_record(dev, b->done, b->stream, err);
	if (s || (s = stk__gpu_stream_wait(dev, stream, b->done, err)))
		return s;
	b->steps_stream = stream;
	return b->decodes.n ? stk__jpeg_gpu_join(b->decodes.jpeg, stream, err) : STK_OK;
}

static enum stk_status submit_all(struct stk_pipeline *p, struct stk_record *r, struct stk_error *err)
{
	struct stk_device_batch *b = r->device;
	const struct stk_level *level = &p->program->levels[r->level];
	b->traced_events.count = 0;
	b->steps_stream = b->stream;
	stk__device_mark(p, b, STK_SPAN_COPY, NULL);
	enum stk_status s = upload(p, b, err);
	for (int32_t k = 0; k < level->n_steps && s == STK_OK; k++)
		s = upload_step(p, r, level->first_step + k, err);
	if (s)
		return s;
	if (b->uploads.n || b->jobs.steps)
		stk__device_mark(p, b, STK_SPAN_COPY, "upload");
	if (b->decodes.n && (s = decode(b, err)))
		return s;
	if (b->jobs.steps && p->parts.device->jpeg && (s = leave_copies(p, b, err)))
		return s;
	if (b->decodes.n)
		stk__device_mark(p, b, STK_SPAN_KERNEL,
			NULL); /* begins the span of the steps, which excludes the decoding: a trace has rows of its own for
		                                                * that */
	for (int32_t k = 0; k < level->n_steps && s == STK_OK; k++)
		s = launch_step(p, r, level->first_step + k, err);
	return s ? s : stk__gpu_event_record(p->parts.device->dev, b->done, b->steps_stream, err);
}

/* Raises the estimate of the GPU memory that one batch needs, if this batch uses more. */
static void note_memory(struct stk_pipeline *p, const struct stk_record *r)
{
	size_t used = r->slot->bytes[STK_SPACE_GPU] + r->device->scratch.total_bytes, largest = atomic_load(&p->parts.device->largest);
	while (used > largest && !atomic_compare_exchange_weak(&p->parts.device->largest, &largest, used)) {
	}
}

enum stk_status stk__device_submit(struct stk_pipeline *p, struct stk_record *r, struct stk_error *err)
{
	enum stk_status s = collect(p, r, err);
	if (s || (s = stk__gpu_enter(p->parts.device->dev, err)))
		return s;
	s = submit_all(p, r, err);
	if (s && (stk__gpu_stream_sync(p->parts.device->dev, r->device->stream, NULL) ||
			 (p->parts.device->jpeg && stk__jpeg_gpu_sync(p->parts.device->jpeg, NULL)))) {
		/* Waits for the work under way, since pinned memory and the slot are reused at once. If the wait fails, the device and its work are lost. */
	}
	note_memory(p, r);
	stk__gpu_leave(p->parts.device->dev);
	for (int32_t i = 0; i < r->count; i++)
		r->device->jobs.submitted[i] = atomic_exchange_explicit(&r->device->jobs.pending[i], false, memory_order_relaxed);
	return s;
}

/* ---- values on the GPU that a gather on the cores reads ---- */

enum stk_status stk__device_fetch(
	struct stk_pipeline *p, struct stk_record *r, int32_t node, struct stk_call *calls, int32_t count, struct stk_error *err)
{
	const struct stk_program_node *n = &p->program->nodes[node];
	struct stk_gpu_device *dev = p->parts.device->dev;
	enum stk_status s = stk__gpu_enter(dev, err);
	if (s)
		return s;
	for (int32_t i = 0; i < count; i++)
		for (int32_t k = 0; k < n->node->n_inputs && s == STK_OK; k++) {
			struct stk_tensor *in = (struct stk_tensor *)&calls[i].in[k]; /* this worker's copy, so it may be changed */
			size_t bytes = (size_t)stk_desc_bytes(&in->desc);
			if (!p->program->values[n->inputs[k]].on_gpu || !bytes)
				continue;
			void *to = (void *)stk__device_memory_take(&r->device->staging, bytes, err);
			s = to ? stk__gpu_download(dev, r->device->stream, to, (stk_gpu_ptr)(uintptr_t)in->data, bytes, err)
			       : STK_NO_MEMORY;
			in->data = to;
		}
	enum stk_status synced = stk__gpu_stream_sync(dev, r->device->stream, s ? NULL : err);
	stk__gpu_leave(dev);
	return s ? s : synced;
}
