/* SPDX-License-Identifier: Apache-2.0
 * erase_noise: fills regions of a tensor with noise. */
#include "kernel/pointwise/pointwise.h"
#include "op/filter/noise.h"
#include "op/filter/regions.h"

struct erase_noise {
	struct stk_regions regions;
	float mean, stddev;
	int64_t seed;
};

static const struct stk_arg_def erase_noise_args[] = {
	STK_ARG_GROUP(struct erase_noise, regions, stk__regions_group),
	STK_ARG(struct erase_noise, mean, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE, "Mean of the noise."),
	STK_ARG(struct erase_noise, stddev, STK_ARG_FLOAT, "1.0", (0, HUGE_VAL), STK_PER_SAMPLE, "Standard deviation of the noise."),
	STK_ARG(struct erase_noise, seed, STK_ARG_INT, "-1", STK_FREE, 0, stk__noise_seed_doc),
	STK_ARG_END,
};

static enum stk_status erase_noise_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct erase_noise *a = call->args;
	enum stk_status s = stk__noise_infer(call, err);
	return s ? s : stk__regions_infer(call, &a->regions, err);
}

static enum stk_status erase_noise_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct erase_noise *a = call->args;
	float nothing = 0;
	struct stk_regions_job job;
	enum stk_status s = stk__regions_job(call, &a->regions, (struct stk_floats){.v = &nothing, .count = 1}, &job, err);
	if (s)
		return s;
	job.pointwise.op = STK_POINTWISE_ERASE_NORMAL;
	job.pointwise.erase.random = call->random;
	job.pointwise.erase.mean = a->mean;
	job.pointwise.erase.stddev = a->stddev;
	return stk__job_pointwise(jobs, &job.pointwise, job.constants, job.bytes, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_erase_noise = {
	.name = "erase_noise",
	.doc = "Fills regions of tensors with noise from a normal distribution.\n\n"
	       "Regions are those of erase. Each value in them is replaced by its own draw, rounded and saturated to the input's type.",
	.inputs = {1, 1},
	.args = erase_noise_args,
	.args_size = sizeof(struct erase_noise),
	.flags = STK_OP_RANDOM,
	.infer = erase_noise_infer,
	.lower_jobs = erase_noise_lower_jobs,
};
