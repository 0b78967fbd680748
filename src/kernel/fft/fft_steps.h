/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of transforms (fft.h), for C and CUDA. The including file defines STK_FFT_VALUE, the type of a number: float for one signal, or a vector
 * of floats for several signals, each in its lane. Complex numbers are pairs of such values.
 *
 * To transform a signal, multiply it by stk__fft_scale, and fill x with it as f->complex numbers. With Bluestein's method, call stk__fft_chirp for each of
 * them, and append zeros up to f->padded numbers. Then run all stages, each from x to y and the next one from y to x; the order of butterflies within a stage
 * does not matter. With Bluestein's method, call stk__fft_convolve for each number, run the stages again, and call stk__fft_unchirp for the first f->complex
 * numbers. At last, stk__fft_powers gives the spectrum. */
#ifndef STK_KERNEL_FFT_STEPS_H
#define STK_KERNEL_FFT_STEPS_H

#include "base/hd.h"
#include "kernel/fft/fft.h"

#ifdef __CUDACC__
#define STK_FFT_INLINE STK_HD
#else
#define STK_FFT_INLINE STK_HD __attribute__((always_inline))
#endif
#if defined(__CUDACC__) || defined(STK_CUDA_EMULATED)
#define STK_FFT_ALIGNED __align__(8) /* so that both parts are read together */
typedef uint32_t stk_fft_index;      /* large enough for all lengths, and faster than 64 bits */
#else
#define STK_FFT_ALIGNED
typedef int64_t stk_fft_index;
#endif

/* Maps the index of a number to its index in memory. The GPU leaves gaps, so that threads access different banks of shared memory. */
#ifndef STK_FFT_PLACE
#define STK_FFT_PLACE(i) (i)
#endif

typedef STK_FFT_VALUE stk_fft_value;
struct STK_FFT_ALIGNED stk_fft_complex {
	stk_fft_value re, im;
};
typedef struct stk_fft_complex stk_fft_complex;

/* A complex number of the tables. */
struct STK_FFT_ALIGNED stk_fft_factor {
	float re, im;
};

/* Returns the array of factors at this offset of the tables. */
STK_FFT_INLINE const struct stk_fft_factor *stk__fft_factors(const float *tables, int32_t offset)
{
	return (const struct stk_fft_factor *)(const void *)(tables + offset);
}

/* Sets *to to *from times *w. to and from may be equal. */
STK_FFT_INLINE void stk__fft_turn(stk_fft_complex *to, const stk_fft_complex *from, const struct stk_fft_factor *w)
{
	stk_fft_value re = from->re, im = from->im;
	to->re = re * w->re - im * w->im;
	to->im = re * w->im + im * w->re;
}

/* The position of a butterfly in its stage. The stage consists of s transforms of length radix * m, whose elements are s apart. p: index of the butterfly in
 * its transform, below m; q: index of the transform, below s. w: the stage's twiddle factors. */
struct stk_fft_at {
	stk_fft_index m, s, p, q;
	const struct stk_fft_factor *w;
};

/* Sets *to to *from, which is result k of a butterfly, times its twiddle factor. */
STK_FFT_INLINE void stk__fft_twiddle(stk_fft_complex *to, const struct stk_fft_at *at, int k, const stk_fft_complex *from)
{
	if (k == 0 || at->m == 1)
		*to = *from;
	else
		stk__fft_turn(to, from, at->w + ((stk_fft_index)k - 1) * at->m + at->p);
}

/* Stores a butterfly's results, made[0 .. radix - 1]. */
STK_FFT_INLINE void stk__fft_put(stk_fft_complex *y, const struct stk_fft_at *at, int radix, const stk_fft_complex *made)
{
	for (int k = 0; k < radix; k++) {
		stk_fft_index i = at->q + at->s * ((stk_fft_index)radix * at->p + (stk_fft_index)k);
		stk__fft_twiddle(&y[STK_FFT_PLACE(i)], at, k, &made[k]);
	}
}

/* Returns the address of element k of a butterfly. */
STK_FFT_INLINE const stk_fft_complex *stk__fft_get(const stk_fft_complex *x, const struct stk_fft_at *at, int k)
{
	stk_fft_index i = at->q + at->s * (at->p + at->m * (stk_fft_index)k);
	return &x[STK_FFT_PLACE(i)];
}

STK_FFT_INLINE void stk__fft_radix2(const stk_fft_complex *x, stk_fft_complex *y, const struct stk_fft_at *at)
{
	const stk_fft_complex *a = stk__fft_get(x, at, 0), *b = stk__fft_get(x, at, 1);
	stk_fft_value ar = a->re, ai = a->im, br = b->re, bi = b->im;
	const stk_fft_complex made[2] = {{ar + br, ai + bi}, {ar - br, ai - bi}};
	stk__fft_put(y, at, 2, made);
}

