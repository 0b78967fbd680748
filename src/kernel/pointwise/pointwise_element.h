/* SPDX-License-Identifier: Apache-2.0
 * Makes one output of a pointwise function (pointwise.h), in C and CUDA. */
#ifndef STK_KERNEL_POINTWISE_ELEMENT_H
#define STK_KERNEL_POINTWISE_ELEMENT_H

#include "base/math_hd.h"
#include "base/philox_hd.h"
#include "kernel/convert/convert_one.h"
#include "kernel/job/job_place.h"
#include "kernel/pointwise/pointwise.h"

/* ---- lookup, erase, grid ---- */

/* Returns the input value at `src` as the index of a table entry. Negative values become large numbers, which have no entry. */
STK_HD uint64_t stk__pointwise_key(const uint8_t *src, int dtype)
{
	uint64_t key;
	switch (dtype) {
	case STK_UINT8:
		return *src;
	case STK_UINT64:
		return *(const uint64_t *)(const void *)src;
	default:
		stk__convert_one(&key, STK_INT64, src, dtype);
		return key;
	}
}

STK_HD const uint8_t *stk__pointwise_entry(const struct stk_pointwise *p, const struct stk_pointwise_data *d, const uint8_t *src)
{
	uint64_t key = stk__pointwise_key(src, d->src_dtype);
	return key < p->lookup.entries ? (const uint8_t *)d->constants + key * (uint64_t)d->dst_size : p->lookup.other;
}

/* Returns the bounds of region r along dimension k, two numbers: its first index, and its last index + 1. */
STK_HD const int64_t *stk__pointwise_bounds(const struct stk_pointwise *p, const struct stk_pointwise_data *d, int32_t r, int32_t k)
{
	return (const int64_t *)d->constants + p->erase.n_fills + 2 * ((int64_t)r * p->erase.ndim + k);
}

STK_HD bool stk__pointwise_erased(const struct stk_pointwise *p, const struct stk_pointwise_data *d, uint32_t i)
{
	for (int32_t r = 0; r < p->erase.regions; r++) {
		bool inside = true;
		uint32_t left = i;
		for (int32_t k = p->erase.ndim - 1; k >= 0; k--) {
			uint32_t size = (uint32_t)p->erase.shape[k], rest = k ? left / size : 0, at = left - rest * size;
			const int64_t *bounds = stk__pointwise_bounds(p, d, r, k);
			inside = inside && at >= bounds[0] && at < bounds[1];
			left = rest;
		}
		if (inside)
			return true;
	}
	return false;
}

STK_HD const uint8_t *stk__pointwise_fill(const struct stk_pointwise *p, const struct stk_pointwise_data *d, int64_t i)
{
	return (const uint8_t *)d->constants + 8 * (i / p->erase.fill_divisor % p->erase.n_fills);
}

/* Returns the fraction of `at`, the position of a pixel along a direction of the grid in units of tiles. A pixel is erased if this fraction is below
 * `ratio` along both directions. */
STK_HD float stk__pointwise_in_tile(float at)
{
	return at - floorf(at);
}

/* Sets tiles[] to the position of pixel (px, y) along the two directions of the grid, in units of tiles. ys, yc: y * g->s and y * g->c, which are the same for
 * all pixels of a row. */
STK_HD void stk__pointwise_tiles(const struct stk_pointwise_grid *g, int32_t px, float ys, float yc, float tiles[2])
{
	float x = (float)px;
	tiles[0] = x * g->c - ys - g->dx;
	tiles[1] = x * g->s + yc - g->dy;
}

STK_HD bool stk__pointwise_in_square(const struct stk_pointwise_grid *g, int32_t px, int32_t py)
{
	float y = (float)py, tiles[2];
	stk__pointwise_tiles(g, px, y * g->s, y * g->c, tiles);
	return stk__pointwise_in_tile(tiles[0]) < g->ratio && stk__pointwise_in_tile(tiles[1]) < g->ratio;
}

/* ---- draws ---- */

/* Returns block number `block` of the sample's stream, which has four draws. round: selects further draws for the same block number. */
STK_HD struct stk_philox_block stk__pointwise_draws(const struct stk_random *r, uint32_t block, uint32_t round)
{
	uint64_t key = round ? stk__mix64_hd(r->key + round) : r->key;
	return stk__philox_hd(key, (uint32_t)r->position, (uint32_t)(r->position >> 32), r->epoch, block);
}

/* Returns the natural logarithm of a positive normal number, with a relative error of about 1e-7: the series of atanh(s), 2 s + 2/3 s^3 + ... */
STK_HD float stk__pointwise_log(float x)
{
	union {
		float f;
		uint32_t u;
	} bits;
	bits.f = x;
	int32_t exponent = (int32_t)(bits.u - 0x3f3504f3u) >> 23; /* x / 2^exponent is in sqrt(1/2) .. sqrt(2) */
	bits.u -= (uint32_t)exponent << 23;
	float s = (bits.f - 1) / (bits.f + 1), z = s * s;
	float series = 2.0f + z * (0.66666667f + z * (0.4f + z * (0.28571429f + z * 0.22222222f)));
	return (float)exponent * 0.69314718f + s * series;
}

