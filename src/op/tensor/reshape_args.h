/* SPDX-License-Identifier: Apache-2.0
 * Shared by reshape and reinterpret: the arguments that give the new shape. */
#ifndef STK_OP_TENSOR_RESHAPE_ARGS_H
#define STK_OP_TENSOR_RESHAPE_ARGS_H

#include "op/dims.h"

struct stk_reshape_args {
	struct stk_ints shape, src_dims;
	struct stk_floats rel_shape;
	const char *layout;
};
extern const struct stk_arg_def stk__reshape_group[];

/* Returns true if neither an argument nor a second input requests a new shape or layout. */
static inline bool stk__reshape_is_empty(const struct stk_reshape_args *a, const struct stk_call *call)
{
	return a->shape.count < 0 && a->src_dims.count < 0 && a->rel_shape.count < 0 && !a->layout && call->n_in < 2 &&
	       !stk__varies(call, &a->shape) && !stk__varies(call, &a->rel_shape);
}

/* Sets type, shape and layout of out[0], whose bytes are those of in[0], read as elements of type `dtype`. A second input, if there is one, is the shape. */
enum stk_status stk__reshape_infer(
	const struct stk_reshape_args *a, const struct stk_call *call, enum stk_dtype dtype, struct stk_error *err);

#endif
