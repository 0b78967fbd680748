/* SPDX-License-Identifier: Apache-2.0
 * segmentation.random_mask_pixel: draws one of the pixels that a mask marks. */
#include "kernel/convert/convert.h"
#include "op/dims.h"

struct mask_pixel {
	int64_t foreground, value, seed;
	float threshold;
};

static const struct stk_arg_def mask_pixel_args[] = {
	STK_ARG(struct mask_pixel, foreground, STK_ARG_INT, "0", STK_FREE, STK_PER_SAMPLE,
		"Draws only from the marked pixels; 0: from all pixels. If no pixel is marked, draws from all."),
	STK_ARG(struct mask_pixel, threshold, STK_ARG_FLOAT, NULL, STK_FREE, STK_PER_SAMPLE, "Values above this are marked. Default: 0."),
	STK_ARG(struct mask_pixel, value, STK_ARG_INT, NULL, STK_FREE, STK_PER_SAMPLE,
		"Values equal to this are marked, instead of those above threshold."),
	STK_ARG(struct mask_pixel, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_END,
};

static enum stk_status mask_pixel_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct mask_pixel *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	bool threshold = stk__float_given(a->threshold) || stk__varies(call, &a->threshold),
	     value = stk__int_given(a->value) || stk__varies(call, &a->value);
	call->out[0].desc = (struct stk_desc){STK_INT64, 1, {in->ndim}, ""};
	if (threshold && value)
		return stk__fail(err, STK_INVALID, "threshold and value are both given: choose one");
	if (in->dtype == STK_FLOAT16 || in->dtype == STK_BFLOAT16 || in->dtype == STK_FLOAT64)
		return stk__fail(
			err, STK_UNSUPPORTED, "masks must be of whole numbers or float32, not %s; cast them", stk_dtype_name(in->dtype));
	if (in->ndim == 0)
		return stk__fail(err, STK_SHAPE, "a mask must have at least 1 dim");
	if (!stk__building(call) && stk_desc_elements(in) == 0)
		return stk__fail(err, STK_SHAPE, "the mask has no pixels: there is nothing to draw");
	return STK_OK;
}

/* Sets *at to the index of marked pixel number `skip`, counted from 0 or, if skip is -1, to that of the last marked pixel. Returns the number of marked
 * pixels up to and including that one. */
static int64_t scan(const struct stk_call *call, int64_t skip, int64_t *at)
{
	enum { PART = 512 };
	const struct mask_pixel *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	bool equal = stk__int_given(a->value);
	double wanted = (double)a->value, threshold = stk__float_given(a->threshold) ? (double)a->threshold : 0, values[PART];
	int64_t total = stk_desc_elements(in), seen = 0;
	for (int64_t i = 0, n; i < total; i += n) {
		n = total - i < PART ? total - i : PART;
		stk__convert(values, STK_FLOAT64, (const char *)call->in[0].data + (size_t)i * stk_dtype_size(in->dtype), in->dtype, n);
		for (int64_t k = 0; k < n; k++) {
			if (!(equal ? values[k] == wanted : values[k] > threshold))
				continue;
			*at = i + k;
			if (seen++ == skip)
				return seen;
		}
	}
	return seen;
}

static enum stk_status mask_pixel_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct mask_pixel *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_random r = call->random;
	int64_t *out = call->out[0].data, at = 0, marked = a->foreground ? scan(call, -1, &at) : 0;
	double share = stk__random_double(&r);
	if (marked)
		scan(call, (int64_t)(share * (double)marked), &at);
	else
		at = (int64_t)(share * (double)stk_desc_elements(in));
	for (int32_t d = in->ndim - 1; d >= 0; d--) {
		out[d] = at % in->shape[d];
		at /= in->shape[d];
	}
	return STK_OK;
}

const struct stk_op_def stk__op_random_mask_pixel = {
	.name = "segmentation.random_mask_pixel",
	.doc = "Draws a pixel of a mask, from all pixels or from those that are marked.\n\n"
	       "The mask is a tensor of whole numbers or float32, with any number of dims. The output is the pixel's position, int64, "
	       "one value a dim.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = mask_pixel_args,
	.args_size = sizeof(struct mask_pixel),
	.flags = STK_OP_RANDOM,
	.infer = mask_pixel_infer,
	.run_cpu = mask_pixel_run,
};
