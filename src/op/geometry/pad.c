/* SPDX-License-Identifier: Apache-2.0
 * pad: grows a tensor at the end of its dims, to given extents or to the largest of the batch. */
#include "op/geometry/slice_args.h"

#include <string.h>

struct pad {
	float fill_value;
	struct stk_ints axes, align, shape;
	const char *axis_names;
};

struct pad_state {
	struct stk_window window;
	struct stk_desc in;
};

static const struct stk_arg_def pad_args[] = {
	STK_ARG(struct pad, fill_value, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE | STK_INFINITE | STK_NAN,
		"Value of the added elements."),
	{.name = "axes",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct pad, axes),
		.min = -STK_MAX_DIMS,
		.max = STK_MAX_DIMS - 1,
		.shapes = true,
		.without_pass = true,
		.doc = "Dims to pad; negative ones count from the end. Default: all."},
	STK_ARG(struct pad, axis_names, STK_ARG_STRING, NULL, STK_FREE, 0, "The same as letters of the layout."),
	{.name = "shape",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct pad, shape),
		.min = -0x1p40,
		.max = 0x1p40,
		.shapes = true,
		.doc = "Least extents along the axes, one value or one for each of them; larger extents stay. -1 (or 0) and the default: "
		       "the largest extent of the batch."},
	{.name = "align",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct pad, align),
		.min = 1,
		.max = 0x1p31,
		.shapes = true,
		.doc = "Extents are rounded up to a multiple of this, one value or one for each of the axes."},
	STK_ARG_END,
};

/* Fails unless `shape` and `align`, if given, have one value or one for each of n axes. While a graph is built, does not check arguments that vary from
 * sample to sample. */
static enum stk_status check_counts(const struct stk_call *call, int32_t n, struct stk_error *err)
{
	const struct pad *a = call->args;
	if (!stk__varies(call, &a->shape) && a->shape.count > 0 && a->shape.count != 1 && a->shape.count != n)
		return stk__fail(err, STK_INVALID, "shape has %d values for %d axes: give one, or one for each", a->shape.count, n);
	if (!stk__varies(call, &a->align) && a->align.count > 0 && a->align.count != 1 && a->align.count != n)
		return stk__fail(err, STK_INVALID, "align has %d values for %d axes: give one, or one for each", a->align.count, n);
	return STK_OK;
}

/* Returns the extent that the argument `shape` gives for the i-th axis, or -1 if the axis is padded to the batch's largest extent. */
static int64_t extent_of_axis(const struct pad *a, int32_t i)
{
	int64_t extent = a->shape.count <= 0 ? -1 : a->shape.v[a->shape.count == 1 ? 0 : i];
	return extent > 0 ? extent : -1;
}

/* Returns the padded extent of the i-th axis, whose own extent is `extent`; -1 if `extent` is -1, which means that it is not known. largest: the batch's
 * largest extent of that axis. */
static int64_t padded(const struct pad *a, int32_t i, int64_t extent, int64_t largest)
{
	int64_t want = extent_of_axis(a, i) < 0 ? largest : extent_of_axis(a, i), to = want > extent ? want : extent;
	int64_t align = a->align.count <= 0 ? 1 : a->align.v[a->align.count == 1 ? 0 : i];
	return extent < 0 ? -1 : (to + align - 1) / align * align;
}

static int32_t pad_axes(const struct pad *a, const struct stk_desc *desc, int32_t axes[STK_MAX_DIMS], struct stk_error *err)
{
	if (a->axes.count > 0 || (a->axis_names && a->axis_names[0]))
		return stk__axes_of(a->axes, a->axis_names, desc, axes, err);
	for (int32_t d = 0; d < desc->ndim; d++)
		axes[d] = d;
	return desc->ndim;
}

