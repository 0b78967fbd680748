/* SPDX-License-Identifier: Apache-2.0
 * Spectra on the CPU: eight frames at a time, each in a lane of a vector. All steps from samples to bins are done while the frames are in the cache. */
#include "kernel/bands/bands_lanes.h"
#include "kernel/common/lanes.h"
#define STK_FFT_VALUE stk_lanes
#include "kernel/fft/fft_steps.h"
#include "kernel/spectrum/spectrum.h"

#include <math.h>

/* The scratch memory: frames before and after a stage, their bins, and the samples of frames that reach beyond the signal. */
struct scratch {
	stk_fft_complex *x, *y;
	stk_lanes *bins;
	float *samples;
};

/* Returns the number of samples that eight adjacent frames span, or 0 if that is too many to copy. */
static int64_t span_of(const struct stk_spectrum *p)
{
	int64_t most = 8 * (int64_t)p->window;
	return p->step <= most ? (STK_LANES - 1) * p->step + p->window : 0;
}

size_t stk__spectrum_scratch(const struct stk_spectrum *p)
{
	size_t numbers = 2 * sizeof(stk_fft_complex) * (size_t)p->fft.padded, bins = sizeof(stk_lanes) * (size_t)p->fft.bins;
	return numbers + bins + 2 * sizeof(stk_lanes) + sizeof(float) * (size_t)span_of(p);
}

static struct scratch scratch_of(const struct stk_job *job)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, job);
	struct scratch s = {.x = job->work};
	s.y = s.x + p->fft.padded;
	s.bins = (stk_lanes *)(void *)(s.y + p->fft.padded);
	s.samples = (float *)(void *)(s.bins + p->fft.bins + 2);
	return s;
}

/* ---- frames ---- */

/* A frame: its line, its index in the line, and the index of its first sample in the signal. */
struct frame {
	int64_t line, i, from;
};

static struct frame frame_of(const struct stk_spectrum *p, int64_t at)
{
	return (struct frame){at / p->frames, at % p->frames, p->first + at % p->frames * p->step};
}

static struct frame next_frame(const struct stk_spectrum *p, struct frame f)
{
	bool ends = f.i + 1 == p->frames;
	return ends ? (struct frame){f.line + 1, 0, p->first} : (struct frame){f.line, f.i + 1, f.from + p->step};
}

/* Copies n samples of a signal, from index `from` on, to `to`. Samples outside of the signal have the values that p->border selects. */
static void copy_span(const struct stk_spectrum *p, const float *signal, int64_t from, int64_t n, float *to)
{
	for (int64_t k = 0; k < n; k++) {
		int64_t inside = stk__spectrum_inside(from + k, p->length, p->border);
		to[k] = inside < 0 ? 0 : signal[inside];
	}
}

/* Sets rows[] to the addresses of `count` frames from number `at` on. Copies their samples to `samples` if a frame reaches beyond the signal. Returns false if
 * the samples of a signal are not adjacent in memory, or if a frame reaches beyond the signal and the frames belong to several lines or are too far apart to be
 * copied. Lanes without a frame get the address of the first frame. */
static bool find_rows(const struct stk_job *job, int64_t at, int count, float *samples, const float *rows[STK_LANES])
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, job);
	const float *src = (const float *)(const void *)job->src[0];
	const struct frame first = frame_of(p, at);
	struct frame f = first;
	bool inside = true;
	if (p->src_element != 1)
		return false;
	for (int l = 0; l < STK_LANES; l++) {
		inside = inside && f.from >= 0 && f.from + p->window <= p->length;
		rows[l] = src + f.line * p->src_line + f.i * p->src_frame + (f.from < 0 ? 0 : f.from);
		f = l + 1 < count ? next_frame(p, f) : first;
	}
	if (inside)
		return true;
	if (p->src_frame || first.i + count > p->frames || !span_of(p))
		return false;
	copy_span(p, src + first.line * p->src_line, first.from, (count - 1) * p->step + p->window, samples);
	for (int l = 0; l < STK_LANES; l++)
		rows[l] = samples + (l < count ? l : 0) * p->step;
	return true;
}

