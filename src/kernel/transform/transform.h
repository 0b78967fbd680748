/* SPDX-License-Identifier: Apache-2.0
 *
 * Affine maps of images of bytes like Pillow's (Image.transform), which torchvision's transforms use for PIL images. Positions outside of the source give
 * the fill value. For positions inside, pixels outside of the source that an interpolation needs are replaced by the nearest pixels of the source.
 *
 * Positions are fixed-point numbers. So the CPU, which adds a step from pixel to pixel, gets exactly the positions that the GPU computes directly. NN has 16
 * bits of fraction, as in Pillow, and gives the same pixels as Pillow. LINEAR and CUBIC have 32 bits where Pillow uses doubles, so values may differ by 1.
 * Values are truncated to integers, as in Pillow. On the CPU, loops process rows; on the GPU, a thread makes a pixel at a time. Both give the same bytes. */
#ifndef STK_KERNEL_TRANSFORM_H
#define STK_KERNEL_TRANSFORM_H

#include "base/hd.h"
#include "kernel/job/job.h"
#include "stoker/tensor.h"

#include <stdint.h>

enum { STK_TRANSFORM_FILLS = 4, STK_TRANSFORM_NN_BITS = 16, STK_TRANSFORM_BITS = 32, STK_TRANSFORM_WEIGHT_BITS = 13 };

/* The parameters. Images are dense: input and output have `frames` frames of height x width pixels with `channels` values. */
struct stk_transform {
	int64_t frames;
	int32_t width, height, channels;
	int32_t interp;  /* NN, LINEAR or CUBIC */
	int64_t m[6];    /* rows (a, b, c) of a matrix: output pixel (x, y) is read at the fixed-point position a x + b y + c */
	int32_t n_fills; /* number of fill values: 1 for all channels, or one for each */
	uint8_t fill[STK_TRANSFORM_FILLS];
};

/* Sets t->m. m: rows (a, b, c) of the map from points of the output to points of the source. The origin of both is the upper left corner of the upper left
 * pixel. All other fields of t must be set. */
void stk__transform_matrix(struct stk_transform *t, const double m[6]);

STK_HD int stk__transform_bits(const struct stk_transform *t)
{
	return t->interp == STK_INTERP_NN ? STK_TRANSFORM_NN_BITS : STK_TRANSFORM_BITS;
}

STK_HD int32_t stk__transform_clamp(int64_t i, int32_t size)
{
	return (int32_t)(i < 0 ? 0 : i < size ? i : size - 1);
}

/* The four pixels around a position, and their weights, whose sum is 1 << STK_TRANSFORM_WEIGHT_BITS. */
struct stk_transform_four {
	int32_t x[2], y[2];
	int32_t weight[4]; /* top left, top right, bottom left, bottom right */
};

STK_HD void stk__transform_four(const struct stk_transform *t, int64_t at_x, int64_t at_y, struct stk_transform_four *f)
{
	const int64_t half = (int64_t)1 << (STK_TRANSFORM_BITS - 1), mask = ((int64_t)1 << STK_TRANSFORM_BITS) - 1;
	const int shift = STK_TRANSFORM_BITS - STK_TRANSFORM_WEIGHT_BITS;
	int64_t left = (at_x - half) >> STK_TRANSFORM_BITS, top = (at_y - half) >> STK_TRANSFORM_BITS;
	int32_t right = (int32_t)(((at_x - half) & mask) >> shift), below = (int32_t)(((at_y - half) & mask) >> shift);
	int32_t both = (right * below) >> STK_TRANSFORM_WEIGHT_BITS;
	f->x[0] = stk__transform_clamp(left, t->width);
	f->x[1] = stk__transform_clamp(left + 1, t->width);
	f->y[0] = stk__transform_clamp(top, t->height);
	f->y[1] = stk__transform_clamp(top + 1, t->height);
	f->weight[0] = (1 << STK_TRANSFORM_WEIGHT_BITS) - right - below + both;
	f->weight[1] = right - both;
	f->weight[2] = below - both;
	f->weight[3] = both;
}

/* Returns the value at position q between b (0) and c (1), interpolated by Keys' cubic with parameter -1, as in Pillow. */
STK_HD float stk__transform_cubic(float a, float b, float c, float d, float q)
{
	return b + q * ((c - a) + q * ((2 * (a - b) + c - d) + q * (b - a + d - c)));
}

