/* SPDX-License-Identifier: Apache-2.0
 * Phases 7 and 8 of kernel/jpegpar.h. */
#include "kernel/jpegpar_lane.h"
#include "kernel/jpegpar_pixels.h"

#define IDCT_THREADS (STK_JPEGPAR_IDCT_BLOCKS * 8)
#define PITCH 9 /* words of a row of 8 in shared memory, against bank conflicts */

/* Place of the k-th zigzag coefficient in an 8 x 8 block whose rows are PITCH apart. */
#define Z(n) (uint8_t)((n) / 8 * PITCH + (n) % 8)
static __constant__ uint8_t place[64] = {Z(0), Z(1), Z(8), Z(16), Z(9), Z(2), Z(3), Z(10), Z(17), Z(24), Z(32), Z(25), Z(18), Z(11), Z(4), Z(5), Z(12),
	Z(19), Z(26), Z(33), Z(40), Z(48), Z(41), Z(34), Z(27), Z(20), Z(13), Z(6), Z(7), Z(14), Z(21), Z(28), Z(35), Z(42), Z(49), Z(56), Z(57),
	Z(50), Z(43), Z(36), Z(29), Z(22), Z(15), Z(23), Z(30), Z(37), Z(44), Z(51), Z(58), Z(59), Z(52), Z(45), Z(38), Z(31), Z(39), Z(46), Z(53),
	Z(60), Z(61), Z(54), Z(47), Z(55), Z(62), Z(63)};

/* Eight threads a block: each dequantises 8 coefficients, then transforms a column, then a row. */
extern "C" __global__ void __launch_bounds__(IDCT_THREADS) jpeg_idct(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ int32_t shared[STK_JPEGPAR_IDCT_BLOCKS][8 * PITCH];
	__shared__ uint8_t places[64];
	if (threadIdx.x < 64)
		places[threadIdx.x] = place[threadIdx.x];
	__syncthreads();
	uint32_t first = blockIdx.x * STK_JPEGPAR_IDCT_BLOCKS;
	const stk_jpegpar_image &im = v.images[stk__jpegpar_find(&v.images->idct0, sizeof *v.images, v.n_images, first)];
	uint32_t part = threadIdx.x % 8, b = first + threadIdx.x / 8 - im.idct0;
	bool inside = b < im.idct;
	stk_jpegpar_block block = stk__jpegpar_block(&im, inside ? b : 0);
	const stk_jpegpar_plane &plane = im.plane[block.component];
	int32_t *x = shared[threadIdx.x / 8], line[8];

	uint4 coef = __ldg((const uint4 *)(v.coef + 64 * (size_t)block.coef) + part), quant = __ldg((const uint4 *)(v.quant + 64 * plane.quant) + part);
	if (part == 0)
		coef.x = (coef.x & 0xffff0000u) | (uint16_t)v.dc[block.dc];
	const uint32_t c[4] = {coef.x, coef.y, coef.z, coef.w}, q[4] = {quant.x, quant.y, quant.z, quant.w};
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[places[8 * part + i]] = stk__jpegpar_wrap16((int16_t)(c[i / 2] >> 16 * (i % 2)) * (int32_t)(q[i / 2] >> 16 * (i % 2) & 0xffff));
	__syncwarp();
#pragma unroll
	for (int i = 0; i < 8; i++)
		line[i] = x[i * PITCH + part];
	stk__jpegpar_idct8(line, 11);
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[i * PITCH + part] = line[i];
	__syncwarp();
#pragma unroll
	for (int i = 0; i < 8; i++)
		line[i] = x[part * PITCH + i];
	stk__jpegpar_idct8(line, 18);
	if (!inside)
		return;
	uint32_t out[2] = {0, 0};
#pragma unroll
	for (int i = 0; i < 8; i++)
		out[i / 4] |= stk__jpegpar_clamp8(line[i] + 128) << 8 * (i % 4);
	*(uint2 *)(v.planes + block.sample + (size_t)part * plane.pitch) = make_uint2(out[0], out[1]);
}

#define COLOR_ROWS 8 /* a thread block: a warp a row, four pixels a thread */

extern "C" __global__ void __launch_bounds__(32 * COLOR_ROWS) jpeg_color(const __grid_constant__ stk_jpegpar_view v)
{
	uint32_t row = blockIdx.x * COLOR_ROWS + threadIdx.x / 32;
	if (row >= v.n_rows)
		return;
	const stk_jpegpar_image &im = v.images[stk__jpegpar_find(&v.images->row0, sizeof *v.images, v.n_images, row)];
	uint32_t y = row - im.row0;
	uint32_t *out = (uint32_t *)(v.rgb + im.rgb + (size_t)y * im.rgb_pitch);
	for (uint32_t x = 4 * (threadIdx.x % 32); x < im.w; x += 128) {
		uint32_t word[3] = {0, 0, 0};
#pragma unroll
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t rgb[3];
			stk__jpegpar_rgb(v.planes, &im, im.x + min(x + i, im.w - 1), im.y + y, rgb);
			uint32_t pixel = rgb[im.bgr ? 2 : 0] | rgb[1] << 8 | rgb[im.bgr ? 0 : 2] << 16;
			/* Pixel i's bytes are 3i .. 3i + 2 of the twelve. */
			if (i == 0)
				word[0] = pixel;
			else if (i == 1)
				word[0] |= pixel << 24, word[1] = pixel >> 8;
			else if (i == 2)
				word[1] |= pixel << 16, word[2] = pixel >> 16;
			else
				word[2] |= pixel << 8;
		}
		for (int i = 0; i < 3; i++)
			out[x / 4 * 3 + i] = word[i];
	}
}
