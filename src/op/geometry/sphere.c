/* SPDX-License-Identifier: Apache-2.0
 * sphere: warps an image as if it lay on a sphere. */
#include "kernel/sample/sample.h"
#include "op/geometry/displace.h"

struct sphere {
	struct stk_displace_args displace;
};

static const struct stk_arg_def sphere_args[] = {
	STK_ARG_GROUP(struct sphere, displace, stk__displace_group),
	STK_ARG_END,
};

static enum stk_status sphere_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct sphere *a = call->args;
	struct stk_job_sample s = {.map = STK_SAMPLE_SPHERE};
	return stk__displace_lower(call, &a->displace, &s, jobs, err);
}

const struct stk_op_def stk__op_sphere = {
	.name = "sphere",
	.doc = "Warps images as if they lay on a sphere.\n\n"
	       "The pixel at a distance d from the centre is taken from d * d / r away in the same direction, where r is half the "
	       "longer side." STK_DISPLACE_DOC,
	.inputs = {1, 1},
	.args = sphere_args,
	.args_size = sizeof(struct sphere),
	.flags = STK_OP_IMAGES,
	.infer = stk__displace_infer,
	.lower_jobs = sphere_lower_jobs,
};
