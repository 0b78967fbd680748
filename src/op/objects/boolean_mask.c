/* SPDX-License-Identifier: Apache-2.0
 * boolean_mask: keeps the elements of tensors where a mask is true. */
#include "op/objects/objects.h"

#include "kernel/convert/convert.h"
#include "kernel/copy/copy.h"

struct boolean_mask {
	struct stk_ints axes;
};

static const struct stk_arg_def boolean_mask_args[] = {
	STK_ARG(struct boolean_mask, axes, STK_ARG_INTS, "[0]", (-STK_MAX_DIMS, STK_MAX_DIMS - 1), STK_SCALAR_OK,
		"The dim along which a tensor's elements lie, one for all tensors or one for each; negative ones count from the end."),
	STK_ARG_END,
};

static enum stk_status axis_of(const struct boolean_mask *a, int32_t k, const struct stk_desc *desc, int32_t *axis, struct stk_error *err)
{
	int64_t given = a->axes.v[a->axes.count == 1 ? 0 : k];
	*axis = (int32_t)(given < 0 ? given + desc->ndim : given);
	if (*axis < 0 || *axis >= desc->ndim)
		return stk__fail(
			err, STK_INVALID, "axis %lld is out of range for input %d, of %d dimensions", (long long)given, k + 1, desc->ndim);
	return STK_OK;
}

/* Sets *mask to the mask's elements as bytes (0 or 1), in scratch memory, and *n_true to the number of elements that are true. */
static enum stk_status read_mask(const struct stk_call *call, uint8_t **mask, int64_t *n_true, struct stk_error *err)
{
	const struct stk_tensor *t = &call->in[0];
	int64_t n = stk_desc_elements(&t->desc);
	*mask = stk__arena_take(call->tools->arena, (size_t)n + 1);
	if (!*mask)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a mask of %lld elements", (long long)n);
	stk__convert(*mask, STK_BOOL, t->data, t->desc.dtype, n);
	*n_true = 0;
	for (int64_t i = 0; i < n; i++)
		*n_true += (*mask)[i] != 0;
	return STK_OK;
}

static enum stk_status boolean_mask_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct boolean_mask *a = call->args;
	int64_t count, n_true = -1;
	uint8_t **mask = call->state;
	enum stk_status s = stk__objects_column(&call->in[0].desc, "the mask", &count, err);
	if (s)
		return s;
	if (call->in[0].desc.dtype != STK_NO_DTYPE && !stk__dtype_whole(call->in[0].desc.dtype))
		return stk__fail(err, STK_INVALID, "the mask is bool, or of whole numbers, not %s", stk_dtype_name(call->in[0].desc.dtype));
	if (a->axes.count != 1 && a->axes.count != call->n_out)
		return stk__fail(
			err, STK_INVALID, "axes has %d values for %d tensors: give one, or one for each", a->axes.count, call->n_out);
	if (!stk__building(call) && (s = read_mask(call, mask, &n_true, err)))
		return s;
	for (int32_t k = 0; k < call->n_out; k++) {
		const struct stk_desc *in = &call->in[k + 1].desc;
		struct stk_desc *out = &call->out[k].desc;
		int32_t axis;
		*out = *in;
		if (in->ndim < 0)
			continue;
		if ((s = axis_of(a, k, in, &axis, err)))
			return s;
		if (count >= 0 && in->shape[axis] >= 0 && in->shape[axis] != count)
			return stk__fail(err, STK_SHAPE, "the mask has %lld elements, and input %d has %lld along its axis %d",
				(long long)count, k + 1, (long long)in->shape[axis], axis);
		out->shape[axis] = n_true;
	}
	return STK_OK;
}

/* Makes a copy job for each run of kept elements along dim `axis`. mask: one byte for each index of this dim. */
static enum stk_status keep_elements(const struct stk_tensor *in, const struct stk_tensor *out, int32_t axis, const uint8_t *mask,
	struct stk_jobs *jobs, struct stk_error *err)
{
	int64_t outer = 1, inner = 1, n = in->desc.shape[axis], n_true = out->desc.shape[axis];
	for (int32_t d = 0; d < in->desc.ndim; d++) {
		outer *= d < axis ? in->desc.shape[d] : 1;
		inner *= d > axis ? in->desc.shape[d] : 1;
	}
	size_t size = stk_dtype_size(in->desc.dtype) * (size_t)inner;
	enum stk_status s = STK_OK;
	for (int64_t i = 0, to = 0; i < n && s == STK_OK && size && outer; i++) {
		int64_t first = i;
		while (i < n && mask[i])
			i++;
		if (i == first)
			continue;
		const struct stk_copy_dim dims[2] = {{.size = outer, .step = 1, .limit = outer, .dst = n_true * inner, .src = n * inner},
			{.size = (i - first) * inner, .step = 1, .limit = (i - first) * inner, .dst = 1, .src = 1}};
		struct stk_tensor from = *in, at = *out;
		from.data = (uint8_t *)in->data + (size_t)first * size;
		at.data = (uint8_t *)out->data + (size_t)to * size;
		s = stk__job_copy(jobs, &from, &at, dims, 2, NULL, false, err);
		to += i - first;
	}
	return s;
}

static enum stk_status boolean_mask_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const uint8_t *mask = *(uint8_t **)call->state;
	enum stk_status s = STK_OK;
	for (int32_t k = 0; k < call->n_out && s == STK_OK; k++) {
		int32_t axis;
		s = axis_of(call->args, k, &call->in[k + 1].desc, &axis, err);
		if (s == STK_OK)
			s = keep_elements(&call->in[k + 1], &call->out[k], axis, mask, jobs, err);
	}
	return s;
}

const struct stk_op_def stk__op_boolean_mask = {
	.name = "boolean_mask",
	.doc = "Keeps the elements of tensors for which a mask is true.\n\n"
	       "The first input is the mask, one value for each element; 0 is false. Each further input makes an output, which has the "
	       "kept elements along the input's axis, in their order. The number of kept elements may differ between the samples of a "
	       "batch.",
	.inputs = {2, STK_MAX_INPUTS},
	.host_inputs = 1,
	.args = boolean_mask_args,
	.args_size = sizeof(struct boolean_mask),
	.state_size = sizeof(uint8_t *), /* the mask that infer has read */
	.flags = STK_OP_OPTIONAL_OUTPUTS,
	.infer = boolean_mask_infer,
	.lower_jobs = boolean_mask_lower_jobs,
};
