/* SPDX-License-Identifier: Apache-2.0
 * Pointwise functions on the CPU. */
#include "kernel/pointwise/pointwise_element.h"

#include <string.h>

/* ---- lookup ---- */

/* `restrict` promises that the stores do not change the memory that is read; without it, the compiler would load everything again after each stored byte. */
#define LOOKUP_BYTES(type)                                                                                                                 \
	do {                                                                                                                               \
		type table[256], *restrict dst = (type *)(void *)d->dst;                                                                   \
		const uint8_t *restrict src = d->src;                                                                                      \
		int64_t n = d->n, i = 0;                                                                                                   \
		for (uint32_t k = 0; k < 256; k++)                                                                                         \
			memcpy(&table[k], k < p->lookup.entries ? (const uint8_t *)d->constants + k * sizeof(type) : p->lookup.other,      \
				sizeof(type));                                                                                             \
		for (; i + 4 <= n; i += 4) {                                                                                               \
			type a = table[src[i]], b = table[src[i + 1]], c = table[src[i + 2]], e = table[src[i + 3]];                       \
			dst[i] = a;                                                                                                        \
			dst[i + 1] = b;                                                                                                    \
			dst[i + 2] = c;                                                                                                    \
			dst[i + 3] = e;                                                                                                    \
		}                                                                                                                          \
		for (; i < n; i++)                                                                                                         \
			dst[i] = table[src[i]];                                                                                            \
	} while (0)

static void lookup_bytes(const struct stk_pointwise *p, const struct stk_pointwise_data *d)
{
	switch (d->dst_size) {
	case 1:
		LOOKUP_BYTES(uint8_t);
		break;
	case 2:
		LOOKUP_BYTES(uint16_t);
		break;
	case 4:
		LOOKUP_BYTES(uint32_t);
		break;
	default:
		LOOKUP_BYTES(uint64_t);
	}
}

/* ---- erase ---- */

/* Stores the fill values of n outputs, from output i on. */
static void fill_run(const struct stk_pointwise *p, const struct stk_pointwise_data *d, int64_t i, int64_t n)
{
	int32_t size = d->dst_size;
	uint8_t *dst = d->dst + i * size;
	int64_t divisor = p->erase.fill_divisor, fills = p->erase.n_fills, same = fills == 1 ? n : divisor - i % divisor;
	if (divisor == 1 && fills > 1) { /* interleaved channels: writes the fills for a few pixels, then copies them */
		int64_t written = n < fills ? n : fills;
		for (int64_t k = 0; k < written; k++)
			memcpy(dst + k * size, stk__pointwise_fill(p, d, i + k), (size_t)size);
		for (int64_t k = written; k < n; k += written)
			memcpy(dst + k * size, dst, (size_t)((n - k < written ? n - k : written) * size));
		return;
	}
	for (; n > 0; i += same, n -= same, same = divisor) {
		same = same < n ? same : n;
		const uint8_t *fill = stk__pointwise_fill(p, d, i);
		for (int64_t k = 0; k < same; k++, dst += size)
			memcpy(dst, fill, (size_t)size);
	}
}

static void noise_run(const struct stk_pointwise *p, const struct stk_pointwise_data *d, int64_t i, int64_t n)
{
	for (int64_t end = i + n; i < end;) {
		struct stk_philox_block draws = stk__pointwise_draws(&p->erase.random, (uint32_t)(i / 4), 0);
		float normals[4];
		stk__pointwise_normals(draws.v[0], draws.v[1], normals);
		stk__pointwise_normals(draws.v[2], draws.v[3], normals + 2);
		for (int64_t next = i / 4 * 4 + 4; i < next && i < end; i++)
			stk__pointwise_put(&p->erase, d, d->dst + i * d->dst_size, normals[i & 3]);
	}
}

/* Fills the part of a region at given indices of the dimensions before the k-th. index: the index that these would have together, as one dimension. */
static void fill_region(const struct stk_pointwise *p, const struct stk_pointwise_data *d, int32_t region, int32_t k, int64_t index)
{
	const int64_t *bounds = stk__pointwise_bounds(p, d, region, k);
	int64_t run = 1; /* number of outputs per index of the k-th dimension, if the region covers all later dimensions as a whole */
	bool whole = true;
	for (int32_t j = k + 1; j < p->erase.ndim; j++) {
		const int64_t *inner = stk__pointwise_bounds(p, d, region, j);
		whole &= inner[0] == 0 && inner[1] == p->erase.shape[j];
		run *= p->erase.shape[j];
	}
	index *= p->erase.shape[k];
	if (whole && bounds[0] < bounds[1])
		(p->op == STK_POINTWISE_ERASE ? fill_run : noise_run)(p, d, (index + bounds[0]) * run, (bounds[1] - bounds[0]) * run);
	for (int64_t at = bounds[0]; !whole && at < bounds[1]; at++)
		fill_region(p, d, region, k + 1, index + at);
}

