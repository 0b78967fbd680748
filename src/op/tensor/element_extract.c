/* SPDX-License-Identifier: Apache-2.0
 * element_extract: outputs some elements of a sequence, each as an output of its own. */
#include "op/tensor/frames.h"
#include "op/tensor/view.h"

#include <string.h>

struct element_extract {
	struct stk_ints element_map;
};

static const struct stk_arg_def element_extract_args[] = {
	STK_ARG(struct element_extract, element_map, STK_ARG_INTS, NULL, (0, 0x1p40), STK_REQUIRED | STK_SCALAR_OK,
		"Indices of the elements along the outermost dim; each makes an output."),
	STK_ARG_END,
};

static int32_t element_extract_outputs(const void *args)
{
	const struct element_extract *a = args;
	int32_t n = a->element_map.count;
	return n < 1 ? 1 : n > STK_MAX_OUTPUTS ? STK_MAX_OUTPUTS : n; /* for any other count, infer fails */
}

static enum stk_status element_extract_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct element_extract *a = call->args;
	const struct stk_tensor *in = &call->in[0];
	if (a->element_map.count < 1 || a->element_map.count > STK_MAX_OUTPUTS)
		return stk__fail(
			err, STK_INVALID, "element_map has %d elements; it may have 1 to %d", a->element_map.count, STK_MAX_OUTPUTS);
	enum stk_status s = stk__check_frames(&in->desc, err);
	for (int32_t k = 0; k < call->n_out && s == STK_OK; k++) {
		struct stk_tensor *out = &call->out[k];
		out->desc = (struct stk_desc){.dtype = in->desc.dtype, .ndim = -1};
		if (in->desc.ndim < 0)
			continue;
		out->desc.ndim = in->desc.ndim - 1;
		memcpy(out->desc.shape, in->desc.shape + 1, (size_t)out->desc.ndim * sizeof *out->desc.shape);
		if (in->desc.layout[0])
			memcpy(out->desc.layout, in->desc.layout + 1, (size_t)out->desc.ndim);
		s = stk__check_frame(&in->desc, a->element_map.v[k], err);
		if (s == STK_OK && !stk__building(call))
			out->data = (uint8_t *)in->data + a->element_map.v[k] * stk_desc_bytes(&out->desc);
	}
	return s;
}

static enum stk_status element_extract_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	(void)call, (void)jobs;
	return stk__fail(err, STK_STATE, "element_extract gives views; please report this graph");
}

const struct stk_op_def stk__op_element_extract = {
	.name = "element_extract",
	.doc = "Takes elements out of sequences, each as an output.\n\n"
	       "An element is a slice along the outermost dim, which must be F if the tensor has a layout; the outputs have one dim "
	       "less. Nothing is copied.",
	.inputs = {1, 1},
	.output_count = element_extract_outputs,
	.args = element_extract_args,
	.args_size = sizeof(struct element_extract),
	.infer = element_extract_infer,
	.lower_jobs = element_extract_lower_jobs,
};
