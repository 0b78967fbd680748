/* SPDX-License-Identifier: Apache-2.0
 * What the noise.* operators share. */
#ifndef STK_OP_FILTER_NOISE_H
#define STK_OP_FILTER_NOISE_H

#include "kernel/pointwise/pointwise.h"
#include "op/dims.h"

/* The output's desc: the input's. STK_UNSUPPORTED for bools. */
enum stk_status stk__noise_infer(const struct stk_call *call, struct stk_error *err);

/* Makes the job, with the draws of this sample. */
enum stk_status stk__noise_lower(const struct stk_call *call, enum stk_pointwise_op op, struct stk_pointwise_noise noise,
	struct stk_jobs *jobs, struct stk_error *err);

extern const char stk__noise_seed_doc[];

#endif
