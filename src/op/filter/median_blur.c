/* SPDX-License-Identifier: Apache-2.0
 * experimental.median_blur: the median of the values in a window. */
#include "kernel/common/border.h"
#include "kernel/filter/filter.h"
#include "op/filter/morphology.h"

struct median_blur {
	struct stk_ints window_size;
};

enum { MOST = 31 };

static const struct stk_arg_def median_blur_args[] = {
	STK_ARG(struct median_blur, window_size, STK_ARG_INTS, "[3, 3]", (1, MOST), STK_PER_SAMPLE | STK_SCALAR_OK,
		"Width and height of the window in pixels, odd numbers; one value stands for both."),
	STK_ARG_END,
};

static enum stk_status median_blur_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct median_blur *a = call->args;
	struct stk_spatial dims;
	call->out[0].desc = call->in[0].desc;
	enum stk_status s = stk__planar_image(&call->in[0].desc, &dims, err);
	if (s || stk__varies(call, &a->window_size))
		return s;
	if (a->window_size.count < 1 || a->window_size.count > 2)
		return stk__fail(err, STK_INVALID, "window_size takes a width and a height, not %d values", a->window_size.count);
	for (int32_t i = 0; i < a->window_size.count; i++)
		if (a->window_size.v[i] < 1 || a->window_size.v[i] > MOST || a->window_size.v[i] % 2 == 0)
			return stk__fail(err, STK_INVALID, "window_size must be odd and from 1 to %d, not %lld", MOST,
				(long long)a->window_size.v[i]);
	return STK_OK;
}

static enum stk_status median_blur_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct median_blur *a = call->args;
	struct stk_spatial dims;
	struct stk_filter f;
	enum stk_status s = stk__planar_image(&call->in[0].desc, &dims, err);
	if (s)
		return s;
	stk__spatial_filter(&call->in[0].desc, NULL, &dims, &f);
	f.reduction = STK_FILTER_MEDIAN;
	f.border = STK_BORDER_CLAMP;
	f.dense = 1;
	for (int i = 0; i < 2; i++) {
		int32_t size = (int32_t)stk__planar_size(a->window_size, i);
		f.window[0][2 - i] = (struct stk_filter_window){.size = size, .first = -(size / 2), .weights = 0};
	}
	return stk__job_filter(jobs, &f, NULL, 0, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_median_blur = {
	.name = "experimental.median_blur",
	.doc = "Replaces each pixel by the median of a window about it.\n\n"
	       "Each channel is processed on its own; the outermost pixels repeat outside the image. Images have types of up to 16 "
	       "bits, or float32.",
	.inputs = {1, 1},
	.layouts = "HW HWC FHWC CHW FCHW FHW",
	.args = median_blur_args,
	.args_size = sizeof(struct median_blur),
	.flags = STK_OP_IMAGES,
	.infer = median_blur_infer,
	.lower_jobs = median_blur_lower_jobs,
};
