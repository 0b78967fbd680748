/* SPDX-License-Identifier: Apache-2.0
 * Colours and sharpness on the CPU. Each step runs over a few pixels at a time, stored as planes, so that compilers can vectorise its loop. enhance_avx2.c
 * compiles this file again for wide registers. */
#include "kernel/enhance/enhance.h"

#include <stdbool.h>
#include <string.h>

enum { PART = 256 }; /* maximum number of pixels of a struct part */

struct part {
	int32_t n;
	int32_t plane[3][PART];
};

static void load(const struct stk_enhance *e, struct part *p, const uint8_t *src, int32_t n)
{
	p->n = n;
	if (e->channels == 1) {
		for (int32_t i = 0; i < n; i++)
			p->plane[0][i] = p->plane[1][i] = p->plane[2][i] = src[i];
		return;
	}
	for (int32_t i = 0; i < n; i++)
		for (int c = 0; c < 3; c++)
			p->plane[c][i] = src[3 * i + c];
}

static void store(const struct stk_enhance *e, const struct part *p, uint8_t *dst)
{
	if (e->channels == 1) {
		for (int32_t i = 0; i < p->n; i++)
			dst[i] = (uint8_t)p->plane[0][i];
		return;
	}
	for (int32_t i = 0; i < p->n; i++)
		for (int c = 0; c < 3; c++)
			dst[3 * i + c] = (uint8_t)p->plane[c][i];
}

/* Applies a step to the pixels of p. kind_of is a constant, so that the compiler makes a separate loop for each kind. */
#define STEP(kind_of)                                                                                                                      \
	do {                                                                                                                               \
		struct stk_enhance_step own = {kind_of, step->shift, step->factor};                                                        \
		for (int32_t i = 0; i < p->n; i++) {                                                                                       \
			int32_t pixel[3] = {p->plane[0][i], p->plane[1][i], p->plane[2][i]};                                               \
			stk__enhance_pixel(pixel, &own, mean);                                                                             \
			p->plane[0][i] = pixel[0];                                                                                         \
			p->plane[1][i] = pixel[1];                                                                                         \
			p->plane[2][i] = pixel[2];                                                                                         \
		}                                                                                                                          \
	} while (0)

static void run_step(struct part *p, const struct stk_enhance_step *step, int32_t mean)
{
	if (step->kind == STK_ENHANCE_BRIGHTNESS)
		STEP(STK_ENHANCE_BRIGHTNESS);
	else if (step->kind == STK_ENHANCE_CONTRAST)
		STEP(STK_ENHANCE_CONTRAST);
	else if (step->kind == STK_ENHANCE_SATURATION)
		STEP(STK_ENHANCE_SATURATION);
	else
		STEP(STK_ENHANCE_HUE);
}

static uint32_t sum_luma(const struct part *p)
{
	uint32_t sum = 0;
	for (int32_t i = 0; i < p->n; i++)
		sum += (uint32_t)stk__enhance_luma((const int32_t[]){p->plane[0][i], p->plane[1][i], p->plane[2][i]});
	return sum;
}

/* Runs steps begin .. end - 1 on a frame, and stores the result in dst if there are such steps. mean: the mean luma before the contrast step; used only if
 * the contrast step is among these steps. Returns the sum of the luma of the result if end < e->n, otherwise 0. */
static uint64_t run_steps(const struct stk_enhance *e, const uint8_t *src, uint8_t *dst, int32_t begin, int32_t end, int32_t mean)
{
	int64_t pixels = (int64_t)e->width * e->height;
	uint64_t sum = 0;
	struct part p;
	for (int64_t at = 0; at < pixels; at += PART) {
		load(e, &p, src + at * e->channels, (int32_t)(pixels - at < PART ? pixels - at : PART));
		for (int32_t k = begin; k < end; k++)
			run_step(&p, &e->step[k], mean);
		if (end < e->n)
			sum += sum_luma(&p);
		if (begin < end)
			store(e, &p, dst + at * e->channels);
	}
	return sum;
}

static void colour(const struct stk_enhance *e, const uint8_t *src, uint8_t *dst)
{
	int32_t measures = stk__enhance_measures(e);
	uint64_t pixels = (uint64_t)e->width * (uint64_t)e->height;
	if (measures == e->n) {
		run_steps(e, src, dst, 0, e->n, 0);
		return;
	}
	uint64_t sum = run_steps(e, src, dst, 0, measures, 0);
	run_steps(e, measures ? dst : src, dst, measures, e->n, stk__enhance_mean(sum, pixels));
}

/* Sharpens a row, except its first and last pixel, to dst. line: number of values of a row. The rows above and below must exist. */
static void sharpen_row(const uint8_t *restrict row, uint8_t *restrict dst, int64_t line, int32_t channels, float factor)
{
	const uint8_t *above = row - line, *below = row + line;
	for (int64_t i = channels; i < line - channels; i++) {
		int64_t before = i - channels, after = i + channels;
		uint16_t around = (uint16_t)(above[before] + above[i] + above[after] + row[before] + row[after] + below[before] + below[i] +
					     below[after]);
		dst[i] = (uint8_t)stk__enhance_mix(stk__enhance_smooth(around, row[i]), row[i], factor);
	}
}

static void sharpen(const struct stk_enhance *e, const uint8_t *src, uint8_t *dst)
{
	int64_t line = (int64_t)e->width * e->channels;
	for (int32_t y = 0; y < e->height; y++, src += line, dst += line) {
		bool inside = y > 0 && y < e->height - 1 && e->width > 2;
		memcpy(dst, src, (size_t)(inside ? e->channels : line));
		if (!inside)
			continue;
		sharpen_row(src, dst, line, e->channels, e->step[0].factor);
		memcpy(dst + line - e->channels, src + line - e->channels, (size_t)e->channels);
	}
}

void stk__enhance_run(const struct stk_enhance *e, const uint8_t *src, uint8_t *dst)
{
	int64_t frame = (int64_t)e->width * e->height * e->channels;
	for (int64_t f = 0; f < e->frames; f++, src += frame, dst += frame) {
		if (e->n == 1 && e->step[0].kind == STK_ENHANCE_SHARPNESS)
			sharpen(e, src, dst);
		else if (e->n)
			colour(e, src, dst);
		else
			memcpy(dst, src, (size_t)frame);
	}
}
