/* SPDX-License-Identifier: Apache-2.0
 * audio_resample: changes the sampling rate of signals. */
#include "kernel/sinc/sinc.h"
#include "op/audio/resampling.h"
#include "op/dims.h"

struct audio_resample {
	float in_rate, out_rate, scale, quality;
	int64_t out_length;
	int32_t dtype;
};

#define RATE_ARG(member, text)                                                                                                             \
	{                                                                                                                                  \
		.name = #member, .type = STK_ARG_FLOAT, .flags = STK_PER_SAMPLE, .offset = offsetof(struct audio_resample, member),        \
		.min = -HUGE_VAL, .max = HUGE_VAL, .shapes = true, .doc = text                                                             \
	}

static const struct stk_arg_def audio_resample_args[] = {
	RATE_ARG(in_rate, "Rate of the input, above 0; together with out_rate. Only their ratio matters."),
	RATE_ARG(out_rate, "Rate of the output, together with in_rate."),
	RATE_ARG(scale, "Ratio of the output's rate to the input's, instead of the rates."),
	{.name = "out_length",
		.type = STK_ARG_INT,
		.flags = STK_PER_SAMPLE,
		.offset = offsetof(struct audio_resample, out_length),
		.min = 0,
		.max = STK_JOB_MOST,
		.shapes = true,
		.doc = "Number of samples of the output, instead of the rates."},
	STK_ARG(struct audio_resample, quality, STK_ARG_FLOAT, "50.0", (0, 100), 0,
		"From 0 to 100: the filter has 3 lobes on each side with 0, 16 with 50 and 64 with 100."),
	STK_ARG(struct audio_resample, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output: float32 or an integer type of up to 32 bits. Default: the input's."),
	STK_ARG_END,
};

static enum stk_status audio_resample_setup(const void *args, void **shared, struct stk_error *err)
{
	(void)args;
	*shared = stk__calloc(1, sizeof(struct stk_audio_tables));
	return *shared ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory");
}

static void audio_resample_teardown(void *shared)
{
	stk__audio_tables_clear(shared);
	stk__free(shared);
}

/* ---- rates ---- */

/* The rates of input and output, of which only the ratio matters. */
struct rates {
	double in, out;
};

static bool float_given(const struct stk_call *call, const float *field)
{
	return stk__varies(call, field) || stk__float_given(*field);
}

/* Fails unless exactly one of these is given: in_rate and out_rate, scale, or out_length. */
static enum stk_status check_given(const struct stk_call *call, struct stk_error *err)
{
	const struct audio_resample *a = call->args;
	bool in = float_given(call, &a->in_rate), out = float_given(call, &a->out_rate), scale = float_given(call, &a->scale);
	bool length = stk__varies(call, &a->out_length) || stk__int_given(a->out_length);
	if (in != out)
		return stk__fail(
			err, STK_INVALID, "in_rate and out_rate must be given together: %s is missing", in ? "out_rate" : "in_rate");
	if (in + scale + length == 0)
		return stk__fail(err, STK_INVALID, "audio_resample needs in_rate and out_rate, scale, or out_length");
	if (in + scale + length > 1)
		return stk__fail(err, STK_INVALID, "give only one of these: in_rate and out_rate, scale, or out_length");
	return STK_OK;
}

/* Sets *r to the rates of an input of n samples and of its output, up to a common factor. Fails if a rate is not valid, or if the input is empty and the
 * output is not. */
static enum stk_status rates_of(const struct audio_resample *a, int64_t n, struct rates *r, struct stk_error *err)
{
	if (stk__int_given(a->out_length)) {
		*r = (struct rates){(double)n, (double)a->out_length};
		if (a->out_length < 0)
			return stk__fail(err, STK_INVALID, "out_length cannot be negative, as %lld", (long long)a->out_length);
		if (n == 0 && a->out_length > 0)
			return stk__fail(
				err, STK_SHAPE, "a signal without samples cannot be resampled to %lld samples", (long long)a->out_length);
		return STK_OK;
	}
	*r = (struct rates){1, (double)a->scale};
	if (!stk__float_given(a->scale))
		*r = (struct rates){(double)a->in_rate, (double)a->out_rate};
	if (!(r->in > 0) || !isfinite(r->in))
		return stk__fail(err, STK_INVALID, "in_rate must be above 0, not %g", r->in);
	if (!(r->out >= 0) || !isfinite(r->out))
		return stk__fail(err, STK_INVALID, "%s cannot be negative or infinite, as %g",
			stk__float_given(a->scale) ? "scale" : "out_rate", r->out);
	return STK_OK;
}

/* ---- the operator ---- */

static bool takes(int32_t dtype)
{
	return dtype == STK_FLOAT || stk__sinc_largest(dtype) > 0;
}

static enum stk_status audio_resample_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct audio_resample *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	struct rates r;
	enum stk_status s = check_given(call, err);
	*out = *in;
	out->dtype = stk__dtype_or(a->dtype, in->dtype);
	if (s)
		return s;
	const bool fits = in->dtype == STK_NO_DTYPE || takes(in->dtype);
	if (!fits || (out->dtype != STK_NO_DTYPE && !takes(out->dtype)))
		return stk__fail(err, STK_UNSUPPORTED,
			"audio_resample takes and makes float32 and integers of up to 32 bits, not %s: cast the %s",
			stk_dtype_name(fits ? out->dtype : in->dtype), fits ? "result" : "input");
	if (in->ndim >= 0 && in->ndim != 1 && in->ndim != 2)
		return stk__fail(
			err, STK_SHAPE, "audio_resample takes signals of 1 dimension, or of 2 with channels last, not of %d", in->ndim);
	bool varies = stk__varies(call, &a->in_rate) || stk__varies(call, &a->out_rate) || stk__varies(call, &a->scale) ||
		      stk__varies(call, &a->out_length);
	if (in->ndim < 0 || varies)
		return STK_OK;
	int64_t n = in->shape[0];
	if (n < 0) {
		out->shape[0] = stk__int_given(a->out_length) ? a->out_length : -1;
		return STK_OK;
	}
	if ((s = rates_of(a, n, &r, err)))
		return s;
	double length = stk__resampling_length(&(struct stk_resampling){.in = r.in, .out = r.out}, n);
	if (stk__int_given(a->out_length))
		length = (double)a->out_length;
	if (length > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "the output would have %.0f samples; at most %d are possible", length, STK_JOB_MOST);
	out->shape[0] = (int64_t)length;
	return STK_OK;
}

