/* SPDX-License-Identifier: Apache-2.0
 * spectrogram: cuts a signal into overlapping frames, and computes the spectrum of each frame. */
#include "base/math.h"
#include "kernel/spectrum/spectrum.h"
#include "op/audio/audio.h"

#include <string.h>

struct spectrogram {
	struct stk_floats window_fn;
	const char *layout;
	int64_t nfft, window_length, window_step, power;
	bool center_windows, reflect_padding;
};

static const struct stk_arg_def spectrogram_args[] = {
	STK_ARG(struct spectrogram, nfft, STK_ARG_INT, NULL, (1, STK_FFT_LONGEST), 0,
		"Length of the transform, at least window_length; without it, window_length. Frames are filled up with zeros. There are nfft / 2 + 1 bins."),
	STK_ARG(struct spectrogram, window_length, STK_ARG_INT, "512", (1, STK_FFT_LONGEST), 0, "Length of a frame in samples."),
	STK_ARG(struct spectrogram, window_step, STK_ARG_INT, "256", (1, 0x1p40), 0, "Distance from one frame to the next in samples."),
	STK_ARG(struct spectrogram, window_fn, STK_ARG_FLOATS, "[]", STK_FREE, 0,
		"Weights of a frame's samples: window_length numbers. Without them, a Hann window: the square of sin(pi (i + 0.5) / window_length)."),
	STK_ARG(struct spectrogram, power, STK_ARG_INT, "2", (1, 2), 0, "1: magnitudes; 2: powers, their squares."),
	STK_ARG(struct spectrogram, center_windows, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Centres frame i on sample i * window_step, so that the first and last ones reach beyond the signal. If false, frame i begins there, and frames "
		"that would reach beyond the signal are left out; only a signal that is shorter than its first frame by less than a step is filled up with zeros."),
	STK_ARG(struct spectrogram, reflect_padding, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Continues the signal by its mirror image, without the outermost sample itself (dcb|abcd|cba), or zeros if false. Only with center_windows."),
	{.name = "layout",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct spectrogram, layout),
		.fallback = "\"ft\"",
		.choices = "ft|tf",
		.doc = "Order of the output's dimensions: frequency (f) and time (t)."},
	STK_ARG_END,
};

/* The plan of the transform and its tables, which include the window function. */
struct shared {
	struct stk_fft fft;
	_Alignas(16) float tables[];
};

/* Sets window[] to the weights of a frame's samples, each times `scale`, which is a power of two. */
static void fill_window(const struct spectrogram *a, float scale, float *window)
{
	const double pi = 3.14159265358979323846;
	for (int64_t i = 0; i < a->window_length; i++)
		window[i] =
			scale * (a->window_fn.count ? a->window_fn.v[i]
						    : (float)(0.5 * (1 - stk__cos(2 * pi * ((double)i + 0.5) / (double)a->window_length))));
}

static enum stk_status spectrogram_setup(const void *args, void **shared, struct stk_error *err)
{
	const struct spectrogram *a = args;
	int64_t nfft = stk__int_given(a->nfft) ? a->nfft : a->window_length;
	struct stk_fft fft;
	if (nfft < a->window_length)
		return stk__fail(err, STK_INVALID, "nfft (%lld) cannot be less than window_length (%lld)", (long long)nfft,
			(long long)a->window_length);
	if (a->window_fn.count && a->window_fn.count != a->window_length)
		return stk__fail(err, STK_INVALID, "window_fn has %d weights and window_length is %lld: give as many weights as samples",
			a->window_fn.count, (long long)a->window_length);
	stk__fft_plan((int32_t)nfft, &fft);
	struct shared *s = stk__calloc(1, sizeof *s + sizeof(float) * (size_t)(fft.floats + a->window_length));
	if (!s)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a transform of %lld elements", (long long)nfft);
	s->fft = fft;
	fill_window(a, stk__fft_scale(&fft), s->tables + fft.floats);
	enum stk_status status = stk__fft_tables(&s->fft, s->tables, err);
	*shared = status ? NULL : s;
	if (status)
		stk__free(s);
	return status;
}

