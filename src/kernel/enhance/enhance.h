/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes colours and sharpness exactly like Pillow (ImageEnhance), which torchvision's transforms use for PIL images. Each step except hue mixes the image
 * with a degenerate version: with black for brightness, its mean luma for contrast, its luma for saturation, and the smoothed image for sharpness. Values
 * are bytes between steps.
 *
 * Contrast needs the mean luma of the whole image, with the earlier steps applied. So a job first sums the luma of each frame, and then makes the pixels.
 * On the GPU, kernel/image/image.h makes images of one or three channels, and enhance_gpu.cu sharpens images with other numbers of channels. Sums are of
 * integers, so they do not depend on the order in which threads add. */
#ifndef STK_KERNEL_ENHANCE_H
#define STK_KERNEL_ENHANCE_H

#include "base/hd.h"
#include "kernel/job/job.h"

#include <stdint.h>

enum stk_enhance_kind {
	STK_ENHANCE_BRIGHTNESS,
	STK_ENHANCE_CONTRAST,
	STK_ENHANCE_SATURATION,
	STK_ENHANCE_HUE,
	STK_ENHANCE_SHARPNESS, /* must be the only step, since it reads neighbouring pixels */
};

enum { STK_ENHANCE_STEPS = 4 };

/* All steps of a job have different kinds. */
struct stk_enhance_step {
	int32_t kind;
	int32_t shift; /* for STK_ENHANCE_HUE: rotation of the hue in 1/256 turns */
	float factor;  /* for the other kinds: 1 keeps the image, 0 gives the degenerate version */
};

/* The parameters. Images are dense and have bytes: `frames` frames of height x width pixels with 1 or 3 channels, or any number for sharpness. */
struct stk_enhance {
	int64_t frames;
	int32_t width, height, channels;
	int32_t n;
	struct stk_enhance_step step[STK_ENHANCE_STEPS];
};

/* Returns the index of the contrast step, or n if there is no such step. */
STK_HD int32_t stk__enhance_measures(const struct stk_enhance *e)
{
	int32_t k = 0;
	while (k < e->n && e->step[k].kind != STK_ENHANCE_CONTRAST)
		k++;
	return k;
}

STK_HD int32_t stk__enhance_mix(int32_t degenerate, int32_t value, float factor)
{
	float mixed = (float)degenerate + factor * (float)(value - degenerate);
	mixed = mixed < 0 ? 0 : mixed;
	return (int32_t)(mixed > 255 ? 255 : mixed);
}

STK_HD int32_t stk__enhance_luma(const int32_t p[3])
{
	return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16;
}

/* Returns sum / n, rounded to nearest, halves up. */
STK_HD int32_t stk__enhance_mean(uint64_t sum, uint64_t n)
{
	return (int32_t)((2 * sum + n) / (2 * n));
}

/* Returns a if yes is 1, b if it is 0. Has no branch, so that compilers can vectorise loops over stk__enhance_hue. */
STK_HD int32_t stk__enhance_pick(int32_t yes, int32_t a, int32_t b)
{
	return b ^ ((a ^ b) & -yes);
}

/* Converts pixel p to HSV in bytes, adds `shift` to the hue, and converts p back. Rounds like Pillow, which uses float in some places and double in
 * others. */
STK_HD void stk__enhance_hue(int32_t p[3], int32_t shift)
{
	int32_t r = p[0], g = p[1], b = p[2];
	int32_t most = r > g ? r : g, least = r < g ? r : g;
	most = most > b ? most : b;
	least = least < b ? least : b;
	int32_t range = most - least;
	/* The hue is computed from the distances of the channels from the largest value, in sixths of a turn. One of the three distances is zero; `plus`
	 * and `minus` are the other two. */
	int32_t red = r == most, green = !red & (g == most), base = stk__enhance_pick(red, 0, stk__enhance_pick(green, 2, 4));
	int32_t plus = most - stk__enhance_pick(red, b, stk__enhance_pick(green, r, g)),
		minus = most - stk__enhance_pick(red, g, stk__enhance_pick(green, b, r));
	float span = (float)(range + (range == 0)), turn = (float)(base + (double)((float)plus / span) - (double)((float)minus / span));
	double share = turn / 6.0 + 1.0;
	float hue = (float)(share - (int32_t)share);
	int32_t h = (int32_t)(hue * 255.0), s = (int32_t)((float)range / (float)(most + (most == 0)) * 255.0);
	h = (h + shift) & 255;

	double sixths = h * 6.0 / 255.0;
	int32_t sector = (int32_t)sixths;
	float f = (float)(sixths - sector), fs = (float)(s / 255.0), v = (float)most;
	int32_t low = (int32_t)(v * (1.0 - fs) + 0.5), down = (int32_t)(v * (1.0 - fs * f) + 0.5),
		up = (int32_t)(v * (1.0 - fs * (1.0 - f)) + 0.5);
	p[0] = stk__enhance_pick(sector == 1, down, stk__enhance_pick(sector == 4, up, low));
	p[0] = stk__enhance_pick((sector == 0) | (sector > 4), most, p[0]);
	p[1] = stk__enhance_pick((sector == 0) | (sector == 6), up, stk__enhance_pick(sector == 3, down, low));
	p[1] = stk__enhance_pick((sector == 1) | (sector == 2), most, p[1]);
	p[2] = stk__enhance_pick(sector == 2, up, stk__enhance_pick(sector == 5, down, low));
	p[2] = stk__enhance_pick((sector == 3) | (sector == 4), most, p[2]);
}

