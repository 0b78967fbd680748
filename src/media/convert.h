/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a decoded picture to RGB of 8 bits.
 *
 * The kernel on the GPU follows the same rule bit for bit. Chroma is taken from the sample that covers the pixel, without interpolation. With the integers of
 * struct stk_yuv_matrix, y = luma - luma_zero, u = cb - chroma_zero, v = cr - chroma_zero, and s = 16 + bits - 8,
 *     R = clip((luma * y + red_v * v + 2^(s-1)) >> s)
 *     G = clip((luma * y - green_u * u - green_v * v + 2^(s-1)) >> s)
 *     B = clip((luma * y + blue_u * u + 2^(s-1)) >> s)
 * where >> rounds down and clip limits to 0..255. So 10 bits become 8 by rounding, once. */
#ifndef STK_MEDIA_CONVERT_H
#define STK_MEDIA_CONVERT_H

#include "tensor/image.h"

#include <stdint.h>

/* The integers in these formulas. */
struct stk_yuv_matrix {
	int32_t luma, red_v, green_u, green_v, blue_u; /* times 2^16 */
	int32_t luma_zero, chroma_zero;
};
/* Computes the integers. red, blue: weights of red and blue in luma. full: values use all codes (JPEG's range); else luma is 16..235 and chroma 16..240, times
 * 2^(bits-8). */
struct stk_yuv_matrix stk__yuv_matrix(double red, double blue, bool full, int bits);

/* A decoded picture: three planes (Y, Cb, Cr or R, G, B), or one of gray. Sample (x, y) of a plane is at data + y*row + x*step; its value
 * lies `shift` bits above the lowest bit. */
struct stk_plane {
	const uint8_t *data;
	ptrdiff_t row;
	int32_t step, shift;
};
struct stk_picture {
	struct stk_plane planes[3];
	int32_t width, height, count; /* extents in pixels; number of planes: 1 or 3 */
	int32_t bits;                 /* 8 to 16 */
	int32_t sub_x, sub_y;         /* log2 of the number of pixels that a sample of chroma covers along x and y */
	bool rgb;
	struct stk_yuv_matrix matrix;
};

/* Returns a view of dst such that a picture that is written to the view without rotation appears in dst rotated clockwise by `rotation` degrees. */
struct stk_image stk__image_turned(const struct stk_image *dst, int32_t rotation);

/* Converts a row of `width` pixels of 8 bits. Each sample of chroma covers two pixels. out: addresses of R, G and B of the first pixel. pixel: bytes from one
 * pixel to the next: 1, or 3 if R, G and B of a pixel are neighbours. */
typedef void stk_yuv_row(const struct stk_yuv_matrix *m, const uint8_t *y, const uint8_t *u, const uint8_t *v, int32_t width,
	uint8_t *const out[3], ptrdiff_t pixel);
stk_yuv_row stk__yuv_row, stk__yuv_row_avx2;
/* Chooses the version for the capabilities of a processor (base/cpu.h). */
stk_yuv_row *stk__yuv_row_for(unsigned cpu);

/* Writes the picture to an image of the same size, 3 channels of uint8. row: the version for the usual rows. */
void stk__picture_to_rgb(const struct stk_picture *p, stk_yuv_row *row, const struct stk_image *dst);

#endif
