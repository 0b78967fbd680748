/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels over rows of pixels, for kernel/pass/pass.h. Inside a pass pixels are planar: one contiguous row a channel, of uint8 or float32. A
 * float32 row holds values of the pass's current type exactly; stk_row_kernels.round brings them there after each step.
 *
 * Every kernel writes exactly what it is asked for, and reads nothing else, except where its comment says otherwise. */
#ifndef STK_KERNEL_ROWS_H
#define STK_KERNEL_ROWS_H

#include "tensor/image.h"

/* Scale and bias repeat with this period, so that one kernel serves planar rows (all alike) and interleaved ones of 1, 2, 3, 4 .. 8
 * channels. */
#define STK_AFFINE_PERIOD 24

struct stk_affine {
	float scale[STK_AFFINE_PERIOD], bias[STK_AFFINE_PERIOD];
};

struct stk_row_kernels {
	/* dst[c * plane + r * row + x] = src pixel (x, r), channel c; mirrored: pixel (w - 1 - x, r). src is any view of uint8, readable 64
	 * bytes past a row's last pixel. */
	void (*load_u8)(uint8_t *dst, ptrdiff_t row, ptrdiff_t plane, const struct stk_image *src, bool mirror);
	/* dst: n elements a row of float32, float16, bfloat16 or uint8 (by index), rows `dst_row` bytes apart: x * scale + bias, rounded twice,
	 * to uint8 as by `round`. stream: stores may go past the caches; call stk__stores_fence before others read them. */
	void (*affine_u8[4])(void *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, int32_t n, int32_t rows,
		const struct stk_affine *a, bool stream);
	/* Channels' rows to pixels: dst[(x * channels) + c] = src[c * plane + x]; elements of 1, 2 or 4 bytes. */
	void (*interleave)(void *dst, const void *src, ptrdiff_t plane, int32_t n, int32_t channels, size_t element);
	void (*widen_u8)(float *dst, const uint8_t *src, int32_t n);
	void (*affine)(float *row, int32_t n, float scale, float bias);
	/* y[i] = ((m[3i] x0 + m[3i+1] x1) + m[3i+2] x2) + b[i], in place. */
	void (*matrix)(float *row0, float *row1, float *row2, int32_t n, const float m[9], const float b[3]);
	/* row0 = (w0 x0 + w1 x1) + w2 x2. */
	void (*gray)(float *row0, const float *row1, const float *row2, int32_t n, const float w[3]);
	/* To the nearest value of the type: integers half away from zero, saturating, NaN to 0; bool: whether not 0; 16-bit floats to nearest
	 * even. */
	void (*round)(float *row, int32_t n, enum stk_dtype dtype);
	/* Stores n values that the type holds exactly (after round). */
	void (*store)(void *dst, const float *row, int32_t n, enum stk_dtype dtype);
};

void stk__row_kernels_init(struct stk_row_kernels *k, unsigned cpu); /* cpu: base/cpu.h */
void stk__row_kernels_x86(struct stk_row_kernels *k, unsigned cpu);  /* for the above */
void stk__row_kernels_arm(struct stk_row_kernels *k, unsigned cpu);  /* for the above */
extern const struct stk_row_kernels stk__row_kernels_c, stk__row_kernels_avx2;

/* n elements, `stride` bytes apart, to float32. dtype: one that float32 holds exactly. */
void stk__row_load(float *dst, const void *src, ptrdiff_t stride, int32_t n, enum stk_dtype dtype);

#endif