static enum stk_status pad_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct pad *a = call->args;
	struct pad_state *s = call->state;
	s->in = call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	*out = s->in;
	for (int32_t d = 0; d < s->in.ndim && stk__varies(call, &a->axes); d++)
		out->shape[d] = -1;
	if (s->in.ndim < 0 || stk__varies(call, &a->axes))
		return STK_OK;
	int32_t axes[STK_MAX_DIMS], n = pad_axes(a, &s->in, axes, err);
	if (n < 0)
		return (enum stk_status) - n;
	enum stk_status e = check_counts(call, n, err);
	if (e)
		return e;
	if (stk__varies(call, &a->shape) || stk__varies(call, &a->align)) {
		for (int32_t i = 0; i < n; i++)
			out->shape[axes[i]] = -1;
		return STK_OK;
	}
	s->window = stk__window_full(&s->in);
	const int64_t *largest = call->gathered ? call->gathered : s->in.shape;
	for (int32_t i = 0; i < n; i++)
		out->shape[axes[i]] = s->window.extent[axes[i]] = padded(a, i, s->in.shape[axes[i]], largest[axes[i]]);
	return STK_OK;
}

/* Returns true if the operator needs the whole batch: it pads a dim to the batch's largest extent, and samples may have different extents in that dim. */
static bool pad_gathers(const struct stk_call *call)
{
	const struct pad *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	const bool known = in->ndim >= 0 && !stk__varies(call, &a->axes); /* whether the padded dims are known */
	int32_t axes[STK_MAX_DIMS], n = known ? pad_axes(a, in, axes, NULL) : a->shape.count > 1 ? a->shape.count : 1;
	bool needs = false;
	for (int32_t i = 0; i < n; i++)
		needs |= (!known || in->shape[axes[i]] < 0) && (stk__varies(call, &a->shape) || extent_of_axis(a, i) < 0);
	return needs;
}

static enum stk_status pad_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err)
{
	enum stk_status s = stk__gather_same(calls, count, 0, err);
	if (s)
		return s;
	int64_t *largest = stk__gathered_take(out, STK_MAX_DIMS * sizeof *largest);
	if (!largest)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the batch's largest extents");
	memset(largest, 0, STK_MAX_DIMS * sizeof *largest);
	for (int32_t i = 0; i < count; i++) {
		const struct stk_desc *in = &calls[i].in[0].desc;
		for (int32_t d = 0; d < in->ndim; d++)
			largest[d] = in->shape[d] > largest[d] ? in->shape[d] : largest[d];
	}
	return STK_OK;
}

static enum stk_status pad_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct pad *a = call->args;
	const struct pad_state *s = call->state;
	return stk__window_copy(call, &s->window, (struct stk_floats){1, &a->fill_value}, jobs, err);
}

static void pad_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct pad *a = call->args;
	const struct pad_state *s = call->state;
	stk__window_lower(&s->window, &s->in, (struct stk_floats){1, &a->fill_value}, pass);
}

static unsigned pad_classify(const void *args, const struct stk_desc *in)
{
	int32_t axes[STK_MAX_DIMS];
	struct stk_dims dims;
	if (!in || stk__dims_of(in, &dims, NULL) || !dims.known)
		return STK_CLASS_NEVER;
	int32_t n = pad_axes(args, in, axes, NULL);
	for (int32_t i = 0; i < n; i++)
		if (axes[i] != dims.h && axes[i] != dims.w)
			return STK_CLASS_NEVER;
	return STK_CLASS_WINDOW | STK_CLASS_FILL;
}

const struct stk_op_def stk__op_pad = {
	.name = "pad",
	.doc = "Pads tensors at the end of their dims.\n\n"
	       "Extents grow to shape, or to the largest of the batch, then to multiples of align. If all extents are known before the "
	       "run, from shape\n"
	       "or from earlier operators, no sample waits for others.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.args = pad_args,
	.args_size = sizeof(struct pad),
	.state_size = sizeof(struct pad_state),
	.classes = STK_CLASS_WINDOW | STK_CLASS_FILL,
	.classify = pad_classify,
	.gather = pad_gather,
	.gathers = pad_gathers,
	.infer = pad_infer,
	.lower_jobs = pad_lower_jobs,
	.lower = pad_lower,
};
