/* SPDX-License-Identifier: Apache-2.0
 *
 * Fourier transforms of real signals of any length up to STK_FFT_LONGEST, in float32 with tables that are computed in double.
 *
 * A signal of even length N is transformed as N/2 complex numbers, whose real and imaginary parts are its even and odd elements; its spectrum is then computed
 * from that of the complex numbers (stk__fft_powers). A signal of odd length is transformed as N complex numbers. A complex transform is a sequence of
 * Stockham's stages of radix 2, 3, 4 and 5 (C. Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992), which need no reordering at the
 * end. Lengths with other prime factors use Bluestein's method, which needs two transforms of a power of two.
 *
 * fft_steps.h has the arithmetic of one step, for one signal or for several in the lanes of a vector. So all implementations give the same bits. */
#ifndef STK_KERNEL_FFT_H
#define STK_KERNEL_FFT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* STK_FFT_STAGES: maximum number of stages of a plan. STK_FFT_LONGEST: maximum length of a signal. */
enum { STK_FFT_STAGES = 24, STK_FFT_LONGEST = 1 << 22 };

/* A plan: plain data, without pointers. The tables of a plan are one array of floats; fields such as `twiddles` are offsets in it. */
struct stk_fft {
	int32_t n;       /* length of the real signal */
	int32_t bins;    /* n / 2 + 1: length of its spectrum */
	int32_t complex; /* length of the complex transform that gives the spectrum */
	int32_t padded;  /* Bluestein's method: length of its transforms; otherwise equal to `complex` */
	int32_t stages;
	uint8_t radix[STK_FFT_STAGES]; /* radices of the stages of a transform of `padded` numbers */
	int32_t twiddles; /* for each stage of length L and radix r: for each k from 1 to r - 1: exp(-2 pi i p k / L) for p below L / r */
	int32_t halves;   /* with an even n: exp(-2 pi i k / n) for k up to n / 4 */
	int32_t chirp;    /* Bluestein's method: exp(-pi i j^2 / complex) for each j below `complex` */
	int32_t kernel;   /* Bluestein's method: the transform of the chirp's conjugate, divided by `padded` */
	int32_t floats;   /* total number of floats in all tables */
};

static inline bool stk__fft_chirps(const struct stk_fft *f)
{
	return f->padded != f->complex;
}

/* Returns the factor by which a signal must be multiplied before it is transformed. For an even n it is a half, so that stk__fft_powers, which adds the spectra
 * of the even and odd elements, need not divide their sums by 2. */
static inline float stk__fft_scale(const struct stk_fft *f)
{
	return f->n % 2 ? 1.0f : 0.5f;
}

/* Plans transforms of n elements, from 1 to STK_FFT_LONGEST. */
void stk__fft_plan(int32_t n, struct stk_fft *f);

/* Stores the tables of a plan in tables[0 .. f->floats - 1]. STK_NO_MEMORY: no memory for the computation. */
STK_MUST_USE enum stk_status stk__fft_tables(const struct stk_fft *f, float *tables, struct stk_error *err);

#endif
