/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that compute rows of pixels, for passes (kernel/pass/pass.h). A pass keeps one contiguous row per channel, of uint8 or float32. After each step,
 * the pass rounds float32 rows with stk_row_kernels.round, so that they hold only values that the step's output type has.
 *
 * Every function accesses only its operands' elements, and no memory after them, unless its comment says otherwise. */
#ifndef STK_KERNEL_ROWS_H
#define STK_KERNEL_ROWS_H

#include "tensor/image.h"

/* Element i of a row has scale and bias i % STK_AFFINE_PERIOD. So rows may have one channel (with equal values), or interleaved channels whose number divides
 * the period. */
#define STK_AFFINE_PERIOD 24

struct stk_affine {
	float scale[STK_AFFINE_PERIOD], bias[STK_AFFINE_PERIOD];
};

struct stk_row_kernels {
	/* Sets dst[c * plane + r * row + x] to channel c of src pixel (x, r), or of pixel (w - 1 - x, r) if mirrored. src has type uint8 and any strides; 64
	 * bytes past a row's last pixel must be readable. */
	void (*load_u8)(uint8_t *dst, ptrdiff_t row, ptrdiff_t plane, const struct stk_image *src, bool mirror);
	/* Computes x * scale + bias with two roundings, and converts the result like `round`. The index in the array is the type of dst: float32, float16,
	 * bfloat16 or uint8. dst: rows of n elements, `dst_row` bytes apart. stream: stores may bypass the caches; call stk__stores_fence before another
	 * thread reads them. */
	void (*affine_u8[4])(void *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, int32_t n, int32_t rows,
		const struct stk_affine *a, bool stream);
	/* Interleaves planes: dst[x * channels + c] = src[c * plane + x]. element: size of an element in bytes: 1, 2 or 4. */
	void (*interleave)(void *dst, const void *src, ptrdiff_t plane, int32_t n, int32_t channels, size_t element);
	void (*widen_u8)(float *dst, const uint8_t *src, int32_t n);
	void (*affine)(float *row, int32_t n, float scale, float bias);
	/* Replaces each pixel x by y[i] = ((m[3i] x0 + m[3i+1] x1) + m[3i+2] x2) + b[i], where x0, x1 and x2 are its channels. */
	void (*matrix)(float *row0, float *row1, float *row2, int32_t n, const float m[9], const float b[3]);
	/* Sets each element of row0 to (w0 x0 + w1 x1) + w2 x2, where x0, x1 and x2 are the elements of the three rows. */
	void (*gray)(float *row0, const float *row1, const float *row2, int32_t n, const float w[3]);
	/* Rounds to the nearest value of the type. Integers: halves away from zero, saturating, NaN to 0. bool: whether the nearest integer is not 0. 16-bit
	 * floats: halves to even. */
	void (*round)(float *row, int32_t n, enum stk_dtype dtype);
	/* Stores n values as dtype, which must represent them exactly (see `round`). */
	void (*store)(void *dst, const float *row, int32_t n, enum stk_dtype dtype);
};

void stk__row_kernels_init(struct stk_row_kernels *k, unsigned cpu); /* cpu: STK_CPU_... (base/cpu.h) */
void stk__row_kernels_x86(struct stk_row_kernels *k, unsigned cpu);  /* called by stk__row_kernels_init */
void stk__row_kernels_arm(struct stk_row_kernels *k, unsigned cpu);  /* called by stk__row_kernels_init */
extern const struct stk_row_kernels stk__row_kernels_c, stk__row_kernels_avx2;

/* Converts n elements, `stride` bytes apart, to float32, which must represent all values of dtype exactly. */
void stk__row_load(float *dst, const void *src, ptrdiff_t stride, int32_t n, enum stk_dtype dtype);

#endif
