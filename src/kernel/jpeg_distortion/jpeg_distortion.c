/* SPDX-License-Identifier: Apache-2.0
 * Computes the extents and the quantisation tables of a JPEG distortion. */
#include "kernel/jpeg_distortion/jpeg_distortion_element.h"

/* The quantisation tables K.1 (luma) and K.2 (chroma) of ITU-T T.81, row by row. */
static const uint8_t basic[2][64] = {{16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14,
					     17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
					     49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99},
	{17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99, 99,
		99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
		99}};

void stk__jpeg_distortion_init(struct stk_jpeg_distortion *j, int64_t frames, int32_t width, int32_t height, int64_t quality)
{
	int32_t q = (int32_t)(quality < 1 ? 1 : quality > 100 ? 100 : quality), scale = q < 50 ? 5000 / q : 200 - 2 * q;
	j->frames = frames;
	j->width = width;
	j->height = height;
	for (int c = 0; c < 2; c++) {
		j->wide[c] = c ? (width + 15) / 16 * 8 : (width + 7) / 8 * 8;
		j->high[c] = c ? (height + 15) / 16 * 8 : (height + 7) / 8 * 8;
		for (int k = 0; k < 64; k++) {
			int32_t v = (basic[c][k] * scale + 50) / 100;
			j->quant[c][k] = (uint8_t)(v < 1 ? 1 : v > 255 ? 255 : v);
		}
	}
}
