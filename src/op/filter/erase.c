/* SPDX-License-Identifier: Apache-2.0
 * erase: fills regions of a tensor. */
#include "kernel/pointwise/pointwise.h"
#include "op/filter/regions.h"
#include "op/geometry/slice_args.h"

struct erase {
	struct stk_regions regions;
	struct stk_floats fill_value;
};

static const struct stk_arg_def erase_args[] = {
	STK_ARG_GROUP(struct erase, regions, stk__regions_group),
	STK_ARG(struct erase, fill_value, STK_ARG_FLOATS, "[0.0]", STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK | STK_INFINITE | STK_NAN,
		"Fill value of the regions; integer types drop the fraction and saturate. One value, or one for each channel (dim C)."),
	STK_ARG_END,
};

static enum stk_status erase_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct erase *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	enum stk_status s = stk__regions_infer(call, &a->regions, err);
	if (s || in->ndim < 0 || stk__varies(call, &a->fill_value) || a->fill_value.count == 1)
		return s;
	int32_t channels = stk__layout_find(in, 'C');
	if (channels < 0)
		return stk__fail(err, STK_INVALID, "fill_value has %d values, and the input (layout \"%s\") no channels: give one",
			a->fill_value.count, in->layout);
	return in->shape[channels] < 0 ? STK_OK : stk__check_per_channel("fill_value", a->fill_value, in->shape[channels], err);
}

static enum stk_status erase_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct erase *a = call->args;
	struct stk_regions_job job;
	enum stk_status s = stk__regions_job(call, &a->regions, a->fill_value, &job, err);
	return s ? s : stk__job_pointwise(jobs, &job.pointwise, job.constants, job.bytes, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_erase = {
	.name = "erase",
	.doc = "Fills regions of tensors with a value.\n\n"
	       "Tensors have any shape, type and layout. A region takes elements from the whole part of its anchor to that of anchor + "
	       "shape; parts outside of the tensor are ignored.",
	.inputs = {1, 1},
	.args = erase_args,
	.args_size = sizeof(struct erase),
	.infer = erase_infer,
	.lower_jobs = erase_lower_jobs,
};
