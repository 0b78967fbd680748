/* SPDX-License-Identifier: Apache-2.0
 * experimental.erode: the smallest value in a window. */
#include "kernel/filter/filter.h"
#include "op/filter/morphology.h"

static enum stk_status erode_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	return stk__morphology_lower(call, STK_FILTER_LEAST, jobs, err);
}

const struct stk_op_def stk__op_erode = {
	.name = "experimental.erode",
	.doc = "Replaces each pixel by the smallest one in a window about it, so that bright areas shrink.\n\n"
	       "Each channel is processed on its own. Images have types of up to 16 bits, or float32.",
	.inputs = {1, 1},
	.layouts = "HW HWC FHWC CHW FCHW FHW",
	.args = stk__morphology_args,
	.args_size = sizeof(struct stk_morphology),
	.flags = STK_OP_IMAGES,
	.infer = stk__morphology_infer,
	.lower_jobs = erode_lower_jobs,
};
