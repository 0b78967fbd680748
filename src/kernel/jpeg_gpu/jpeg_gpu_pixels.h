/* SPDX-License-Identifier: Apache-2.0
 * Computes pixels from coefficients as libjpeg-turbo 2.1 does on x86. The kernels and the plain C versions share it. */
#ifndef STK_KERNEL_JPEG_GPU_PIXELS_H
#define STK_KERNEL_JPEG_GPU_PIXELS_H

#include "base/hd.h"
#include "kernel/convert/ycbcr.h"
#include "kernel/jpeg_gpu/jpeg_gpu.h"

STK_HD int32_t stk__jpeg_gpu_wrap16(int32_t x)
{
	return (int16_t)x;
}

STK_HD int32_t stk__jpeg_gpu_saturate16(int32_t x)
{
	return x < -32768 ? -32768 : x > 32767 ? 32767 : x;
}

/* Computes libjpeg's accurate integer inverse DCT ("islow": Loeffler, Ligtenberg and Moschytz 1989, 12 multiplications) of one column or row, in place.
 * Constants have 13 bits of fraction; shift is 11 for columns (which keep 2 bits) and 18 for rows. Inputs are 16 bits wide. Some sums of two
 * inputs wrap (stk__jpeg_gpu_wrap16), as in libjpeg-turbo's vector code. That code also saturates the results of columns to 16 bits; here the caller has
 * to do this. (Results of rows do not need it, since they are saturated to 8 bits later.) Wrapping and saturation affect only damaged files. */
STK_HD void stk__jpeg_gpu_idct8(int32_t x[8], int shift)
{
	uint32_t z1 = (uint32_t)(x[2] + x[6]) * 4433u;
	uint32_t even2 = z1 - (uint32_t)x[6] * 15137u, even3 = z1 + (uint32_t)x[2] * 6270u;
	uint32_t round = 1u << (shift - 1);
	uint32_t even0 = ((uint32_t)stk__jpeg_gpu_wrap16(x[0] + x[4]) << 13) + round,
		 even1 = ((uint32_t)stk__jpeg_gpu_wrap16(x[0] - x[4]) << 13) + round;
	uint32_t a0 = even0 + even3, a3 = even0 - even3, a1 = even1 + even2, a2 = even1 - even2;

	int32_t z3 = stk__jpeg_gpu_wrap16(x[7] + x[3]), z4 = stk__jpeg_gpu_wrap16(x[5] + x[1]);
	uint32_t z5 = ((uint32_t)z3 + (uint32_t)z4) * 9633u;
	uint32_t p3 = z5 - (uint32_t)z3 * 16069u, p4 = z5 - (uint32_t)z4 * 3196u;
	uint32_t p1 = (uint32_t)(x[7] + x[1]) * 7373u, p2 = (uint32_t)(x[5] + x[3]) * 20995u;
	uint32_t b0 = (uint32_t)x[7] * 2446u - p1 + p3, b1 = (uint32_t)x[5] * 16819u - p2 + p4;
	uint32_t b2 = (uint32_t)x[3] * 25172u - p2 + p3, b3 = (uint32_t)x[1] * 12299u - p1 + p4;

	x[0] = (int32_t)(a0 + b3) >> shift;
	x[7] = (int32_t)(a0 - b3) >> shift;
	x[1] = (int32_t)(a1 + b2) >> shift;
	x[6] = (int32_t)(a1 - b2) >> shift;
	x[2] = (int32_t)(a2 + b1) >> shift;
	x[5] = (int32_t)(a2 - b1) >> shift;
	x[3] = (int32_t)(a3 + b0) >> shift;
	x[4] = (int32_t)(a3 - b0) >> shift;
}

/* Returns true if 4 * first exceeds 16 bits. In a block whose coefficients below the first row are all 0, libjpeg-turbo then wraps the column that begins with
 * `first`, instead of saturating it. Only damaged files have such large values. */
STK_HD bool stk__jpeg_gpu_wraps(int32_t first)
{
	return first < -8192 || first > 8191;
}

STK_HD uint32_t stk__jpeg_gpu_clamp8(int32_t x)
{
	return x < 0 ? 0 : x > 255 ? 255 : (uint32_t)x;
}

/* The position of a block of the window: its component, its index in coef (in blocks) and in dc, and the offset of its first sample in planes. */
struct stk_jpeg_gpu_block {
	uint32_t component, coef, dc, sample;
};

/* Returns n / d for n below 2^22 and d from 1 to 2^16. For n below 2^20 the GPU multiplies by a reciprocal in float32, which is faster than a division.
 * Adding 0.5 to n keeps the product so far from whole numbers that its rounding error does not matter. */
STK_HD uint32_t stk__jpeg_gpu_divide(uint32_t n, uint32_t d)
{
#ifdef __CUDA_ARCH__
	return n < 1u << 20 ? (uint32_t)(((float)n + 0.5f) * __frcp_rn((float)d)) : n / d;
#else
	return n / d;
#endif
}

