/* SPDX-License-Identifier: Apache-2.0
 * The layouts of coefficients in a pair of blocks. Each implementation of the inverse DCT needs its own order; the entropy decoder in the same struct
 * stk_jpeg_kernels stores coefficients in that order. In every layout a coefficient of the second block is 8 words after the same coefficient of the first
 * block, a pair takes 128 words, and the first block's DC coefficient is at 0. */
#ifndef STK_KERNEL_JPEG_LAYOUT_H
#define STK_KERNEL_JPEG_LAYOUT_H

/* Plain C: row by row, with the rows of both blocks alternating. */
#define STK_JPEG_PLACE_C(row, column) (16 * (row) + (column))

/* AVX2: an order in which the inverse DCT of two blocks needs no shuffles. Each group of 16 words has 4 columns of two rows whose products are added: 8
 * words of the first block, then 8 words of the second. */
#define STK_JPEG_PLACE_AVX2(row, column) (STK_JPEG_AVX2_ROW_##row + STK_JPEG_AVX2_COLUMN_##column)
enum {
	STK_JPEG_AVX2_ROW_0 = 0,
	STK_JPEG_AVX2_ROW_1 = 65,
	STK_JPEG_AVX2_ROW_2 = 32,
	STK_JPEG_AVX2_ROW_3 = 96,
	STK_JPEG_AVX2_ROW_4 = 1,
	STK_JPEG_AVX2_ROW_5 = 97,
	STK_JPEG_AVX2_ROW_6 = 33,
	STK_JPEG_AVX2_ROW_7 = 64,
	STK_JPEG_AVX2_COLUMN_0 = 0,
	STK_JPEG_AVX2_COLUMN_1 = 18,
	STK_JPEG_AVX2_COLUMN_2 = 4,
	STK_JPEG_AVX2_COLUMN_3 = 20,
	STK_JPEG_AVX2_COLUMN_4 = 2,
	STK_JPEG_AVX2_COLUMN_5 = 22,
	STK_JPEG_AVX2_COLUMN_6 = 6,
	STK_JPEG_AVX2_COLUMN_7 = 16,
};

/* Expands to at(row, column) for all coefficients in natural order. */
/* clang-format off */
#define STK_JPEG_NATURAL(at) \
	at(0, 0), at(0, 1), at(0, 2), at(0, 3), at(0, 4), at(0, 5), at(0, 6), at(0, 7), \
	at(1, 0), at(1, 1), at(1, 2), at(1, 3), at(1, 4), at(1, 5), at(1, 6), at(1, 7), \
	at(2, 0), at(2, 1), at(2, 2), at(2, 3), at(2, 4), at(2, 5), at(2, 6), at(2, 7), \
	at(3, 0), at(3, 1), at(3, 2), at(3, 3), at(3, 4), at(3, 5), at(3, 6), at(3, 7), \
	at(4, 0), at(4, 1), at(4, 2), at(4, 3), at(4, 4), at(4, 5), at(4, 6), at(4, 7), \
	at(5, 0), at(5, 1), at(5, 2), at(5, 3), at(5, 4), at(5, 5), at(5, 6), at(5, 7), \
	at(6, 0), at(6, 1), at(6, 2), at(6, 3), at(6, 4), at(6, 5), at(6, 6), at(6, 7), \
	at(7, 0), at(7, 1), at(7, 2), at(7, 3), at(7, 4), at(7, 5), at(7, 6), at(7, 7)

/* Expands to at(row, column) for all coefficients in zigzag order [T.81 figure A.6]. */
#define STK_JPEG_ZIGZAG(at) \
	at(0, 0), at(0, 1), at(1, 0), at(2, 0), at(1, 1), at(0, 2), at(0, 3), at(1, 2), \
	at(2, 1), at(3, 0), at(4, 0), at(3, 1), at(2, 2), at(1, 3), at(0, 4), at(0, 5), \
	at(1, 4), at(2, 3), at(3, 2), at(4, 1), at(5, 0), at(6, 0), at(5, 1), at(4, 2), \
	at(3, 3), at(2, 4), at(1, 5), at(0, 6), at(0, 7), at(1, 6), at(2, 5), at(3, 4), \
	at(4, 3), at(5, 2), at(6, 1), at(7, 0), at(7, 1), at(6, 2), at(5, 3), at(4, 4), \
	at(3, 5), at(2, 6), at(1, 7), at(2, 7), at(3, 6), at(4, 5), at(5, 4), at(6, 3), \
	at(7, 2), at(7, 3), at(6, 4), at(5, 5), at(4, 6), at(3, 7), at(4, 7), at(5, 6), \
	at(6, 5), at(7, 4), at(7, 5), at(6, 6), at(5, 7), at(6, 7), at(7, 6), at(7, 7)
/* clang-format on */

#endif
