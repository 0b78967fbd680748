/* SPDX-License-Identifier: Apache-2.0
 * random.coin_flip: draws 0 or 1. */
#include "op/op.h"
#include "op/random/random.h"

struct coin_flip {
	float probability;
	struct stk_random_args random;
};

static const struct stk_arg_def coin_flip_args[] = {
	STK_ARG(struct coin_flip, probability, STK_ARG_FLOAT, "0.5", (0, 1), STK_PER_SAMPLE, "Chance of a 1."),
	STK_ARG_GROUP(struct coin_flip, random, stk__random_group),
	STK_ARG_END,
};

static enum stk_status coin_flip_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct coin_flip *a = call->args;
	return stk__random_infer(call, &a->random, STK_INT32, err);
}

static enum stk_status coin_flip_run(const struct stk_call *call, struct stk_error *err)
{
	const struct coin_flip *a = call->args;
	struct stk_random r = call->random;
	int64_t n = stk_desc_elements(&call->out[0].desc);
	double *draws = stk__arena_take(call->tools->arena, (size_t)n * sizeof *draws);
	if (!draws)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld draws", (long long)n);
	for (int64_t i = 0; i < n; i++)
		draws[i] = stk__random_float(&r) < a->probability;
	stk__random_store(&call->out[0], draws, n);
	return STK_OK;
}

static bool coin_flip_coin(const struct stk_call *call, float *chance)
{
	const struct coin_flip *a = call->args;
	*chance = a->probability;
	return stk_desc_elements(&call->out[0].desc) == 1;
}

const struct stk_op_def stk__op_coin_flip = {
	.name = "random.coin_flip",
	.alias = "coin_flip",
	.doc = "Draws 0 or 1.\n\nThe default output is one int32 a sample.",
	.inputs = {0, 1},
	.args = coin_flip_args,
	.args_size = sizeof(struct coin_flip),
	.flags = STK_OP_RANDOM | STK_OP_CLONED,
	.infer = coin_flip_infer,
	.run_cpu = coin_flip_run,
	.coin = coin_flip_coin,
};
