/* SPDX-License-Identifier: Apache-2.0 */
#include "op/nd.h"

#include "kernel/common/border.h"
#include "kernel/convert/convert_one.h"
#include "kernel/copy/copy.h"

#include <string.h>

const struct stk_arg_def stk__bounds_group[] = {
	{.name = "out_of_bounds_policy",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_bounds_args, out_of_bounds_policy),
		.fallback = "\"error\"",
		.choices = "error|pad|trim_to_shape",
		.doc = "If a window reaches outside of the tensor: fail, pad with fill_values, or trim the window."},
	STK_ARG(struct stk_bounds_args, fill_values, STK_ARG_FLOATS, "[0.0]", STK_FREE, STK_SCALAR_OK | STK_INFINITE | STK_NAN,
		"Values outside, one or one a channel, with policy pad."),
	STK_ARG_END,
};

enum stk_bounds stk__bounds(const struct stk_bounds_args *a)
{
	return a->out_of_bounds_policy[0] == 'p' ? STK_BOUNDS_PAD : a->out_of_bounds_policy[0] == 't' ? STK_BOUNDS_TRIM : STK_BOUNDS_ERROR;
}

struct stk_window stk__window_full(const struct stk_desc *desc)
{
	struct stk_window w = {0};
	for (int32_t d = 0; d < desc->ndim; d++)
		w.extent[d] = desc->shape[d];
	return w;
}

bool stk__window_inside(const struct stk_window *w, const struct stk_desc *desc)
{
	for (int32_t d = 0; d < desc->ndim; d++)
		if (w->start[d] < 0 || w->start[d] + w->extent[d] > desc->shape[d])
			return false;
	return true;
}

/* Returns the name of dim d for a message, such as "height". If its letter has no plain name, writes a text such as "dim 2" to `text` and returns it. */
static const char *dim_name(const struct stk_desc *desc, int32_t d, char text[16])
{
	const char *layout = stk__layout_of(desc);
	char letter = d < (int32_t)strlen(layout) ? layout[d] : 0;
	if (letter == 'H' || letter == 'W' || letter == 'C')
		return letter == 'H' ? "height" : letter == 'W' ? "width" : "channels";
	text[0] = 'd', text[1] = 'i', text[2] = 'm', text[3] = ' ', text[4] = (char)('0' + d), text[5] = 0;
	return text;
}

enum stk_status stk__window_bound(struct stk_window *w, const struct stk_desc *desc, enum stk_bounds bounds, struct stk_error *err)
{
	for (int32_t d = 0; d < desc->ndim; d++) {
		int64_t n = desc->shape[d], lo = w->start[d], hi = lo + w->extent[d];
		if (n < 0 || w->extent[d] < 0 || bounds == STK_BOUNDS_PAD || (lo >= 0 && hi <= n))
			continue;
		char text[16];
		if (bounds != STK_BOUNDS_TRIM)
			return stk__fail(err, STK_SHAPE,
				"the window %lld .. %lld reaches outside the %s of %lld; %sout_of_bounds_policy=\"pad\" or \"trim_to_shape\" "
				"would take it",
				(long long)lo, (long long)hi, dim_name(desc, d, text), (long long)n,
				bounds == STK_BOUNDS_NO_POLICY ? "crop or slice, as an operator of its own, with " : "");
		w->start[d] = lo < 0 ? 0 : lo > n ? n : lo;
		w->extent[d] = (hi < 0 ? 0 : hi > n ? n : hi) - w->start[d];
	}
	return STK_OK;
}

/* Returns x clamped to the range of int32. Passes refuse extents that large, so the exact value does not matter. */
static int32_t to_pass(int64_t x)
{
	return x > INT32_MAX ? INT32_MAX : x < -INT32_MAX ? -INT32_MAX : (int32_t)x;
}

