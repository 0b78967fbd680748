/* SPDX-License-Identifier: Apache-2.0
 * transforms.combine: combines several transforms into one. */
#include "op/geometry/affine.h"

struct combine {
	bool reverse_order;
};

static const struct stk_arg_def combine_args[] = {
	STK_ARG(struct combine, reverse_order, STK_ARG_BOOL, "false", STK_FREE, 0,
		"The last transform is applied to points first; false: the first one is."),
	STK_ARG_END,
};

static enum stk_status combine_infer(const struct stk_call *call, struct stk_error *err)
{
	int64_t ndim = -1;
	for (int32_t k = 0; k < call->n_in; k++) {
		const struct stk_desc *in = &call->in[k].desc;
		enum stk_status s = stk__affine_check(in, err);
		if (s)
			return s;
		int64_t own = in->ndim < 0 ? -1 : in->shape[0];
		if (own >= 0 && ndim >= 0 && own != ndim)
			return stk__fail(err, STK_SHAPE, "transforms of %lld and of %lld dims cannot be combined: their dims must be equal",
				(long long)ndim, (long long)own);
		ndim = own >= 0 ? own : ndim;
	}
	call->out[0].desc = stk__affine_desc((int32_t)ndim);
	return STK_OK;
}

static enum stk_status combine_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct combine *a = call->args;
	struct stk_affine all, next;
	stk__affine_read(&call->in[0], &all);
	for (int32_t k = 1; k < call->n_in; k++) {
		stk__affine_read(&call->in[k], &next);
		stk__affine_then(a->reverse_order ? &next : &all, a->reverse_order ? &all : &next, &all);
	}
	stk__affine_write(&all, &call->out[0]);
	return STK_OK;
}

const struct stk_op_def stk__op_transforms_combine = {
	.name = "transforms.combine",
	.doc = "Combines affine transforms into one.\n\n"
	       "The inputs are applied to points in their order. They are float32 matrices of n rows and n + 1 columns, n from 1 to 6 "
	       "and the same for all.",
	.inputs = {2, STK_MAX_INPUTS},
	.host_inputs = UINT64_MAX,
	.frame_inputs = UINT64_MAX,
	.args = combine_args,
	.args_size = sizeof(struct combine),
	.infer = combine_infer,
	.run_cpu = combine_run,
};
