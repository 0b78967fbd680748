/* SPDX-License-Identifier: Apache-2.0
 * noise.shot: noise of counted events, as when an image sensor registers photons. */
#include "kernel/pointwise/pointwise.h"
#include "op/filter/noise.h"

struct noise_shot {
	float factor;
	int64_t seed;
};

static const struct stk_arg_def noise_shot_args[] = {
	STK_ARG(struct noise_shot, factor, STK_ARG_FLOAT, "20.0", (0, HUGE_VAL), STK_PER_SAMPLE,
		"The amount by which one event raises the output: the larger, the more noise. 0 leaves the input unchanged."),
	STK_ARG(struct noise_shot, seed, STK_ARG_INT, "-1", STK_FREE, 0, stk__noise_seed_doc),
	STK_ARG_END,
};

static enum stk_status noise_shot_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct noise_shot *a = call->args;
	return stk__noise_lower(call, STK_POINTWISE_POISSON, (struct stk_pointwise_noise){.mean = a->factor}, jobs, err);
}

const struct stk_op_def stk__op_noise_shot = {
	.name = "noise.shot",
	.doc = "Replaces values by random counts of events whose mean is the value (shot noise).\n\n"
	       "The output is factor * a draw from the Poisson distribution of mean max(0, x / factor), one for each value of a tensor "
	       "of any shape, rounded and saturated to the input's type.",
	.inputs = {1, 1},
	.args = noise_shot_args,
	.args_size = sizeof(struct noise_shot),
	.flags = STK_OP_RANDOM,
	.infer = stk__noise_infer,
	.lower_jobs = noise_shot_lower_jobs,
};
