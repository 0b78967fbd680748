/* SPDX-License-Identifier: Apache-2.0
 * Shared by the random.* operators: shape and type of the draws, and the seed. */
#ifndef STK_OP_RANDOM_H
#define STK_OP_RANDOM_H

#include "base/math.h"
#include "op/op.h"

/* The framework (graph/) reads `seed`, which it finds by name in any operator's table. */
struct stk_random_args {
	struct stk_ints shape;
	int32_t dtype;
	int64_t seed;
};

extern const struct stk_arg_def stk__random_group[];

/* Sets the desc of output 0. Its shape is args->shape or that of input 0; a scalar if neither is given; STK_INVALID if both are. Its type is args->dtype; if
 * that is not given, `fallback`. */
enum stk_status stk__random_infer(
	const struct stk_call *call, const struct stk_random_args *args, enum stk_dtype fallback, struct stk_error *err);

/* Draws two independent numbers from the normal distribution with mean 0 and standard deviation 1: Box and Muller, "A note on the generation of random normal
 * deviates" (1958). The argument of the logarithm is never 0, since draws are below 1. */
static inline void stk__random_normals(struct stk_random *r, double out[2])
{
	double radius = sqrt(-2 * stk__log(1 - stk__random_double(r))), angle = 6.283185307179586 * stk__random_double(r);
	out[0] = radius * stk__cos(angle);
	out[1] = radius * stk__sin(angle);
}

/* Converts n draws to out's type by the rules of kernel/convert/convert.h, and stores them. */
void stk__random_store(const struct stk_tensor *out, const double *draws, int64_t n);

#endif
