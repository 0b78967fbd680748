/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion between any two element types. To integers: to nearest, halves away from zero, saturating, NaN to 0. To bool: true if the nearest integer is not
 * 0, so 0.4 gives false. To float32 from wider types, and to the 16-bit floats: to nearest even (for the 16-bit floats, after a conversion to float32). */
#ifndef STK_KERNEL_CONVERT_H
#define STK_KERNEL_CONVERT_H

#include "stoker/tensor.h"

/* Converts n contiguous elements. src and dst must be aligned to their elements and must not overlap. Any thread. _avx2: the same source, compiled for AVX2. */
void stk__convert(void *dst, enum stk_dtype dst_dtype, const void *src, enum stk_dtype src_dtype, int64_t n);
void stk__convert_avx2(void *dst, enum stk_dtype dst_dtype, const void *src, enum stk_dtype src_dtype, int64_t n);

#endif
