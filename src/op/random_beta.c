/* SPDX-License-Identifier: Apache-2.0
 * random.beta: numbers from a beta distribution. */
#include "op/random.h"

struct beta {
	float alpha, beta;
	struct stk_random_args random;
};

static const struct stk_arg_def beta_args[] = {
	STK_ARG(struct beta, alpha, STK_ARG_FLOAT, "1.0", (0, HUGE_VAL), STK_PER_SAMPLE, "The first parameter; more than 0."),
	STK_ARG(struct beta, beta, STK_ARG_FLOAT, "1.0", (0, HUGE_VAL), STK_PER_SAMPLE, "The second parameter; more than 0."),
	STK_ARG_GROUP(struct beta, random, stk__random_group),
	STK_ARG_END,
};

static enum stk_status beta_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct beta *a = call->args;
	if (a->random.dtype >= 0 && a->random.dtype != STK_FLOAT && a->random.dtype != STK_FLOAT64)
		return stk__fail(err, STK_INVALID, "the numbers are float32 or float64, not %s; cast them",
			stk_dtype_name((enum stk_dtype)a->random.dtype));
	if (!(a->alpha > 0 && a->beta > 0) || isinf(a->alpha) || isinf(a->beta))
		return stk__fail(
			err, STK_INVALID, "alpha and beta are numbers above 0; they are %g and %g", (double)a->alpha, (double)a->beta);
	return stk__random_infer(call, &a->random, STK_FLOAT, err);
}

/* The logarithm of a number from the gamma distribution of this shape: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
 * Below 1 it is one of shape + 1, times a uniform number to the power of 1 / shape, which only as a logarithm does not become 0. */
static double log_gamma_draw(struct stk_random *r, double shape)
{
	double less = shape < 1 ? stk__log(1 - stk__random_double(r)) / shape : 0;
	double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
	for (;;) {
		double normals[2];
		stk__random_normals(r, normals);
		double x = normals[0], root = 1 + c * x, v = root * root * root;
		double u = 1 - stk__random_double(r);
		if (root > 0 && stk__log(u) < 0.5 * x * x + d * (1 - v + stk__log(v)))
			return less + stk__log(d * v);
	}
}

static enum stk_status beta_run(const struct stk_call *call, struct stk_error *err)
{
	const struct beta *a = call->args;
	struct stk_random r = call->random;
	int64_t n = stk_desc_elements(&call->out[0].desc);
	double *draws = stk__arena_take(call->tools->arena, (size_t)(n + 1) * sizeof *draws);
	if (!draws)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld draws", (long long)n);
	for (int64_t i = 0; i < n; i++) {
		double x = log_gamma_draw(&r, a->alpha), y = log_gamma_draw(&r, a->beta);
		draws[i] = 1 / (1 + stk__exp(y - x)); /* X / (X + Y) */
	}
	stk__random_store(&call->out[0], draws, n);
	return STK_OK;
}

const struct stk_op_def stk__op_random_beta = {
	.name = "random.beta",
	.doc = "Draws numbers from a beta distribution.\n\nThe default output is one float32 a sample; float64 is the other type.",
	.inputs = {0, 1},
	.args = beta_args,
	.args_size = sizeof(struct beta),
	.flags = STK_OP_RANDOM | STK_OP_CLONED,
	.infer = beta_infer,
	.run_cpu = beta_run,
};
