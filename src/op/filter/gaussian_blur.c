/* SPDX-License-Identifier: Apache-2.0
 * gaussian_blur: a weighted mean over a window, with weights from the normal distribution. */
#include "op/filter/spatial.h"

#include "base/math.h"
#include "kernel/common/border.h"
#include "kernel/filter/filter.h"

struct gaussian_blur {
	struct stk_floats sigma;
	struct stk_ints window_size;
	int32_t dtype;
};

static const struct stk_arg_def gaussian_blur_args[] = {
	STK_ARG(struct gaussian_blur, sigma, STK_ARG_FLOATS, "[0.0]", (0, HUGE_VAL), STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"Standard deviation in pixels, one value or one for each spatial dim, outermost first. 0: follows from window_size, as (r - "
		"1) * 0.3 + 0.8 with its radius r."),
	STK_ARG(struct gaussian_blur, window_size, STK_ARG_INTS, "[0]", (0, 0x1p31), STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"Extent of the window in pixels, an odd number, given in the same way. 0: follows from sigma, as 2 * ceil(3 * sigma) + 1."),
	STK_ARG(struct gaussian_blur, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, stk__filter_dtype_doc),
	STK_ARG_END,
};

/* Maximum extent of a window. A larger window is a mistake, since no image has so many pixels in a row. */
enum { MOST = 1 << 16 };

/* A window along one spatial dim: its standard deviation, and its extent in elements. */
struct window {
	double sigma;
	int64_t size;
};

static enum stk_status window_of(const struct gaussian_blur *a, int32_t i, struct window *out, struct stk_error *err)
{
	double sigma = a->sigma.v[a->sigma.count == 1 ? 0 : i];
	int64_t size = a->window_size.v[a->window_size.count == 1 ? 0 : i];
	if (!(sigma >= 0) || size < 0) /* the ranges in gaussian_blur_args are not checked for values that vary from sample to sample */
		return stk__fail(err, STK_INVALID, "sigma and window_size cannot be negative: they are %g and %lld for spatial dim %d",
			sigma, (long long)size, i);
	if (sigma == 0 && size == 0)
		return stk__fail(err, STK_INVALID, "sigma and window_size are both 0 for spatial dim %d: give one of them", i);
	if (size && size % 2 == 0)
		return stk__fail(err, STK_INVALID, "window_size must be odd, not %lld", (long long)size);
	if (size > MOST || sigma > MOST / 8)
		return stk__fail(err, STK_LIMIT, "the window for spatial dim %d has more than %d pixels (sigma %g, window_size %lld)", i,
			MOST, sigma, (long long)size);
	out->size = size ? size : 2 * (int64_t)ceil(sigma * 3) + 1;
	out->sigma = sigma > 0 ? sigma : ((double)((out->size - 1) / 2) - 1) * 0.3 + 0.8;
	return STK_OK;
}

static enum stk_status gaussian_blur_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct gaussian_blur *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_spatial dims;
	struct window window;
	call->out[0].desc = *in;
	enum stk_status s = stk__filter_dtype(a->dtype, in->dtype, &call->out[0].desc.dtype, err);
	if (in->dtype == STK_BOOL)
		return stk__fail(err, STK_UNSUPPORTED, "bools have no mean: cast the input to uint8 or float32");
	if (s || (s = stk__spatial_of(in, &dims, err)) || stk__varies(call, &a->sigma) || stk__varies(call, &a->window_size))
		return s;
	if ((s = stk__check_per_axis("sigma", a->sigma.count, &dims, err)) ||
		(s = stk__check_per_axis("window_size", a->window_size.count, &dims, err)))
		return s;
	for (int32_t i = 0; i < dims.count && s == STK_OK; i++)
		s = window_of(a, i, &window, err);
	return s;
}

/* Sets to[0] to to[w->size - 1] to the weights of the Gaussian window, which add up to 1. */
static void fill_weights(float *to, const struct window *w)
{
	int64_t radius = (w->size - 1) / 2;
	double scale = 0.5 / (w->sigma * w->sigma), sum = 0;
	for (int64_t x = -radius; x < 0; x++)
		sum += stk__exp(-((double)(x * x) * scale));
	sum = 1 / (2 * sum + 1);
	for (int64_t x = -radius; x <= radius; x++)
		to[x + radius] = (float)(stk__exp(-((double)(x * x) * scale)) * sum);
}

static enum stk_status gaussian_blur_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct gaussian_blur *a = call->args;
	struct stk_spatial dims;
	struct window windows[STK_FILTER_AXES];
	struct stk_filter f;
	enum stk_status s = stk__spatial_of(&call->in[0].desc, &dims, err);
	int64_t total = STK_FILTER_AXES;
	for (int32_t i = 0; s == STK_OK && i < dims.count; i++) {
		s = window_of(a, i, &windows[i], err);
		total += windows[i].size;
	}
	if (s)
		return s;
	float *weights = stk__arena_take(call->tools->arena, (size_t)total * sizeof *weights);
	if (!weights)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a window");
	stk__spatial_filter(&call->in[0].desc, NULL, &dims, &f);
	f.border = STK_BORDER_REFLECT_101;
	f.last = dims.count == 3 ? 0 : 1;
	int32_t used = 0;
	for (int axis = 0; axis < STK_FILTER_AXES; axis++) {
		struct stk_filter_window *w = &f.window[0][axis];
		int32_t i = axis - stk__spatial_axis(&dims, 0);
		w->weights = used;
		weights[used] = 1;
		if (i >= 0) {
			fill_weights(weights + used, &windows[i]);
			w->size = (int32_t)windows[i].size;
			w->first = -(w->size - 1) / 2;
		}
		used += w->size;
	}
	return stk__job_filter(jobs, &f, weights, used, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_gaussian_blur = {
	.name = "gaussian_blur",
	.doc = "Blurs images by a Gaussian window.\n\n"
	       "Blurs along each spatial dim of an image, a volume or a sequence of them: along all dims but frames (F) and channels "
	       "(C), which come before or after the others; along all dims of a tensor without layout. Outside, the image continues as "
	       "its mirror image, without the outermost pixels themselves (dcb|abcdef|edc). Values are float32 until they are stored.",
	.inputs = {1, 1},
	.args = gaussian_blur_args,
	.args_size = sizeof(struct gaussian_blur),
	.infer = gaussian_blur_infer,
	.lower_jobs = gaussian_blur_lower_jobs,
};
