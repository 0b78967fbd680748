/* SPDX-License-Identifier: Apache-2.0
 * power_spectrum: computes spectra along one dimension, one for each index of the other dimensions. */
#include "kernel/spectrum/spectrum.h"
#include "op/audio/audio.h"

struct power_spectrum {
	int64_t axis, nfft, power;
};

static const struct stk_arg_def power_spectrum_args[] = {
	STK_ARG(struct power_spectrum, axis, STK_ARG_INT, "-1", (-STK_MAX_DIMS, STK_MAX_DIMS - 1), 0,
		"The dimension to transform; a number below 0 counts from the last one."),
	STK_ARG(struct power_spectrum, nfft, STK_ARG_INT, NULL, (0, STK_FFT_LONGEST), 0,
		"Length of the transform; without it or with 0, the dimension's extent. Lines are filled up with zeros, or cut off. There are nfft / 2 + 1 bins."),
	STK_ARG(struct power_spectrum, power, STK_ARG_INT, "2", (1, 2), 0, "1: magnitudes; 2: powers, their squares."),
	STK_ARG_END,
};

static enum stk_status power_spectrum_setup(const void *args, void **shared, struct stk_error *err)
{
	(void)args;
	*shared = stk__calloc(1, sizeof(struct stk_audio_tables));
	return *shared ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory");
}

static void power_spectrum_teardown(void *shared)
{
	stk__audio_tables_clear(shared);
	stk__free(shared);
}

/* Returns the length of the transform: the argument nfft or, if that is not given or not above 0, the extent of the axis (-1: not known yet). */
static int64_t length_of(const struct power_spectrum *a, int64_t extent)
{
	return stk__int_given(a->nfft) && a->nfft > 0 ? a->nfft : extent;
}

static enum stk_status power_spectrum_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct power_spectrum *a = call->args;
	struct stk_desc *out = &call->out[0].desc;
	int32_t axis;
	enum stk_status s = stk__audio_floats(call, err);
	*out = call->in[0].desc;
	if (s || out->ndim < 0 || (s = stk__audio_axis(a->axis, out, &axis, err)))
		return s;
	int64_t n = length_of(a, out->shape[axis]);
	if (out->shape[axis] == 0 || n == 0)
		return stk__fail(err, STK_SHAPE, "dimension %d has no elements to transform", axis);
	if (n > STK_FFT_LONGEST)
		return stk__fail(err, STK_LIMIT, "a transform has at most %d elements, not %lld: set nfft, or use spectrogram",
			STK_FFT_LONGEST, (long long)n);
	out->shape[axis] = n < 0 ? -1 : n / 2 + 1;
	return STK_OK;
}

static enum stk_status fill_tables(const void *user, int64_t key, void *table, struct stk_error *err)
{
	const struct stk_fft *fft = user;
	float *weights = (float *)table + fft->floats;
	for (int64_t i = 0; i < key; i++)
		weights[i] = stk__fft_scale(fft);
	return stk__fft_tables(fft, table, err);
}

static enum stk_status power_spectrum_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct power_spectrum *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	int32_t axis;
	enum stk_status s = stk__audio_axis(a->axis, in, &axis, err);
	if (s)
		return s;
	int64_t extent = in->shape[axis], nfft = length_of(a, extent), inner = stk__audio_inner(in, axis);
	struct stk_spectrum p = {
		.frames = inner,
		.length = extent,
		.src_line = extent * inner,
		.src_frame = 1,
		.src_element = inner,
		.dst_line = (nfft / 2 + 1) * inner,
		.dst_frame = 1,
		.dst_bin = inner,
		.window = (int32_t)(extent < nfft ? extent : nfft),
		.magnitude = a->power == 1,
	};
	stk__fft_plan((int32_t)nfft, &p.fft);
	const struct stk_audio_maker maker = {sizeof(float) * (size_t)(p.fft.floats + nfft), fill_tables, &p.fft};
	const float *tables = stk__audio_table_take((struct stk_audio_tables *)call->shared, nfft, &maker, call->tools->arena, err);
	if (!tables)
		return STK_NO_MEMORY;
	return stk__job_spectrum(jobs, &p, tables, stk__audio_outer(in, axis) * inner, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_power_spectrum = {
	.name = "power_spectrum",
	.doc = "Computes the spectrum along one dimension of a tensor.\n\n"
	       "Takes float32. The arithmetic is float32 with tables of higher precision. nfft may be any number; it is fastest if it has no prime factors "
	       "above 5.",
	.inputs = {1, 1},
	.args = power_spectrum_args,
	.args_size = sizeof(struct power_spectrum),
	.setup = power_spectrum_setup,
	.teardown = power_spectrum_teardown,
	.infer = power_spectrum_infer,
	.lower_jobs = power_spectrum_lower_jobs,
};
