/* SPDX-License-Identifier: Apache-2.0
 * Converts the pixels of a file to those that the caller wants, a row at a time, rounding to nearest:
 *     gray    0.299 R + 0.587 G + 0.114 B, truncated; rounded if both sides have 8 bits and DALI's decoder of the file's format rounds too
 *     YCbCr   ITU-R BT.601, studio range: Y = 16 + 0.25678824 R + 0.50412941 G + 0.09790588 B (0..255 becomes 16..235), Cb, Cr 16..240
 *     16 bits to 8: v * 255 / 65535;   CMYK: R = (255 - C) (255 - K) / 255.   Alpha is dropped where the result has none. */
#ifndef STK_CODEC_CONVERT_H
#define STK_CODEC_CONVERT_H

#include "stoker/tensor.h"

/* Kinds of pixels that decoders output. CMYK_INVERTED: Adobe's, where 255 means no ink. */
enum stk_pixels { STK_PIXELS_GRAY, STK_PIXELS_GRAY_ALPHA, STK_PIXELS_RGB, STK_PIXELS_RGBA, STK_PIXELS_CMYK, STK_PIXELS_CMYK_INVERTED };

/* Rounding of gray made from colours. Rounded: BMP, PNM, TIFF and WebP; DALI's decoders for them differ by one in 0.2% of the pixels. */
enum stk_gray { STK_GRAY_TRUNCATED, STK_GRAY_ROUNDED };

/* Converts n pixels to their own type or to UINT8. from_dtype: UINT8, UINT16, FLOAT (1.0 becomes 255) or INT16 (32767 becomes 255). ANY_DATA keeps the
 * channels (in CMYK output 0 means no ink). src and dst must not overlap. */
void stk__convert_row(enum stk_pixels from, enum stk_dtype from_dtype, const void *src, enum stk_image_type to, enum stk_dtype to_dtype,
	void *dst, int n, enum stk_gray gray);

#endif
