/* SPDX-License-Identifier: Apache-2.0
 * resize: separable resampling of an image or volume. */
#include "kernel/copy/copy.h"
#include "op/geometry/resize_axes.h"

#include <string.h>

struct resize {
	struct stk_extent_args extent;
	struct stk_filter_args filter;
	bool save_attrs;
};

/* The state that infer passes to lower (`image`) and to lower_jobs (`axes`). */
struct resize_state {
	struct stk_resize image;
	struct stk_resize_axes axes;
	int64_t before[3];
};

static const struct stk_arg_def resize_args[] = {
	STK_ARG_GROUP(struct resize, extent, stk__extent_group),
	STK_ARG_GROUP(struct resize, filter, stk__filter_group),
	STK_ARG(struct resize, save_attrs, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Adds an output: the input's height and width, or depth, height and width of a volume, int32."),
	STK_ARG_END,
};

static int32_t resize_outputs(const void *args)
{
	return 1 + ((const struct resize *)args)->save_attrs;
}

static enum stk_status infer_volume(const struct stk_call *call, const int32_t *dims, int32_t n, struct stk_error *err)
{
	const struct resize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct resize_state *r = call->state;
	struct stk_extents x = {.n = n, .rounding = 'r'};
	bool open = stk__varies(call, &a->extent.roi_start) || stk__varies(call, &a->extent.roi_end), known = !open;
	enum stk_status s = stk__resize_axes_type(in->dtype, err);
	for (int32_t d = 0; d < n; d++) {
		x.in[d] = in->shape[dims[d]];
		call->out[0].desc.shape[dims[d]] = -1;
	}
	if (s || stk__extents_open(call, &a->extent) || (s = stk__extents_of_args(&a->extent, open, &x, err)))
		return s;
	for (int32_t d = 0; d < n; d++) {
		call->out[0].desc.shape[dims[d]] = x.out[d];
		known &= x.in[d] >= 0 && x.out[d] >= 0;
	}
	return known ? stk__resize_axes(&x, dims, &r->image, &r->axes, err) : STK_OK;
}

static enum stk_status infer_image(const struct stk_call *call, const struct stk_dims *dims, struct stk_error *err)
{
	const struct resize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_resize *r = &((struct resize_state *)call->state)->image;
	enum stk_status s =
		stk__extent_of_args(call, &a->extent, dims->known ? in->shape[dims->w] : -1, dims->known ? in->shape[dims->h] : -1, r, err);
	if (s || !dims->known)
		return s;
	call->out[0].desc.shape[dims->h] = r->out_h;
	call->out[0].desc.shape[dims->w] = r->out_w;
	return STK_OK;
}

static enum stk_status resize_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct resize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct resize_state *r = call->state;
	struct stk_dims dims;
	int32_t resized[3], n = stk__resize_dims(in, resized);
	enum stk_status s = stk__dims_of(in, &dims, err);
	if (s || (s = stk__filter_of_args(&a->filter, in->dtype, &r->image, err)))
		return s;
	call->out[0].desc = *in;
	call->out[0].desc.dtype = stk__dtype_or(a->filter.dtype, in->dtype);
	if (a->save_attrs)
		call->out[1].desc = (struct stk_desc){STK_INT32, 1, {dims.known ? n : -1}, ""};
	for (int32_t d = 0; d < n && dims.known; d++)
		r->before[d] = in->shape[resized[d]];
	bool image = !dims.known || stk__resize_is_image(in);
	s = image ? infer_image(call, &dims, err) : infer_volume(call, resized, n, err);
	if (s || !image || !a->save_attrs || !dims.known)
		return s;
	return infer_volume(call, resized, n, err); /* an operator with two outputs cannot be a step of a pass */
}

static void resize_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct resize_state *r = call->state;
	stk__pass_resize(pass, &r->image);
}

/* Writes the input's extent along its d-th resized dim to element d of out[1]. Uses a copy job whose only element is fill, since copy jobs run on the CPU and
 * on the GPU. */
static enum stk_status write_extent(const struct stk_call *call, int32_t d, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct resize_state *r = call->state;
	struct stk_tensor to = call->out[1], from = to;
	const struct stk_copy_dim none = {.size = 1, .step = 0, .limit = 0, .dst = 1, .src = 1};
	int32_t value = (int32_t)r->before[d];
	to.data = (char *)to.data + (size_t)d * sizeof value;
	from.data = to.data; /* never read */
	return stk__job_copy(jobs, &from, &to, &none, 1, &value, false, err);
}

static enum stk_status resize_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct resize_state *r = call->state;
	enum stk_status s = stk__resize_axes_run(call, &r->axes, jobs, err);
	for (int32_t d = 0; call->n_out > 1 && d < call->out[1].desc.shape[0] && !s; d++)
		s = write_extent(call, d, jobs, err);
	return s;
}

static unsigned resize_classify(const void *args, const struct stk_desc *in)
{
	(void)in;
	return ((const struct resize *)args)->save_attrs ? STK_CLASS_NEVER : STK_CLASS_SAMPLER;
}

const struct stk_op_def stk__op_resize = {
	.name = "resize",
	.doc = "Resizes images and volumes.\n\n"
	       "Extents are given by resize_x and resize_y (and resize_z), by size, or by resize_shorter or resize_longer; extents "
	       "that are not given follow from mode. Rounding gives at least one pixel. Linear filtering with antialias is a triangle "
	       "that grows with the scale, the rule of Pillow and DALI. With a region of interest the region becomes the output, and "
	       "filters may read around it. Volumes have the layout DHWC or CDHW. Volumes, images of layout CFHW, and all inputs with "
	       "save_attrs are computed in float32 and rounded once.",
	.inputs = {1, 1},
	.output_count = resize_outputs,
	.layouts = STK_RESIZE_IMAGES,
	.tolerance =
		"If a scale is a small fraction, such as 3/2 or 4, many results lie half way between two integers, and the last bit of "
		"a sum of products decides: then 90% are equal and the others differ by 1.",
	.args = resize_args,
	.args_size = sizeof(struct resize),
	.flags = STK_OP_IMAGES,
	.state_size = sizeof(struct resize_state),
	.classes = STK_CLASS_SAMPLER,
	.classify = resize_classify,
	.infer = resize_infer,
	.lower = resize_lower,
	.lower_jobs = resize_lower_jobs,
};
