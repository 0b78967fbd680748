/* SPDX-License-Identifier: Apache-2.0
 * mfcc: the cosine transform of a mel spectrum, whose first coefficients describe a sound. */
#include "base/math.h"
#include "kernel/bands/bands.h"
#include "op/audio/audio.h"

struct mfcc {
	int64_t axis, dct_type, n_mfcc;
	float lifter;
	bool normalize;
};

static const struct stk_arg_def mfcc_args[] = {
	STK_ARG(struct mfcc, n_mfcc, STK_ARG_INT, "20", (1, 0x1p31), 0, "Number of coefficients; at most as many as there are bands."),
	STK_ARG(struct mfcc, axis, STK_ARG_INT, "0", (0, STK_MAX_DIMS - 1), 0, "The dimension to transform."),
	STK_ARG(struct mfcc, dct_type, STK_ARG_INT, "2", (1, 4), 0,
		"Type of the cosine transform, from 1 to 4, as SciPy counts them. Without normalize, results are half of SciPy's, as in DALI."),
	STK_ARG(struct mfcc, normalize, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Scales the transform so that it is orthogonal; not with type 1."),
	STK_ARG(struct mfcc, lifter, STK_ARG_FLOAT, "0.0", STK_FREE, 0,
		"If it is not 0, coefficient i is multiplied by 1 + lifter / 2 * sin(pi (i + 1) / lifter), which raises the higher ones."),
	STK_ARG_END,
};

static enum stk_status mfcc_setup(const void *args, void **shared, struct stk_error *err)
{
	const struct mfcc *a = args;
	if (a->dct_type == 1 && a->normalize)
		return stk__fail(err, STK_INVALID, "dct_type 1 has no orthogonal form: leave out normalize, or use dct_type 2");
	*shared = stk__calloc(1, sizeof(struct stk_audio_tables));
	return *shared ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory");
}

static void mfcc_teardown(void *shared)
{
	stk__audio_tables_clear(shared);
	stk__free(shared);
}

static enum stk_status mfcc_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct mfcc *a = call->args;
	struct stk_desc *out = &call->out[0].desc;
	int32_t axis;
	enum stk_status s = stk__audio_floats(call, err);
	*out = call->in[0].desc;
	if (s || out->ndim < 0 || (s = stk__audio_axis(a->axis, out, &axis, err)))
		return s;
	if (a->dct_type == 1 && out->shape[axis] == 1)
		return stk__fail(err, STK_SHAPE, "dct_type 1 needs at least two bands");
	if (out->shape[axis] > a->n_mfcc || (out->shape[axis] < 0 && a->n_mfcc == 1))
		out->shape[axis] = a->n_mfcc;
	return STK_OK;
}

/* Returns the cosine of pi * k / n. Reduces k first, so that the result is as exact for a large k. */
static double cosine(int64_t k, int64_t n)
{
	const double pi = 3.14159265358979323846;
	k %= 2 * n;
	return stk__cos(pi * (double)(k > n ? 2 * n - k : k) / (double)n);
}

/* Returns entry (k, i) of the matrix of the transform of n values. */
static double entry(const struct mfcc *a, int64_t k, int64_t i, int64_t n)
{
	double count = (double)n, scale = a->normalize ? sqrt(2 / count) : 1;
	switch (a->dct_type) {
	case 1:
		return (i == 0 || i == n - 1 ? 0.5 : 1) * cosine(k * i, n - 1);
	case 2:
		return (a->normalize && k == 0 ? sqrt(1 / count) : scale) * cosine(k * (2 * i + 1), 2 * n);
	case 3:
		return i == 0 ? (a->normalize ? sqrt(1 / count) : 0.5) : scale * cosine(i * (2 * k + 1), 2 * n);
	default:
		return scale * cosine((2 * k + 1) * (2 * i + 1), 4 * n);
	}
}

/* Fills the table for `key` bands: a struct stk_band for each coefficient, then the rows of the matrix, which include the factor of the lifter. */
static enum stk_status fill_matrix(const void *user, int64_t key, void *table, struct stk_error *err)
{
	const struct mfcc *a = user;
	const double pi = 3.14159265358979323846, lifter = (double)a->lifter;
	int64_t rows = a->n_mfcc < key ? a->n_mfcc : key;
	struct stk_band *bands = table;
	float *weights = (float *)(void *)(bands + rows);
	(void)err;
	for (int64_t k = 0; k < rows; k++) {
		double lift = lifter != 0 ? 1 + lifter / 2 * stk__sin(pi * (double)(k + 1) / lifter) : 1;
		bands[k] = (struct stk_band){0, (int32_t)key, (int32_t)(k * key)};
		for (int64_t i = 0; i < key; i++)
			weights[k * key + i] = (float)(entry(a, k, i, key) * lift);
	}
	return STK_OK;
}

static enum stk_status mfcc_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct mfcc *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	int32_t axis;
	enum stk_status s = stk__audio_axis(a->axis, in, &axis, err);
	if (s)
		return s;
	struct stk_bands p = {.outer = stk__audio_outer(in, axis),
		.inner = stk__audio_inner(in, axis),
		.bins = in->shape[axis],
		.rows = call->out[0].desc.shape[axis]};
	p.n_weights = p.rows * p.bins;
	if (p.n_weights > INT32_MAX)
		return stk__fail(err, STK_LIMIT, "a transform of %lld bands to %lld coefficients is too large", (long long)p.bins,
			(long long)p.rows);
	const struct stk_audio_maker maker = {
		sizeof(struct stk_band) * (size_t)p.rows + sizeof(float) * (size_t)p.n_weights, fill_matrix, a};
	const void *table = stk__audio_table_take((struct stk_audio_tables *)call->shared, p.bins, &maker, call->tools->arena, err);
	return table ? stk__job_bands(jobs, &p, table, &call->in[0], &call->out[0], err) : STK_NO_MEMORY;
}

const struct stk_op_def stk__op_mfcc = {
	.name = "mfcc",
	.doc = "Computes mel-frequency cepstral coefficients: the first terms of the cosine transform of a mel spectrum.\n\n"
	       "Takes a mel spectrum in decibels, as float32: spectrogram, mel_filter_bank and to_decibels make it. If there are fewer bands than n_mfcc, all "
	       "coefficients are given.",
	.inputs = {1, 1},
	.args = mfcc_args,
	.args_size = sizeof(struct mfcc),
	.setup = mfcc_setup,
	.teardown = mfcc_teardown,
	.infer = mfcc_infer,
	.lower_jobs = mfcc_lower_jobs,
};
