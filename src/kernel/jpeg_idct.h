/* SPDX-License-Identifier: Apache-2.0
 * Constants of the inverse DCT: cosines and their sums with 13 bits of fraction, named by value as in the literature. */
#ifndef STK_KERNEL_JPEG_IDCT_H
#define STK_KERNEL_JPEG_IDCT_H

enum {
	C0_298 = 2446,
	C0_390 = 3196,
	C0_541 = 4433,
	C0_765 = 6270,
	C0_899 = 7373,
	C1_175 = 9633,
	C1_501 = 12299,
	C1_847 = 15137,
	C1_961 = 16069,
	C2_053 = 16819,
	C2_562 = 20995,
	C3_072 = 25172,
	COLUMN_SHIFT = 11, /* leaves 2 bits of fraction between the passes */
	ROW_SHIFT = 18,    /* takes those, and the 3 bits by which two passes scale */
};

#endif