STK_HD uint8_t stk__transform_cubic_value(const struct stk_transform *t, const uint8_t *frame, int64_t at_x, int64_t at_y, int32_t channel)
{
	const int64_t half = (int64_t)1 << (STK_TRANSFORM_BITS - 1), mask = ((int64_t)1 << STK_TRANSFORM_BITS) - 1;
	int64_t left = (at_x - half) >> STK_TRANSFORM_BITS, top = (at_y - half) >> STK_TRANSFORM_BITS;
	float qx = (float)((at_x - half) & mask) * 0x1p-32f, qy = (float)((at_y - half) & mask) * 0x1p-32f, row[4];
	for (int j = 0; j < 4; j++) {
		const uint8_t *line = frame + (int64_t)stk__transform_clamp(top + j - 1, t->height) * t->width * t->channels + channel;
		float p[4];
		for (int i = 0; i < 4; i++)
			p[i] = (float)line[(int64_t)stk__transform_clamp(left + i - 1, t->width) * t->channels];
		row[j] = stk__transform_cubic(p[0], p[1], p[2], p[3], qx);
	}
	float value = stk__transform_cubic(row[0], row[1], row[2], row[3], qy);
	return (uint8_t)(value <= 0 ? 0 : value >= 255 ? 255 : (int32_t)value);
}

/* Makes pixel (x, y) of a frame and stores it at `dst`. */
STK_HD void stk__transform_pixel(const struct stk_transform *t, const uint8_t *frame, uint8_t *dst, int32_t x, int32_t y)
{
	int bits = stk__transform_bits(t), c = t->channels;
	int64_t at_x = t->m[2] + t->m[0] * x + t->m[1] * y, at_y = t->m[5] + t->m[3] * x + t->m[4] * y;
	int64_t line = (int64_t)t->width * c;
	if (at_x < 0 || at_y < 0 || at_x >> bits >= t->width || at_y >> bits >= t->height) {
		for (int32_t k = 0; k < c; k++)
			dst[k] = t->fill[t->n_fills > 1 ? k : 0];
	} else if (t->interp == STK_INTERP_NN) {
		for (int32_t k = 0; k < c; k++)
			dst[k] = frame[(at_y >> bits) * line + (at_x >> bits) * c + k];
	} else if (t->interp == STK_INTERP_CUBIC) {
		for (int32_t k = 0; k < c; k++)
			dst[k] = stk__transform_cubic_value(t, frame, at_x, at_y, k);
	} else {
		struct stk_transform_four f;
		stk__transform_four(t, at_x, at_y, &f);
		for (int32_t k = 0; k < c; k++) {
			int32_t sum = 0;
			for (int n = 0; n < 4; n++)
				sum += f.weight[n] * frame[f.y[n / 2] * line + f.x[n % 2] * c + k];
			dst[k] = (uint8_t)(sum >> STK_TRANSFORM_WEIGHT_BITS);
		}
	}
}

/* Makes output pixel i. Pixels are numbered over all frames. */
STK_HD void stk__transform_one(const struct stk_transform *t, const uint8_t *src, uint8_t *dst, uint32_t i)
{
	uint32_t row = i / (uint32_t)t->width, x = i - row * (uint32_t)t->width, frame = row / (uint32_t)t->height,
		 y = row - frame * (uint32_t)t->height;
	int64_t frame_bytes = (int64_t)t->height * t->width * t->channels;
	stk__transform_pixel(t, src + frame * frame_bytes, dst + (int64_t)i * t->channels, (int32_t)x, (int32_t)y);
}

/* Makes all frames on the CPU. _avx2: the same source, compiled for AVX2. */
void stk__transform_run(const struct stk_transform *t, const uint8_t *src, uint8_t *dst);
void stk__transform_run_avx2(const struct stk_transform *t, const uint8_t *src, uint8_t *dst);

STK_PARAMS_FIT(stk_transform);

/* Makes a job that maps `in`. in and out have type uint8. */
STK_MUST_USE enum stk_status stk__job_transform(struct stk_jobs *jobs, const struct stk_transform *t, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);

#endif
