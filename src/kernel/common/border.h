/* SPDX-License-Identifier: Apache-2.0
 * How kernels read outside of an image. */
#ifndef STK_KERNEL_BORDER_H
#define STK_KERNEL_BORDER_H

#include "base/hd.h"

#include <stdint.h>

/* Which values are read before and after a row of six values abcdef. FILL: a constant; CLAMP: aaa|abcdef|fff; REFLECT: cba|abcdef|fed; REFLECT_101:
 * dcb|abcdef|edc; WRAP: def|abcdef|abc. */
enum stk_border { STK_BORDER_FILL, STK_BORDER_CLAMP, STK_BORDER_REFLECT, STK_BORDER_REFLECT_101, STK_BORDER_WRAP };

/* Returns the index in 0 .. size - 1 of the value that is read at i, or -1 if the fill value is read. size is at least 1. */
STK_HD int32_t stk__border_index(int32_t i, int32_t size, int32_t border)
{
	if (i >= 0 && i < size)
		return i;
	if (border == STK_BORDER_FILL)
		return -1;
	if (border == STK_BORDER_CLAMP || size == 1)
		return i < 0 ? 0 : size - 1;
	int32_t period = border == STK_BORDER_WRAP ? size : border == STK_BORDER_REFLECT ? 2 * size : 2 * (size - 1);
	i %= period;
	i = i < 0 ? i + period : i;
	return i < size ? i : border == STK_BORDER_REFLECT ? period - 1 - i : period - i;
}

#endif