static void erase(const struct stk_pointwise *p, const struct stk_pointwise_data *d)
{
	memcpy(d->dst, d->src, (size_t)(d->n * d->dst_size));
	for (int32_t r = 0; r < p->erase.regions; r++)
		fill_region(p, d, r, 0, 0);
}

/* ---- grid ---- */

/* Copies the input, and zeroes the pixels in the grid's squares. A pixel is x_divisor adjacent outputs, and a row of pixels is y_divisor outputs. */
static void grid(const struct stk_pointwise *p, const struct stk_pointwise_data *d)
{
	const struct stk_pointwise_grid *g = &p->grid;
	int64_t pixel = g->x_divisor * d->dst_size;
	memcpy(d->dst, d->src, (size_t)(d->n * d->dst_size));
	uint8_t *dst = d->dst;
	for (int64_t row = 0; row < d->n / g->y_divisor; row++)
		for (int32_t x = 0; x < g->width; x++, dst += pixel)
			if (stk__pointwise_in_square(g, x, (int32_t)(row % g->height)))
				memset(dst, 0, (size_t)pixel);
}

/* ---- noise ---- */

static void add_normals(const struct stk_pointwise *p, const struct stk_pointwise_data *d)
{
	for (int64_t i = 0; i < d->n; i += 4) {
		struct stk_philox_block draws = stk__pointwise_draws(&p->noise.random, (uint32_t)(i / 4), 0);
		float normals[4];
		stk__pointwise_normals(draws.v[0], draws.v[1], normals);
		stk__pointwise_normals(draws.v[2], draws.v[3], normals + 2);
		for (int64_t k = 0; k < 4 && i + k < d->n; k++)
			stk__pointwise_add(&p->noise, d, d->dst + (i + k) * d->dst_size, d->src + (i + k) * d->src_size, normals[k]);
	}
}

static void replace(const struct stk_pointwise *p, const struct stk_pointwise_data *d)
{
	const struct stk_pointwise_noise *n = &p->noise;
	int64_t pixels = d->n / n->channels;
	memcpy(d->dst, d->src, (size_t)(d->n * d->dst_size));
	for (int64_t at = 0; at < pixels; at++) {
		const uint8_t *value = stk__pointwise_replacement(n, (uint32_t)at);
		int64_t first = at / n->inner * n->inner * n->channels + at % n->inner;
		for (int64_t c = 0; value && c < n->channels; c++)
			memcpy(d->dst + (first + c * n->inner) * d->dst_size, value, (size_t)d->dst_size);
	}
}

static void shoot_bytes(const struct stk_pointwise *p, const struct stk_pointwise_data *d)
{
	const struct stk_pointwise_noise *n = &p->noise;
	double rare[256];
	for (int k = 0; k < 256; k++) {
		double mean = stk__pointwise_mean(n, k);
		rare[k] = mean < STK_POINTWISE_POISSON_SMALL ? stk__math_exp(-mean) : 0;
	}
	for (int64_t i = 0; i < d->n; i++) {
		double drawn = stk__pointwise_poisson(&n->random, (uint32_t)i, stk__pointwise_mean(n, d->src[i]), rare[d->src[i]]);
		stk__store_double(d->dst + i, STK_UINT8, drawn * (double)n->mean);
	}
}

void stk__pointwise_run(const struct stk_pointwise *p, const struct stk_pointwise_data *d)
{
	bool bytes = d->src_dtype == STK_UINT8;
	if (p->op == STK_POINTWISE_LOOKUP && bytes)
		lookup_bytes(p, d);
	else if (p->op == STK_POINTWISE_ERASE || p->op == STK_POINTWISE_ERASE_NORMAL)
		erase(p, d);
	else if (p->op == STK_POINTWISE_GRID)
		grid(p, d);
	else if (p->op == STK_POINTWISE_NORMAL)
		add_normals(p, d);
	else if (p->op == STK_POINTWISE_SALT)
		replace(p, d);
	else if (p->op == STK_POINTWISE_POISSON && bytes && p->noise.mean != 0)
		shoot_bytes(p, d);
	else
		for (int64_t i = 0; i < d->n; i++)
			stk__pointwise_one(p, d, (uint32_t)i);
}
