/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/orient.h"

#include <string.h>

/* Maps an oriented position (u, v) to a stored one (x, y): exchanges coordinates if `swap`, then counts them from the opposite side if `flip_x` or `flip_y`. */
struct orientation {
	bool swap, flip_x, flip_y;
};

static struct orientation turn_of(int orientation)
{
	static const struct orientation orientations[9] = {[2] = {false, true, false},
		[3] = {false, true, true},
		[4] = {false, false, true},
		[5] = {true, false, false},
		[6] = {true, false, true},
		[7] = {true, true, true},
		[8] = {true, true, false}};
	return orientations[orientation];
}

bool stk__orient_swaps(int orientation)
{
	return turn_of(orientation).swap;
}

struct stk_rect stk__orient_rect(int orientation, int32_t width, int32_t height, struct stk_rect r)
{
	struct orientation t = turn_of(orientation);
	if (t.swap)
		r = (struct stk_rect){r.y, r.x, r.h, r.w};
	if (t.flip_x)
		r.x = width - r.x - r.w;
	if (t.flip_y)
		r.y = height - r.y - r.h;
	return r;
}

struct stk_rect stk__orient_view(int orientation, int32_t width, int32_t height, struct stk_rect window, struct stk_image *im)
{
	struct orientation t = turn_of(orientation);
	struct stk_image from = *im;
	im->data = (uint8_t *)from.data + (t.flip_x ? (from.width - 1) * from.pixel : 0) + (t.flip_y ? (from.height - 1) * from.row : 0);
	im->pixel = t.flip_x ? -from.pixel : from.pixel;
	im->row = t.flip_y ? -from.row : from.row;
	window.x = t.flip_x ? width - window.x - window.w : window.x;
	window.y = t.flip_y ? height - window.y - window.h : window.y;
	if (!t.swap)
		return window;
	ptrdiff_t old_pixel = im->pixel;
	im->pixel = im->row;
	im->row = old_pixel;
	im->width = from.height;
	im->height = from.width;
	return (struct stk_rect){window.y, window.x, window.h, window.w};
}

/* Copies n pixels of `size` bytes, which are `step` bytes apart in `from`. Callers pass a constant size, so that memcpy becomes a single move. */
static inline __attribute__((always_inline)) void copy_row(uint8_t *to, const uint8_t *from, ptrdiff_t step, int n, size_t size)
{
	for (int i = 0; i < n; i++, to += size, from += step)
		memcpy(to, from, size);
}

void stk__orient_copy(int orientation, const struct stk_image *src, const struct stk_image *dst)
{
	struct orientation t = turn_of(orientation);
	ptrdiff_t along_x = t.flip_x ? -src->pixel : src->pixel, along_y = t.flip_y ? -src->row : src->row;
	const uint8_t *origin =
		(const uint8_t *)src->data + (t.flip_x ? (src->width - 1) * src->pixel : 0) + (t.flip_y ? (src->height - 1) * src->row : 0);
	ptrdiff_t along_u = t.swap ? along_y : along_x, along_v = t.swap ? along_x : along_y;
	for (int v = 0; v < dst->height; v++) {
		uint8_t *to = (uint8_t *)dst->data + v * dst->row;
		const uint8_t *from = origin + v * along_v;
		if (dst->pixel == 3)
			copy_row(to, from, along_u, dst->width, 3);
		else if (dst->pixel == 1)
			copy_row(to, from, along_u, dst->width, 1);
		else
			copy_row(to, from, along_u, dst->width, (size_t)dst->pixel);
	}
}
