/* SPDX-License-Identifier: Apache-2.0
 * Affine maps on the CPU. For each row, the range of outputs that are read inside the source is computed in advance, so that pixels need no checks. */
#include "kernel/transform/transform.h"

#include <string.h>

static int64_t divide_down(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Narrows the range *first .. *end - 1 to those x for which at + step * x is in 0 .. limit - 1. */
static void narrow(int64_t at, int64_t step, int64_t limit, int64_t *first, int64_t *end)
{
	int64_t from = *first, to = *end;
	if (step > 0) {
		from = -divide_down(at, step);
		to = divide_down(limit - 1 - at, step) + 1;
	} else if (step < 0) {
		from = -divide_down(limit - 1 - at, -step);
		to = divide_down(at, -step) + 1;
	} else if (at < 0 || at >= limit) {
		to = from;
	}
	*first = from > *first ? from : *first;
	*end = to < *end ? to : *end;
	if (*first >= *end)
		*first = *end = 0;
}

/* A row of outputs, of which those from `first` to end - 1 are read inside the source. */
struct walk {
	int64_t x, y; /* position in the source of the row's first pixel */
	int64_t first, end;
};

static void fill_pixels(const struct stk_transform *t, uint8_t *row, int64_t first, int64_t end)
{
	bool same = true;
	for (int32_t k = 1; k < t->n_fills; k++)
		same = same && t->fill[k] == t->fill[0];
	if (same) {
		memset(row + first * t->channels, t->fill[0], (size_t)((end - first) * t->channels));
		return;
	}
	for (row += first * t->channels; first < end; first++)
		for (int32_t k = 0; k < t->channels; k++)
			*row++ = t->fill[k];
}

static void nearest_row(const struct stk_transform *t, const struct walk *w, const uint8_t *src, uint8_t *row)
{
	enum { BITS = STK_TRANSFORM_NN_BITS };
	const int64_t c = t->channels, line = t->width * c, step_x = t->m[0], step_y = t->m[3];
	int64_t x = w->x + step_x * w->first, y = w->y + step_y * w->first;
	if (step_y == 0 && step_x == 1 << BITS) {
		memcpy(row + w->first * c, src + (y >> BITS) * line + (x >> BITS) * c, (size_t)((w->end - w->first) * c));
		return;
	}
	for (int64_t i = w->first; i < w->end; i++, x += step_x, y += step_y) {
		const uint8_t *from = src + (y >> BITS) * line + (x >> BITS) * c;
		uint8_t *to = row + i * c;
		for (int64_t k = 0; k < c; k++)
			to[k] = from[k];
	}
}

static void nearest_row_3(const struct stk_transform *t, const struct walk *w, const uint8_t *src, uint8_t *row)
{
	enum { BITS = STK_TRANSFORM_NN_BITS };
	const int64_t line = (int64_t)t->width * 3, step_x = t->m[0], step_y = t->m[3];
	int64_t x = w->x + step_x * w->first, y = w->y + step_y * w->first;
	for (int64_t i = w->first; i < w->end; i++, x += step_x, y += step_y) {
		const uint8_t *from = src + (y >> BITS) * line + (x >> BITS) * 3;
		memcpy(row + i * 3, from, 3);
	}
}

/* Returns three channels packed into one word with 21 bits each, which is enough for a byte times a sum of weights. */
static inline uint64_t spread(const uint8_t *p)
{
	return p[0] | (uint64_t)p[1] << 21 | (uint64_t)p[2] << 42;
}

/* Returns whether all four pixels around a position are inside the source. (left, top): the upper left one. */
static inline bool is_inside(const struct stk_transform *t, int64_t left, int64_t top)
{
	return (uint64_t)left < (uint64_t)(t->width - 1) && (uint64_t)top < (uint64_t)(t->height - 1);
}

static void linear_row_3(const struct stk_transform *t, const struct walk *w, const uint8_t *restrict src, uint8_t *restrict row)
{
	enum { BITS = STK_TRANSFORM_WEIGHT_BITS, SHIFT = STK_TRANSFORM_BITS - STK_TRANSFORM_WEIGHT_BITS, ONE = 1 << BITS };
	const int64_t half = (int64_t)1 << (STK_TRANSFORM_BITS - 1), line = (int64_t)t->width * 3, step_x = t->m[0], step_y = t->m[3];
	int64_t x = w->x + step_x * w->first - half, y = w->y + step_y * w->first - half;
	uint8_t *to = row + w->first * 3;
	for (int64_t i = w->first; i < w->end; i++, x += step_x, y += step_y, to += 3) {
		int64_t left = x >> STK_TRANSFORM_BITS, top = y >> STK_TRANSFORM_BITS;
		const uint8_t *a, *b, *c, *d;
		uint64_t right = (uint32_t)x >> SHIFT, below = (uint32_t)y >> SHIFT, both = right * below >> BITS;
		if (is_inside(t, left, top)) {
			a = src + top * line + left * 3;
			b = a + 3;
			c = a + line;
			d = c + 3;
		} else {
			int64_t x0 = 3 * stk__transform_clamp(left, t->width), x1 = 3 * stk__transform_clamp(left + 1, t->width);
			const uint8_t *above = src + stk__transform_clamp(top, t->height) * line,
				      *beneath = src + stk__transform_clamp(top + 1, t->height) * line;
			a = above + x0;
			b = above + x1;
			c = beneath + x0;
			d = beneath + x1;
		}
		uint64_t sum = spread(a) * (ONE - right - below + both) + spread(b) * (right - both) + spread(c) * (below - both) +
			       spread(d) * both;
		to[0] = (uint8_t)(sum >> BITS);
		to[1] = (uint8_t)(sum >> (21 + BITS));
		to[2] = (uint8_t)(sum >> (42 + BITS));
	}
}

static void linear_row(const struct stk_transform *t, const struct walk *w, const uint8_t *src, uint8_t *row)
{
	enum { BITS = STK_TRANSFORM_WEIGHT_BITS };
	const int64_t c = t->channels, line = t->width * c;
	int64_t x = w->x + t->m[0] * w->first, y = w->y + t->m[3] * w->first;
	for (int64_t i = w->first; i < w->end; i++, x += t->m[0], y += t->m[3]) {
		struct stk_transform_four f;
		stk__transform_four(t, x, y, &f);
		const uint8_t *top = src + f.y[0] * line, *bottom = src + f.y[1] * line;
		int64_t left = f.x[0] * c, right = f.x[1] * c;
		uint8_t *to = row + i * c;
		for (int64_t k = 0; k < c; k++)
			to[k] = (uint8_t)((f.weight[0] * top[left + k] + f.weight[1] * top[right + k] + f.weight[2] * bottom[left + k] +
						  f.weight[3] * bottom[right + k]) >>
					  BITS);
	}
}

static void cubic_row(const struct stk_transform *t, const struct walk *w, const uint8_t *src, uint8_t *row)
{
	for (int64_t i = w->first; i < w->end; i++)
		for (int32_t k = 0; k < t->channels; k++)
			row[i * t->channels + k] = stk__transform_cubic_value(t, src, w->x + t->m[0] * i, w->y + t->m[3] * i, k);
}

/* Returns whether the map moves the image by whole pixels. All interpolations then give unchanged values. */
static bool is_shift(const struct stk_transform *t)
{
	int64_t one = (int64_t)1 << stk__transform_bits(t), half = one / 2;
	return t->m[0] == one && t->m[1] == 0 && t->m[3] == 0 && t->m[4] == one && ((t->m[2] - half) & (one - 1)) == 0 &&
	       ((t->m[5] - half) & (one - 1)) == 0;
}

void stk__transform_run(const struct stk_transform *original, const uint8_t *src, uint8_t *dst)
{
	struct stk_transform t = *original;
	if (t.interp != STK_INTERP_NN && is_shift(&t)) {
		for (int k = 0; k < 6; k++)
			t.m[k] >>= STK_TRANSFORM_BITS - STK_TRANSFORM_NN_BITS;
		t.interp = STK_INTERP_NN;
	}
	int bits = stk__transform_bits(&t);
	bool rows = t.m[3] == 0 && t.m[0] == (int64_t)1 << bits, rgb = t.channels == 3;
	void (*run)(const struct stk_transform *, const struct walk *, const uint8_t *, uint8_t *) =
		t.interp == STK_INTERP_CUBIC    ? cubic_row
		: t.interp == STK_INTERP_LINEAR ? (rgb ? linear_row_3 : linear_row)
		: rgb && !rows                  ? nearest_row_3
						: nearest_row;
	int64_t line = (int64_t)t.width * t.channels;
	for (int64_t f = 0; f < t.frames; f++, src += line * t.height)
		for (int32_t y = 0; y < t.height; y++, dst += line) {
			struct walk w = {t.m[2] + t.m[1] * y, t.m[5] + t.m[4] * y, 0, t.width};
			narrow(w.x, t.m[0], (int64_t)t.width << bits, &w.first, &w.end);
			narrow(w.y, t.m[3], (int64_t)t.height << bits, &w.first, &w.end);
			fill_pixels(&t, dst, 0, w.first);
			if (w.first < w.end)
				run(&t, &w, src, dst);
			fill_pixels(&t, dst, w.end, t.width);
		}
}
