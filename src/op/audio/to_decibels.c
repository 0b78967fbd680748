/* SPDX-License-Identifier: Apache-2.0
 * to_decibels: converts magnitudes or powers to decibels. */
#include "base/math.h"
#include "kernel/decibels/decibels.h"
#include "op/audio/audio.h"

struct to_decibels {
	float multiplier, reference, cutoff_db;
	bool keep_nan;
};

static const struct stk_arg_def to_decibels_args[] = {
	STK_ARG(struct to_decibels, multiplier, STK_ARG_FLOAT, "10.0", STK_FREE, 0,
		"Factor of the decimal logarithm, above 0: 10 for powers, 20 for magnitudes."),
	STK_ARG(struct to_decibels, reference, STK_ARG_FLOAT, NULL, (0, HUGE_VAL), 0,
		"The value that becomes 0 dB, above 0. Default: the largest value of the sample."),
	STK_ARG(struct to_decibels, cutoff_db, STK_ARG_FLOAT, "-200.0", STK_FREE, 0,
		"The lowest output, which stands for all values below it."),
	STK_ARG(struct to_decibels, keep_nan, STK_ARG_BOOL, "false", STK_FREE, 0,
		"NaN stays NaN. Default: it becomes cutoff_db, as in DALI."),
	STK_ARG_END,
};

static enum stk_status to_decibels_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct to_decibels *a = call->args;
	call->out[0].desc = call->in[0].desc;
	if (!(a->multiplier > 0))
		return stk__fail(err, STK_INVALID, "multiplier must be above 0, not %g: give 10 for powers and 20 for magnitudes",
			(double)a->multiplier);
	if (a->reference == 0)
		return stk__fail(err, STK_INVALID,
			"the `reference` argument can't be zero: leave it out, so that the largest value of each sample becomes 0 dB");
	return stk__audio_floats(call, err);
}

static enum stk_status to_decibels_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct to_decibels *a = call->args;
	const double ln10 = 2.30258509299404568402, log10_2 = 0.30102999566398119521;
	/* As in DALI, a cutoff below the smallest float is raised to it, since the logarithm of 0 would be infinite. */
	const float least = (float)stk__exp((double)a->cutoff_db / (double)a->multiplier * ln10);
	const struct stk_decibels p = {.factor = (float)((double)a->multiplier * log10_2),
		.least = least > 0 ? least : 0x1p-149f,
		.reference = stk__float_given(a->reference) ? a->reference : 0,
		.keep_nan = a->keep_nan};
	return stk__job_decibels(jobs, &p, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_to_decibels = {
	.name = "to_decibels",
	.doc = "Converts magnitudes or powers to decibels: multiplier * log10(x / reference).\n\n"
	       "Takes float32 of any shape. Values that are negative, NaN or below the cutoff become cutoff_db.",
	.inputs = {1, 1},
	.args = to_decibels_args,
	.args_size = sizeof(struct to_decibels),
	.infer = to_decibels_infer,
	.lower_jobs = to_decibels_lower_jobs,
};
