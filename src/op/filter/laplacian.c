/* SPDX-License-Identifier: Apache-2.0
 * laplacian: the sum of the second derivatives along the spatial dims. */
#include "kernel/common/border.h"
#include "kernel/filter/filter.h"
#include "op/filter/spatial.h"

#include <string.h>

struct laplacian {
	struct stk_ints window_size, smoothing_size;
	struct stk_floats scale;
	bool normalized_kernel;
	int32_t dtype;
};

enum { MOST = 31 };

static const struct stk_arg_def laplacian_args[] = {
	STK_ARG(struct laplacian, window_size, STK_ARG_INTS, "[3]", (3, MOST), STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"Extent of the window of each derivative along its own dim: an odd number, one or one for each spatial dim, outermost "
		"first."),
	STK_ARG(struct laplacian, smoothing_size, STK_ARG_INTS, NULL, (1, MOST), STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"Extent of the windows that smooth along the other dims, given in the same way; 1 does not smooth. Default: window_size of the "
		"derivative."),
	STK_ARG(struct laplacian, scale, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"Factor of each derivative, one value or one for each spatial dim. Default: 1."),
	STK_ARG(struct laplacian, normalized_kernel, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Multiplies each derivative by 2^(n + 2 - s), where n is the number of spatial dims and s the sum of the extents of its windows. "
		"Excludes scale."),
	STK_ARG(struct laplacian, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, stk__filter_dtype_doc),
	STK_ARG_END,
};

static int64_t per_axis(struct stk_ints v, int32_t i)
{
	return v.v[v.count == 1 ? 0 : i];
}

/* Returns the extent along spatial dim i of the window that computes the derivative along dim t. */
static int64_t size_of(const struct laplacian *a, int32_t t, int32_t i)
{
	return t == i || a->smoothing_size.count < 0 ? per_axis(a->window_size, t) : per_axis(a->smoothing_size, i);
}

static enum stk_status check_sizes(const struct laplacian *a, const struct stk_spatial *dims, struct stk_error *err)
{
	const struct {
		const char *name;
		struct stk_ints v;
		int64_t least;
	} sizes[] = {{"window_size", a->window_size, 3}, {"smoothing_size", a->smoothing_size, 1}};
	for (int k = 0; k < 2; k++) {
		if (sizes[k].v.count < 0)
			continue;
		enum stk_status s = stk__check_per_axis(sizes[k].name, sizes[k].v.count, dims, err);
		if (s)
			return s;
		for (int32_t i = 0; i < sizes[k].v.count; i++)
			if (sizes[k].v.v[i] < sizes[k].least || sizes[k].v.v[i] > MOST || sizes[k].v.v[i] % 2 == 0)
				return stk__fail(err, STK_INVALID, "%s must be odd and from %lld to %d, not %lld", sizes[k].name,
					(long long)sizes[k].least, MOST, (long long)sizes[k].v.v[i]);
	}
	return a->scale.count < 0 ? STK_OK : stk__check_per_axis("scale", a->scale.count, dims, err);
}

static enum stk_status laplacian_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct laplacian *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_spatial dims;
	call->out[0].desc = *in;
	enum stk_status s = stk__filter_dtype(a->dtype, in->dtype, &call->out[0].desc.dtype, err);
	if (in->dtype == STK_BOOL || in->dtype == STK_FLOAT64)
		return stk__fail(err, STK_UNSUPPORTED, "the Laplacian takes numbers of up to float32, not %s: cast the input",
			stk_dtype_name(in->dtype));
	if (a->normalized_kernel && (a->scale.count >= 0 || stk__varies(call, &a->scale)))
		return stk__fail(err, STK_INVALID, "normalized_kernel=True determines the scale: leave one of the two out");
	if (s || (s = stk__spatial_of(in, &dims, err)) || stk__varies(call, &a->window_size) || stk__varies(call, &a->smoothing_size) ||
		stk__varies(call, &a->scale))
		return s;
	return check_sizes(a, &dims, err);
}

/* Fills a window with binomial coefficients, which size - 1 convolutions with (1, 1) give; for a derivative, size - 3 convolutions with (1, 1) and two with
 * (-1, 1). Each coefficient is multiplied by `scale`. */
static void fill_window(float *to, int32_t size, bool derivative, double scale)
{
	double w[MOST + 1] = {1};
	int32_t n = 1;
	for (int32_t k = 0; k < (derivative ? size - 3 : size - 1); k++, n++)
		for (int32_t i = n; i > 0; i--)
			w[i] += w[i - 1];
	for (int32_t k = 0; derivative && k < 2; k++, n++)
		for (int32_t i = n; i >= 0; i--)
			w[i] = (i ? w[i - 1] : 0) - w[i];
	for (int32_t i = 0; i < size; i++)
		to[i] = (float)((float)w[i] * scale);
}

static double scale_of(const struct laplacian *a, const struct stk_spatial *dims, int32_t t)
{
	int64_t exponent = dims->count + 2;
	if (!a->normalized_kernel)
		return a->scale.count < 0 ? 1 : a->scale.v[a->scale.count == 1 ? 0 : t];
	for (int32_t i = 0; i < dims->count; i++)
		exponent -= size_of(a, t, i);
	return ldexp(1, (int)exponent);
}

static enum stk_status laplacian_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct laplacian *a = call->args;
	struct stk_spatial dims;
	struct stk_filter f;
	int32_t used = 0;
	enum stk_status s = stk__spatial_of(&call->in[0].desc, &dims, err);
	if (s || (s = check_sizes(a, &dims, err)))
		return s;
	float *weights = stk__arena_take(call->tools->arena, sizeof *weights * STK_FILTER_TERMS * STK_FILTER_AXES * MOST);
	if (!weights)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a window");
	stk__spatial_filter(&call->in[0].desc, NULL, &dims, &f);
	f.border = STK_BORDER_REFLECT_101;
	f.n_terms = dims.count;
	f.last = dims.count == 3 ? 0 : 1;
	for (int32_t t = 0; t < dims.count; t++)
		for (int axis = 0; axis < STK_FILTER_AXES; axis++) {
			struct stk_filter_window *w = &f.window[t][axis];
			int32_t i = axis - stk__spatial_axis(&dims, 0);
			w->size = i < 0 ? 1 : (int32_t)size_of(a, t, i);
			w->first = -(w->size - 1) / 2;
			w->weights = used;
			fill_window(weights + used, w->size, i == t, axis == f.last ? scale_of(a, &dims, t) : 1);
			used += w->size;
		}
	return stk__job_filter(jobs, &f, weights, used, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_laplacian = {
	.name = "laplacian",
	.doc = "Adds up the second derivatives of images along their spatial dims.\n\n"
	       "Each derivative is a window of the binomial coefficients convolved with (1, -2, 1) along its dim, and windows of "
	       "binomial coefficients, which smooth, along the others. Spatial dims are all but frames (F) and channels (C), which "
	       "come before or after the others; all dims of a tensor without layout. Outside, the image continues as its mirror "
	       "image, without the outermost pixels themselves. Values are float32 until they are stored.",
	.inputs = {1, 1},
	.args = laplacian_args,
	.args_size = sizeof(struct laplacian),
	.infer = laplacian_infer,
	.lower_jobs = laplacian_lower_jobs,
};
