/* SPDX-License-Identifier: Apache-2.0
 * transpose: reorders the dims of a tensor. */
#include "kernel/copy/copy.h"
#include "op/dims.h"

#include <string.h>

struct transpose {
	struct stk_ints perm;
	bool transpose_layout;
	const char *output_layout;
};

static const struct stk_arg_def transpose_args[] = {
	STK_ARG(struct transpose, perm, STK_ARG_INTS, NULL, (0, STK_MAX_DIMS - 1), 0,
		"For each dim of the output, the dim of the input from which it comes. Default: the order reversed."),
	STK_ARG(struct transpose, transpose_layout, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Reorders the letters of the layout too; false: the layout stays."),
	STK_ARG(struct transpose, output_layout, STK_ARG_STRING, NULL, STK_FREE, 0,
		"Layout of the output. Default: it follows from transpose_layout."),
	STK_ARG_END,
};

static enum stk_status read_perm(const struct transpose *a, int32_t ndim, int order[STK_MAX_DIMS], struct stk_error *err)
{
	if (a->perm.count > 0 && a->perm.count != ndim)
		return stk__fail(err, STK_INVALID, "perm has %d values for a tensor of %d dims", a->perm.count, ndim);
	unsigned seen = 0;
	for (int32_t d = 0; d < ndim; d++) {
		order[d] = a->perm.count > 0 ? (int)a->perm.v[d] : ndim - 1 - d;
		seen |= 1u << order[d];
	}
	if (seen != (1u << ndim) - 1)
		return stk__fail(err, STK_INVALID, "perm must name each of the dims 0 to %d once", ndim - 1);
	return STK_OK;
}

static enum stk_status transpose_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct transpose *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	*out = *in;
	if (in->ndim < 0)
		return STK_OK;
	int order[STK_MAX_DIMS];
	enum stk_status s = read_perm(a, in->ndim, order, err);
	if (s)
		return s;
	bool letters = a->transpose_layout && in->layout[0];
	for (int32_t d = 0; d < in->ndim; d++) {
		out->shape[d] = in->shape[order[d]];
		out->layout[d] = letters ? in->layout[order[d]] : in->layout[d];
	}
	if (a->output_layout && a->output_layout[0]) {
		if ((int32_t)strlen(a->output_layout) != in->ndim)
			return stk__fail(err, STK_INVALID, "output_layout is \"%s\" for a tensor of %d dims", a->output_layout, in->ndim);
		memcpy(out->layout, a->output_layout, (size_t)in->ndim + 1);
	}
	return STK_OK;
}

static enum stk_status transpose_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	int order[STK_MAX_DIMS];
	enum stk_status s = read_perm(call->args, in->ndim, order, err);
	if (s)
		return s;
	struct stk_copy_dim dims[STK_MAX_DIMS];
	stk__copy_dims(dims, in->ndim, in->shape, order, NULL, NULL, call->out[0].desc.shape);
	return stk__job_copy(jobs, &call->in[0], &call->out[0], dims, in->ndim, NULL, false, err);
}

/* Adds no step: a pass stores its result in the layout of the output's desc. */
static void transpose_lower(const struct stk_call *call, struct stk_pass *pass)
{
	(void)call, (void)pass;
}

/* Lets a pass do the work if the layout is permuted with the dims, and frames stay in front. A tensor can have a layout before its number of dims is
 * known: the output of per_frame has "F". */
static unsigned transpose_classify(const void *args, const struct stk_desc *in)
{
	const struct transpose *a = args;
	int order[STK_MAX_DIMS];
	struct stk_dims dims;
	if (!in || !in->layout[0] || !a->transpose_layout || stk__dims_of(in, &dims, NULL) || !dims.known ||
		read_perm(a, in->ndim, order, NULL))
		return STK_CLASS_NEVER;
	for (int32_t d = 0; d < in->ndim; d++) {
		char letter = in->layout[order[d]];
		if ((a->output_layout && a->output_layout[0] && a->output_layout[d] != letter) || (!strchr("HWC", letter) && order[d] != d))
			return STK_CLASS_NEVER;
	}
	return STK_CLASS_WINDOW;
}

const struct stk_op_def stk__op_transpose = {
	.name = "transpose",
	.doc = "Reorders the dims of tensors.\n\n"
	       "perm=[2, 0, 1] turns HWC into CHW.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.args = transpose_args,
	.args_size = sizeof(struct transpose),
	.classes = STK_CLASS_WINDOW,
	.classify = transpose_classify,
	.infer = transpose_infer,
	.lower_jobs = transpose_lower_jobs,
	.lower = transpose_lower,
};