/* Loads the samples of `count` frames from number `at` on, which may be anywhere in memory, element by element. */
static void gather(const struct stk_job *job, int64_t at, int count, stk_lanes *to)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, job);
	const float *src = (const float *)(const void *)job->src[0];
	const struct frame first = frame_of(p, at);
	struct frame f = first;
	if (count == STK_LANES && p->src_frame == 1 && p->step == 0 && first.i + count <= p->frames) { /* lanes are adjacent */
		src += f.line * p->src_line + f.i;
		for (int64_t k = 0; k < p->window; k++)
			memcpy(&to[k], src + k * p->src_element, sizeof to[k]);
		return;
	}
	for (int l = 0; l < STK_LANES; l++) {
		const float *signal = src + f.line * p->src_line + f.i * p->src_frame;
		for (int64_t k = 0; k < p->window; k++) {
			int64_t inside = stk__spectrum_inside(f.from + k, p->length, p->border);
			to[k][l] = inside < 0 ? 0 : signal[inside * p->src_element];
		}
		f = l + 1 < count ? next_frame(p, f) : first;
	}
}

/* Loads `count` frames from number `at` on, weights them by the window, and stores them in the order in which the transform reads them. */
static void load_frames(const struct stk_job *job, const float *tables, int64_t at, int count, struct scratch *s)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, job);
	const float *window = tables + p->fft.floats, *rows[STK_LANES];
	stk_lanes *to = (stk_lanes *)(void *)s->x;
	if (find_rows(job, at, count, s->samples, rows)) {
		stk__lanes_load_rows(to, rows, p->window, window);
	} else {
		gather(job, at, count, to);
		for (int64_t k = 0; k < p->window; k++)
			to[k] *= window[k];
	}
	memset(to + p->window, 0, sizeof *to * (size_t)(p->fft.n - p->window));
	for (int64_t k = p->fft.n - 1; k >= 0 && p->fft.n % 2; k--) { /* odd lengths: complex numbers whose imaginary parts are 0 */
		s->x[k].re = to[k];
		s->x[k].im = (stk_lanes){0};
	}
}

/* ---- transforms ---- */

#define STAGE(radix)                                                                                                                       \
	for (at.p = 0; at.p < at.m; at.p++)                                                                                                \
		for (at.q = 0; at.q < at.s; at.q++)                                                                                        \
			stk__fft_radix##radix(x, y, &at);

/* Runs one stage. The radix is a constant in each loop, so that the compiler can unroll its butterfly. A last stage of radix 4 has a loop of its own, in which
 * m is the constant 1, so that the compiler drops the twiddle factors. */
static void run_stage(int radix, const stk_fft_complex *restrict x, stk_fft_complex *restrict y, struct stk_fft_at at)
{
	if (radix == 4 && at.m > 1) {
		STAGE(4)
	} else if (radix == 4) {
		at.m = 1;
		STAGE(4)
	} else if (radix == 2) {
		STAGE(2)
	} else if (radix == 3) {
		STAGE(3)
	} else {
		STAGE(5)
	}
}

/* Runs all stages. Exchanges s->x and s->y after a stage, so that the result is in s->x. */
static void run_stages(const struct stk_fft *f, const float *tables, struct scratch *s)
{
	int64_t length = f->padded;
	struct stk_fft_at at = {.s = 1, .w = stk__fft_factors(tables, f->twiddles)};
	for (int32_t i = 0; i < f->stages; i++) {
		int radix = f->radix[i];
		at.m = length / radix;
		run_stage(radix, s->x, s->y, at);
		at.w += at.m * (radix - 1);
		at.s *= radix;
		length = at.m;
		stk_fft_complex *swapped = s->x;
		s->x = s->y;
		s->y = swapped;
	}
}

