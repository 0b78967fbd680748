/* SPDX-License-Identifier: Apache-2.0
 * slice: cuts a window out of a tensor; its bounds are indices or fractions of the extents. */
#include "kernel/common/border.h"
#include "op/geometry/slice_args.h"

struct slice {
	struct stk_slice_args slice;
	struct stk_bounds_args bounds;
	const char *border;
	int32_t dtype;
};

struct slice_state {
	struct stk_window window;
	struct stk_desc in;
};

static const struct stk_arg_def slice_args[] = {
	STK_ARG_GROUP(struct slice, slice, stk__slice_group),
	STK_ARG_GROUP(struct slice, bounds, stk__bounds_group),
	{.name = "border",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct slice, border),
		.fallback = "\"fill\"",
		.choices = "fill|edge|reflect|symmetric",
		.doc = "Values outside of the tensor with policy pad: fill_values, the nearest value, or the mirror image without the "
		       "outermost value (dcb|abcd|cba) or with it (cba|abcd|dcb), repeated, as in torchvision's padding_mode and NumPy's pad."},
	STK_ARG(struct slice, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output, to which values are rounded. Default: the input's."),
	STK_ARG_END,
};

/* Returns how the tensor is continued outside of its extents, or STK_BORDER_FILL if it is not. */
static enum stk_border border_of(const struct slice *a)
{
	return a->border[0] == 'e'   ? STK_BORDER_CLAMP
	       : a->border[0] == 'r' ? STK_BORDER_REFLECT_101
	       : a->border[0] == 's' ? STK_BORDER_REFLECT
				     : STK_BORDER_FILL;
}

static enum stk_status slice_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct slice *a = call->args;
	struct slice_state *s = call->state;
	s->in = call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	*out = s->in;
	out->dtype = stk__dtype_or(a->dtype, s->in.dtype);
	if (border_of(a) != STK_BORDER_FILL && stk__bounds(&a->bounds) != STK_BOUNDS_PAD)
		return stk__fail(err, STK_INVALID, "border=\"%s\" needs out_of_bounds_policy=\"pad\", not \"%s\"", a->border,
			a->bounds.out_of_bounds_policy);
	if (s->in.ndim < 0)
		return STK_OK;
	enum stk_status e = stk__window_of_slice(&a->slice, call, &s->in, &s->window, err);
	if (e || (e = stk__window_bound(&s->window, &s->in, stk__bounds(&a->bounds), err)))
		return e;
	for (int32_t d = 0; d < out->ndim; d++)
		out->shape[d] = s->window.extent[d];
	return stk__check_fill(a->bounds.fill_values, out, err);
}

static enum stk_status slice_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct slice *a = call->args;
	const struct slice_state *s = call->state;
	if (border_of(a) != STK_BORDER_FILL)
		return stk__window_continue(call, &s->window, border_of(a), jobs, err);
	return stk__window_copy(call, &s->window, a->bounds.fill_values, jobs, err);
}

static void slice_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct slice *a = call->args;
	const struct slice_state *s = call->state;
	if (a->dtype >= 0 && a->dtype != pass->dtype)
		stk__pass_cast(pass, (enum stk_dtype)a->dtype);
	stk__window_lower(&s->window, &s->in, a->bounds.fill_values, pass);
}

/* Returns the classes of a window in height and width, or STK_CLASS_NEVER for any other window, which a pass cannot cut. */
static unsigned slice_classify(const void *args, const struct stk_desc *in)
{
	const struct slice *a = args;
	int32_t axes[STK_MAX_DIMS];
	struct stk_dims dims;
	if (!in || border_of(a) != STK_BORDER_FILL || stk__dims_of(in, &dims, NULL) || !dims.known)
		return STK_CLASS_NEVER;
	int32_t n = stk__slice_axes(&a->slice, in, axes, NULL);
	for (int32_t i = 0; i < n; i++)
		if (axes[i] != dims.h && axes[i] != dims.w)
			return STK_CLASS_NEVER;
	return stk__window_classes(stk__bounds(&a->bounds) == STK_BOUNDS_PAD, in, a->dtype);
}

const struct stk_op_def stk__op_slice = {
	.name = "slice",
	.doc = "Extracts a window of a tensor.\n\n"
	       "The window is given by start and end or shape (indices), by rel_start and rel_end or rel_shape (fractions of the "
	       "extent), or by two inputs, its\n"
	       "anchor and its shape. They apply to the dims that axes or axis_names list, width and height by default.",
	.inputs = {1, 3},
	.host_inputs = 6,
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.args = slice_args,
	.args_size = sizeof(struct slice),
	.state_size = sizeof(struct slice_state),
	.classes = STK_CLASS_WINDOW | STK_CLASS_FILL | STK_CLASS_POINTWISE,
	.classify = slice_classify,
	.infer = slice_infer,
	.lower_jobs = slice_lower_jobs,
	.lower = slice_lower,
};
