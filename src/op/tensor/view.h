/* SPDX-License-Identifier: Apache-2.0
 * Operators that change the description of a tensor and none of its values. Their infer gives the input's memory as the output's, so that nothing is
 * copied; whatever leaves the pipeline gets memory of its own. */
#ifndef STK_OP_TENSOR_VIEW_H
#define STK_OP_TENSOR_VIEW_H

#include "op/dims.h"

/* For lower_jobs, where no view was given: copies in[0]. */
enum stk_status stk__view_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err);

#endif
