/* SPDX-License-Identifier: Apache-2.0
 * What the random.* operators share: the shape and type of what is drawn, and the seed. */
#ifndef STK_OP_RANDOM_H
#define STK_OP_RANDOM_H

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

/* Stores n draws, rounded and saturated to the tensor's type. */
void stk__random_store(const struct stk_tensor *out, const double *draws, int64_t n);

#endif
