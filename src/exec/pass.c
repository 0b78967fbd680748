/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a group as one pass. Each operator adds its steps to the pass, a decoder decodes only the part of the image that the pass reads, and the pass
 * writes the finished image to its final address. */
#include "exec/chain.h"

#include "base/cancel.h"
#include "op/dims.h"

#include <string.h>

/* Slots of at least this many bytes are written past the caches: a core's caches do not hold them, so loading their lines before overwriting is useless. */
enum { STREAM_SLOT = 2 << 20 };

/* Decodes into scratch memory the part of the image that the pass reads. *part: set to that part; *at: set to its position in the whole image. */
static enum stk_status fetch(const struct stk_chain_run *run, const struct stk_call *call, const struct stk_pass *pass,
	const struct stk_image *whole, struct stk_image *part, struct stk_rect *at, struct stk_error *err)
{
	*at = stk__pass_source(pass);
	*part = stk__image_hwc(NULL, whole->dtype, at->w, at->h, whole->channels);
	size_t bytes = (size_t)part->row * (size_t)at->h;
	part->data = stk__arena_take(&run->worker->arena, bytes);
	if (!part->data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for an image of %zu bytes", bytes);
	if (!at->w || !at->h)
		return STK_OK;
	STK_COUNT(run->pipeline, decodes, 1);
	enum stk_status s = call->def->fetch(call, *at, part, err);
	if (call->tools->narrowed)
		STK_COUNT(run->pipeline, narrowed_images, call->tools->narrowed);
	call->tools->narrowed = 0;
	return s;
}

/* Infers the call. Checks the properties of its images that the graph did not know: the input must have a layout that the operator supports, and no image
 * may be larger than passes support. */
static enum stk_status infer_image(const struct stk_chain_run *run, int32_t node, struct stk_call *call, struct stk_error *err)
{
	const struct stk_op_def *def = call->def;
	if (!def->fetch && !stk__lowers(def, &call->in[0].desc))
		return stk__refuse_layout(def, &call->in[0].desc, err);
	enum stk_status s = stk__call_infer(run, node, call, err);
	if (s)
		return s;
	const struct stk_desc *descs[] = {def->fetch ? &call->out[0].desc : &call->in[0].desc, &call->out[0].desc};
	for (int i = 0; i < 2; i++)
		if (!stk__frames_fit(descs[i]))
			return stk__fail(err, STK_LIMIT,
				"an image or window has more than %d pixels along one side, or a sequence more frames than that",
				STK_PASS_MAX_EXTENT);
	return STK_OK;
}

/* Infers the operators of the group, each from the output of the operator before it. The last call then has the description of the group's value. */
static enum stk_status infer_group(
	const struct stk_chain_run *run, const struct stk_group *group, struct stk_call *calls, struct stk_error *err)
{
	for (int32_t k = 0; k < group->count; k++) {
		enum stk_status s = stk__call_prepare(run, group->nodes[k], &calls[k], err);
		if (s || (s = infer_image(run, group->nodes[k], &calls[k], err))) {
			char title[STK_MAX_TITLE];
			stk__node_title(run->pipeline->program->nodes[group->nodes[k]].node, title, sizeof title);
			stk__error_set_op(err, title);
			return s;
		}
	}
	return STK_OK;
}

static bool lower(struct stk_pass_group *g, int32_t plane)
{
	const struct stk_image *src = &g->src.image;
	stk__pass_begin(&g->pass, src->dtype, src->width, src->height, g->planes ? 1 : src->channels);
	g->pass.plane = plane;
	g->pass.stream = g->stream;
	g->pass.cancel = g->calls[0].tools->cancel;
	for (int32_t k = 0; k < g->group->count && !g->pass.refused; k++)
		g->calls[k].def->lower(&g->calls[k], &g->pass);
	return stk__pass_supports(&g->pass);
}

/* Sets an error that says why the lowered pass cannot run. */
static enum stk_status explain_refusal(const struct stk_pass_group *g, struct stk_error *err)
{
	const struct stk_image *src = &g->src.image;
	switch ((enum stk_pass_refusal)g->pass.refused) {
	case STK_PASS_CHANNELS:
		return stk__fail(err, STK_UNSUPPORTED,
			"an image of %d channels gets more of them here, which is supported up to %d; leave out pad_output", src->channels,
			STK_PASS_MAX_CHANNELS);
	case STK_PASS_EXTENT:
		return stk__fail(err, STK_LIMIT,
			"an image or window has more than %d pixels along one side, or a window lies farther than that from its image",
			STK_PASS_MAX_EXTENT);
	case STK_PASS_STEPS:
	case STK_PASS_MISUSED:
		return stk__fail(err, STK_STATE, "operators that do not make one pass were fused; please report this graph");
	default:
		return stk__fail(err, STK_UNSUPPORTED, "images of %s are not supported here; cast them first", stk_dtype_name(src->dtype));
	}
}

enum stk_status stk__pass_group_lower(struct stk_pass_group *g, int32_t plane, struct stk_error *err)
{
	if (!g->src.image.channels)
		return stk__fail(err, STK_SHAPE, "an image without channels");
	if (lower(g, plane))
		return STK_OK;
	g->planes |= g->src.image.channels > STK_PASS_MAX_CHANNELS;
	return g->planes && lower(g, plane) ? STK_OK : explain_refusal(g, err);
}

static enum stk_status run_frames(const struct stk_chain_run *run, const struct stk_pass *pass, const struct stk_frames *src,
	struct stk_rect at, const struct stk_frames *dst, struct stk_error *err)
{
	struct stk_exec_worker *w = run->worker;
	if (!pass->w || !pass->h)
		return STK_OK;
	size_t bytes = stk__pass_scratch(pass);
	if (bytes > run->pipeline->config.memory_limit)
		return stk__fail(err, STK_LIMIT,
			"a pass from %dx%d to %dx%d pixels takes %zu bytes of scratch, over memory_limit, %zu bytes", pass->in_w,
			pass->in_h, pass->w, pass->h, bytes, run->pipeline->config.memory_limit);
	void *scratch = stk__arena_take(&w->arena, bytes);
	if (!scratch)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a pass");
	for (int32_t f = 0; f < dst->count; f++) {
		struct stk_image from = src->image, to = dst->image;
		from.data = (char *)from.data + (pass->first_frame + f) * src->stride;
		to.data = (char *)to.data + f * dst->stride;
		stk__pass_run(pass, w->tools.kernels, &from, at.x, at.y, &to, scratch);
	}
	return stk__cancelled(pass->cancel) ? stk__fail(err, STK_CANCELLED, "the pipeline was cancelled") : STK_OK;
}

/* Runs the pass over each plane, with the steps for that channel. Appended channels become planes too. src: the part of the source image that the pass
 * reads; at: the position of that part in the image. */
static enum stk_status run_planes(const struct stk_chain_run *run, struct stk_pass_group *g, const struct stk_frames *src,
	struct stk_rect at, const struct stk_frames *dst, struct stk_error *err)
{
	for (int32_t c = 0; c < g->src.image.channels; c++) {
		enum stk_status s = c ? stk__pass_group_lower(g, c, err) : STK_OK;
		if (s)
			return s;
		struct stk_frames from = stk__frames_plane(src, c, 1), to = stk__frames_plane(dst, c, g->pass.c);
		if ((s = run_frames(run, &g->pass, &from, at, &to, err)))
			return s;
	}
	return STK_OK;
}

/* Finds the operator to name in the error. All operators of a group are inferred before the first one runs, but the error must not depend on that. So for a
 * group that the cores can run, this runs all operators but the last one separately, and reports the first error. If none fails, names the last one. */
static enum stk_status blame_the_first(
	const struct stk_chain_run *run, const struct stk_group *group, enum stk_status s, struct stk_error *err)
{
	const struct stk_program_node *nodes = run->pipeline->program->nodes;
	bool on_cores = group->step < 0 || nodes[group->nodes[0]].def->fetch;
	char title[STK_MAX_TITLE];
	for (int32_t k = 0; on_cores && k < group->count - 1; k++) {
		const struct stk_group single = {.nodes = &group->nodes[k], .count = 1, .pass = true, .step = -1, .image_step = -1};
		struct stk_error first = {0};
		enum stk_status status = stk__pass_group_run(run, &single, &first);
		if (!status)
			continue;
		stk__node_title(nodes[group->nodes[k]].node, title, sizeof title);
		stk__error_set_op(&first, title);
		*err = first;
		return status;
	}
	stk__node_title(nodes[group->nodes[group->count - 1]].node, title, sizeof title);
	stk__error_set_op(err, title);
	return s;
}

/* Infers all operators and computes the pass. */
static enum stk_status infer_and_lower(const struct stk_chain_run *run, struct stk_pass_group *g, struct stk_error *err)
{
	enum stk_status s = infer_group(run, g->group, g->calls, err);
	if (s)
		return s;
	if (g->calls[0].def->fetch)
		g->calls[0].def->extent(&g->calls[0], &g->src.image);
	else
		g->src = stk__frames_of(&g->calls[0].in[0]);
	g->planes = stk__is_planar(&g->src.image);
	return stk__pass_group_lower(g, 0, err);
}

enum stk_status stk__pass_group_infer(
	const struct stk_chain_run *run, const struct stk_group *group, struct stk_pass_group *g, struct stk_error *err)
{
	const struct stk_program *program = run->pipeline->program;
	*g = (struct stk_pass_group){.group = group,
		.calls = run->worker->calls,
		.value = program->nodes[group->nodes[group->count - 1]].first_value,
		.src = {.count = 1}};
	const struct stk_slot *slot = run->record->slot;
	g->stream = program->values[g->value].slot >= 0 && slot && slot->bytes[STK_SPACE_HOST] >= STREAM_SLOT;
	enum stk_status s = infer_and_lower(run, g, err);
	return s && group->count > 1 ? blame_the_first(run, group, s, err) : s;
}

/* Copies a source image if the bytes after it may not be readable, as in the user's memory or in a slot: kernels read whole vectors, beyond a row's end.
 * The copy does not count towards memory_limit: otherwise the address of an image would decide whether its sample is refused. */
static enum stk_status make_readable(const struct stk_chain_run *run, struct stk_pass_group *g, struct stk_error *err)
{
	const struct stk_tensor *in = &g->calls[0].in[0];
	size_t bytes = (size_t)stk_desc_bytes(&in->desc);
	if (stk__arena_holds(&run->worker->arena, in->data) || stk__readable_past((const char *)in->data + bytes))
		return STK_OK;
	g->src.image.data = stk__arena_take_uncounted(&run->worker->arena, bytes);
	if (!g->src.image.data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for an image of %zu bytes", bytes);
	memcpy(g->src.image.data, in->data, bytes);
	return STK_OK;
}

enum stk_status stk__pass_group_cores(
	const struct stk_chain_run *run, struct stk_pass_group *g, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_rect at = {0};
	struct stk_image part;
	enum stk_status s =
		g->calls[0].def->fetch ? fetch(run, &g->calls[0], &g->pass, &g->src.image, &part, &at, err) : make_readable(run, g, err);
	if (s)
		return s;
	struct stk_frames src = g->src;
	if (g->calls[0].def->fetch)
		src.image = part;
	struct stk_frames dst = stk__frames_of(out);
	STK_COUNT(run->pipeline, passes, 1);
	return g->planes ? run_planes(run, g, &src, at, &dst, err) : run_frames(run, &g->pass, &src, at, &dst, err);
}

bool stk__pass_serves(const struct stk_chain_run *run, int32_t index)
{
	const struct stk_program *g = run->pipeline->program;
	const struct stk_program_node *n = &g->nodes[index];
	if (!n->def->lower_jobs)
		return true;
	if (n->node->without_pass)
		return false;
	const struct stk_desc *known = &g->values[n->inputs[0]].desc;
	if (known->ndim >= 0 && known->dtype != STK_NO_DTYPE)
		return n->lowers;
	struct stk_desc in = run->worker->values[n->inputs[0]].desc;
	stk__layout_name(n->def, &in);
	return stk__lowers(n->def, &in) && stk__op_classes(n->def, n->node->args, &in) != STK_CLASS_NEVER;
}

/* Returns the error for a group on the GPU whose input a pass cannot process. On the cores the group's operators could run separately; on the GPU that is
 * impossible, since the jobs of a step have no order. */
enum stk_status stk__pass_group_refuse(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	const struct stk_program *g = run->pipeline->program;
	const struct stk_desc *in = &run->worker->values[g->nodes[group->nodes[0]].inputs[0]].desc;
	return stk__fail(err, STK_UNSUPPORTED,
		"on the GPU this forms one step with the operators after it, which does not take tensors of %s, %d dims and layout \"%s\"; where the graph "
		"knows these it is a step by itself: give external_source dtype, ndim and layout",
		stk_dtype_name(in->dtype), in->ndim, in->layout);
}

enum stk_status stk__pass_group_run(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	struct stk_pass_group g;
	enum stk_status s = stk__pass_group_infer(run, group, &g, err);
	if (s || (s = stk__value_place(run, g.value, err)))
		return s;
	return stk__pass_group_cores(run, &g, &run->worker->values[g.value], err);
}
