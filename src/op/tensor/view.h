/* SPDX-License-Identifier: Apache-2.0
 * Operators that change the description of a tensor but none of its values. Their infer uses the input's memory for the output, so that nothing is copied;
 * values that leave the pipeline get memory of their own. */
#ifndef STK_OP_TENSOR_VIEW_H
#define STK_OP_TENSOR_VIEW_H

#include "op/dims.h"

/* Implements lower_jobs: copies in[0] to out[0]. Called only if the output is not a view. */
enum stk_status stk__view_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err);

#endif
