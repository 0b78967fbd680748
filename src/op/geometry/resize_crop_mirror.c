/* SPDX-License-Identifier: Apache-2.0
 * resize_crop_mirror: resize, crop and flip of images and volumes as one operator. */
#include "op/geometry/resize_axes.h"
#include "op/geometry/window_args.h"

struct resize_crop_mirror {
	struct stk_extent_args extent;
	struct stk_filter_args filter;
	struct stk_window_args window;
	int64_t mirror;
};

struct resized {
	struct stk_resize resize;
	struct stk_resize_axes axes; /* for tensors that are not images */
	struct stk_window window;
	struct stk_desc whole;
};

static const struct stk_arg_def resize_crop_mirror_args[] = {
	STK_ARG_GROUP(struct resize_crop_mirror, extent, stk__extent_core_group),
	STK_ARG_GROUP(struct resize_crop_mirror, filter, stk__filter_group),
	STK_ARG_GROUP(struct resize_crop_mirror, window, stk__window_group),
	STK_ARG(struct resize_crop_mirror, mirror, STK_ARG_INT, "0", (0, 3), STK_PER_SAMPLE,
		"1 mirrors left and right, 2 top and bottom, 3 both, 0 neither."),
	STK_ARG_END,
};

static enum stk_status keep_window(const struct stk_call *call, struct stk_error *err)
{
	const struct resize_crop_mirror *a = call->args;
	struct resized *r = call->state;
	enum stk_status s = stk__window_of_args(&a->window, &r->whole, &r->window, err);
	if (s || (s = stk__window_bound(&r->window, &r->whole, STK_BOUNDS_NO_POLICY, err)))
		return s;
	int32_t frames = stk__layout_find(&r->whole, 'F');
	if (frames >= 0 && r->window.extent[frames] != r->whole.shape[frames])
		return stk__fail(
			err, STK_UNSUPPORTED, "crop_d of a sequence is not supported here: take its frames with crop or slice before");
	for (int32_t d = 0; d < r->whole.ndim; d++)
		call->out[0].desc.shape[d] = r->window.extent[d];
	return STK_OK;
}

/* Finds the region of the input that corresponds to the mirrored window of the resized tensor. This region is resized directly to the window's extents. */
static enum stk_status infer_volume(const struct stk_call *call, struct stk_error *err)
{
	const struct resize_crop_mirror *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct resized *r = call->state;
	struct stk_extents x = {.rounding = 'r'};
	int32_t dims[3];
	x.n = stk__resize_dims(in, dims);
	bool open = stk__varies(call, &a->extent.roi_start) || stk__varies(call, &a->extent.roi_end), known = !open;
	enum stk_status s = stk__resize_axes_type(in->dtype, err);
	for (int32_t d = 0; d < x.n; d++) {
		x.in[d] = in->shape[dims[d]];
		call->out[0].desc.shape[dims[d]] = r->whole.shape[dims[d]] = -1;
	}
	if (s || stk__extents_open(call, &a->extent) || (s = stk__extents_of_args(&a->extent, open, &x, err)))
		return s;
	for (int32_t d = 0; d < x.n; d++)
		r->whole.shape[dims[d]] = x.out[d];
	if ((s = keep_window(call, err)))
		return s;
	for (int32_t d = 0; d < x.n; d++) {
		int64_t first = r->window.start[dims[d]], extent = r->window.extent[dims[d]];
		float step = x.out[d] ? (x.end[d] - x.begin[d]) / (float)x.out[d] : 0, begin = x.begin[d];
		bool mirrored =
			(a->mirror & 1 && dims[d] == stk__layout_find(in, 'W')) || (a->mirror & 2 && dims[d] == stk__layout_find(in, 'H'));
		known &= x.in[d] >= 0 && x.out[d] >= 0 && extent >= 0;
		if (first == 0 && extent == x.out[d] && !mirrored)
			continue;
		x.begin[d] = begin + step * (float)(mirrored ? first + extent : first);
		x.end[d] = begin + step * (float)(mirrored ? first : first + extent);
		x.out[d] = (int32_t)extent;
	}
	return known ? stk__resize_axes(&x, dims, &r->resize, &r->axes, err) : STK_OK;
}

static enum stk_status resize_crop_mirror_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct resize_crop_mirror *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct resized *r = call->state;
	struct stk_dims dims;
	enum stk_status s = stk__dims_of(in, &dims, err);
	if (s || (s = stk__filter_of_args(&a->filter, in->dtype, &r->resize, err)))
		return s;
	r->whole = *in;
	r->whole.dtype = stk__dtype_or(a->filter.dtype, in->dtype);
	call->out[0].desc = r->whole;
	if (dims.known && !stk__resize_is_image(in))
		return infer_volume(call, err);
	s = stk__extent_of_args(
		call, &a->extent, dims.known ? in->shape[dims.w] : -1, dims.known ? in->shape[dims.h] : -1, &r->resize, err);
	if (s || !dims.known)
		return s;
	r->whole.shape[dims.h] = r->resize.out_h;
	r->whole.shape[dims.w] = r->resize.out_w;
	return keep_window(call, err);
}

static enum stk_status resize_crop_mirror_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct resized *r = call->state;
	return stk__resize_axes_run(call, &r->axes, jobs, err);
}

static void resize_crop_mirror_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct resize_crop_mirror *a = call->args;
	const struct resized *r = call->state;
	stk__pass_resize(pass, &r->resize);
	stk__window_fill(&r->window, &r->whole, NULL, pass);
	stk__pass_mirror(pass, a->mirror & 1, a->mirror & 2);
}

const struct stk_op_def stk__op_resize_crop_mirror = {
	.name = "resize_crop_mirror",
	.doc = "Resizes images and volumes, keeps a window of them and mirrors it.\n\n"
	       "The same as resize, crop and flip one after the other, but only the kept pixels are computed. The window lies inside "
	       "the resized image.",
	.inputs = {1, 1},
	.layouts = STK_RESIZE_IMAGES,
	.tolerance =
		"If a scale is a small fraction, such as 3/2 or 4, many results lie half way between two integers, and the last bit of "
		"a sum of products decides: then 90% are equal and the others differ by 1.",
	.args = resize_crop_mirror_args,
	.args_size = sizeof(struct resize_crop_mirror),
	.flags = STK_OP_IMAGES,
	.state_size = sizeof(struct resized),
	.classes = STK_CLASS_SAMPLER | STK_CLASS_WINDOW,
	.infer = resize_crop_mirror_infer,
	.lower = resize_crop_mirror_lower,
	.lower_jobs = resize_crop_mirror_lower_jobs,
};