/* Applies a step to a pixel of three channels. mean: mean luma of the frame. */
STK_HD void stk__enhance_pixel(int32_t p[3], const struct stk_enhance_step *step, int32_t mean)
{
	if (step->kind == STK_ENHANCE_HUE) {
		stk__enhance_hue(p, step->shift);
		return;
	}
	int32_t degenerate = step->kind == STK_ENHANCE_CONTRAST ? mean : step->kind == STK_ENHANCE_SATURATION ? stk__enhance_luma(p) : 0;
	for (int c = 0; c < 3; c++)
		p[c] = stk__enhance_mix(degenerate, p[c], step->factor);
}

/* Loads a pixel to p and applies the first `end` steps. A single channel is treated as grey: the luma of three equal values is that value. */
STK_HD void stk__enhance_load(const struct stk_enhance *e, const uint8_t *pixel, int32_t end, int32_t mean, int32_t p[3])
{
	for (int c = 0; c < 3; c++)
		p[c] = pixel[e->channels == 3 ? c : 0];
	for (int32_t k = 0; k < end; k++)
		stk__enhance_pixel(p, &e->step[k], mean);
}

/* Returns the mean of a value, counted five times, and its eight neighbours, whose sum is `around`. */
STK_HD int32_t stk__enhance_smooth(int32_t around, int32_t middle)
{
	return (around + 5 * middle + 6) / 13;
}

/* Returns value i, counted over all frames, of the sharpened image. */
STK_HD uint8_t stk__enhance_sharpen(const struct stk_enhance *e, const uint8_t *src, int64_t i)
{
	int64_t pixel = i / e->channels, row = pixel / e->width, line = (int64_t)e->width * e->channels;
	int32_t x = (int32_t)(pixel - row * e->width), y = (int32_t)(row % e->height), c = e->channels, around = 0;
	if (x < 1 || y < 1 || x >= e->width - 1 || y >= e->height - 1)
		return src[i];
	for (int64_t at = i - line; at <= i + line; at += line)
		around += src[at - c] + src[at] + src[at + c];
	return (uint8_t)stk__enhance_mix(stk__enhance_smooth(around - src[i], src[i]), src[i], e->step[0].factor);
}

/* Makes pixel i, counted over all frames; for sharpness, value i instead. means: the mean luma of each frame before the contrast step; unused if there is
 * no such step. */
STK_HD void stk__enhance_one(const struct stk_enhance *e, const uint8_t *src, uint8_t *dst, const int32_t *means, uint32_t i)
{
	int32_t p[3];
	if (e->n == 1 && e->step[0].kind == STK_ENHANCE_SHARPNESS) {
		dst[i] = stk__enhance_sharpen(e, src, i);
		return;
	}
	int32_t mean = stk__enhance_measures(e) < e->n ? means[i / ((uint32_t)e->width * (uint32_t)e->height)] : 0;
	stk__enhance_load(e, src + (int64_t)i * e->channels, e->n, mean, p);
	for (int32_t c = 0; c < e->channels; c++)
		dst[(int64_t)i * e->channels + c] = (uint8_t)p[c];
}

/* Makes all frames on the CPU. The _avx2 function is the same source, compiled for AVX2. */
void stk__enhance_run(const struct stk_enhance *e, const uint8_t *src, uint8_t *dst);
void stk__enhance_run_avx2(const struct stk_enhance *e, const uint8_t *src, uint8_t *dst);

STK_PARAMS_FIT(stk_enhance);

/* Makes a job that applies the steps to `in`. in and out have type uint8. */
STK_MUST_USE enum stk_status stk__job_enhance(struct stk_jobs *jobs, const struct stk_enhance *e, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);

#endif
