/* SPDX-License-Identifier: Apache-2.0
 * nonsilent_region: finds the part of a signal that is left without the silence at its start and end. */
#include "base/math.h"
#include "kernel/nonsilent/nonsilent.h"
#include "op/audio/audio.h"

struct nonsilent_region {
	float cutoff_db, reference_power;
	int64_t window_length, reset_interval;
};

static const struct stk_arg_def nonsilent_region_args[] = {
	STK_ARG(struct nonsilent_region, cutoff_db, STK_ARG_FLOAT, "-60.0", STK_FREE, 0,
		"Windows whose power is below this are silent, in decibels relative to reference_power."),
	STK_ARG(struct nonsilent_region, window_length, STK_ARG_INT, "2048", (1, 0x1p31), 0,
		"Length of the windows in samples; the whole signal if that is shorter."),
	STK_ARG(struct nonsilent_region, reference_power, STK_ARG_FLOAT, "0.0", (0, HUGE_VAL), 0,
		"The power that is 0 dB: the mean of the squares of samples. 0: the power of the loudest window."),
	STK_ARG(struct nonsilent_region, reset_interval, STK_ARG_INT, "8192", (-1, 0x1p31), 0,
		"For pipelines written for DALI: -1 or, of float32, a multiple of window_length. It has no effect, since sums are kept in double, where rounding "
		"errors do not pile up."),
	STK_ARG_END,
};

static enum stk_status nonsilent_region_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct nonsilent_region *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	for (int i = 0; i < 2; i++)
		call->out[i].desc = (struct stk_desc){.dtype = STK_INT32};
	if (in->dtype == STK_FLOAT && a->reset_interval != -1 && (a->reset_interval == 0 || a->reset_interval % a->window_length))
		return stk__fail(err, STK_INVALID, "reset_interval (%lld) must be -1 or a multiple of window_length (%lld) for float32",
			(long long)a->reset_interval, (long long)a->window_length);
	if (in->dtype == STK_BOOL || in->dtype == STK_FLOAT16 || in->dtype == STK_BFLOAT16 || in->dtype == STK_FLOAT64)
		return stk__fail(err, STK_UNSUPPORTED, "nonsilent_region takes float32 and integers, not %s: cast the input first",
			stk_dtype_name(in->dtype));
	if (in->ndim >= 0 && in->ndim != 1)
		return stk__fail(
			err, STK_SHAPE, "nonsilent_region takes signals of one dimension, not of %d: slice channels first", in->ndim);
	if (in->ndim == 1 && in->shape[0] > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "a signal has at most %d samples, not %lld", STK_JOB_MOST, (long long)in->shape[0]);
	return STK_OK;
}

static enum stk_status nonsilent_region_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct nonsilent_region *a = call->args;
	int64_t n = call->in[0].desc.shape[0];
	const struct stk_nonsilent p = {.window = a->window_length < n ? a->window_length : n,
		.ratio = stk__exp((double)a->cutoff_db * 2.30258509299404568402 / 10),
		.reference = (double)a->reference_power,
		.length = call->out[1].data};
	return stk__job_nonsilent(jobs, &p, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_nonsilent_region = {
	.name = "nonsilent_region",
	.doc = "Finds the part of a signal that is not silent.\n\n"
	       "Returns two numbers of type int32: where the first window that is not silent begins, and the length from there to the end of the last one. Both "
	       "are 0 if the whole signal is silent. Windows begin at every sample; a signal of equal powers, also of 0, is not silent if reference_power is 0 "
	       "and cutoff_db is below 0. Samples that are NaN or infinite count as 0. The input has one dimension, of float32 or of integers.",
	.inputs = {1, 1},
	.outputs = 2,
	.args = nonsilent_region_args,
	.args_size = sizeof(struct nonsilent_region),
	.infer = nonsilent_region_infer,
	.lower_jobs = nonsilent_region_lower_jobs,
};
