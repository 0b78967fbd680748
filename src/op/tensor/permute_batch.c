/* SPDX-License-Identifier: Apache-2.0
 * permute_batch: gives each sample the tensor of another sample of its batch. */
#include "op/tensor/batch_table.h"
#include "op/tensor/view.h"

struct permute_batch {
	struct stk_ints indices;
};

static const struct stk_arg_def permute_batch_args[] = {
	{.name = "indices",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_REQUIRED | STK_SCALAR_OK,
		.offset = offsetof(struct permute_batch, indices),
		.min = 0,
		.max = INT32_MAX,
		.shapes = true,
		.doc = "For each sample of the batch, the index of the sample whose tensor it gets: a list as long as the batch, or a node "
		       "with one number a sample, as batch_permutation makes. Samples may be left out or repeated."},
	STK_ARG_END,
};

static enum stk_status permute_batch_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct permute_batch *a = call->args;
	call->out[0].desc = call->in[0].desc;
	if (stk__building(call))
		return STK_OK;
	if (a->indices.count != 1 && a->indices.count != call->batch)
		return stk__fail(err, STK_SHAPE, "indices has %d values for a batch of %d samples", a->indices.count, call->batch);
	int64_t index = a->indices.v[a->indices.count == 1 ? 0 : call->index];
	if (index >= call->batch)
		return stk__fail(err, STK_SHAPE, "index %lld is out of range for a batch of %d samples", (long long)index, call->batch);
	const struct stk_tensor *from = stk__batch_table_at(call, (int32_t)index);
	if (!from)
		return stk__fail(err, STK_SHAPE, "sample %lld of the batch, whose tensor this sample should get, was left out as a bad one",
			(long long)index);
	call->out[0] = *from; /* the output is a view of the other sample's tensor */
	return STK_OK;
}

const struct stk_op_def stk__op_permute_batch = {
	.name = "permute_batch",
	.doc = "Gives each sample the tensor of another sample of its batch.\n\n"
	       "Output i is input indices[i]. Indices count all samples of the planned batch, including bad samples that were left "
	       "out. The operator waits for the whole batch;\n"
	       "nothing is copied.",
	.inputs = {1, 1},
	.args = permute_batch_args,
	.args_size = sizeof(struct permute_batch),
	.gather = stk__batch_table_gather,
	.infer = permute_batch_infer,
	.lower_jobs = stk__view_lower_jobs,
};