static void transform(const struct stk_fft *f, const float *tables, struct scratch *s)
{
	if (!stk__fft_chirps(f)) {
		run_stages(f, tables, s);
		return;
	}
	for (int64_t j = 0; j < f->complex; j++)
		stk__fft_chirp(f, tables, s->x, j);
	memset(s->x + f->complex, 0, sizeof *s->x * (size_t)(f->padded - f->complex));
	run_stages(f, tables, s);
	for (int64_t j = 0; j < f->padded; j++)
		stk__fft_convolve(f, tables, s->x, j);
	run_stages(f, tables, s);
	for (int64_t j = 0; j < f->complex; j++)
		stk__fft_unchirp(f, tables, s->x, j);
}

static void make_bins(const struct stk_spectrum *p, const float *tables, const struct scratch *s)
{
	const struct stk_fft *f = &p->fft;
	for (int32_t k = 0; k < stk__fft_pairs(f); k++) {
		int32_t partner = stk__fft_partner(f, k);
		stk_lanes unused, *second = partner < 0 ? &unused : &s->bins[partner];
		stk__fft_powers(f, tables, s->x, k, &s->bins[k], second);
	}
	float *values = (float *)(void *)s->bins;
	for (int64_t i = 0; i < (int64_t)STK_LANES * f->bins && p->magnitude; i++)
		values[i] = sqrtf(values[i]);
}

/* Stores the first `count` lanes of each row: from[row] at to + row * pitch. */
static void store_columns(float *to, int64_t pitch, const stk_lanes *from, int64_t rows, int count)
{
	for (int64_t row = 0; row < rows && count == STK_LANES; row++) /* a constant length makes memcpy a single store */
		memcpy(to + row * pitch, &from[row], sizeof from[row]);
	for (int64_t row = 0; row < rows && count < STK_LANES; row++)
		memcpy(to + row * pitch, &from[row], sizeof(float) * (size_t)count);
}

static void store_bins(const struct stk_job *job, int64_t at, int count, const stk_lanes *bins)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, job);
	float *dst = (float *)(void *)job->dst;
	int64_t line = at / p->frames, i = at % p->frames;
	float *first = dst + line * p->dst_line + i * p->dst_frame;
	bool one_line = i + count <= p->frames;
	if (one_line && p->dst_frame == 1) {
		store_columns(first, p->dst_bin, bins, p->fft.bins, count);
	} else if (one_line && p->dst_bin == 1) {
		stk__lanes_store_rows(first, p->dst_frame, bins, p->fft.bins, count);
	} else {
		for (int l = 0; l < count; l++) {
			float *to = dst + (at + l) / p->frames * p->dst_line + (at + l) % p->frames * p->dst_frame;
			for (int64_t b = 0; b < p->fft.bins; b++)
				to[b * p->dst_bin] = bins[b][l];
		}
	}
}

/* Computes the bins of `count` frames, beginning with number `at`. */
static void make_frames(const struct stk_job *job, int64_t at, int count, struct scratch *s)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, job);
	const float *tables = job->constants;
	load_frames(job, tables, at, count, s);
	transform(&p->fft, tables, s);
	make_bins(p, tables, s);
}

void stk__spectrum_run(const struct stk_job *job)
{
	struct scratch s = scratch_of(job);
	for (int64_t at = 0; at < job->n; at += STK_LANES) {
		int count = job->n - at < STK_LANES ? (int)(job->n - at) : STK_LANES;
		make_frames(job, at, count, &s);
		store_bins(job, at, count, s.bins);
	}
}

void stk__spectrum_run_bands(const struct stk_job *job, const struct stk_job *bands)
{
	const struct stk_bands *p = &STK_PARAMS(stk_bands, bands);
	struct scratch s = scratch_of(job);
	stk_lanes *rows = bands->work;
	float *dst = (float *)(void *)bands->dst;
	for (int64_t at = 0; at < job->n; at += STK_LANES) {
		int count = job->n - at < STK_LANES ? (int)(job->n - at) : STK_LANES;
		make_frames(job, at, count, &s);
		stk__bands_sum_lanes(bands, s.bins, rows);
		if (p->inner == 1)
			stk__lanes_store_rows(dst + at * p->rows, p->rows, rows, p->rows, count);
		else
			store_columns(dst + at, p->inner, rows, p->rows, count);
	}
}
