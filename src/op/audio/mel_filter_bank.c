/* SPDX-License-Identifier: Apache-2.0
 * mel_filter_bank: sums the bins of a spectrum in triangular bands of equal width on the mel scale of pitch. */
#include "base/math.h"
#include "kernel/bands/bands.h"
#include "op/audio/audio.h"
#include "op/dims.h"

struct mel_filter_bank {
	const char *mel_formula;
	int64_t nfilter;
	float freq_low, freq_high, sample_rate;
	bool normalize;
};

enum { MOST_FILTERS = 1 << 16 };

static const struct stk_arg_def mel_filter_bank_args[] = {
	STK_ARG(struct mel_filter_bank, nfilter, STK_ARG_INT, "128", (1, MOST_FILTERS), 0, "Number of bands."),
	STK_ARG(struct mel_filter_bank, sample_rate, STK_ARG_FLOAT, "44100.0", STK_FREE, 0, "Sampling rate of the signal in Hz."),
	STK_ARG(struct mel_filter_bank, freq_low, STK_ARG_FLOAT, "0.0", (0, HUGE_VAL), 0, "The lower end of the first band, in Hz."),
	STK_ARG(struct mel_filter_bank, freq_high, STK_ARG_FLOAT, "0.0", STK_FREE, 0,
		"The upper end of the last band, in Hz. 0 or less: half of sample_rate."),
	{.name = "mel_formula",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct mel_filter_bank, mel_formula),
		.fallback = "\"slaney\"",
		.choices = "slaney|htk",
		.doc = "From Hz to mel. slaney: linear up to 1000 Hz and logarithmic above, as in the Auditory Toolbox and librosa. htk: 2595 * log10(1 + f / "
		       "700), as in HTK and librosa with htk=True."},
	STK_ARG(struct mel_filter_bank, normalize, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Divides each band by half of its width in Hz, so that bands of all widths have the same area."),
	STK_ARG_END,
};

/* The edges of all bands in Hz: band i rises from edge i to edge i + 1, and falls to edge i + 2. */
struct shared {
	struct stk_audio_tables tables;
	double bin; /* frequency of the last bin in Hz */
	int64_t nfilter;
	bool normalize;
	double edges[];
};

static double mel_of(double hz, bool htk)
{
	if (htk)
		return 2595 / 2.30258509299404568402 * stk__log(1 + hz / 700);
	return hz < 1000 ? hz * 3 / 200 : 15 + 27 * stk__log(hz / 1000) / stk__log(6.4);
}

static double hz_of(double mel, bool htk)
{
	if (htk)
		return 700 * (stk__exp(mel * 2.30258509299404568402 / 2595) - 1);
	return mel < 15 ? mel * 200 / 3 : 1000 * stk__exp((mel - 15) * stk__log(6.4) / 27);
}

static enum stk_status mel_filter_bank_setup(const void *args, void **shared, struct stk_error *err)
{
	const struct mel_filter_bank *a = args;
	double rate = (double)a->sample_rate, low = (double)a->freq_low, high = a->freq_high > 0 ? (double)a->freq_high : rate / 2;
	bool htk = a->mel_formula[0] == 'h';
	if (!(rate > 0))
		return stk__fail(err, STK_INVALID, "sample_rate must be above 0, not %g", rate);
	if (!(high > low && high <= rate))
		return stk__fail(err, STK_INVALID, "freq_high (%g Hz) must be above freq_low (%g Hz) and at most sample_rate (%g Hz)", high,
			low, rate);
	struct shared *s = stk__calloc(1, sizeof *s + (size_t)(a->nfilter + 2) * sizeof *s->edges);
	if (!s)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld bands", (long long)a->nfilter);
	s->bin = rate / 2;
	s->nfilter = a->nfilter;
	s->normalize = a->normalize;
	double first = mel_of(low, htk), step = (mel_of(high, htk) - first) / (double)(a->nfilter + 1);
	for (int64_t i = 0; i < a->nfilter + 2; i++)
		s->edges[i] = i == 0 ? low : i == a->nfilter + 1 ? high : hz_of(first + step * (double)i, htk);
	*shared = s;
	return STK_OK;
}

static void mel_filter_bank_teardown(void *shared)
{
	stk__audio_tables_clear(&((struct shared *)shared)->tables);
	stk__free(shared);
}

