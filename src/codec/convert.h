/* SPDX-License-Identifier: Apache-2.0
 * Converts rows of a file's pixels to the pixels that the caller wants, rounding to nearest unless noted:
 *     gray    0.299 R + 0.587 G + 0.114 B; from UINT8 or UINT16 truncated, except from UINT8 with STK_GRAY_ROUNDED
 *     YCbCr   ITU-R BT.601, studio range: Y = 16 + 0.25678824 R + 0.50412941 G + 0.09790588 B (0..255 becomes 16..235), Cb, Cr 16..240
 *     16 bits to 8: v * 255 / 65535;   CMYK: R = (255 - C) (255 - K) / 255, truncated.   Alpha is dropped if the output has no alpha. */
#ifndef STK_CODEC_CONVERT_H
#define STK_CODEC_CONVERT_H

#include "stoker/tensor.h"

/* Formats of pixels that decoders output. CMYK_INVERTED is Adobe's, in which 255 means no ink. */
enum stk_pixels { STK_PIXELS_GRAY, STK_PIXELS_GRAY_ALPHA, STK_PIXELS_RGB, STK_PIXELS_RGBA, STK_PIXELS_CMYK, STK_PIXELS_CMYK_INVERTED };

/* How gray is rounded when it is made from colours. BMP, PNM, TIFF and WebP use ROUNDED; DALI's decoders for them differ by one in 0.2% of the pixels. */
enum stk_gray { STK_GRAY_TRUNCATED, STK_GRAY_ROUNDED };

/* Converts n pixels to their own type or to UINT8. from_dtype: UINT8, UINT16, FLOAT (1.0 becomes 255) or INT16 (32767 becomes 255). ANY_DATA keeps the
 * channels, but makes 0 mean no ink for CMYK. src and dst must not overlap. */
void stk__convert_row(enum stk_pixels from, enum stk_dtype from_dtype, const void *src, enum stk_image_type to, enum stk_dtype to_dtype,
	void *dst, int n, enum stk_gray gray);

#endif
