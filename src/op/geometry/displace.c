/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/displace.h"

#include "kernel/common/border.h"
#include "kernel/copy/copy.h"
#include "kernel/sample/sample.h"

#include <string.h>

const struct stk_arg_def stk__displace_group[] = {
	STK_ARG(struct stk_displace_args, fill_value, STK_ARG_FLOAT, "0.0", STK_FREE, STK_NAN,
		"Value of pixels that come from outside the image."),
	STK_ARG(struct stk_displace_args, interp_type, STK_ARG_INTERP, "0", (0, 1), 0, "NN or LINEAR."),
	STK_ARG(struct stk_displace_args, mask, STK_ARG_INT, "1", STK_FREE, STK_PER_SAMPLE, "0 leaves the image unchanged."),
	STK_ARG_END,
};

enum stk_status stk__displace_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	call->out[0].desc = *in;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8 && in->dtype != STK_FLOAT)
		return stk__fail(
			err, STK_UNSUPPORTED, "images must be of uint8 or float32 here, not %s; cast them", stk_dtype_name(in->dtype));
	if (in->ndim >= 0 && strcmp(stk__layout_of(in), "HWC") != 0)
		return stk__fail(err, STK_SHAPE, "the input must be an image of layout HWC, not a tensor of %d dims%s%s%s; transpose it",
			in->ndim, in->layout[0] ? " and layout \"" : "", in->layout, in->layout[0] ? "\"" : "");
	return STK_OK;
}

enum stk_status stk__check_sampled(enum stk_dtype dtype, int32_t interp, struct stk_error *err)
{
	bool mixed = dtype == STK_UINT8 || dtype == STK_UINT16 || dtype == STK_INT16 || dtype == STK_FLOAT;
	if (dtype == STK_NO_DTYPE || mixed || interp == STK_INTERP_NN)
		return STK_OK;
	return stk__fail(err, STK_UNSUPPORTED,
		"images must be of uint8, uint16, int16 or float32 here, not %s; cast them, or take the nearest pixel (NN)",
		stk_dtype_name(dtype));
}

float *stk__channel_values(const struct stk_call *call, struct stk_floats values, int64_t n)
{
	float *each = stk__arena_take(call->tools->arena, (size_t)n * sizeof *each + 1);
	for (int64_t c = 0; each && c < n; c++)
		each[c] = values.count > 0 ? values.v[values.count == 1 ? 0 : c] : 0;
	return each;
}

enum stk_status stk__displace_lower(const struct stk_call *call, const struct stk_displace_args *a, struct stk_job_sample *s,
	struct stk_jobs *jobs, struct stk_error *err)
{
	if (!a->mask)
		return stk__job_copy_all(jobs, &call->in[0], &call->out[0], false, err);
	static const struct stk_sample_dims dims = {{1, 0, -1}, 2};
	float value = a->fill_value; /* the lines below round it to the image's type */
	if (call->in[0].desc.dtype == STK_UINT8)
		value = value > 0 ? value < UINT8_MAX ? roundf(value) : UINT8_MAX : 0;
	float *fill = stk__channel_values(call, (struct stk_floats){1, &value}, call->in[0].desc.shape[2]);
	for (int32_t d = 0; d < 2; d++)
		if (call->in[0].desc.shape[d] > STK_PASS_MAX_EXTENT)
			return stk__fail(err, STK_LIMIT, "the image has more than %d pixels along one side", STK_PASS_MAX_EXTENT);
	if (!fill)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	s->interp = a->interp_type;
	s->border = STK_BORDER_FILL;
	return stk__job_sample(jobs, s, &dims, fill, &call->in[0], &call->out[0], err);
}
