/* SPDX-License-Identifier: Apache-2.0
 * random.choice: random elements of a tensor, or random whole numbers from 0 to n - 1. */
#include "kernel/convert/convert.h"
#include "op/dims.h"

#include <string.h>

struct choice {
	struct stk_floats p;
	struct stk_ints shape;
	int64_t seed;
};

static const struct stk_arg_def choice_args[] = {
	STK_ARG(struct choice, p, STK_ARG_FLOATS, NULL, (0, 1), STK_PER_SAMPLE | STK_SCALAR_OK,
		"Chance of each choice; the sum must be 1. Default: equal chances."),
	{.name = "shape",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct choice, shape),
		.min = 0,
		.max = 0x1p40,
		.shapes = true,
		.doc = "Number of draws, as a shape. Default: one draw, or the shape of the second input."},
	STK_ARG(struct choice, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_END,
};

static enum stk_status draws_shape(const struct stk_call *call, struct stk_desc *out, struct stk_error *err)
{
	const struct choice *a = call->args;
	*out = (struct stk_desc){.dtype = call->in[0].desc.dtype};
	if (a->shape.count >= 0 && call->n_in > 1)
		return stk__fail(err, STK_INVALID, "the shape is given twice, by an input and by shape: choose one");
	if (stk__varies(call, &a->shape)) {
		out->ndim = -1;
	} else if (call->n_in > 1) {
		out->ndim = call->in[1].desc.ndim;
		memcpy(out->shape, call->in[1].desc.shape, sizeof out->shape);
	} else if (a->shape.count > STK_MAX_DIMS) {
		return stk__fail(err, STK_INVALID, "shape has %d dims; tensors have up to %d", a->shape.count, STK_MAX_DIMS);
	} else if (a->shape.count >= 0) {
		out->ndim = a->shape.count;
		memcpy(out->shape, a->shape.v, (size_t)out->ndim * sizeof *out->shape);
	}
	return STK_OK;
}

/* Sets the output's desc: the shape of the draws, followed by the input's shape without its first dim. Fails if a scalar input is no integer. */
static enum stk_status choice_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	enum stk_status s = draws_shape(call, out, err);
	if (s || out->ndim < 0)
		return s;
	if (in->ndim < 0) {
		out->ndim = -1;
		return STK_OK;
	}
	if (in->layout[0] && out->ndim < 2) /* the layout loses its first letter if the output is a single element without that dim */
		memcpy(out->layout, in->layout + 1 - out->ndim, (size_t)(in->ndim - 1 + out->ndim));
	if (in->ndim == 0 && in->dtype != STK_NO_DTYPE &&
		(!stk__dtype_whole(in->dtype) || in->dtype == STK_BOOL || stk__dtype_enumeration(in->dtype)))
		return stk__fail(err, STK_INVALID, "the scalar input is the number of choices; it must be an integer, not %s",
			stk_dtype_name(in->dtype));
	if (out->ndim + in->ndim - 1 > STK_MAX_DIMS)
		return stk__fail(
			err, STK_INVALID, "the output would have %d dims; tensors have up to %d", out->ndim + in->ndim - 1, STK_MAX_DIMS);
	for (int32_t d = 1; d < in->ndim; d++)
		out->shape[out->ndim++] = in->shape[d];
	return STK_OK;
}

static enum stk_status count_choices(const struct stk_call *call, int64_t *count, struct stk_error *err)
{
	const struct choice *a = call->args;
	const struct stk_tensor *in = &call->in[0];
	if (in->desc.ndim > 0)
		*count = in->desc.shape[0];
	else
		stk__convert(count, STK_INT64, in->data, in->desc.dtype, 1);
	if (*count < 1)
		return stk__fail(err, STK_INVALID, "there are %lld choices; there must be at least one", (long long)*count);
	if (a->p.count < 0)
		return STK_OK;
	if (a->p.count != *count)
		return stk__fail(err, STK_INVALID, "p has %d values for %lld choices", a->p.count, (long long)*count);
	double sum = 0;
	for (int32_t i = 0; i < a->p.count; i++)
		sum += a->p.v[i];
	return fabs(sum - 1) < 1e-4 ? STK_OK : stk__fail(err, STK_INVALID, "the chances in p must add up to 1, not %g", sum);
}

/* Returns an integer drawn from 0 .. count - 1: the upper 64 bits of the product of count and 64 random bits. */
static int64_t draw_wide(struct stk_random *r, uint64_t count)
{
	uint64_t high = stk__random_u32(r), low = stk__random_u32(r);
	uint64_t n_high = count >> 32, n_low = count & UINT32_MAX;
	uint64_t high_low = high * n_low, low_high = low * n_high;
	uint64_t carry = (low * n_low >> 32) + (high_low & UINT32_MAX) + (low_high & UINT32_MAX);
	return (int64_t)(high * n_high + (high_low >> 32) + (low_high >> 32) + (carry >> 32));
}

static int64_t draw(const struct choice *a, struct stk_random *r, int64_t count)
{
	if (a->p.count < 0)
		return count <= UINT32_MAX ? stk__random_below(r, (uint32_t)count) : draw_wide(r, (uint64_t)count);
	double left = stk__random_float(r);
	/* the last choice with a chance above 0: returned if the draw is above the sum of the chances, which rounding may make less than 1 */
	int64_t last = 0;
	for (int64_t i = 0; i < count; i++) {
		if (a->p.v[i] > 0)
			last = i;
		if (left < a->p.v[i])
			return i;
		left -= a->p.v[i];
	}
	return last;
}

static enum stk_status choice_run(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_tensor *in = &call->in[0], *out = &call->out[0];
	struct stk_random r = call->random;
	struct stk_desc drawn;
	int64_t count;
	enum stk_status s = count_choices(call, &count, err);
	if (s || (s = draws_shape(call, &drawn, err)))
		return s;
	if (!stk_desc_elements(&out->desc)) /* returns early, since the user may have asked for 2^40 draws of elements that are empty */
		return STK_OK;
	size_t element = stk_dtype_size(in->desc.dtype);
	for (int32_t d = 1; d < in->desc.ndim; d++)
		element *= (size_t)in->desc.shape[d];
	for (int64_t i = 0, n = stk_desc_elements(&drawn); i < n; i++) {
		int64_t k = draw(call->args, &r, count);
		char *to = (char *)out->data + (size_t)i * element;
		if (in->desc.ndim > 0)
			memcpy(to, (const char *)in->data + (size_t)k * element, element);
		else
			stk__convert(to, out->desc.dtype, &k, STK_INT64, 1);
	}
	return STK_OK;
}

const struct stk_op_def stk__op_random_choice = {
	.name = "random.choice",
	.doc = "Draws elements of a tensor, or numbers below a scalar.\n\n"
	       "If the input is a scalar n, the draws are whole numbers from 0 to n - 1; otherwise they are elements of the tensor "
	       "along its first dim. Draws are made with replacement.",
	.inputs = {1, 2},
	.args = choice_args,
	.args_size = sizeof(struct choice),
	.flags = STK_OP_RANDOM | STK_OP_MOVES,
	.infer = choice_infer,
	.run_cpu = choice_run,
};
