/* SPDX-License-Identifier: Apache-2.0
 * What a group on the GPU does to a sample becomes jobs: its operators are inferred on the cores as ever, host values that it reads are staged, and
 * places are taken for what comes out. A file that the GPU's decoder does not take, going by its header, is decoded on the cores here. */
#include "exec/device.h"

#include <string.h>

static void lost(struct stk_error *err)
{
	if (stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's work on the GPU")) {
		/* the caller says so */
	}
}

/* NULL: out of memory, err is filled. */
static struct stk_device_job *add_job(const struct stk_chain_run *run, int32_t step, enum stk_job_kind kind, struct stk_error *err)
{
	static const size_t sizes[] = {[STK_JOB_UPLOAD] = offsetof(struct stk_device_job, src),
		[STK_JOB_MOVE] = offsetof(struct stk_device_job, src),
		[STK_JOB_PASS] = offsetof(struct stk_device_job, decode),
		[STK_JOB_DECODE] = sizeof(struct stk_device_job)};
	struct stk_device_batch *b = run->record->device;
	pthread_mutex_lock(&b->lock);
	struct stk_device_job *j = stk__arena_take(&b->jobs, sizes[kind]);
	pthread_mutex_unlock(&b->lock);
	if (!j) {
		lost(err);
		return NULL;
	}
	struct stk_device_job **at = &b->first[(size_t)step * (size_t)run->pipeline->config.batch_size + (size_t)run->sample];
	while (*at)
		at = &(*at)->next;
	j->next = NULL;
	j->kind = kind;
	j->sample = run->sample;
	*at = j;
	return j;
}

/* Samples of a value whose size is known beforehand are staged behind each other, so that they travel together. */
static void *stage(const struct stk_chain_run *run, int32_t value, size_t bytes, struct stk_error *err)
{
	struct stk_device_batch *b = run->record->device;
	int64_t known = stk_desc_bytes(&run->pipeline->program->values[value].desc);
	if (known <= 0 || (size_t)known != bytes)
		return (void *)stk__device_memory_take(&b->staging, bytes, err);
	pthread_mutex_lock(&b->lock);
	if (!b->mirrors[value])
		b->mirrors[value] = stk__device_memory_take(&b->staging, bytes * (size_t)run->pipeline->config.batch_size, err);
	uintptr_t mirror = b->mirrors[value];
	pthread_mutex_unlock(&b->lock);
	return mirror ? (void *)(mirror + (size_t)run->sample * bytes) : NULL;
}

static enum stk_status upload(
	const struct stk_chain_run *run, int32_t step, const void *from, uintptr_t to, size_t bytes, struct stk_error *err)
{
	struct stk_device_job *j = add_job(run, step, STK_JOB_UPLOAD, err);
	if (!j)
		return STK_NO_MEMORY;
	j->from = (uintptr_t)from;
	j->to = to;
	j->bytes = bytes;
	return STK_OK;
}

enum stk_status stk__device_place(const struct stk_chain_run *run, int32_t value, struct stk_error *err)
{
	const struct stk_value *v = &run->pipeline->program->values[value];
	struct stk_tensor *t = &run->worker->values[value];
	int64_t bytes = stk_desc_bytes(&t->desc);
	if (bytes < 0)
		return stk__fail(err, STK_LIMIT, "the output is too large to be addressed");
	if (v->slot < 0) {
		t->data = (void *)stk__device_memory_take(&run->record->device->scratch, (size_t)bytes, err);
		return t->data ? STK_OK : STK_NO_MEMORY;
	}
	if (!stk__slot_place(run->record->slot, v->slot, run->sample, &t->desc))
		return stk__fail(err, STK_NO_MEMORY, "out of memory on the GPU for an output of %lld bytes", (long long)bytes);
	t->data = run->record->slot->values[v->slot].samples[run->sample].data;
	return STK_OK;
}

/* Stages a host tensor for an address on the GPU. */
static enum stk_status send(
	const struct stk_chain_run *run, int32_t step, int32_t value, const struct stk_tensor *host, uintptr_t to, struct stk_error *err)
{
	size_t bytes = (size_t)stk_desc_bytes(&host->desc);
	void *staged = stage(run, value, bytes, err);
	if (!staged)
		return STK_NO_MEMORY;
	memcpy(staged, host->data, bytes);
	return upload(run, step, staged, to, bytes, err);
}

