/* SPDX-License-Identifier: Apache-2.0
 * resize: separable resampling of an image. */
#include "op/resize_args.h"

struct resize {
	struct stk_extent_args extent;
	struct stk_filter_args filter;
	bool save_attrs;
};

static const struct stk_arg_def resize_args[] = {
	STK_ARG_GROUP(struct resize, extent, stk__extent_group),
	STK_ARG_GROUP(struct resize, filter, stk__filter_group),
	STK_ARG(struct resize, save_attrs, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Would also give the original extents; ask for x.shape() instead."),
	STK_ARG_END,
};

static enum stk_status resize_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct resize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_resize *r = call->state;
	struct stk_dims dims;
	if (a->save_attrs)
		return stk__fail(err, STK_UNSUPPORTED, "save_attrs is not supported; take the input's shape with x.shape()");
	enum stk_status s = stk__dims_of(in, &dims, err);
	if (s || (s = stk__filter_of_args(&a->filter, in->dtype, r, err)))
		return s;
	s = stk__extent_of_args(call, &a->extent, dims.known ? in->shape[dims.w] : -1, dims.known ? in->shape[dims.h] : -1, r, err);
	if (s)
		return s;
	call->out[0].desc = *in;
	call->out[0].desc.dtype = stk__dtype_or(a->filter.dtype, in->dtype);
	if (dims.known) {
		call->out[0].desc.shape[dims.h] = r->out_h;
		call->out[0].desc.shape[dims.w] = r->out_w;
	}
	return STK_OK;
}

static void resize_lower(const struct stk_call *call, struct stk_pass *pass)
{
	stk__pass_resize(pass, call->state);
}

const struct stk_op_def stk__op_resize = {
	.name = "resize",
	.doc = "Resizes images.\n\n"
	       "Extents are given by resize_x and resize_y, by size, or by resize_shorter or resize_longer; what is left out follows from "
	       "mode. Rounding\n"
	       "gives at least one pixel. Linear filtering with antialias is a triangle that grows with the scale, the rule of Pillow and "
	       "DALI. With a region\n"
	       "of interest the region becomes the output, and filters may read around it.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.tolerance = "Where a scale is a small fraction, as 3/2 or 4, many results lie half way between two integers, and the last bit of "
		     "a sum of products decides: then 90% are equal and the others differ by 1.",
	.args = resize_args,
	.args_size = sizeof(struct resize),
	.flags = STK_OP_IMAGES,
	.state_size = sizeof(struct stk_resize),
	.classes = STK_CLASS_SAMPLER,
	.infer = resize_infer,
	.lower = resize_lower,
};
