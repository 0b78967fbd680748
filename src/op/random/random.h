/* SPDX-License-Identifier: Apache-2.0
 * What the random.* operators share: the shape and type of what is drawn, and the seed. */
#ifndef STK_OP_RANDOM_H
#define STK_OP_RANDOM_H

#include "base/math.h"
#include "op/op.h"

/* seed is read by the framework (graph/), which finds it by name in any operator's table. */
struct stk_random_args {
	struct stk_ints shape;
	int32_t dtype;
	int64_t seed;
};

extern const struct stk_arg_def stk__random_group[];

/* One output of args->shape (a scalar without; the shape of input 0 where there is one), of args->dtype or else `fallback`. */
enum stk_status stk__random_infer(
	const struct stk_call *call, const struct stk_random_args *args, enum stk_dtype fallback, struct stk_error *err);

/* Two numbers of the normal distribution of mean 0 and deviation 1. Box and Muller, "A note on the generation of random normal deviates" (1958): two draws
 * make two numbers. 1 - u is never 0. */
static inline void stk__random_normals(struct stk_random *r, double out[2])
{
	double radius = sqrt(-2 * stk__log(1 - stk__random_double(r))), angle = 6.283185307179586 * stk__random_double(r);
	out[0] = radius * stk__cos(angle);
	out[1] = radius * stk__sin(angle);
}

/* Stores n draws, rounded and saturated to the tensor's type. */
void stk__random_store(const struct stk_tensor *out, const double *draws, int64_t n);

#endif