/* Sets *axis to the dimension of frequencies: f in the layout or, without a layout, the last but one, or the only one. Fails if there is none. */
static enum stk_status axis_of(const struct stk_desc *in, int32_t *axis, struct stk_error *err)
{
	if (in->ndim == 0)
		return stk__fail(err, STK_SHAPE, "mel_filter_bank takes spectra, not single numbers");
	*axis = in->layout[0] ? stk__layout_find(in, 'f') : in->ndim > 1 ? in->ndim - 2 : 0;
	if (*axis < 0)
		return stk__fail(err, STK_INVALID,
			"the layout %s has no dimension of frequencies, f: reshape the input to a layout such as ft or tf", in->layout);
	return STK_OK;
}

static enum stk_status mel_filter_bank_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct mel_filter_bank *a = call->args;
	struct stk_desc *out = &call->out[0].desc;
	int32_t axis = -1;
	enum stk_status s = stk__audio_floats(call, err);
	*out = call->in[0].desc;
	if (s || out->ndim < 0 || (s = axis_of(out, &axis, err)))
		return s;
	out->shape[axis] = a->nfilter;
	return STK_OK;
}

/* Returns the weight of a frequency in the band with edges edges[0 .. 2], without normalisation; 0 outside. */
static double weight_of(const double *edges, double hz)
{
	if (hz <= edges[0] || hz >= edges[2])
		return 0;
	return hz < edges[1] ? (hz - edges[0]) / (edges[1] - edges[0]) : (edges[2] - hz) / (edges[2] - edges[1]);
}

/* Returns an upper bound of the number of weights for this number of bins: each bin is in at most two bands. */
static int64_t most_weights(int64_t bins)
{
	return 2 * bins;
}

/* Fills the table for spectra of `key` bins: a struct stk_band for each filter, then the weights of their bins. */
static enum stk_status fill_bands(const void *user, int64_t key, void *table, struct stk_error *err)
{
	const struct shared *s = user;
	struct stk_band *bands = table;
	float *weights = (float *)(void *)(bands + s->nfilter);
	double step = key > 1 ? s->bin / (double)(key - 1) : 0;
	int32_t at = 0;
	(void)err;
	for (int64_t i = 0; i < s->nfilter; i++) {
		const double *e = &s->edges[i];
		double scale = s->normalize ? 2 / (e[2] - e[0]) : 1;
		int64_t first = step > 0 ? (int64_t)floor(e[0] / step) : 0;
		first = first < key ? first : key;
		while (first < key && weight_of(e, step * (double)first) == 0 && step * (double)first < e[2])
			first++;
		bands[i] = (struct stk_band){(int32_t)first, 0, at};
		for (double w; first < key && (w = weight_of(e, step * (double)first)) > 0; first++, bands[i].count++)
			weights[at++] = (float)(w * scale);
	}
	return STK_OK;
}

static enum stk_status mel_filter_bank_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct shared *s = call->shared;
	const struct stk_desc *in = &call->in[0].desc;
	int32_t axis = -1;
	enum stk_status status = axis_of(in, &axis, err);
	if (status)
		return status;
	struct stk_bands p = {.outer = stk__audio_outer(in, axis),
		.inner = stk__audio_inner(in, axis),
		.bins = in->shape[axis],
		.rows = s->nfilter,
		.n_weights = most_weights(in->shape[axis])};
	const struct stk_audio_maker maker = {
		sizeof(struct stk_band) * (size_t)p.rows + sizeof(float) * (size_t)p.n_weights, fill_bands, s};
	const void *table = stk__audio_table_take((struct stk_audio_tables *)&s->tables, p.bins, &maker, call->tools->arena, err);
	return table ? stk__job_bands(jobs, &p, table, &call->in[0], &call->out[0], err) : STK_NO_MEMORY;
}

const struct stk_op_def stk__op_mel_filter_bank = {
	.name = "mel_filter_bank",
	.doc = "Sums the bins of a spectrum in triangular bands that are equally wide on the mel scale.\n\n"
	       "Takes float32. The dimension that the layout names f holds the bins of a transform, from 0 Hz to half of sample_rate; without a layout it is "
	       "the last but one. Bands are triangles in Hz.",
	.inputs = {1, 1},
	.args = mel_filter_bank_args,
	.args_size = sizeof(struct mel_filter_bank),
	.flags = STK_OP_ABSORBS,
	.setup = mel_filter_bank_setup,
	.teardown = mel_filter_bank_teardown,
	.infer = mel_filter_bank_infer,
	.lower_jobs = mel_filter_bank_lower_jobs,
};
