/* SPDX-License-Identifier: Apache-2.0
 * pad_ragged: pads tensors whose first extent differs between the samples of a batch, and outputs the numbers of their rows. */
#include "kernel/copy/copy.h"
#include "op/nd.h"
#include "op/objects/objects.h"

#include <string.h>

struct pad_ragged {
	struct stk_strings names;
};

static const struct stk_arg_def pad_ragged_args[] = {
	STK_ARG(struct pad_ragged, names, STK_ARG_STRINGS, NULL, STK_FREE, STK_SCALAR_OK, "Names of the inputs, for messages."),
	STK_ARG_END,
};

static enum stk_status check_input(const struct stk_desc *in, struct stk_error *err)
{
	if (in->ndim == 0)
		return stk__fail(err, STK_SHAPE, "a scalar has no elements to count: ragged tensors have a dim or more");
	return STK_OK;
}

static enum stk_status pad_ragged_infer(const struct stk_call *call, struct stk_error *err)
{
	const int64_t *largest = call->gathered;
	for (int32_t k = 0; k < call->n_in; k++) {
		const struct stk_desc *in = &call->in[k].desc;
		enum stk_status s = check_input(in, err);
		if (s)
			return s;
		call->out[k].desc = *in;
		if (in->ndim > 0)
			call->out[k].desc.shape[0] = largest ? largest[k] : -1;
	}
	call->out[call->n_in].desc = (struct stk_desc){STK_INT64, 1, {call->n_in}, ""};
	return STK_OK;
}

/* Fails unless input k has the same shape in sample i as in the first sample of the batch, apart from the first extent, which may differ. */
static enum stk_status same_rows(const struct stk_call *calls, int32_t i, int32_t k, struct stk_error *err)
{
	const struct stk_desc *first = &calls[0].in[k].desc, *d = &calls[i].in[k].desc;
	bool same = d->ndim == first->ndim;
	for (int32_t x = 1; x < d->ndim && same; x++)
		same = d->shape[x] == first->shape[x];
	if (same)
		return STK_OK;
	if (err)
		err->sample = i;
	const struct stk_strings *names = &((const struct pad_ragged *)calls[0].args)->names;
	return stk__fail(err, STK_SHAPE,
		"input %d%s%s: the elements of this sample have another shape than those of the batch's first sample", k,
		k < names->count ? ", " : "", k < names->count ? names->v[k] : "");
}

static enum stk_status pad_ragged_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err)
{
	int32_t n = calls[0].n_in;
	int64_t *largest = stk__gathered_take(out, (size_t)n * sizeof *largest);
	if (!largest)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the batch's largest extents");
	memset(largest, 0, (size_t)n * sizeof *largest);
	for (int32_t i = 0; i < count; i++)
		for (int32_t k = 0; k < n; k++) {
			enum stk_status s = same_rows(calls, i, k, err);
			if (s)
				return s;
			int64_t extent = calls[i].in[k].desc.shape[0];
			largest[k] = extent > largest[k] ? extent : largest[k];
		}
	return STK_OK;
}

static enum stk_status pad_ragged_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	static const uint8_t zero[8] = {0};
	enum stk_status s = STK_OK;
	struct stk_tensor size = call->out[call->n_in];
	for (int32_t k = 0; k < call->n_in && s == STK_OK; k++) {
		const struct stk_desc *in = &call->in[k].desc, *out = &call->out[k].desc;
		int64_t inner = 1;
		for (int32_t d = 1; d < in->ndim; d++)
			inner *= in->shape[d];
		const int64_t in_size = in->shape[0] * inner, out_size = out->shape[0] * inner;
		const struct stk_copy_dim all = {.size = out_size, .step = 1, .limit = in_size, .dst = 1, .src = 1};
		s = stk__job_copy(jobs, &call->in[k], &call->out[k], &all, 1, in_size < out_size ? zero : NULL, false, err);
		/* a limit of 0 makes this copy read nothing: it only writes the fill value, which is the extent */
		const struct stk_copy_dim none = {.size = 1, .step = 1, .limit = 0, .dst = 1, .src = 1};
		if (s == STK_OK)
			s = stk__job_copy(jobs, &size, &size, &none, 1, &in->shape[0], false, err);
		size.data = (int64_t *)size.data + 1;
	}
	return s;
}

const struct stk_op_def stk__op_pad_ragged = {
	.name = "pad_ragged",
	.doc = "Makes padded batches of tensors whose numbers of elements differ between samples.\n\n"
	       "Each input makes one output, padded with zeros at the end of its first dim to the largest extent in the batch. The "
	       "last output is a vector of int64: for each input, the extent of this dim in the sample. Further dims must have the "
	       "same extents in all samples. stoker.batching.RaggedBatch takes both.",
	.inputs = {1, STK_MAX_OUTPUTS - 1},
	.outputs = 2,
	.args = pad_ragged_args,
	.args_size = sizeof(struct pad_ragged),
	.flags = STK_OP_OPTIONAL_OUTPUTS,
	.gather = pad_ragged_gather,
	.infer = pad_ragged_infer,
	.lower_jobs = pad_ragged_lower_jobs,
};
