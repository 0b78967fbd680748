/* SPDX-License-Identifier: Apache-2.0
 * Definitions that the inverse DCTs share: cosines and their sums with 13 bits of fraction, named by value as in the literature, and the arithmetic of the
 * plain C versions. Sums of 16 bits wrap and results saturate at the same points as in libjpeg-turbo's SIMD versions, so that damaged files give the same
 * pixels. */
#ifndef STK_KERNEL_JPEG_IDCT_H
#define STK_KERNEL_JPEG_IDCT_H

#include <stdint.h>

enum {
	C0_211 = 1730,
	C0_298 = 2446,
	C0_390 = 3196,
	C0_509 = 4176,
	C0_541 = 4433,
	C0_601 = 4926,
	C0_720 = 5906,
	C0_765 = 6270,
	C0_850 = 6967,
	C0_899 = 7373,
	C1_061 = 8697,
	C1_175 = 9633,
	C1_272 = 10426,
	C1_451 = 11893,
	C1_501 = 12299,
	C1_847 = 15137,
	C1_961 = 16069,
	C2_053 = 16819,
	C2_172 = 17799,
	C2_562 = 20995,
	C3_072 = 25172,
	C3_624 = 29692,
	COLUMN_SHIFT = 11, /* leaves 2 bits of fraction between the passes */
	ROW_SHIFT = 18,    /* removes these 2 bits, and the 3 bits by which the two passes scale */
};

static inline int16_t stk__idct_wrap(int32_t v)
{
	return (int16_t)(uint16_t)v;
}

static inline int16_t stk__idct_saturate(int32_t v)
{
	return (int16_t)(v < INT16_MIN ? INT16_MIN : v > INT16_MAX ? INT16_MAX : v);
}

static inline uint8_t stk__idct_sample(int32_t v)
{
	return (uint8_t)((v < -128 ? -128 : v > 127 ? 127 : v) + 128);
}

static inline int32_t stk__idct_dot(int32_t a, int32_t x, int32_t b, int32_t y)
{
	return (int32_t)((uint32_t)(a * x) + (uint32_t)(b * y));
}

static inline int32_t stk__idct_sum(int32_t a, int32_t b)
{
	return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t stk__idct_difference(int32_t a, int32_t b)
{
	return (int32_t)((uint32_t)a - (uint32_t)b);
}

#endif
