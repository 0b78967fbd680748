/* SPDX-License-Identifier: Apache-2.0
 * Converts float16 and bfloat16 with integer arithmetic, rounding to nearest even. The functions for float16 give the same bits as F16C's instructions,
 * including NaNs. */
#ifndef STK_KERNEL_HALF_H
#define STK_KERNEL_HALF_H

#include "base/hd.h"

#include <stdint.h>
#include <string.h>

STK_HD uint32_t stk__float_bits(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

STK_HD float stk__bits_float(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

STK_HD uint16_t stk__float_to_half(float x)
{
	uint32_t u = stk__float_bits(x), sign = u >> 16 & 0x8000;
	u &= 0x7fffffff;
	if (u > 0x7f800000) /* NaN: made quiet, keeping the top bits of its payload */
		return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
	if (u >= 0x477ff000) /* rounds to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (u < 0x38800000) { /* subnormal: adding 0.5 as float32 rounds the number and leaves it in the low bits */
		float shifted = stk__bits_float(u) + 0.5f;
		return (uint16_t)(sign | (stk__float_bits(shifted) - 0x3f000000));
	}
	u += 0xfff + (u >> 13 & 1);
	return (uint16_t)(sign | (u - 0x38000000) >> 13);
}

STK_HD float stk__half_to_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, u = (uint32_t)(h & 0x7fff) << 13;
	if ((h & 0x7c00) == 0x7c00)
		return stk__bits_float(sign | 0x7f800000 | u | ((h & 0x3ff) ? 0x400000 : 0));
	if ((h & 0x7c00) == 0) /* subnormal: exact in float32 */
		return stk__bits_float(sign | stk__float_bits((float)(h & 0x3ff) * 0x1p-24f));
	return stk__bits_float(sign | (u + 0x38000000));
}

STK_HD uint16_t stk__float_to_bfloat(float x)
{
	uint32_t u = stk__float_bits(x);
	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

STK_HD float stk__bfloat_to_float(uint16_t b)
{
	return stk__bits_float((uint32_t)b << 16);
}

#endif
