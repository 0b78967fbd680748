/* SPDX-License-Identifier: Apache-2.0
 * filter: a weighted sum over a window, with weights from the operator's second input. */
#include "kernel/filter/filter.h"
#include "kernel/common/border.h"
#include "op/filter/spatial.h"

#include <string.h>

struct filter {
	struct stk_ints anchor;
	const char *border, *mode;
	int32_t dtype;
};

static const struct stk_arg_def filter_args[] = {
	STK_ARG(struct filter, anchor, STK_ARG_INTS, "[-1]", (-1, 0x1p31), STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"The element of the window that lies over the output's pixel, for each of its dims. -1: the middle, rounded down. No effect "
		"in mode valid."),
	{.name = "border",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct filter, border),
		.fallback = "\"reflect_101\"",
		.choices = "reflect_101|reflect_1001|wrap|clamp|constant",
		.doc = "Pixels outside the image: its mirror image without (dcb|abcdef|edc) or with the outermost pixels (cba|abcdef|fed), "
		       "its other side (def|abcdef|abc), its outermost pixels (aaa|abcdef|fff), or the third input (0 without it)."},
	{.name = "mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct filter, mode),
		.fallback = "\"same\"",
		.choices = "same|valid",
		.doc = "same: the output has the extents of the input. valid: only places at which the whole window lies inside; the output "
		       "is smaller by the window's extents less 1."},
	STK_ARG(struct filter, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, stk__filter_dtype_doc),
	STK_ARG_END,
};

static enum stk_status check_types(const struct stk_call *call, struct stk_error *err)
{
	enum stk_dtype in = call->in[0].desc.dtype, window = call->in[1].desc.dtype;
	if (in != STK_NO_DTYPE && (!stk__dtype_in_float(in) || in == STK_BOOL))
		return stk__fail(err, STK_UNSUPPORTED,
			"a filter takes (u)int8, (u)int16 and floats of up to 32 bits, not %s: cast the input", stk_dtype_name(in));
	if (window != STK_NO_DTYPE && window != STK_FLOAT)
		return stk__fail(
			err, STK_INVALID, "the window, which is the second input, must be of float32, not of %s", stk_dtype_name(window));
	if (call->n_in < 3 || call->in[2].desc.ndim < 0)
		return STK_OK;
	if (call->in[2].desc.ndim > 0 || call->in[2].desc.dtype != in)
		return stk__fail(err, STK_INVALID,
			"the third input, the value outside, must be a scalar of the image's type %s, not %s of %d dims",
			stk_dtype_name(in), stk_dtype_name(call->in[2].desc.dtype), call->in[2].desc.ndim);
	return STK_OK;
}

/* Returns the anchor along the i-th spatial dim; the default is the middle of the window, which has `size` elements. */
static int64_t anchor_of(const struct filter *a, int32_t i, int64_t size)
{
	int64_t anchor = a->anchor.v[a->anchor.count == 1 ? 0 : i];
	return anchor == -1 ? size / 2 : anchor;
}

static enum stk_status check_anchor(
	const struct filter *a, const struct stk_desc *window, const struct stk_spatial *dims, struct stk_error *err)
{
	enum stk_status s = stk__check_per_axis("anchor", a->anchor.count, dims, err);
	for (int32_t i = 0; s == STK_OK && i < dims->count; i++) {
		int64_t at = anchor_of(a, i, window->shape[i]);
		if (window->shape[i] >= 0 && (at < 0 || at >= window->shape[i]))
			return stk__fail(err, STK_INVALID, "anchor %lld lies outside of the window, whose extent in dim %d is %lld",
				(long long)at, i, (long long)window->shape[i]);
	}
	return s;
}

static enum stk_status filter_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct filter *a = call->args;
	const struct stk_desc *in = &call->in[0].desc, *window = &call->in[1].desc;
	struct stk_desc *out = &call->out[0].desc;
	struct stk_spatial dims;
	*out = *in;
	enum stk_status s = check_types(call, err);
	if (s || (s = stk__filter_dtype(a->dtype, in->dtype, &out->dtype, err)) || (s = stk__spatial_of(in, &dims, err)) ||
		dims.count < 0 || window->ndim < 0)
		return s;
	if (dims.count < 2 || window->ndim != dims.count)
		return stk__fail(err, STK_SHAPE,
			"the window has %d dims, the image %d spatial ones (layout \"%s\"; all dims are without one): both must have 2, or 3",
			window->ndim, dims.count, in->layout);
	for (int32_t i = 0; i < dims.count; i++) {
		int64_t *extent = &out->shape[dims.first + i];
		if (window->shape[i] == 0)
			return stk__fail(err, STK_SHAPE, "the window is empty: its extent in dim %d is 0", i);
		if (strcmp(a->mode, "valid") != 0)
			continue;
		if (*extent >= 0 && window->shape[i] > *extent)
			return stk__fail(err, STK_SHAPE,
				"in mode valid the window must fit into the image: its extent in dim %d is %lld, the image's %lld", i,
				(long long)window->shape[i], (long long)*extent);
		*extent = *extent < 0 || window->shape[i] < 0 ? -1 : *extent - window->shape[i] + 1;
	}
	return stk__varies(call, &a->anchor) ? STK_OK : check_anchor(a, window, &dims, err);
}

static int border_of(const char *name)
{
	static const char *const names[] = {[STK_BORDER_FILL] = "constant",
		[STK_BORDER_CLAMP] = "clamp",
		[STK_BORDER_REFLECT] = "reflect_1001",
		[STK_BORDER_REFLECT_101] = "reflect_101",
		[STK_BORDER_WRAP] = "wrap"};
	int k = 0;
	while (strcmp(names[k], name) != 0)
		k++;
	return k;
}

static enum stk_status filter_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct filter *a = call->args;
	const struct stk_desc *window = &call->in[1].desc;
	struct stk_spatial dims;
	struct stk_filter f;
	enum stk_status s = stk__spatial_of(&call->in[0].desc, &dims, err);
	if (s || (s = check_anchor(a, window, &dims, err)))
		return s;
	stk__spatial_filter(&call->in[0].desc, &call->out[0].desc, &dims, &f);
	f.dense = 1;
	f.border = (uint8_t)border_of(a->border);
	f.fill_at = call->n_in > 2 ? call->in[2].data : NULL;
	bool valid = strcmp(a->mode, "valid") == 0;
	for (int32_t i = 0; i < dims.count; i++) {
		struct stk_filter_window *w = &f.window[0][stk__spatial_axis(&dims, i)];
		w->size = (int32_t)window->shape[i];
		w->first = valid ? 0 : -(int32_t)anchor_of(a, i, window->shape[i]);
	}
	return stk__job_filter(jobs, &f, NULL, 0, call->in, &call->out[0], err);
}

const struct stk_op_def stk__op_filter = {
	.name = "filter",
	.alias = "experimental.filter",
	.doc = "Sums pixels over a window, each with its own weight.\n\n"
	       "Inputs are the image, the weights (float32, with one dim for each spatial dim of the image: 2, or 3 for a volume), "
	       "and for border constant optionally a scalar of the image's type, the value outside the image. The weights are not "
	       "flipped: this is a correlation. Spatial dims are all but frames (F) and channels (C), which come before or after the "
	       "others; all dims of a tensor without layout. Values are float32 until they are stored.",
	.inputs = {2, 3},
	.frame_inputs = 6,
	.args = filter_args,
	.args_size = sizeof(struct filter),
	.infer = filter_infer,
	.lower_jobs = filter_lower_jobs,
};