/* Host values that the head of a group reads on the GPU are copied there; while the group is described they stand for them. */
static enum stk_status send_inputs(
	const struct stk_chain_run *run, const struct stk_program_node *head, int32_t step, void **kept, struct stk_error *err)
{
	const struct stk_program *g = run->pipeline->program;
	enum stk_status s = STK_OK;
	for (int32_t k = 0; k < head->node->n_inputs; k++)
		kept[k] = run->worker->values[head->inputs[k]].data;
	for (int32_t k = 0; k < head->node->n_inputs && s == STK_OK; k++) {
		int32_t value = head->inputs[k];
		struct stk_tensor *t = &run->worker->values[value];
		if (g->values[value].on_gpu || (head->def->host_inputs >> k & 1))
			continue;
		uintptr_t to = stk__device_memory_take(&run->record->device->scratch, (size_t)stk_desc_bytes(&t->desc), err);
		s = to ? send(run, step, value, t, to, err) : STK_NO_MEMORY;
		t->data = (void *)to;
	}
	return s;
}

static void keep_inputs(const struct stk_chain_run *run, const struct stk_program_node *head, void *const *kept)
{
	for (int32_t k = 0; k < head->node->n_inputs; k++)
		run->worker->values[head->inputs[k]].data = kept[k];
}

/* ---- files ---- */

/* From the header alone: whether the GPU decodes the window that the pass reads. */
static bool takes(const struct stk_encoded *e, const struct stk_pass *pass, struct stk_decode_job *d)
{
	size_t end;
	struct stk_jpeg_scan scan;
	if (e->type != STK_RGB && e->type != STK_BGR)
		return false;
	if (stk__jpeg_header_parse(e->data, e->size, &d->header, NULL) || (e->orient && d->header.orientation != 1))
		return false;
	d->window = stk__pass_source(pass);
	if (!d->window.w || !d->window.h || !stk__pass_gpu_supports(pass) || !stk__jpeg_find_eoi(e->data, e->size, &d->header, &end) ||
		!stk__jpeg_scan_plan(&d->header, end, &scan))
		return false;
	struct stk_jpeg_window w = stk__jpeg_window_plan(&scan, d->window);
	d->blocks = (uint32_t)((w.mcu_y1 - w.mcu_y0 + 1) * scan.mcus_x * scan.blocks);
	d->size = e->size;
	d->type = e->type;
	return true;
}

static enum stk_status describe_decode(
	const struct stk_chain_run *run, struct stk_pass_group *g, int32_t step, bool *taken, struct stk_error *err)
{
	struct stk_encoded e;
	g->calls[0].def->encoded(&g->calls[0], &e);
	struct stk_decode_job d;
	*taken = !run->record->samples[run->sample].on_cores && takes(&e, &g->pass, &d);
	if (!*taken)
		return STK_OK;
	uint8_t *file = (uint8_t *)stk__device_memory_take(&run->record->device->files, e.size, err);
	struct stk_device_job *j = file ? add_job(run, step, STK_JOB_DECODE, err) : NULL;
	if (!j)
		return STK_NO_MEMORY;
	memcpy(file, e.data, e.size);
	d.file = file;
	if (e.data == run->record->samples[run->sample].request.data)
		run->record->samples[run->sample].staged = file; /* should the cores be asked for it once more */
	j->decode = d;
	j->pass = g->pass;
	j->dst = stk__frames_of(&run->worker->values[g->value]).image;
	STK_COUNT(run->pipeline, decodes, 1);
	STK_COUNT(run->pipeline, gpu_decodes, 1);
	return STK_OK;
}

/* What the cores make of the group goes to its place over pinned memory. */
static enum stk_status run_on_cores(const struct stk_chain_run *run, struct stk_pass_group *g, int32_t step, struct stk_error *err)
{
	struct stk_tensor out = run->worker->values[g->value];
	size_t bytes = (size_t)stk_desc_bytes(&out.desc);
	uintptr_t to = (uintptr_t)out.data;
	out.data = (void *)stk__device_memory_take(&run->record->device->staging, bytes, err);
	enum stk_status s = out.data ? stk__pass_group_cores(run, g, &out, err) : STK_NO_MEMORY;
	return s ? s : upload(run, step, out.data, to, bytes, err);
}

/* ---- groups ---- */

