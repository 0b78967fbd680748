/* SPDX-License-Identifier: Apache-2.0
 * noise.gaussian: adds noise from a normal distribution. */
#include "kernel/pointwise/pointwise.h"
#include "op/filter/noise.h"

struct noise_gaussian {
	float mean, stddev;
	int64_t seed;
};

static const struct stk_arg_def noise_gaussian_args[] = {
	STK_ARG(struct noise_gaussian, mean, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE, "Mean of the noise, in units of the input."),
	STK_ARG(struct noise_gaussian, stddev, STK_ARG_FLOAT, "1.0", (0, HUGE_VAL), STK_PER_SAMPLE, "Standard deviation of the noise."),
	STK_ARG(struct noise_gaussian, seed, STK_ARG_INT, "-1", STK_FREE, 0, stk__noise_seed_doc),
	STK_ARG_END,
};

static enum stk_status noise_gaussian_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct noise_gaussian *a = call->args;
	return stk__noise_lower(call, STK_POINTWISE_NORMAL, (struct stk_pointwise_noise){.mean = a->mean, .stddev = a->stddev}, jobs, err);
}

const struct stk_op_def stk__op_noise_gaussian = {
	.name = "noise.gaussian",
	.doc = "Adds noise from a normal distribution.\n\n"
	       "Each value of a tensor of any shape gets its own draw; sums are rounded and saturated to the input's type.",
	.inputs = {1, 1},
	.args = noise_gaussian_args,
	.args_size = sizeof(struct noise_gaussian),
	.flags = STK_OP_RANDOM,
	.infer = stk__noise_infer,
	.lower_jobs = noise_gaussian_lower_jobs,
};