/* Makes two normally distributed numbers from the draws a and b: a determines a radius, b an angle (Box and Muller, "A note on the generation of random normal
 * deviates", 1958). Two bits of the angle select a quarter turn, which begins an eighth of a turn before an axis. The rest of the angle is small enough for the
 * series of sine and cosine. */
STK_HD void stk__pointwise_normals(uint32_t a, uint32_t b, float out[2])
{
	float u = ((float)a + 0.5f) * 0x1p-32f, radius = sqrtf(-2 * stk__pointwise_log(u));
	float x = (float)(b & 0x3fffffff) * (1.5707963f * 0x1p-30f) - 0.78539816f, z = x * x;
	float s = x * (1 + z * (-0.16666667f + z * (8.3333333e-3f + z * (-1.9841270e-4f + z * 2.7557319e-6f))));
	float c = 1 + z * (-0.5f + z * (4.1666667e-2f + z * (-1.3888889e-3f + z * 2.4801587e-5f)));
	bool turned = b & 0x40000000;
	radius = b & 0x80000000 ? -radius : radius;
	out[0] = radius * (turned ? -s : c);
	out[1] = radius * (turned ? c : s);
}

/* Returns the normally distributed number of output i. Outputs i to i + 3 share a block of draws if i is a multiple of 4. */
STK_HD float stk__pointwise_normal(const struct stk_random *r, uint32_t i)
{
	struct stk_philox_block draws = stk__pointwise_draws(r, i / 4, 0);
	float pair[2];
	stk__pointwise_normals(draws.v[i & 2], draws.v[(i & 2) + 1], pair);
	return pair[i & 1];
}

/* Stores the value at src plus mean + stddev * normal. normal: a normally distributed number. */
STK_HD void stk__pointwise_add(
	const struct stk_pointwise_noise *n, const struct stk_pointwise_data *d, uint8_t *dst, const uint8_t *src, float normal)
{
	double x;
	stk__convert_one(&x, STK_FLOAT64, src, d->src_dtype);
	stk__store_double(dst, d->dst_dtype, x + ((double)n->mean + (double)n->stddev * (double)normal));
}

/* Stores mean + stddev * normal. normal: a normally distributed number. */
STK_HD void stk__pointwise_put(const struct stk_pointwise_erase *e, const struct stk_pointwise_data *d, uint8_t *dst, float normal)
{
	stk__store_double(dst, d->dst_dtype, (double)e->mean + (double)e->stddev * (double)normal);
}

/* Returns the address of the value that replaces pixel number `at`, or NULL if the pixel stays unchanged. */
STK_HD const uint8_t *stk__pointwise_replacement(const struct stk_pointwise_noise *n, uint32_t at)
{
	struct stk_philox_block draws = stk__pointwise_draws(&n->random, at / 2, 0);
	uint32_t k = 2 * (at & 1);
	if (!(stk__unit_hd(draws.v[k]) < n->prob))
		return 0;
	return stk__unit_hd(draws.v[k + 1]) < n->salt_share ? n->salt : n->pepper;
}

STK_HD uint32_t stk__pointwise_pixel(const struct stk_pointwise_noise *n, uint32_t i)
{
	uint32_t inner = (uint32_t)n->inner, rest = i / inner;
	return rest / (uint32_t)n->channels * inner + (i - rest * inner);
}

/* ---- the Poisson distribution ---- */

STK_HD double stk__pointwise_double(uint32_t a, uint32_t b)
{
	return ((double)(a >> 5) * 0x1p26 + (double)(b >> 6)) * 0x1p-53;
}

/* Returns log k! for an integer k, with Stirling's series from 10 on. */
STK_HD double stk__pointwise_log_factorial(double k)
{
	double product = 1;
	for (double i = 2; k < 10 && i <= k; i++)
		product *= i;
	if (k < 10)
		return stk__math_log(product);
	double z = 1 / (k * k);
	return (k + 0.5) * stk__math_log(k) - k + 0.91893853320467274 + (1.0 / 12 - z * (1.0 / 360 - z / 1260)) / k;
}

/* Returns a draw for output i from a Poisson distribution whose mean is at least 10, with algorithm PTRS of W. Hoermann, "The transformed rejection method
 * for generating Poisson random variables" (1993). After 100 rejected draws, returns the mean, rounded down. */