STK_HD struct stk_jpeg_gpu_block stk__jpeg_gpu_block(const struct stk_jpeg_gpu_image *im, uint32_t b)
{
	uint32_t blocks = im->blocks_mcu, wide = im->mcu_x1 - im->mcu_x0, mcu = stk__jpeg_gpu_divide(b, blocks), part = b - mcu * blocks;
	uint32_t row = stk__jpeg_gpu_divide(mcu, wide), column = mcu - row * wide, component = im->block_components >> 2 * part & 3;
	/* The blocks of an MCU are sorted by component, and within a component row by row. */
	uint32_t inner = part;
	inner -= component > 0 ? im->plane[0].h * im->plane[0].v : 0;
	inner -= component > 1 ? im->plane[1].h * im->plane[1].v : 0;
	const struct stk_jpeg_gpu_plane *plane = &im->plane[component];
	uint32_t h = plane->h, down = (inner >= h) + (inner >= 2 * h) + (inner >= 3 * h), right = inner - down * h;
	struct stk_jpeg_gpu_block block;
	block.component = component;
	block.coef = im->coef0 + b;
	block.dc = im->dc0 + ((im->mcu_y0 + row) * im->mcus_x + im->mcu_x0 + column) * blocks + part;
	block.sample = plane->at + 8 * ((row * plane->v + down) * plane->pitch + column * h + right);
	return block;
}

/* Returns a component's sample for pixel (x, y), counted from MCU (mcu_x0, mcu_y0) [libjpeg-turbo's jdsample.c]. Along each axis that they enlarge, the
 * triangle filters weight the nearer sample with 3/4 and the farther with 1/4. The constant that is added for rounding alternates between adjacent pixels.
 * Samples at the edge of the component are repeated outside of it. */
STK_HD int32_t stk__jpeg_gpu_sample(
	const uint8_t *planes, const struct stk_jpeg_gpu_image *im, const struct stk_jpeg_gpu_plane *p, uint32_t x, uint32_t y)
{
	const uint8_t *at = planes + p->at;
	if (p->upsample == STK_JPEG_UP_NONE)
		return at[y * p->pitch + x];
	if (p->upsample == STK_JPEG_UP_REPLICATE)
		return at[y * p->v / im->v_max * p->pitch + x * p->h / im->h_max];
	int32_t cx = (int32_t)x, cy = (int32_t)y, fx = cx, fy = cy;
	if (p->upsample != STK_JPEG_UP_H1V2) {
		cx = (int32_t)(x >> 1);
		fx = x & 1 ? cx + 1 : cx - 1;
		fx = fx < 0 ? 0 : fx >= (int32_t)p->width ? (int32_t)p->width - 1 : fx;
	}
	if (p->upsample != STK_JPEG_UP_H2V1) {
		cy = (int32_t)(y >> 1);
		fy = y & 1 ? cy + 1 : cy - 1;
		fy = fy < 0 ? 0 : fy >= (int32_t)p->height ? (int32_t)p->height - 1 : fy;
	}
	const uint8_t *near = at + (size_t)cy * p->pitch, *far = at + (size_t)fy * p->pitch;
	if (p->upsample == STK_JPEG_UP_H2V1)
		return (3 * near[cx] + near[fx] + (x & 1 ? 2 : 1)) >> 2;
	if (p->upsample == STK_JPEG_UP_H1V2)
		return (3 * near[cx] + far[cx] + (y & 1 ? 2 : 1)) >> 2;
	return (3 * (3 * near[cx] + far[cx]) + 3 * near[fx] + far[fx] + (x & 1 ? 7 : 8)) >> 4;
}

/* Sets rgb to red, green and blue, not yet clamped to 8 bits [JFIF's conversion with 16 bits of fraction, jdcolor.c]. */
STK_HD void stk__jpeg_gpu_ycbcr(int32_t y, int32_t cb, int32_t cr, int32_t rgb[3])
{
	rgb[0] = y + ((91881 * cr + (32768 - 91881 * 128)) >> 16);
	rgb[1] = y + ((-22554 * cb - 46802 * cr + (32768 + (22554 + 46802) * 128)) >> 16);
	rgb[2] = y + ((116130 * cb + (32768 - 116130 * 128)) >> 16);
}

/* Sets rgb to the colour of a pixel with these samples. For gray images only the first sample is used. */
STK_HD void stk__jpeg_gpu_convert(uint32_t color, int32_t first, int32_t second, int32_t third, uint32_t rgb[3])
{
	int32_t value[3] = {first, color == STK_JPEG_GRAY ? first : second, color == STK_JPEG_GRAY ? first : third};
	if (color == STK_JPEG_YCBCR)
		stk__jpeg_gpu_ycbcr(first, second, third, value);
	for (int i = 0; i < 3; i++)
		rgb[i] = stk__jpeg_gpu_clamp8(value[i]);
}

STK_HD void stk__jpeg_gpu_rgb(const uint8_t *planes, const struct stk_jpeg_gpu_image *im, uint32_t x, uint32_t y, uint32_t rgb[3])
{
	int32_t first = stk__jpeg_gpu_sample(planes, im, &im->plane[0], x, y), second = 0, third = 0;
	if (im->color != STK_JPEG_GRAY && im->type != STK_GRAY) {
		second = stk__jpeg_gpu_sample(planes, im, &im->plane[1], x, y);
		third = stk__jpeg_gpu_sample(planes, im, &im->plane[2], x, y);
	}
	stk__jpeg_gpu_convert(im->type == STK_GRAY ? STK_JPEG_GRAY : im->color, first, second, third, rgb);
}

/* Returns an output pixel of this type (enum stk_image_type) as an integer, whose lowest byte is stored first. For GRAY only this byte is meaningful. */
STK_HD uint32_t stk__jpeg_gpu_pixel(uint32_t type, const uint32_t rgb[3])
{
	int32_t c[3] = {(int32_t)rgb[0], (int32_t)rgb[1], (int32_t)rgb[2]};
	if (type == STK_YCBCR)
		stk__rgb_to_ycbcr(c[0], c[1], c[2], 1, c);
	bool bgr = type == STK_BGR;
	return (uint32_t)(bgr ? c[2] : c[0]) | (uint32_t)c[1] << 8 | (uint32_t)(bgr ? c[0] : c[2]) << 16;
}

#endif