STK_FFT_INLINE void stk__fft_radix3(const stk_fft_complex *x, stk_fft_complex *y, const struct stk_fft_at *at)
{
	const float half = 0.5f, sine = 0.86602540378443864676f;
	const stk_fft_complex *a = stk__fft_get(x, at, 0), *b = stk__fft_get(x, at, 1), *c = stk__fft_get(x, at, 2);
	stk_fft_value sr = b->re + c->re, si = b->im + c->im, dr = (b->re - c->re) * sine, di = (b->im - c->im) * sine;
	stk_fft_value ar = a->re, ai = a->im, tr = ar - sr * half, ti = ai - si * half;
	const stk_fft_complex made[3] = {{ar + sr, ai + si}, {tr + di, ti - dr}, {tr - di, ti + dr}};
	stk__fft_put(y, at, 3, made);
}

/* Sets y[] to the transform of the four numbers *a, *b, *c and *d, without twiddle factors. */
STK_FFT_INLINE void stk__fft_four(
	const stk_fft_complex *a, const stk_fft_complex *b, const stk_fft_complex *c, const stk_fft_complex *d, stk_fft_complex y[4])
{
	stk_fft_value sum0r = a->re + c->re, sum0i = a->im + c->im, gap0r = a->re - c->re, gap0i = a->im - c->im;
	stk_fft_value sum1r = b->re + d->re, sum1i = b->im + d->im, gap1r = b->re - d->re, gap1i = b->im - d->im;
	y[0].re = sum0r + sum1r;
	y[0].im = sum0i + sum1i;
	y[1].re = gap0r + gap1i;
	y[1].im = gap0i - gap1r;
	y[2].re = sum0r - sum1r;
	y[2].im = sum0i - sum1i;
	y[3].re = gap0r - gap1i;
	y[3].im = gap0i + gap1r;
}

STK_FFT_INLINE void stk__fft_radix4(const stk_fft_complex *x, stk_fft_complex *y, const struct stk_fft_at *at)
{
	stk_fft_complex made[4];
	stk__fft_four(stk__fft_get(x, at, 0), stk__fft_get(x, at, 1), stk__fft_get(x, at, 2), stk__fft_get(x, at, 3), made);
	stk__fft_put(y, at, 4, made);
}

/* Computes a butterfly of radix 16, which does the work of two stages of radix 4. from: its elements, as stk__fft_get returns them if m is a quarter of
 * at->m; made: its results. at: position in the first of the two stages, with p below m / 4. */
STK_FFT_INLINE void stk__fft_sixteen(const stk_fft_complex from[16], const struct stk_fft_at *at, stk_fft_complex made[16])
{
	stk_fft_complex between[4][4], four[4];
	struct stk_fft_at first = *at, second = *at;
	for (int j = 0; j < 4; j++) {
		first.p = at->p + at->m / 4 * (stk_fft_index)j;
		stk__fft_four(&from[j], &from[j + 4], &from[j + 8], &from[j + 12], four);
		for (int k = 0; k < 4; k++)
			stk__fft_twiddle(&between[k][j], &first, k, &four[k]);
	}
	second.m = at->m / 4;
	second.w = at->w + at->m * 3;
	for (int k = 0; k < 4; k++) {
		stk__fft_four(&between[k][0], &between[k][1], &between[k][2], &between[k][3], four);
		for (int l = 0; l < 4; l++)
			stk__fft_twiddle(&made[k + 4 * l], &second, l, &four[l]);
	}
}

/* Does the work of two stages of radix 4 without storing the results of the first. at: as for stk__fft_sixteen. */
STK_FFT_INLINE void stk__fft_radix16(const stk_fft_complex *x, stk_fft_complex *y, const struct stk_fft_at *at)
{
	stk_fft_complex from[16], made[16];
	struct stk_fft_at whole = *at;
	whole.m = at->m / 4;
	for (int e = 0; e < 16; e++)
		from[e] = *stk__fft_get(x, &whole, e);
	stk__fft_sixteen(from, at, made);
	for (int e = 0; e < 16; e++) {
		stk_fft_index i = at->q + at->s * (16 * at->p + (stk_fft_index)e);
		y[STK_FFT_PLACE(i)] = made[e];
	}
}