void stk__window_fill(const struct stk_window *w, const struct stk_desc *desc, const float *fill, struct stk_pass *pass)
{
	struct stk_dims dims;
	if (stk__dims_of(desc, &dims, NULL))
		return; /* infer fails in this case, so this is never reached */
	const struct stk_rect rect = {
		to_pass(w->start[dims.w]), to_pass(w->start[dims.h]), to_pass(w->extent[dims.w]), to_pass(w->extent[dims.h])};
	stk__pass_window(pass, rect, stk__window_inside(w, desc) ? NULL : fill);
}

void stk__window_lower(const struct stk_window *w, const struct stk_desc *desc, struct stk_floats fill, struct stk_pass *pass)
{
	float value[STK_PASS_MAX_CHANNELS] = {0};
	for (int32_t c = 0; c < pass->c && c < STK_PASS_MAX_CHANNELS; c++)
		value[c] = fill.count > 0 ? fill.v[fill.count == 1 ? 0 : pass->plane + c] : 0;
	stk__window_fill(w, desc, value, pass);
}

unsigned stk__window_classes(bool fills, const struct stk_desc *in, int32_t dtype)
{
	unsigned classes = STK_CLASS_WINDOW | (fills ? STK_CLASS_FILL : 0);
	if (dtype < 0 || (in && in->dtype == (enum stk_dtype)dtype))
		return classes;
	return stk__dtype_in_float((enum stk_dtype)dtype) ? stk__classes_for(in, classes | STK_CLASS_POINTWISE) : STK_CLASS_NEVER;
}

static enum stk_status name_sample(enum stk_status s, int32_t call, struct stk_error *err)
{
	if (err)
		err->sample = call;
	return s;
}

enum stk_status stk__gather_same(const struct stk_call *calls, int32_t count, uint32_t dims, struct stk_error *err)
{
	const struct stk_desc *first = &calls[0].in[0].desc;
	for (int32_t i = 1; i < count; i++) {
		const struct stk_desc *in = &calls[i].in[0].desc;
		if (in->ndim != first->ndim)
			return name_sample(
				stk__fail(err, STK_SHAPE, "%d dims, where the first sample of the batch has %d", in->ndim, first->ndim), i,
				err);
		for (int32_t d = 0; d < in->ndim; d++)
			if ((dims >> d & 1) && in->shape[d] != first->shape[d])
				return name_sample(stk__fail(err, STK_SHAPE,
							   "an extent of %lld in dim %d, where the first sample of the batch has %lld",
							   (long long)in->shape[d], d, (long long)first->shape[d]),
					i, err);
	}
	return STK_OK;
}

/* Sets *dim to the dim along which fill values differ; -1: one value for all elements. Fails if there are several values, but not one for each channel. */
static enum stk_status fill_dim(struct stk_floats fill, const struct stk_desc *out, int32_t *dim, struct stk_error *err)
{
	*dim = fill.count > 1 ? stk__layout_find(out, 'C') : -1;
	if (fill.count > 1 && (*dim < 0 || (out->shape[*dim] >= 0 && out->shape[*dim] != fill.count)))
		return stk__fail(err, STK_INVALID, "fill_values has %d values: give one, or one for each channel", fill.count);
	return STK_OK;
}

enum stk_status stk__check_fill(struct stk_floats fill, const struct stk_desc *out, struct stk_error *err)
{
	int32_t dim;
	return out->ndim < 0 ? STK_OK : fill_dim(fill, out, &dim, err);
}

/* Returns fill value k (0 if none is given), converted to type dtype. The element is in the first bytes of the result. */
static uint64_t fill_element(struct stk_floats fill, int32_t k, enum stk_dtype dtype)
{
	float one = fill.count > 0 ? fill.v[k] : 0;
	uint64_t element = 0; /* as wide as an element of any type */
	stk__convert_one(&element, dtype, &one, STK_FLOAT);
	return element;
}

