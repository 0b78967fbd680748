/* SPDX-License-Identifier: Apache-2.0
 * Shared by the noise.* operators. */
#ifndef STK_OP_FILTER_NOISE_H
#define STK_OP_FILTER_NOISE_H

#include "kernel/pointwise/pointwise.h"
#include "op/dims.h"

/* Sets the output's desc to the input's. STK_UNSUPPORTED for bools. */
enum stk_status stk__noise_infer(const struct stk_call *call, struct stk_error *err);

/* Makes the job for one sample. noise: its parameters, except the stream of random numbers, which is set to the sample's. */
enum stk_status stk__noise_lower(const struct stk_call *call, enum stk_pointwise_op op, struct stk_pointwise_noise noise,
	struct stk_jobs *jobs, struct stk_error *err);

extern const char stk__noise_seed_doc[];

#endif
