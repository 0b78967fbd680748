/* SPDX-License-Identifier: Apache-2.0
 * Plans Fourier transforms, and computes the tables of plans. */
#include "kernel/fft/fft.h"

#include "base/math.h"
#include "base/memory.h"

/* Splits n into the radices of f's stages. Returns the factor that remains, which is 1 if n has only the prime factors 2, 3 and 5. */
static int32_t split(int32_t n, struct stk_fft *f)
{
	static const uint8_t radices[] = {4, 2, 3, 5};
	f->stages = 0;
	for (int i = 0; i < 4; i++)
		for (; n % radices[i] == 0; n /= radices[i])
			f->radix[f->stages++] = radices[i];
	return n;
}

void stk__fft_plan(int32_t n, struct stk_fft *f)
{
	*f = (struct stk_fft){.n = n, .bins = n / 2 + 1, .complex = n % 2 ? n : n / 2};
	f->padded = f->complex;
	if (split(f->complex, f) > 1) {
		for (f->padded = 1; f->padded < 2 * f->complex - 1; f->padded *= 2)
			continue;
		split(f->padded, f);
	}
	int32_t at = 0, length = f->padded;
	f->twiddles = at;
	for (int32_t i = 0; i < f->stages; i++) {
		length /= f->radix[i];
		at += 2 * length * (f->radix[i] - 1);
	}
	f->halves = at;
	at += n % 2 ? 0 : 2 * (n / 4 + 1);
	f->chirp = at;
	at += stk__fft_chirps(f) ? 2 * f->complex : 0;
	f->kernel = at;
	at += stk__fft_chirps(f) ? 2 * f->padded : 0;
	f->floats = at;
}

struct complex {
	double re, im;
};

/* Returns exp(-2 pi i k / n). The result is exact if it is 1, -1, i or -i. */
static struct complex unit(int64_t k, int64_t n)
{
	static const struct complex quarters[] = {{1, 0}, {0, -1}, {-1, 0}, {0, 1}};
	const double pi = 3.14159265358979323846;
	k %= n;
	if (4 * k % n == 0)
		return quarters[4 * k / n];
	double angle = 2 * pi * (double)k / (double)n;
	return (struct complex){stk__cos(angle), -stk__sin(angle)};
}

static struct complex times(struct complex a, struct complex b)
{
	return (struct complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static float *put(float *to, struct complex c)
{
	to[0] = (float)c.re;
	to[1] = (float)c.im;
	return to + 2;
}

/* Transforms n numbers, where n is a power of two, by Stockham's stages of radix 2. other: memory for n numbers; roots[k] is unit(k, n), for k below n / 2.
 * Returns the array with the result: x or `other`. */
static struct complex *transform(struct complex *x, struct complex *other, const struct complex *roots, int64_t n)
{
	for (int64_t half = n / 2, s = 1; half >= 1; half /= 2, s *= 2) {
		for (int64_t p = 0; p < half; p++)
			for (int64_t q = 0; q < s; q++) {
				struct complex a = x[q + s * p], b = x[q + s * (p + half)];
				other[q + s * 2 * p] = (struct complex){a.re + b.re, a.im + b.im};
				other[q + s * (2 * p + 1)] = times((struct complex){a.re - b.re, a.im - b.im}, roots[p * s]);
			}
		struct complex *swapped = x;
		x = other;
		other = swapped;
	}
	return x;
}

/* Writes the chirp and the transformed kernel of Bluestein's method to tables. Fails only if memory runs out (STK_NO_MEMORY). */
static enum stk_status chirp_tables(const struct stk_fft *f, float *tables, struct stk_error *err)
{
	int64_t n = f->complex, padded = f->padded;
	struct complex *work = stk__calloc((size_t)(2 * padded + padded / 2), sizeof *work);
	if (!work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a transform of %d elements", f->n);
	struct complex *roots = work + 2 * padded;
	float *to = tables + f->chirp;
	for (int64_t j = 0; j < n; j++) {
		struct complex c = unit(j * j % (2 * n), 2 * n);
		to = put(to, c);
		c = (struct complex){c.re / (double)padded, -c.im / (double)padded};
		work[j] = c;
		if (j > 0)
			work[padded - j] = c;
	}
	for (int64_t k = 0; k < padded / 2; k++)
		roots[k] = unit(k, padded);
	const struct complex *transformed = transform(work, work + padded, roots, padded);
	to = tables + f->kernel;
	for (int64_t j = 0; j < padded; j++)
		to = put(to, transformed[j]);
	stk__free(work);
	return STK_OK;
}

enum stk_status stk__fft_tables(const struct stk_fft *f, float *tables, struct stk_error *err)
{
	float *to = tables + f->twiddles;
	int64_t length = f->padded;
	for (int32_t i = 0; i < f->stages; i++) {
		int64_t radix = f->radix[i];
		for (int64_t k = 1; k < radix; k++)
			for (int64_t p = 0; p < length / radix; p++)
				to = put(to, unit(p * k, length));
		length /= radix;
	}
	to = tables + f->halves;
	for (int64_t k = 0; k <= f->n / 4 && f->n % 2 == 0; k++)
		to = put(to, unit(k, f->n));
	return stk__fft_chirps(f) ? chirp_tables(f, tables, err) : STK_OK;
}