enum stk_status stk__window_copy(
	const struct stk_call *call, const struct stk_window *w, struct stk_floats fill, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc, *out = &call->out[0].desc;
	struct stk_copy_dim dims[STK_MAX_DIMS];
	struct stk_tensor to = call->out[0];
	int32_t c;
	enum stk_status s = fill_dim(fill, out, &c, err);
	if (s)
		return s;
	stk__copy_dims(dims, out->ndim, in->shape, NULL, w->start, NULL, out->shape);
	if (c < 0 || stk__window_inside(w, in)) {
		uint64_t value = fill_element(fill, 0, out->dtype);
		return stk__job_copy(jobs, &call->in[0], &to, dims, out->ndim, &value, false, err);
	}
	dims[c].size = 1; /* one copy for each channel, since each has its own fill value */
	for (int32_t k = 0; k < fill.count && s == STK_OK; k++) {
		uint64_t value = fill_element(fill, k, out->dtype);
		s = stk__job_copy(jobs, &call->in[0], &to, dims, out->ndim, &value, false, err);
		dims[c].start++;
		to.data = (char *)to.data + (size_t)dims[c].dst * stk_dtype_size(out->dtype);
	}
	return s;
}

/* Neighbouring output elements along one dim, whose source elements are equally far apart: output at + k is read from source start + k * step, 0 <= k <
 * size. */
struct run {
	int64_t at, size, start, step;
};

static struct run next_run(int64_t at, int64_t extent, int64_t start, int32_t size, enum stk_border border)
{
	struct run r = {at, 1, stk__border_index((int32_t)(start + at), size, (int32_t)border), 1};
	if (at + 1 < extent)
		r.step = stk__border_index((int32_t)(start + at + 1), size, (int32_t)border) - r.start;
	while (at + r.size < extent &&
		stk__border_index((int32_t)(start + at + r.size), size, (int32_t)border) == r.start + r.step * r.size)
		r.size++;
	return r;
}

/* Divides the window along dim d and all later dims into runs, and makes a copy job for each combination of runs. dims[0 .. d - 1] already hold the runs of
 * earlier dims; `to` points to where they begin in the output. */
static enum stk_status continue_dims(const struct stk_call *call, const struct stk_window *w, enum stk_border border, struct stk_jobs *jobs,
	struct stk_copy_dim *dims, struct stk_tensor to, int32_t d, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	enum stk_status s = STK_OK;
	if (d == in->ndim)
		return stk__job_copy(jobs, &call->in[0], &to, dims, d, NULL, false, err);
	for (int64_t at = 0; at < w->extent[d] && !s; at += dims[d].size) {
		struct run r = next_run(at, w->extent[d], w->start[d], (int32_t)in->shape[d], border);
		struct stk_tensor part = to;
		part.data = (char *)to.data + (size_t)(at * dims[d].dst) * stk_dtype_size(to.desc.dtype);
		dims[d].size = r.size;
		dims[d].start = r.start;
		dims[d].step = r.step;
		s = continue_dims(call, w, border, jobs, dims, part, d + 1, err);
	}
	return s;
}

enum stk_status stk__window_continue(
	const struct stk_call *call, const struct stk_window *w, enum stk_border border, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc, *out = &call->out[0].desc;
	struct stk_copy_dim dims[STK_MAX_DIMS];
	for (int32_t d = 0; d < in->ndim; d++) {
		if (in->shape[d] == 0 && w->extent[d] > 0)
			return stk__fail(err, STK_SHAPE, "an empty tensor has no values that a window outside of it could repeat");
		if (in->shape[d] > INT32_MAX / 2 || w->start[d] < -INT32_MAX || w->start[d] > INT32_MAX - w->extent[d])
			return stk__fail(err, STK_LIMIT, "a window at %lld of %lld values is out of bounds", (long long)w->start[d],
				(long long)w->extent[d]);
	}
	stk__copy_dims(dims, in->ndim, in->shape, NULL, w->start, NULL, out->shape);
	return continue_dims(call, w, border, jobs, dims, call->out[0], 0, err);
}
