/* SPDX-License-Identifier: Apache-2.0
 * random.normal: numbers from a normal distribution. */
#include "op/random/random.h"

struct normal {
	float mean, stddev;
	struct stk_random_args random;
};

static const struct stk_arg_def normal_args[] = {
	STK_ARG(struct normal, mean, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE, "Mean of the distribution."),
	STK_ARG(struct normal, stddev, STK_ARG_FLOAT, "1.0", (0, HUGE_VAL), STK_PER_SAMPLE, "Standard deviation of the distribution."),
	STK_ARG_GROUP(struct normal, random, stk__random_group),
	STK_ARG_END,
};

static enum stk_status normal_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct normal *a = call->args;
	return stk__random_infer(call, &a->random, STK_FLOAT, err);
}

static enum stk_status normal_run(const struct stk_call *call, struct stk_error *err)
{
	const struct normal *a = call->args;
	struct stk_random r = call->random;
	int64_t n = stk_desc_elements(&call->out[0].desc);
	double *draws = stk__arena_take(call->tools->arena, (size_t)(n + 1) * sizeof *draws);
	if (!draws)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld draws", (long long)n);
	for (int64_t i = 0; i < n; i += 2) {
		stk__random_normals(&r, draws + i);
		draws[i] = a->mean + a->stddev * draws[i];
		draws[i + 1] = a->mean + a->stddev * draws[i + 1];
	}
	stk__random_store(&call->out[0], draws, n);
	return STK_OK;
}

const struct stk_op_def stk__op_random_normal = {
	.name = "random.normal",
	.alias = "normal_distribution",
	.doc = "Draws numbers from a normal distribution.\n\nThe default output is one float32 a sample.",
	.inputs = {0, 1},
	.args = normal_args,
	.args_size = sizeof(struct normal),
	.flags = STK_OP_RANDOM | STK_OP_CLONED,
	.infer = normal_infer,
	.run_cpu = normal_run,
};