/* Returns the number of frames of a signal of n samples. Without center_windows, a signal that is shorter than a frame by less than a step has one. */
static int64_t frames_of(const struct spectrogram *a, int64_t n)
{
	if (a->center_windows)
		return n / a->window_step + 1;
	return n + a->window_step <= a->window_length ? 0 : (n - a->window_length) / a->window_step + 1;
}

/* Sets *n to the number of samples: the only extent above 1, 1 if all extents are 1, 0 if an extent is 0, -1 if it is not known. Fails for a scalar, or if
 * several extents are above 1. */
static enum stk_status length_of(const struct stk_desc *in, int64_t *n, struct stk_error *err)
{
	int64_t longest = 1;
	bool empty = false, unknown = false;
	if (in->ndim == 0)
		return stk__fail(err, STK_SHAPE, "spectrogram takes signals of one dimension, not single numbers");
	for (int32_t d = 0; d < in->ndim; d++) {
		int64_t extent = in->shape[d];
		if (extent > 1 && longest > 1)
			return stk__fail(err, STK_SHAPE,
				"spectrogram takes signals of one channel, so only one extent may be above 1, but %lld and %lld are: slice the channels first",
				(long long)longest, (long long)extent);
		longest = extent > longest ? extent : longest;
		empty = empty || extent == 0;
		unknown = unknown || extent < 0;
	}
	*n = empty ? 0 : unknown ? -1 : longest;
	return STK_OK;
}

static enum stk_status spectrogram_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct spectrogram *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	bool by_time = a->layout[0] == 't';
	int64_t n = -1, nfft = stk__int_given(a->nfft) ? a->nfft : a->window_length;
	enum stk_status s = stk__audio_floats(call, err);
	if (!s && in->ndim >= 0)
		s = length_of(in, &n, err);
	if (s)
		return s;
	if (n == 0)
		return stk__fail(err, STK_SHAPE, "the signal has no samples: spectrogram needs at least one");
	if (n > 0 && frames_of(a, n) == 0)
		return stk__fail(err, STK_SHAPE,
			"the signal of %lld samples is shorter than window_length (%lld): pad it, or set center_windows", (long long)n,
			(long long)a->window_length);
	*out = (struct stk_desc){.dtype = STK_FLOAT, .ndim = 2};
	out->shape[by_time ? 1 : 0] = nfft / 2 + 1;
	out->shape[by_time ? 0 : 1] = n < 0 ? -1 : frames_of(a, n);
	memcpy(out->layout, a->layout, 3);
	return STK_OK;
}

static enum stk_status spectrogram_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct spectrogram *a = call->args;
	const struct shared *s = call->shared;
	int64_t n = stk_desc_elements(&call->in[0].desc), frames = frames_of(a, n);
	bool by_time = a->layout[0] == 't';
	const struct stk_spectrum p = {
		.fft = s->fft,
		.frames = frames,
		.length = n,
		.first = a->center_windows ? -(a->window_length / 2) : 0,
		.step = a->window_step,
		.src_element = 1,
		.dst_frame = by_time ? s->fft.bins : 1,
		.dst_bin = by_time ? 1 : frames,
		.window = (int32_t)a->window_length,
		.border = a->center_windows && a->reflect_padding ? STK_SPECTRUM_REFLECT : STK_SPECTRUM_ZERO,
		.magnitude = a->power == 1,
	};
	return stk__job_spectrum(jobs, &p, s->tables, frames, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_spectrogram = {
	.name = "spectrogram",
	.doc = "Computes the spectrum of each frame of a signal.\n\n"
	       "The input is one channel of float32: at most one extent is above 1. The signal is cut into overlapping frames, which are weighted by a "
	       "window, filled up with zeros to nfft samples, and transformed. The arithmetic is float32 with tables of higher precision. nfft may be any "
	       "number; it is fastest if it has no prime factors above 5.",
	.inputs = {1, 1},
	.args = spectrogram_args,
	.args_size = sizeof(struct spectrogram),
	.flags = STK_OP_FEEDS,
	.setup = spectrogram_setup,
	.teardown = stk__free,
	.infer = spectrogram_infer,
	.lower_jobs = spectrogram_lower_jobs,
};