STK_HD double stk__pointwise_poisson_large(const struct stk_random *r, uint32_t i, double mean)
{
	double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b, alpha = 1.1239 + 1.1328 / (b - 3.4), log_mean = stk__math_log(mean);
	for (uint32_t round = 0; round < 100; round++) { /* needs fewer than two rounds on average */
		struct stk_philox_block draws = stk__pointwise_draws(r, i, round);
		double u = stk__pointwise_double(draws.v[0], draws.v[1]) - 0.5, v = 1 - stk__pointwise_double(draws.v[2], draws.v[3]);
		double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + mean + 0.43);
		if (us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2))
			return k;
		if (k < 0 || (us < 0.013 && v > us))
			continue;
		if (stk__math_log(v * alpha / (a / (us * us) + b)) <= k * log_mean - mean - stk__pointwise_log_factorial(k))
			return k;
	}
	return floor(mean);
}

enum { STK_POINTWISE_POISSON_SMALL = 10 };

/* Returns a draw for output i from the Poisson distribution with this mean. rare: e^-mean, if the mean is below STK_POINTWISE_POISSON_SMALL. */
STK_HD double stk__pointwise_poisson(const struct stk_random *r, uint32_t i, double mean, double rare)
{
	if (!(mean < STK_POINTWISE_POISSON_SMALL))
		return mean < INFINITY ? stk__pointwise_poisson_large(r, i, mean) : mean;
	struct stk_philox_block draws = stk__pointwise_draws(r, i, 0);
	double u = stk__pointwise_double(draws.v[0], draws.v[1]), k = 0;
	for (double p = rare, sum = rare; u >= sum && k < 100; sum += p) { /* because of rounding, the sum may stay below 1 */
		k++;
		p *= mean / k;
	}
	return k;
}

STK_HD double stk__pointwise_mean(const struct stk_pointwise_noise *n, double x)
{
	double mean = x / (double)n->mean;
	return mean > 0 ? mean : 0;
}

STK_HD void stk__pointwise_shoot(const struct stk_pointwise_noise *n, const struct stk_pointwise_data *d, uint32_t i)
{
	double x;
	stk__convert_one(&x, STK_FLOAT64, d->src + (int64_t)i * d->src_size, d->src_dtype);
	double mean = stk__pointwise_mean(n, x), rare = mean < STK_POINTWISE_POISSON_SMALL ? stk__math_exp(-mean) : 0;
	x = n->mean != 0 ? stk__pointwise_poisson(&n->random, i, mean, rare) * (double)n->mean : x;
	stk__store_double(d->dst + (int64_t)i * d->dst_size, d->dst_dtype, x);
}

/* ---- one output ---- */

STK_HD void stk__pointwise_one(const struct stk_pointwise *p, const struct stk_pointwise_data *d, uint32_t i)
{
	const uint8_t *src = d->src + (int64_t)i * d->src_size, *from = src;
	uint8_t *dst = d->dst + (int64_t)i * d->dst_size;
	const uint64_t zero = 0;
	switch (p->op) {
	case STK_POINTWISE_LOOKUP:
		from = stk__pointwise_entry(p, d, src);
		break;
	case STK_POINTWISE_ERASE:
		from = stk__pointwise_erased(p, d, i) ? stk__pointwise_fill(p, d, i) : src;
		break;
	case STK_POINTWISE_ERASE_NORMAL:
		if (stk__pointwise_erased(p, d, i)) {
			stk__pointwise_put(&p->erase, d, dst, stk__pointwise_normal(&p->erase.random, i));
			return;
		}
		break;
	case STK_POINTWISE_GRID: {
		const struct stk_pointwise_grid *g = &p->grid;
		int32_t x = (int32_t)(i / g->x_divisor % g->width), y = (int32_t)(i / g->y_divisor % g->height);
		from = stk__pointwise_in_square(g, x, y) ? (const uint8_t *)(const void *)&zero : src;
		break;
	}
	case STK_POINTWISE_NORMAL:
		stk__pointwise_add(&p->noise, d, dst, src, stk__pointwise_normal(&p->noise.random, i));
		return;
	case STK_POINTWISE_SALT:
		from = stk__pointwise_replacement(&p->noise, stk__pointwise_pixel(&p->noise, i));
		from = from ? from : src;
		break;
	default:
		stk__pointwise_shoot(&p->noise, d, i);
		return;
	}
	stk__job_move(dst, from, d->dst_size);
}

/* Returns the addresses, types and element sizes of a pointwise job's memory. */
STK_HD struct stk_pointwise_data stk__job_pointwise_data(const struct stk_job *job)
{
	struct stk_pointwise_data d;
	d.src = job->src[0];
	d.dst = job->dst;
	d.constants = job->constants;
	d.n = job->n;
	d.src_dtype = job->src_dtype[0];
	d.dst_dtype = job->dst_dtype;
	d.src_size = stk__job_size(d.src_dtype);
	d.dst_size = stk__job_size(d.dst_dtype);
	return d;
}

#endif
