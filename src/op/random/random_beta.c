/* SPDX-License-Identifier: Apache-2.0
 * random.beta: numbers from a beta distribution. */
#include "op/random/random.h"

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

/* A source of numbers from a normal distribution. They are drawn two at a time; the first `left` numbers of v have not been returned by next_normal yet. */
struct normals {
	struct stk_random *r;
	double v[2];
	int left;
};

static double next_normal(struct normals *n)
{
	if (!n->left) {
		stk__random_normals(n->r, n->v);
		n->left = 2;
	}
	return n->v[--n->left];
}

/* Returns a number drawn uniformly from (0, 1]. */
static double positive(struct stk_random *r)
{
	return 1 - stk__random_double(r);
}

/* Returns a draw from the gamma distribution with shape >= 1: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). */
static double gamma_draw(struct normals *n, double shape)
{
	double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
	for (;;) {
		double x = next_normal(n), root = 1 + c * x, v = root * root * root, u = 1 - (double)stk__random_float(n->r),
		       square = x * x;
		if (root > 0 && (u < 1 - 0.0331 * square * square || stk__log(u) < 0.5 * square + d * (1 - v + stk__log(v))))
			return d * v;
	}
}

/* Returns a draw from a beta distribution by Joehnk, "Erzeugung von betaverteilten und gammaverteilten Zufallszahlen" (1964), which needs few tries if both
 * parameters are below 1. If both powers are too small for a double, their quotient is computed from their logarithms. */
static double small_beta_draw(struct stk_random *r, double alpha, double beta)
{
	for (;;) {
		double log_x = stk__log(positive(r)) / alpha, log_y = stk__log(positive(r)) / beta;
		double x = stk__exp(log_x), y = stk__exp(log_y);
		if (x + y <= 1)
			return x + y > 0 ? x / (x + y) : 1 / (1 + stk__exp(log_y - log_x));
	}
}

static double beta_draw(struct normals *n, double alpha, double beta)
{
	if (alpha < 1 && beta < 1)
		return small_beta_draw(n->r, alpha, beta);
	double x = gamma_draw(n, alpha < 1 ? alpha + 1 : alpha), y = gamma_draw(n, beta < 1 ? beta + 1 : beta);
	if (alpha >= 1 && beta >= 1)
		return x / (x + y);
	/* a gamma variate of shape < 1 is one of shape + 1, times a uniform number to the power of 1 / shape */
	double less = stk__log(positive(n->r)) / (alpha < 1 ? alpha : beta);
	return 1 / (1 + y / x * stk__exp(alpha < 1 ? -less : less));
}

static enum stk_status beta_run(const struct stk_call *call, struct stk_error *err)
{
	const struct beta *a = call->args;
	struct stk_random r = call->random;
	int64_t n = stk_desc_elements(&call->out[0].desc);
	double *draws = stk__arena_take(call->tools->arena, (size_t)(n + 1) * sizeof *draws);
	if (!draws)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld draws", (long long)n);
	struct normals normals = {.r = &r};
	for (int64_t i = 0; i < n; i++)
		draws[i] = beta_draw(&normals, a->alpha, a->beta);
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
