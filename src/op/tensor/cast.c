/* SPDX-License-Identifier: Apache-2.0
 * cast: converts to another element type. */
#include "kernel/copy/copy.h"
#include "op/dims.h"

struct cast {
	int32_t dtype;
};

static const struct stk_arg_def cast_args[] = {
	STK_ARG(struct cast, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), STK_REQUIRED, "Type of the output."),
	STK_ARG_END,
};

static enum stk_status cast_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct cast *a = call->args;
	call->out[0].desc = call->in[0].desc;
	call->out[0].desc.dtype = (enum stk_dtype)a->dtype;
	return STK_OK;
}

static enum stk_status cast_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_tensor from = stk__stored(&call->in[0]);
	return stk__job_copy_all(jobs, &from, &call->out[0], true, err);
}

static void cast_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct cast *a = call->args;
	stk__pass_cast(pass, (enum stk_dtype)a->dtype);
}

static unsigned cast_classify(const void *args, const struct stk_desc *in)
{
	const struct cast *a = args;
	return stk__dtype_in_float((enum stk_dtype)a->dtype) && !stk__dtype_enumeration(in->dtype)
		       ? stk__classes_for(in, STK_CLASS_POINTWISE)
		       : STK_CLASS_NEVER;
}

const struct stk_op_def stk__op_cast = {
	.name = "cast",
	.doc = "Converts to another element type.\n\n"
	       "For integer types values are rounded, halves away from zero, and saturated; NaN becomes 0. For bool, values that would "
	       "be rounded to 0 are false.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.args = cast_args,
	.args_size = sizeof(struct cast),
	.flags = STK_OP_MOVES,
	.classes = STK_CLASS_POINTWISE,
	.classify = cast_classify,
	.infer = cast_infer,
	.lower_jobs = cast_lower_jobs,
	.lower = cast_lower,
};
