/* SPDX-License-Identifier: Apache-2.0
 * _to_cpu: implements x.cpu() of the bindings for a tensor on the GPU. */
#include "op/tensor/batch_table.h"
#include "op/tensor/view.h"

static const struct stk_arg_def to_cpu_args[] = {STK_ARG_END};

static enum stk_status to_cpu_infer(const struct stk_call *call, struct stk_error *err)
{
	call->out[0].desc = call->in[0].desc;
	if (stk__building(call))
		return STK_OK;
	const struct stk_tensor *fetched = stk__batch_table_at(call, call->index);
	if (!fetched)
		return stk__fail(err, STK_STATE, "the sample was not fetched from the GPU; please report this graph");
	call->out[0] = *fetched; /* the output is a view of the copy that gather received */
	return STK_OK;
}

const struct stk_op_def stk__op_to_cpu = {
	.name = "_to_cpu",
	.doc = "Copies tensors from the GPU to the CPU, after the whole batch is computed.",
	.inputs = {1, 1},
	.args = to_cpu_args,
	.flags = STK_OP_HIDDEN | STK_OP_GATHERS_DATA | STK_OP_FETCHES | STK_OP_MOVES,
	.gather = stk__batch_table_gather,
	.infer = to_cpu_infer,
	.lower_jobs = stk__view_lower_jobs,
};
