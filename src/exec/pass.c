/* SPDX-License-Identifier: Apache-2.0
 * A group that makes one pass: its operators say what they do to an image, a decoder gives only the part that is read, and the pass writes the
 * finished image into its place. */
#include "exec/exec.h"

#include <string.h>

/* An image tensor as frames of images; planar ones are taken channel by channel. */
struct frames {
	struct stk_image image; /* of the first frame */
	int32_t count;
	ptrdiff_t stride;
};

static struct frames frames_of(const struct stk_tensor *t)
{
	static const char *const by_ndim[] = {[2] = "HW", [3] = "HWC", [4] = "FHWC"};
	const struct stk_desc *d = &t->desc;
	const char *layout = d->layout[0] ? d->layout : by_ndim[d->ndim];
	ptrdiff_t stride = (ptrdiff_t)stk_dtype_size(d->dtype);
	struct frames f = {
		.image = {.data = t->data, .dtype = d->dtype, .width = 1, .height = 1, .channels = 1, .channel = stride}, .count = 1};
	for (int32_t k = d->ndim - 1; k >= 0; k--) {
		int32_t n = (int32_t)d->shape[k];
		switch (layout[k]) {
		case 'W':
			f.image.width = n;
			f.image.pixel = stride;
			break;
		case 'H':
			f.image.height = n;
			f.image.row = stride;
			break;
		case 'C':
			f.image.channels = n;
			f.image.channel = stride;
			break;
		default: /* leading dims are frames */
			f.stride = f.count == 1 ? stride : f.stride;
			f.count *= n;
		}
		stride *= n;
	}
	return f;
}

static bool is_planar(const struct stk_image *i)
{
	return i->channels > 1 && i->channel != (ptrdiff_t)stk_dtype_size(i->dtype);
}

/* Decodes the part that the pass reads into scratch. */
static enum stk_status fetch(const struct stk_chain_run *run, const struct stk_call *call, const struct stk_pass *pass,
	const struct stk_image *whole, struct stk_image *part, struct stk_rect *at, struct stk_error *err)
{
	*at = stk__pass_source(pass);
	*part = stk__image_hwc(NULL, whole->dtype, at->w, at->h, whole->channels);
	size_t bytes = (size_t)part->row * (size_t)at->h;
	if (bytes > run->pipeline->config.memory_limit)
		return stk__fail(err, STK_LIMIT, "decoding %dx%d pixels takes %zu bytes, over memory_limit, %zu bytes", at->w, at->h, bytes,
			run->pipeline->config.memory_limit);
	part->data = stk__arena_take(&run->worker->arena, bytes);
	if (!part->data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for an image of %zu bytes", bytes);
	if (!at->w || !at->h)
		return STK_OK;
	STK_COUNT(run->pipeline, decodes, 1);
	return call->def->fetch(call, *at, part, err);
}

/* Infers each operator of the group from the one before; ends with the desc of the group's value. */
static enum stk_status infer_group(
	const struct stk_chain_run *run, const struct stk_group *group, struct stk_call *calls, struct stk_error *err)
{
	for (int32_t k = 0; k < group->count; k++) {
		enum stk_status s = stk__call_prepare(run, group->nodes[k], &calls[k], err);
		if (s || (s = calls[k].def->infer(&calls[k], err))) {
			char title[96];
			stk__node_title(run->pipeline->program->nodes[group->nodes[k]].node, title, sizeof title);
			stk__error_set_op(err, title);
			return s;
		}
	}
	return STK_OK;
}

/* What the group's operators do to an image like `src`, or to one plane of it. */
static enum stk_status lower_group(const struct stk_call *calls, int32_t count, const struct stk_image *src, int32_t plane,
	struct stk_pass *pass, struct stk_error *err)
{
	stk__pass_begin(pass, src->dtype, src->width, src->height, is_planar(src) ? 1 : src->channels);
	pass->plane = plane;
	for (int32_t k = 0; k < count; k++)
		calls[k].def->lower(&calls[k], pass);
	if (!stk__pass_supports(pass))
		return stk__fail(err, STK_UNSUPPORTED, "images of %s are not supported here; cast them first", stk_dtype_name(src->dtype));
	return STK_OK;
}

static enum stk_status run_frames(const struct stk_chain_run *run, const struct stk_pass *pass, const struct frames *src,
	struct stk_rect at, const struct frames *dst, struct stk_error *err)
{
	struct stk_exec_worker *w = run->worker;
	void *scratch = stk__arena_take(&w->arena, stk__pass_scratch(pass));
	if (!scratch)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a pass");
	for (int32_t f = 0; f < src->count; f++) {
		struct stk_image from = src->image, to = dst->image;
		from.data = (char *)from.data + f * src->stride;
		to.data = (char *)to.data + f * dst->stride;
		stk__pass_run(pass, w->tools.kernels, &from, at.x, at.y, &to, scratch);
	}
	return STK_OK;
}

/* Planes one after the other, each with the steps of its channel; what is appended to the last becomes planes as well. */
static enum stk_status run_planes(const struct stk_chain_run *run, const struct stk_group *group, struct stk_pass *pass,
	const struct frames *src, const struct frames *dst, struct stk_error *err)
{
	for (int32_t c = 0; c < src->image.channels; c++) {
		enum stk_status s = c ? lower_group(run->worker->calls, group->count, &src->image, c, pass, err) : STK_OK;
		if (s)
			return s;
		struct frames from = *src, to = *dst;
		from.image.data = (char *)from.image.data + c * from.image.channel;
		to.image.data = (char *)to.image.data + c * to.image.channel;
		from.image.channels = 1;
		to.image.channels = pass->c;
		if ((s = run_frames(run, pass, &from, (struct stk_rect){0}, &to, err)))
			return s;
	}
	return STK_OK;
}

enum stk_status stk__pass_group_run(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	const struct stk_program *g = run->pipeline->program;
	struct stk_exec_worker *w = run->worker;
	struct stk_call *calls = w->calls;
	enum stk_status s = infer_group(run, group, calls, err);
	if (s)
		return s;
	const struct stk_op_def *head = calls[0].def;
	struct frames src = {.count = 1};
	if (head->fetch)
		head->extent(&calls[0], &src.image);
	else
		src = frames_of(&calls[0].in[0]);
	struct stk_pass pass;
	if ((s = lower_group(calls, group->count, &src.image, 0, &pass, err)))
		return s;
	int32_t value = g->nodes[group->nodes[group->count - 1]].first_value;
	if ((s = stk__value_place(run, value, err)))
		return s;
	struct stk_rect at = {0};
	if (head->fetch) {
		struct stk_image part;
		if ((s = fetch(run, &calls[0], &pass, &src.image, &part, &at, err)))
			return s;
		src.image = part;
	}
	struct frames dst = frames_of(&w->values[value]);
	STK_COUNT(run->pipeline, passes, 1);
	return is_planar(&src.image) ? run_planes(run, group, &pass, &src, &dst, err) : run_frames(run, &pass, &src, at, &dst, err);
}