static enum stk_status audio_resample_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	enum { FEW = 16 };
	const struct audio_resample *a = call->args;
	struct rates r;
	enum stk_status s = rates_of(a, call->in[0].desc.shape[0], &r, err);
	if (s || stk_desc_elements(&call->out[0].desc) == 0)
		return s;
	/* With out_length, each sample may have a ratio of its own, and a table with all rows would take longer to compute than the signal. So tables have
	 * few rows. */
	const struct stk_resampling p = {
		.in = r.in, .out = r.out, .lobes = stk__resampling_lobes(a->quality), .phases = stk__int_given(a->out_length) ? FEW : 0};
	return stk__resampling_job(&p, (struct stk_audio_tables *)call->shared, call->tools->arena, jobs, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_audio_resample = {
	.name = "audio_resample",
	.alias = "experimental.audio_resample",
	.doc = "Changes the sampling rate of signals by a windowed sinc.\n\n"
	       "The input has one dimension, or two with channels last. Integers stand for -1 to 1: signed ones are divided by their largest value. The output "
	       "has ceil(samples * out_rate / in_rate) samples. As in DALI, the filter is the same for all ratios: frequencies above half of a lower output rate "
	       "are not removed, but fold back. Filter them out first if there are any.",
	.inputs = {1, 1},
	.args = audio_resample_args,
	.args_size = sizeof(struct audio_resample),
	.setup = audio_resample_setup,
	.teardown = audio_resample_teardown,
	.infer = audio_resample_infer,
	.lower_jobs = audio_resample_lower_jobs,
};
