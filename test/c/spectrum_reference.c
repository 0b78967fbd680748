/* SPDX-License-Identifier: Apache-2.0 */
#include "spectrum_reference.h"

#define STK_FFT_VALUE float
#include "kernel/fft/fft_steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Runs all stages of the transform, alternately from x to y and from y to x. Returns the array that has the result. */
static stk_fft_complex *run_stages(const struct stk_fft *f, const float *tables, stk_fft_complex *x, stk_fft_complex *y)
{
	struct stk_fft_at at = {.m = f->padded, .s = 1, .w = stk__fft_factors(tables, f->twiddles)};
	for (int32_t i = 0; i < f->stages; i++) {
		int radix = f->radix[i];
		at.m /= radix;
		for (at.q = 0; at.q < at.s; at.q++)
			for (at.p = 0; at.p < at.m; at.p++)
				stk__fft_butterfly(radix, x, y, &at);
		at.w += at.m * (radix - 1);
		at.s *= radix;
		stk_fft_complex *swapped = x;
		x = y;
		y = swapped;
	}
	return x;
}

static stk_fft_complex *transform(const struct stk_fft *f, const float *tables, stk_fft_complex *x, stk_fft_complex *y)
{
	if (!stk__fft_chirps(f))
		return run_stages(f, tables, x, y);
	for (int64_t j = 0; j < f->complex; j++)
		stk__fft_chirp(f, tables, x, j);
	stk_fft_complex *z = run_stages(f, tables, x, y);
	for (int64_t j = 0; j < f->padded; j++)
		stk__fft_convolve(f, tables, z, j);
	z = run_stages(f, tables, z, z == x ? y : x);
	for (int64_t j = 0; j < f->complex; j++)
		stk__fft_unchirp(f, tables, z, j);
	return z;
}

static void load(const struct stk_job *job, const float *window, const float *src, int64_t first, stk_fft_complex *x)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, job);
	for (int64_t k = 0; k < p->window; k++) {
		int64_t inside = stk__spectrum_inside(first + k, p->length, p->border);
		float value = (inside < 0 ? 0 : src[inside * p->src_element]) * window[k];
		if (p->fft.n % 2)
			x[k].re = value;
		else if (k % 2)
			x[k / 2].im = value;
		else
			x[k / 2].re = value;
	}
}

void spectrum_reference(const struct stk_job *job)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, job);
	const float *tables = job->constants, *src = (const float *)(const void *)job->src[0];
	stk_fft_complex *x = malloc(2 * sizeof *x * (size_t)p->fft.padded), *y = x + p->fft.padded;
	for (int64_t f = 0; f < job->n; f++) {
		int64_t line = f / p->frames, i = f % p->frames;
		float *to = (float *)(void *)job->dst + line * p->dst_line + i * p->dst_frame, second = 0;
		memset(x, 0, sizeof *x * (size_t)p->fft.padded);
		load(job, tables + p->fft.floats, src + line * p->src_line + i * p->src_frame, p->first + i * p->step, x);
		const stk_fft_complex *z = transform(&p->fft, tables, x, y);
		for (int32_t k = 0; k < stk__fft_pairs(&p->fft); k++) {
			int32_t partner = stk__fft_partner(&p->fft, k);
			float first;
			stk__fft_powers(&p->fft, tables, z, k, &first, &second);
			to[k * p->dst_bin] = p->magnitude ? sqrtf(first) : first;
			if (partner >= 0)
				to[partner * p->dst_bin] = p->magnitude ? sqrtf(second) : second;
		}
	}
	free(x);
}
