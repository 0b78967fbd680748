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

/* No coefficient of the block is set below its first row. The threads of a warp call it together, each with its 8 coefficients, two a word. */
static __device__ __noinline__ bool is_flat(const uint32_t c[4], uint32_t part)
{
	/* Of zigzag 0..7, 8..15 and 24..31, those in the first row are 0 1 5 6, 14 15 and 27 28. */
	uint32_t below[4] = {c[0], c[1], c[2], c[3]};
	if (part == 0)
		below[0] = 0, below[2] &= 0xffff, below[3] &= 0xffff0000u;
	else if (part == 1)
		below[3] = 0;
	else if (part == 3)
		below[1] &= 0xffff, below[2] &= 0xffff0000u;
	uint32_t set = __ballot_sync(~0u, (below[0] | below[1] | below[2] | below[3]) != 0);
	return (set >> (threadIdx.x % 32 & ~7u) & 0xff) == 0;
}

/* Eight threads a block: each dequantises 8 coefficients, then transforms a column, then a row. */
extern "C" __global__ void __launch_bounds__(IDCT_THREADS) jpeg_idct(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ int32_t shared[STK_JPEGPAR_IDCT_BLOCKS][8 * PITCH];
	__shared__ uint8_t places[64];
	__shared__ uint32_t image;
	uint32_t first = blockIdx.x * STK_JPEGPAR_IDCT_BLOCKS;
	if (threadIdx.x == 0)
		image = stk__jpegpar_find(&v.images->idct0, sizeof *v.images, v.n_images, first);
	else if (threadIdx.x >= IDCT_THREADS - 64)
		places[threadIdx.x - (IDCT_THREADS - 64)] = place[threadIdx.x - (IDCT_THREADS - 64)];
	__syncthreads();
	const stk_jpegpar_image &im = v.images[image];
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
	int32_t first_value = line[0];
	stk__jpegpar_idct8(line, 11);
	if (__any_sync(~0u, stk__jpegpar_wraps(first_value)) && is_flat(c, part) && stk__jpegpar_wraps(first_value))
#pragma unroll
		for (int i = 0; i < 8; i++)
			line[i] = stk__jpegpar_wrap16(4 * first_value);
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

static __device__ __forceinline__ void unpack(uint32_t word, int32_t out[4])
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		out[i] = word >> 8 * i & 255;
}

/* The rows of a component that a row of pixels is made from, and how. */
struct source {
	const uint8_t *near, *far;
	int32_t last; /* column */
	uint8_t upsample, odd;
};

static __device__ __forceinline__ source rows_of(const uint8_t *planes, const stk_jpegpar_plane &p, uint32_t y)
{
	bool tall = p.upsample == STK_JPEG_UP_H2V2 || p.upsample == STK_JPEG_UP_H1V2;
	int32_t near = tall ? y >> 1 : y, far = min(max(y & 1 ? near + 1 : near - 1, 0), (int32_t)p.height - 1);
	source s = {planes + p.at + (size_t)near * p.pitch, planes + p.at + (size_t)far * p.pitch, (int32_t)p.width - 1, (uint8_t)p.upsample, (uint8_t)(y & 1)};
	return s;
}

/* stk__jpegpar_sample for the pixels x .. x + 3 of the row, but for REPLICATE; x is a multiple of 4. */
static __device__ __forceinline__ void sample4(const source &s, uint32_t x, int32_t out[4])
{
	if (s.upsample == STK_JPEG_UP_NONE) {
		unpack(*(const uint32_t *)(s.near + x), out);
		return;
	}
	if (s.upsample == STK_JPEG_UP_H1V2) {
		int32_t other[4];
		unpack(*(const uint32_t *)(s.near + x), out);
		unpack(*(const uint32_t *)(s.far + x), other);
#pragma unroll
		for (int i = 0; i < 4; i++)
			out[i] = (3 * out[i] + other[i] + (s.odd ? 2 : 1)) >> 2;
		return;
	}
	/* Two columns of samples lie under the pixels; one more on each side is mixed in. */
	int32_t c = x >> 1, left = max(c - 1, 0), right = min(c + 1, s.last), beyond = min(c + 2, s.last), t[4];
	t[0] = s.near[left], t[1] = s.near[c], t[2] = s.near[right], t[3] = s.near[beyond];
	if (s.upsample == STK_JPEG_UP_H2V1) {
		out[0] = (3 * t[1] + t[0] + 1) >> 2;
		out[1] = (3 * t[1] + t[2] + 2) >> 2;
		out[2] = (3 * t[2] + t[1] + 1) >> 2;
		out[3] = (3 * t[2] + t[3] + 2) >> 2;
		return;
	}
	t[0] = 3 * t[0] + s.far[left], t[1] = 3 * t[1] + s.far[c], t[2] = 3 * t[2] + s.far[right], t[3] = 3 * t[3] + s.far[beyond];
	out[0] = (3 * t[1] + t[0] + 8) >> 4;
	out[1] = (3 * t[1] + t[2] + 7) >> 4;
	out[2] = (3 * t[2] + t[1] + 8) >> 4;
	out[3] = (3 * t[2] + t[3] + 7) >> 4;
}