static enum stk_status add_pass(const struct stk_chain_run *run, const struct stk_pass *pass, const struct stk_frames *src,
	const struct stk_frames *dst, int32_t step, struct stk_error *err)
{
	if (!stk__pass_gpu_supports(pass))
		return stk__fail(err, STK_UNSUPPORTED,
			"this has no GPU version for images of %s with %d channels yet; place it on the cores",
			stk_dtype_name((enum stk_dtype)pass->in_dtype), pass->in_c);
	for (int32_t f = 0; f < src->count; f++) {
		struct stk_device_job *j = add_job(run, step, STK_JOB_PASS, err);
		if (!j)
			return STK_NO_MEMORY;
		j->pass = *pass;
		j->src = src->image;
		j->dst = dst->image;
		j->src.data = (char *)j->src.data + f * src->stride;
		j->dst.data = (char *)j->dst.data + f * dst->stride;
	}
	return STK_OK;
}

static enum stk_status describe_pass(const struct stk_chain_run *run, struct stk_pass_group *g, int32_t step, struct stk_error *err)
{
	struct stk_frames dst = stk__frames_of(&run->worker->values[g->value]);
	if (!stk__is_planar(&g->src.image))
		return add_pass(run, &g->pass, &g->src, &dst, step, err);
	for (int32_t c = 0; c < g->src.image.channels; c++) {
		enum stk_status s = c ? stk__pass_group_lower(g, c, err) : STK_OK;
		struct stk_frames from = stk__frames_plane(&g->src, c, 1), to = stk__frames_plane(&dst, c, g->pass.c);
		if (s || (s = add_pass(run, &g->pass, &from, &to, step, err)))
			return s;
	}
	return STK_OK;
}

static enum stk_status describe_pass_group(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	struct stk_pass_group g;
	bool taken = false;
	enum stk_status s = stk__pass_group_infer(run, group, &g, err);
	if (s || (s = stk__device_place(run, g.value, err)))
		return s;
	STK_COUNT(run->pipeline, passes, 1);
	if (!g.calls[0].def->fetch)
		return describe_pass(run, &g, group->step, err);
	s = describe_decode(run, &g, group->step, &taken, err);
	return s || taken ? s : run_on_cores(run, &g, group->step, err);
}

/* A view: of what lies there, moved where the slot must have a copy; or of a host value, which is sent to its place. */
static enum stk_status describe_view(const struct stk_chain_run *run, const struct stk_group *group, const struct stk_tensor *view,
	bool host, int32_t value, struct stk_error *err)
{
	const struct stk_tensor from = *view;
	if (!host && run->pipeline->program->values[value].slot < 0)
		return STK_OK;
	enum stk_status s = stk__device_place(run, value, err);
	if (s)
		return s;
	uintptr_t to = (uintptr_t)run->worker->values[value].data;
	if (host)
		return send(run, group->step, value, &from, to, err);
	struct stk_device_job *j = add_job(run, group->step, STK_JOB_MOVE, err);
	if (!j)
		return STK_NO_MEMORY;
	j->from = (uintptr_t)from.data;
	j->to = to;
	j->bytes = (size_t)stk_desc_bytes(&from.desc);
	return STK_OK;
}

static enum stk_status describe_single(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	const struct stk_program *g = run->pipeline->program;
	const struct stk_program_node *n = &g->nodes[group->nodes[0]];
	struct stk_call call;
	enum stk_status s = stk__call_prepare(run, group->nodes[0], &call, err);
	if (s || (s = n->def->infer(&call, err)))
		return s;
	for (int32_t k = 0; k < call.n_out && s == STK_OK; k++) {
		if (!call.out[k].data)
			return stk__fail(
				err, STK_UNSUPPORTED, "%s has no GPU version yet; place it on the cores (device=\"cpu\")", n->def->name);
		s = describe_view(run, group, &call.out[k], !g->values[n->inputs[0]].on_gpu, n->first_value + k, err);
	}
	return s;
}

enum stk_status stk__device_describe(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	struct stk_device_batch *b = run->record->device;
	const struct stk_program_node *head = &run->pipeline->program->nodes[group->nodes[0]];
	b->first[(size_t)group->step * (size_t)run->pipeline->config.batch_size + (size_t)run->sample] = NULL;
	atomic_store(&b->pending[run->sample], true);
	if (!group->pass)
		return describe_single(run, group, err);
	void *kept[STK_MAX_INPUTS];
	enum stk_status s = send_inputs(run, head, group->step, kept, err);
	if (s == STK_OK)
		s = describe_pass_group(run, group, err);
	keep_inputs(run, head, kept);
	return s;
}
