/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/resample/resample.h"

static int32_t clamp(int32_t x, int32_t low, int32_t high)
{
	return x < low ? low : x > high ? high : x;
}

static void vertical_narrow(const struct stk_vertical *v, void *block)
{
	uint16_t *out = block;
	for (int32_t x = 0; x < v->width; x++)
		for (int32_t c = 0; c < v->channels; c++)
			for (int r = 0; r < STK_BLOCK_ROWS; r++) {
				const uint8_t *p = v->src + v->row[r] + x * v->pixel + c * v->channel;
				const uint16_t *w = (const uint16_t *)v->weights + r * v->n;
				uint32_t sum = v->bias;
				for (int32_t t = 0; t < v->n; t++, p += v->tap)
					sum += (uint32_t)*p * w[t] >> 8;
				*out++ = (uint16_t)sum;
			}
}

static void vertical_wide(const struct stk_vertical *v, void *block)
{
	int16_t *out = block;
	int shift = v->shift - STK_WIDE_BITS;
	for (int32_t x = 0; x < v->width; x++)
		for (int32_t c = 0; c < v->channels; c++)
			for (int r = 0; r < STK_BLOCK_ROWS; r++) {
				const uint8_t *p = v->src + v->row[r] + x * v->pixel + c * v->channel;
				const int16_t *w = (const int16_t *)v->weights + r * v->n;
				int32_t sum = 1 << (shift - 1);
				for (int32_t t = 0; t < v->n; t++, p += v->tap)
					sum += *p * w[t];
				*out++ = (int16_t)clamp(sum >> shift, INT16_MIN, INT16_MAX);
			}
}

static void vertical_float(const struct stk_vertical *v, void *block)
{
	float *out = block;
	for (int32_t x = 0; x < v->width; x++)
		for (int32_t c = 0; c < v->channels; c++)
			for (int r = 0; r < STK_BLOCK_ROWS; r++) {
				const uint8_t *p = v->src + v->row[r] + x * v->pixel + c * v->channel;
				const float *w = (const float *)v->weights + r * v->n;
				float sum = 0;
				for (int32_t t = 0; t < v->n; t++, p += v->tap)
					sum += w[t] * *(const float *)(const void *)p;
				*out++ = sum;
			}
}

static void vertical_u8_float(const struct stk_vertical *v, void *block)
{
	float *out = block;
	for (int32_t x = 0; x < v->width; x++)
		for (int32_t c = 0; c < v->channels; c++)
			for (int r = 0; r < STK_BLOCK_ROWS; r++) {
				const uint8_t *p = v->src + v->row[r] + x * v->pixel + c * v->channel;
				const float *w = (const float *)v->weights + r * v->n;
				float sum = 0;
				for (int32_t t = 0; t < v->n; t++, p += v->tap)
					sum += w[t] * (float)*p;
				*out++ = sum;
			}
}

static void horizontal_narrow(const struct stk_horizontal *h)
{
	uint8_t *dst = h->dst;
	ptrdiff_t step = (ptrdiff_t)h->step * h->channels * STK_BLOCK_ROWS;
	for (int32_t x = 0; x < h->count; x++) {
		const uint16_t *w = (const uint16_t *)h->weights + (ptrdiff_t)x * h->n;
		for (int32_t c = 0; c < h->channels; c++) {
			const uint16_t *column =
				(const uint16_t *)h->block + ((ptrdiff_t)(h->first[x] - h->origin) * h->channels + c) * STK_BLOCK_ROWS;
			for (int r = 0; r < STK_BLOCK_ROWS; r++) {
				uint32_t sum = h->bias;
				for (int32_t t = 0; t < h->n; t++)
					sum += (uint32_t)column[t * step + r] * w[t] >> 16;
				dst[c * h->plane + r * h->row + x] = (uint8_t)((sum + 127 + (sum >> 8 & 1)) >> 8);
			}
		}
	}
}

static void horizontal_wide(const struct stk_horizontal *h)
{
	uint8_t *dst = h->dst;
	ptrdiff_t step = (ptrdiff_t)h->step * h->channels * STK_BLOCK_ROWS;
	int shift = h->shift + STK_WIDE_BITS;
	for (int32_t x = 0; x < h->count; x++) {
		const int16_t *w = (const int16_t *)h->weights + (ptrdiff_t)x * h->n;
		for (int32_t c = 0; c < h->channels; c++) {
			const int16_t *column =
				(const int16_t *)h->block + ((ptrdiff_t)(h->first[x] - h->origin) * h->channels + c) * STK_BLOCK_ROWS;
			for (int r = 0; r < STK_BLOCK_ROWS; r++) {
				int32_t sum = 1 << (shift - 1);
				for (int32_t t = 0; t < h->n; t++)
					sum += column[t * step + r] * w[t];
				dst[c * h->plane + r * h->row + x] = (uint8_t)clamp(sum >> shift, 0, 255);
			}
		}
	}
}

static void horizontal_float(const struct stk_horizontal *h)
{
	float *dst = h->dst;
	ptrdiff_t step = (ptrdiff_t)h->step * h->channels * STK_BLOCK_ROWS;
	for (int32_t x = 0; x < h->count; x++) {
		const float *w = (const float *)h->weights + (ptrdiff_t)x * h->n;
		for (int32_t c = 0; c < h->channels; c++) {
			const float *column =
				(const float *)h->block + ((ptrdiff_t)(h->first[x] - h->origin) * h->channels + c) * STK_BLOCK_ROWS;
			for (int r = 0; r < STK_BLOCK_ROWS; r++) {
				float sum = 0;
				for (int32_t t = 0; t < h->n; t++)
					sum += w[t] * column[t * step + r];
				dst[c * h->plane + r * h->row + x] = sum;
			}
		}
	}
}

const struct stk_resample_kernels stk__resample_kernels_c = {
	.vertical = {vertical_narrow, vertical_wide, vertical_float},
	.vertical_u8_float = vertical_u8_float,
	.horizontal = {horizontal_narrow, horizontal_wide, horizontal_float},
};