/* Four pixels as they lie in memory, twelve bytes. */
static __device__ __forceinline__ void pack(const uint32_t pixel[4], uint32_t *to)
{
	to[0] = pixel[0] | pixel[1] << 24;
	to[1] = pixel[1] >> 8 | pixel[2] << 16;
	to[2] = pixel[2] >> 16 | pixel[3] << 8;
}

/* RGB or BGR pixels first .. end - 1 of a row, by a warp, four a thread; where every component has one of the common ways. */
static __device__ __forceinline__ void color_row(const uint8_t *planes, const stk_jpegpar_image &im, uint32_t y, uint32_t first, uint32_t end, uint32_t *out)
{
	const uint32_t color = im.color;
	const bool bgr = im.type == STK_BGR;
	source s[3];
#pragma unroll
	for (int c = 0; c < 3; c++)
		s[c] = rows_of(planes, im.plane[color == STK_JPEG_GRAY ? 0 : c], y);
	for (uint32_t x = first + 4 * (threadIdx.x % 32); x < end; x += 128) {
		int32_t a[4], b[4], c[4];
		uint32_t pixel[4];
		sample4(s[0], x, a);
		sample4(s[1], x, b);
		sample4(s[2], x, c);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t rgb[3];
			stk__jpegpar_convert(color, a[i], b[i], c[i], rgb);
			pixel[i] = bgr ? rgb[2] | rgb[1] << 8 | rgb[0] << 16 : rgb[0] | rgb[1] << 8 | rgb[2] << 16;
		}
		pack(pixel, out + (x - first) / 4 * 3);
	}
}

/* The same, pixel by pixel, for other types, factors of 3 and 4 and other rarities. */
static __device__ __noinline__ void color_row_slowly(const uint8_t *planes, const stk_jpegpar_image &im, uint32_t y, uint32_t first, uint32_t end, uint32_t *out)
{
	for (uint32_t x = first + 4 * (threadIdx.x % 32); x < end; x += 128) {
		uint32_t pixel[4];
		for (int i = 0; i < 4; i++) {
			uint32_t rgb[3];
			stk__jpegpar_rgb(planes, &im, min(x + i, end - 1), y, rgb);
			pixel[i] = stk__jpegpar_pixel(im.type, rgb);
		}
		if (im.channels == 1)
			out[(x - first) / 4] = pixel[0] & 255 | (pixel[1] & 255) << 8 | (pixel[2] & 255) << 16 | pixel[3] << 24;
		else
			pack(pixel, out + (x - first) / 4 * 3);
	}
}

extern "C" __global__ void __launch_bounds__(32 * STK_JPEGPAR_COLOR_ROWS) jpeg_color(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ uint32_t image;
	uint32_t first_row = blockIdx.x * STK_JPEGPAR_COLOR_ROWS;
	for (uint32_t i = threadIdx.x; blockIdx.x == 0 && i < v.n_images; i += blockDim.x)
		v.told[i] = v.flags[i]; /* which are final since phase dc */
	if (threadIdx.x == 0)
		image = stk__jpegpar_find(&v.images->row0, sizeof *v.images, v.n_images, first_row);
	__syncthreads();
	const stk_jpegpar_image &im = v.images[image];
	uint32_t line = first_row + threadIdx.x / 32 - im.row0;
	if (line >= im.h)
		return;
	uint32_t *out = (uint32_t *)(v.rgb + im.rgb + (size_t)line * im.rgb_pitch);
	bool rare = im.type != STK_RGB && im.type != STK_BGR;
	for (uint32_t c = 0; c < im.components; c++)
		rare |= im.plane[c].upsample == STK_JPEG_UP_REPLICATE;
	if (rare)
		color_row_slowly(v.planes, im, im.y + line, im.x & ~3u, im.x + im.w, out);
	else
		color_row(v.planes, im, im.y + line, im.x & ~3u, im.x + im.w, out);
}
