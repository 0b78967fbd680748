/* SPDX-License-Identifier: Apache-2.0 */
#include "op/filter/noise.h"

#include "kernel/pointwise/pointwise.h"

const char stk__noise_seed_doc[] =
	"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed.";

enum stk_status stk__noise_infer(const struct stk_call *call, struct stk_error *err)
{
	call->out[0].desc = call->in[0].desc;
	if (call->in[0].desc.dtype == STK_BOOL)
		return stk__fail(err, STK_UNSUPPORTED, "noise cannot be added to bools: cast the input to uint8 or float32");
	return STK_OK;
}

enum stk_status stk__noise_lower(const struct stk_call *call, enum stk_pointwise_op op, struct stk_pointwise_noise noise,
	struct stk_jobs *jobs, struct stk_error *err)
{
	struct stk_pointwise p = {.op = op, .noise = noise};
	p.noise.random = call->random;
	return stk__job_pointwise(jobs, &p, NULL, 0, &call->in[0], &call->out[0], err);
}
