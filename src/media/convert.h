/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a decoded picture to RGB with 8 bits.
 *
 * The kernel on the GPU gives the same bytes. A pixel uses the chroma sample that covers it, without interpolation. With the integers of struct
 * stk_yuv_matrix, y = luma - luma_zero, u = cb - chroma_zero, v = cr - chroma_zero, and s = 16 + bits - 8,
 *     R = clip((luma * y + red_v * v + 2^(s-1)) >> s)
 *     G = clip((luma * y - green_u * u - green_v * v + 2^(s-1)) >> s)
 *     B = clip((luma * y + blue_u * u + 2^(s-1)) >> s)
 * where >> rounds down and clip limits to 0..255. So samples of more than 8 bits are rounded only once. */
#ifndef STK_MEDIA_CONVERT_H
#define STK_MEDIA_CONVERT_H

#include "tensor/image.h"

#include <stdint.h>

/* The integer factors and zero levels of the formulas above. */
struct stk_yuv_matrix {
	int32_t luma, red_v, green_u, green_v, blue_u; /* the factors, multiplied by 2^16 */
	int32_t luma_zero, chroma_zero;
};
/* Computes the integers of the formulas above. red, blue: weights of red and blue in luma. full: samples use all values (JPEG's range); otherwise luma is in
 * 16..235 and chroma in 16..240, times 2^(bits-8). */
struct stk_yuv_matrix stk__yuv_matrix(double red, double blue, bool full, int bits);

/* One plane of a decoded picture, which has three (Y, Cb, Cr or R, G, B), or one if it is gray. Sample (x, y) is at data + y*row + x*step, times 2^shift. */
struct stk_plane {
	const uint8_t *data;
	ptrdiff_t row;
	int32_t step, shift;
};
struct stk_picture {
	struct stk_plane planes[3];
	int32_t width, height, count; /* extents in pixels; number of planes, 1 or 3 */
	int32_t bits;                 /* bits of a sample, 8 to 16 */
	int32_t sub_x, sub_y;         /* log2 of the number of pixels that a chroma sample covers along x and y */
	bool rgb;
	struct stk_yuv_matrix matrix;
};

/* Returns a view of dst. A picture that is written to the view appears in dst rotated clockwise by `rotation` degrees. */
struct stk_image stk__image_turned(const struct stk_image *dst, int32_t rotation);

/* Converts a row of `width` pixels with 8 bits, in which each chroma sample covers two pixels. out: addresses of R, G and B of the first pixel. pixel:
 * distance from one pixel to the next in bytes: 1 for planes, 3 for interleaved RGB. */
typedef void stk_yuv_row(const struct stk_yuv_matrix *m, const uint8_t *y, const uint8_t *u, const uint8_t *v, int32_t width,
	uint8_t *const out[3], ptrdiff_t pixel);
stk_yuv_row stk__yuv_row, stk__yuv_row_avx2;
/* Returns the fastest version for a processor with these features (base/cpu.h). */
stk_yuv_row *stk__yuv_row_for(unsigned cpu);

/* Converts the picture to an image of the same size with 3 channels of uint8. row: converts rows of 8 bits whose chroma samples cover two pixels. */
void stk__picture_to_rgb(const struct stk_picture *p, stk_yuv_row *row, const struct stk_image *dst);

#endif