STK_FFT_INLINE void stk__fft_radix5(const stk_fft_complex *x, stk_fft_complex *y, const struct stk_fft_at *at)
{
	const float cos1 = 0.30901699437494742410f, cos2 = -0.80901699437494742410f, sin1 = 0.95105651629515357212f,
		    sin2 = 0.58778525229247312917f;
	const stk_fft_complex *a = stk__fft_get(x, at, 0), *b = stk__fft_get(x, at, 1), *c = stk__fft_get(x, at, 2),
			      *d = stk__fft_get(x, at, 3), *e = stk__fft_get(x, at, 4);
	stk_fft_value ar = a->re, ai = a->im;
	stk_fft_value s1r = b->re + e->re, s1i = b->im + e->im, d1r = b->re - e->re, d1i = b->im - e->im;
	stk_fft_value s2r = c->re + d->re, s2i = c->im + d->im, d2r = c->re - d->re, d2i = c->im - d->im;
	stk_fft_value t1r = ar + s1r * cos1 + s2r * cos2, t1i = ai + s1i * cos1 + s2i * cos2;
	stk_fft_value t2r = ar + s1r * cos2 + s2r * cos1, t2i = ai + s1i * cos2 + s2i * cos1;
	stk_fft_value u1r = d1r * sin1 + d2r * sin2, u1i = d1i * sin1 + d2i * sin2;
	stk_fft_value u2r = d1r * sin2 - d2r * sin1, u2i = d1i * sin2 - d2i * sin1;
	const stk_fft_complex made[5] = {{ar + s1r + s2r, ai + s1i + s2i}, {t1r + u1i, t1i - u1r}, {t2r + u2i, t2i - u2r},
		{t2r - u2i, t2i + u2r}, {t1r - u1i, t1i + u1r}};
	stk__fft_put(y, at, 5, made);
}

STK_FFT_INLINE void stk__fft_butterfly(int radix, const stk_fft_complex *x, stk_fft_complex *y, const struct stk_fft_at *at)
{
	switch (radix) {
	case 2:
		stk__fft_radix2(x, y, at);
		break;
	case 3:
		stk__fft_radix3(x, y, at);
		break;
	case 4:
		stk__fft_radix4(x, y, at);
		break;
	default:
		stk__fft_radix5(x, y, at);
	}
}

/* ---- Bluestein's method ---- */

/* Multiplies number j of x by the chirp, in place. */
STK_FFT_INLINE void stk__fft_chirp(const struct stk_fft *f, const float *tables, stk_fft_complex *x, int64_t j)
{
	stk_fft_complex *to = &x[STK_FFT_PLACE(j)];
	stk__fft_turn(to, to, stk__fft_factors(tables, f->chirp) + j);
}

/* Multiplies number j of x by number j of the transformed kernel, and conjugates the product, so that another forward transform inverts the first one. */
STK_FFT_INLINE void stk__fft_convolve(const struct stk_fft *f, const float *tables, stk_fft_complex *x, int64_t j)
{
	stk_fft_complex *to = &x[STK_FFT_PLACE(j)];
	stk__fft_turn(to, to, stk__fft_factors(tables, f->kernel) + j);
	to->im = -to->im;
}

/* Conjugates number j of x, which undoes the conjugation by stk__fft_convolve, and multiplies it by the chirp. */
STK_FFT_INLINE void stk__fft_unchirp(const struct stk_fft *f, const float *tables, stk_fft_complex *x, int64_t j)
{
	stk_fft_complex *to = &x[STK_FFT_PLACE(j)];
	to->im = -to->im;
	stk__fft_turn(to, to, stk__fft_factors(tables, f->chirp) + j);
}

/* ---- the spectrum ---- */

/* Returns the number of calls of stk__fft_powers, for k from 0 on, that compute all bins. */
STK_FFT_INLINE int32_t stk__fft_pairs(const struct stk_fft *f)
{
	return f->n % 2 ? f->bins : f->n / 4 + 1;
}

/* Returns the bin that is computed together with bin k, or -1 if bin k is computed by itself. */
STK_FFT_INLINE int32_t stk__fft_partner(const struct stk_fft *f, int32_t k)
{
	int32_t other = f->complex - k;
	return f->n % 2 || other == k ? -1 : other;
}

/* Computes the squared magnitudes of bin k and of its partner. z and other: numbers k and f->complex - k of the transform's result; for k = 0, both are
 * number 0. w: entry k of the table `halves`. f->n must be even. */
STK_FFT_INLINE void stk__fft_power_pair(
	const stk_fft_complex *z, const stk_fft_complex *other, const struct stk_fft_factor *w, stk_fft_value *first, stk_fft_value *second)
{
	stk_fft_complex odd;
	stk_fft_value er = z->re + other->re, ei = z->im - other->im;
	odd.re = z->im + other->im;
	odd.im = other->re - z->re;
	stk__fft_turn(&odd, &odd, w);
	stk_fft_value ar = er + odd.re, ai = ei + odd.im, br = er - odd.re, bi = ei - odd.im;
	*first = ar * ar + ai * ai;
	*second = br * br + bi * bi;
}

/* Sets *first and *second to the squared magnitudes of bin k and of its partner; *second is undefined if bin k has no partner. x: the complex transform's
 * result. */
STK_FFT_INLINE void stk__fft_powers(
	const struct stk_fft *f, const float *tables, const stk_fft_complex *x, int32_t k, stk_fft_value *first, stk_fft_value *second)
{
	const stk_fft_complex *z = &x[STK_FFT_PLACE(k)];
	if (f->n % 2) {
		*first = z->re * z->re + z->im * z->im;
		return;
	}
	int32_t opposite = k ? f->complex - k : 0;
	stk__fft_power_pair(z, &x[STK_FFT_PLACE(opposite)], stk__fft_factors(tables, f->halves) + k, first, second);
}

#endif
