/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion between any two element types. To integers: to nearest, halves away from zero, saturating, NaN to 0. To bool: as to an integer, then whether
 * that is not 0; so 0.4 gives false. To float32 from wider types, and to the 16-bit floats: to nearest even (for the 16-bit floats, after a conversion to
 * float32). */
#ifndef STK_KERNEL_CONVERT_H
#define STK_KERNEL_CONVERT_H

#include "stoker/tensor.h"

/* Converts n elements, which are contiguous and do not overlap. Both pointers must be aligned to their elements. Any thread. */
void stk__convert(void *dst, enum stk_dtype dst_dtype, const void *src, enum stk_dtype src_dtype, int64_t n);
/* Does the same, compiled for AVX2. */
void stk__convert_avx2(void *dst, enum stk_dtype dst_dtype, const void *src, enum stk_dtype src_dtype, int64_t n);

#endif
