/* SPDX-License-Identifier: Apache-2.0
 * batch_permutation: indices of samples, drawn for the whole batch. */
#include "op/op.h"

#include <string.h>

struct batch_permutation {
	bool allow_repetitions, no_fixed_points;
	int64_t seed;
};

static const struct stk_arg_def batch_permutation_args[] = {
	STK_ARG(struct batch_permutation, allow_repetitions, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Draws each index independently, so that some may be missing and others repeated."),
	STK_ARG(struct batch_permutation, no_fixed_points, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Never gives a sample its own index. No effect for a batch of one sample."),
	STK_ARG(struct batch_permutation, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_END,
};

/* Sets drawn[i], for each of the n samples in `present`, to one of these samples, drawn independently. others: a sample never gets itself. */
static void draw_each(struct stk_random *r, const int32_t *present, int32_t n, bool others, int32_t *drawn)
{
	for (int32_t i = 0; i < n; i++) {
		uint32_t k = stk__random_below(r, (uint32_t)(others ? n - 1 : n));
		drawn[i] = present[k + (others && k >= (uint32_t)i)];
	}
}

static bool has_fixed_point(const int32_t *present, const int32_t *drawn, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if (present[i] == drawn[i])
			return true;
	return false;
}

/* Sets `drawn` to a random permutation of `present`, by Fisher and Yates' shuffle. With `others`, draws again until no sample gets itself, so that all such
 * permutations are equally likely; this takes about 1.7 further permutations on average. */
static void draw_permutation(struct stk_random *r, const int32_t *present, int32_t n, bool others, int32_t *drawn)
{
	do {
		memcpy(drawn, present, (size_t)n * sizeof *drawn);
		for (int32_t i = n - 1; i > 0; i--) {
			uint32_t k = stk__random_below(r, (uint32_t)i + 1);
			int32_t moved = drawn[i];
			drawn[i] = drawn[k];
			drawn[k] = moved;
		}
	} while (others && has_fixed_point(present, drawn, n));
}

/* Draws an index for each sample of the batch, and stores it at the sample's own index. All draws come from the random stream of the batch's first sample. */
static enum stk_status batch_permutation_gather(
	const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err)
{
	const struct batch_permutation *a = calls[0].args;
	struct stk_random r = calls[0].random;
	int32_t *by_index = stk__gathered_take(out, (size_t)(calls[0].batch + 2 * count) * sizeof *by_index);
	if (!by_index)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the indices of %d samples", count);
	int32_t *present = by_index + calls[0].batch, *drawn = present + count;
	for (int32_t i = 0; i < count; i++)
		present[i] = calls[i].index;
	bool others = a->no_fixed_points && count > 1;
	if (a->allow_repetitions)
		draw_each(&r, present, count, others, drawn);
	else
		draw_permutation(&r, present, count, others, drawn);
	for (int32_t i = 0; i < count; i++)
		by_index[present[i]] = drawn[i];
	return STK_OK;
}

static enum stk_status batch_permutation_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	call->out[0].desc = (struct stk_desc){.dtype = STK_INT32};
	return STK_OK;
}

static enum stk_status batch_permutation_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	*(int32_t *)call->out[0].data = ((const int32_t *)call->gathered)[call->index];
	return STK_OK;
}

const struct stk_op_def stk__op_batch_permutation = {
	.name = "batch_permutation",
	.doc = "Draws a permutation of the batch: for each sample the index of a sample, as int32.\n\n"
	       "permute_batch takes these indices. Indices count all samples of the planned batch; bad samples that were left out are "
	       "not drawn.",
	.args = batch_permutation_args,
	.args_size = sizeof(struct batch_permutation),
	.flags = STK_OP_RANDOM,
	.gather = batch_permutation_gather,
	.infer = batch_permutation_infer,
	.run_cpu = batch_permutation_run,
};
