/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts between any two element types. Conversions to integers round to the nearest, halves away from zero, and saturate; NaN becomes 0. Conversions to
 * bool give true if the nearest integer is not 0, so 0.4 gives false. Conversions to float32 from wider types, and to the 16-bit floats, round to the
 * nearest, halves to even; those to the 16-bit floats convert to float32 first. */
#ifndef STK_KERNEL_CONVERT_H
#define STK_KERNEL_CONVERT_H

#include "stoker/tensor.h"

/* Converts n contiguous elements. src and dst must be aligned to their elements and must not overlap. Any thread may call these functions.
 * stk__convert_avx2 is the same source, compiled for AVX2. */
void stk__convert(void *dst, enum stk_dtype dst_dtype, const void *src, enum stk_dtype src_dtype, int64_t n);
void stk__convert_avx2(void *dst, enum stk_dtype dst_dtype, const void *src, enum stk_dtype src_dtype, int64_t n);

#endif
