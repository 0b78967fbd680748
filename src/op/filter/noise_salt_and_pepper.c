/* SPDX-License-Identifier: Apache-2.0
 * noise.salt_and_pepper: replaces some pixels by one of two values. */
#include "kernel/convert/convert.h"
#include "kernel/pointwise/pointwise.h"
#include "op/filter/noise.h"

struct salt_and_pepper {
	float prob, salt_vs_pepper, salt_val, pepper_val;
	bool per_channel;
	int64_t seed;
};

static const struct stk_arg_def salt_and_pepper_args[] = {
	STK_ARG(struct salt_and_pepper, prob, STK_ARG_FLOAT, "0.05", (0, 1), STK_PER_SAMPLE, "Probability that a pixel is replaced."),
	STK_ARG(struct salt_and_pepper, salt_vs_pepper, STK_ARG_FLOAT, "0.5", (0, 1), STK_PER_SAMPLE,
		"Probability that a replaced pixel becomes salt; otherwise it becomes pepper."),
	STK_ARG(struct salt_and_pepper, salt_val, STK_ARG_FLOAT, NULL, STK_FREE, STK_PER_SAMPLE | STK_INFINITE,
		"Value of salt; integer types drop the fraction and saturate. Default: the largest of an integer type, 1 for floats."),
	STK_ARG(struct salt_and_pepper, pepper_val, STK_ARG_FLOAT, NULL, STK_FREE, STK_PER_SAMPLE | STK_INFINITE,
		"Value of pepper. Default: the smallest of an integer type, -1 for floats."),
	STK_ARG(struct salt_and_pepper, per_channel, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Draws for each channel of a pixel, not once for all of them. Needs a layout with channels, or no layout: then the last dim "
		"is the channels."),
	STK_ARG(struct salt_and_pepper, seed, STK_ARG_INT, "-1", STK_FREE, 0, stk__noise_seed_doc),
	STK_ARG_END,
};

/* Returns the dim of the channels: C in the layout or, if there is no layout, the last dim; -1: no such dim. */
static int32_t channel_dim(const struct stk_desc *in)
{
	return in->layout[0] ? stk__layout_find(in, 'C') : in->ndim - 1;
}

static enum stk_status salt_and_pepper_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct salt_and_pepper *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	if (a->per_channel && in->ndim >= 0 && in->layout[0] && channel_dim(in) < 0)
		return stk__fail(err, STK_INVALID, "per_channel=True needs inputs with channels (C), not of layout \"%s\"", in->layout);
	return stk__noise_infer(call, err);
}

/* Stores `given` as an element of type `dtype`. Integer types drop the fraction, as in DALI. If no value is given, stores `limit` for types of floats, and for
 * integer types their smallest or largest value, by the sign of `limit` (a number outside of all ranges saturates). */
static void store_value(uint8_t to[8], float given, double limit, enum stk_dtype dtype)
{
	bool whole = stk__dtype_whole(dtype);
	double value = !stk__float_given(given) ? (whole ? limit * 0x1p70 : limit) : whole ? trunc(given) : given;
	stk__convert(to, dtype, &value, STK_FLOAT64, 1);
}

static enum stk_status salt_and_pepper_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct salt_and_pepper *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_pointwise_noise n = {.prob = a->prob, .salt_share = a->salt_vs_pepper, .inner = 1, .channels = 1};
	int32_t channels = channel_dim(in);
	store_value(n.salt, a->salt_val, 1, in->dtype);
	store_value(n.pepper, a->pepper_val, -1, in->dtype);
	if (channels >= 0 && !a->per_channel) {
		n.channels = in->shape[channels];
		for (int32_t d = channels + 1; d < in->ndim; d++)
			n.inner *= in->shape[d];
	}
	return stk__noise_lower(call, STK_POINTWISE_SALT, n, jobs, err);
}

const struct stk_op_def stk__op_noise_salt_and_pepper = {
	.name = "noise.salt_and_pepper",
	.doc = "Replaces some pixels by a high value (salt) or a low one (pepper).\n\n"
	       "Tensors have any shape and type. All channels of a pixel are replaced together, unless per_channel says otherwise.",
	.inputs = {1, 1},
	.args = salt_and_pepper_args,
	.args_size = sizeof(struct salt_and_pepper),
	.flags = STK_OP_RANDOM,
	.infer = salt_and_pepper_infer,
	.lower_jobs = salt_and_pepper_lower_jobs,
};
