/* SPDX-License-Identifier: Apache-2.0
 * Phases idct and color of jpeg_gpu.h. */
#include "kernel/common/find.cuh"
#include "kernel/jpeg_gpu/jpeg_gpu_pixels.h"

/* Number of values per block in shared memory: 64, and unused ones that spread the columns of four blocks in zigzag order over the banks. */
#define PITCH 80

/* The zigzag positions of a block's coefficients, column by column. */
static __constant__ __align__(8) uint8_t zigzag[64] = {0, 2, 3, 9, 10, 20, 21, 35, 1, 4, 8, 11, 19, 22, 34, 36, 5, 7, 12, 18, 23, 33, 37,
	48, 6, 13, 17, 24, 32, 38, 47, 49, 14, 16, 25, 31, 39, 46, 50, 57, 15, 26, 30, 40, 45, 51, 56, 58, 27, 29, 41, 44, 52, 55, 59, 62,
	28, 42, 43, 53, 54, 60, 61, 63};

/* Properties of a block: its DC coefficient, the position and pitch of its samples, and the index in v.quant of its table's first entry, divided by 8. */
struct alignas(16) idct_block {
	int32_t dc;
	uint32_t sample, pitch, quant;
};

/* A warp's shared memory: data of all its blocks, and the values of the four blocks that it transforms at a time, in zigzag order and by columns. */
struct alignas(16) idct_warp {
	idct_block block[STK_JPEG_GPU_IDCT_BLOCKS];
	int16_t zigzag[4][PITCH], column[4][PITCH];
};

/* Returns whether all coefficients below the block's first row are 0. The threads of a warp call this together; each has 8 coefficients of a block, two in
 * each word. part: index of these 8 in the block, in zigzag order. */
static __device__ __forceinline__ bool is_flat(uint4 c, uint32_t part)
{
	/* Sets the coefficients of the first row to 0, which are at zigzag positions 0 1 5 6, 14 15 and 27 28. */
	if (part == 0)
		c.x = 0, c.z &= 0xffff, c.w &= 0xffff0000u;
	else if (part == 1)
		c.w = 0;
	else if (part == 3)
		c.y &= 0xffff, c.z &= 0xffff0000u;
	uint32_t set = __ballot_sync(~0u, (c.x | c.y | c.z | c.w) != 0);
	return (set >> (threadIdx.x % 32 & ~7u) & 0xff) == 0;
}

/* Multiplies the lower 16 bits of c by those of q, and the upper 16 bits of c by those of q. Returns the lower 16 bits of each product in one word. */
static __device__ __forceinline__ uint32_t multiply(uint32_t c, uint32_t q)
{
	return __byte_perm(c * q, (c >> 16) * (q >> 16), 0x5410);
}

static __device__ __forceinline__ uint4 multiply(uint4 c, uint4 q)
{
	return make_uint4(multiply(c.x, q.x), multiply(c.y, q.y), multiply(c.z, q.z), multiply(c.w, q.w));
}

static __device__ __forceinline__ idct_block find_block(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &im, uint32_t b)
{
	stk_jpeg_gpu_block block = stk__jpeg_gpu_block(&im, b);
	const stk_jpeg_gpu_plane &plane = im.plane[block.component];
	return {v.dc[block.dc], block.sample, plane.pitch, 8 * plane.quant};
}

/* Applies the inverse DCT to one column of a block, whose values are at byte offsets at[0..7] in shared memory. Returns the results as eight 16-bit numbers.
 * coef, part: the lane's coefficients in zigzag order, as is_flat needs them. */
static __device__ __forceinline__ uint4 transform_column(const idct_warp *shared, const uint32_t at[8], uint4 coef, uint32_t part)
{
	int32_t x[8];
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[i] = stk__forget(*(const int16_t *)((const char *)shared + at[i]));
	int32_t first = x[0];
	stk__jpeg_gpu_idct8(x, 11);
	if (__any_sync(~0u, stk__jpeg_gpu_wraps(first)) && is_flat(coef, part) && stk__jpeg_gpu_wraps(first))
#pragma unroll
		for (int i = 0; i < 8; i++)
			x[i] = stk__jpeg_gpu_wrap16(4 * first);
	return make_uint4(stk__saturate_shorts(x[0], x[1]), stk__saturate_shorts(x[2], x[3]), stk__saturate_shorts(x[4], x[5]),
		stk__saturate_shorts(x[6], x[7]));
}

/* Returns the 8 samples of a row, whose values are from[0], from[8] .. from[56]. */
static __device__ __forceinline__ uint2 transform_row(const int16_t *from)
{
	int32_t x[8];
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[i] = stk__forget(from[8 * i]);
	stk__jpeg_gpu_idct8(x, 18);
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[i] += 128;
	return make_uint2(stk__saturate_bytes(x[0], x[1], x[2], x[3]), stk__saturate_bytes(x[4], x[5], x[6], x[7]));
}

/* Runs phase idct. Each warp transforms up to STK_JPEG_GPU_IDCT_BLOCKS blocks, four at a time, with eight threads per block. A thread dequantises 8
 * coefficients, then transforms a column, then a row. */
extern "C" __global__ void __launch_bounds__(32 * STK_JPEG_GPU_IDCT_WARPS) jpeg_gpu_idct(const __grid_constant__ stk_jpeg_gpu_view v)
{
	__shared__ idct_warp shared[STK_JPEG_GPU_IDCT_WARPS];
	uint32_t lane = threadIdx.x % 32, part = lane % 8;
	uint32_t first = (blockIdx.x * STK_JPEG_GPU_IDCT_WARPS + threadIdx.x / 32) * STK_JPEG_GPU_IDCT_BLOCKS;
	if (first >= v.n_idct)
		return;
	idct_warp &warp = shared[threadIdx.x / 32];
	const stk_jpeg_gpu_image &im = v.images[stk__find_warp(&v.images->idct0, sizeof *v.images, v.n_images, first)];
	first -= im.idct0;
	uint32_t count = min(im.idct - first, STK_JPEG_GPU_IDCT_BLOCKS);
	warp.block[lane] = find_block(v, im, first + min(lane, count - 1));
	__syncwarp();

	/* Offsets in shared memory of the values that the thread dequantises, and of the values of its column. stk__keep makes the compiler keep them in
	 * registers. */
	uint32_t values = (uint32_t)((char *)warp.zigzag[lane / 8] - (char *)shared), at[8];
#pragma unroll
	for (int i = 0; i < 8; i++)
		at[i] = stk__keep(values + 2 * zigzag[8 * part + i]);
	uint4 *group = (uint4 *)((char *)shared + stk__keep(values + 16 * part));
	const int16_t *row = (const int16_t *)((char *)shared + stk__keep(values + (uint32_t)sizeof warp.zigzag + 2 * part));
	const uint4 *coef = (const uint4 *)(v.coef + 64 * ((size_t)im.coef0 + first)) + lane, *quant = (const uint4 *)v.quant;
	for (uint32_t b = lane / 8; b - lane / 8 < count; b += 4, coef += 32) {
		idct_block block = warp.block[b];
		uint4 c = make_uint4(0, 0, 0, 0);
		if (b < count)
			c = __ldg(coef);
		if (part == 0)
			c.x = __byte_perm(c.x, block.dc, 0x3254);
		group[0] = multiply(c, __ldg(quant + (block.quant + part)));
		__syncwarp();
		group[sizeof warp.zigzag / sizeof *group] = transform_column(shared, at, c, part);
		__syncwarp();
		uint2 samples = transform_row(row);
		if (b < count)
			*(uint2 *)(v.planes + block.sample + part * block.pitch) = samples;
	}
}

/* The resolution of the two colour components. GRAY: the image has only luma. FULL: one sample per pixel. TALL: one sample for two rows of pixels, interpolated
 * between rows. WIDE: one sample for two columns of pixels, interpolated between columns. WIDE_TALL: both. */
enum chroma_kind { CHROMA_GRAY, CHROMA_FULL, CHROMA_TALL, CHROMA_WIDE, CHROMA_WIDE_TALL };

/* The rows of samples from which the rows of pixels 2k - 1 and 2k are made. If two rows of pixels share a row of chroma samples, both mix the same two rows
 * of samples: the nearer one for one row of pixels is the farther one for the other. Index 0 is for the upper row of pixels. */
struct row_sources {
	const uint8_t *luma[2], *cb[2];
	uint32_t cr;  /* distance in bytes from Cb's samples to Cr's */
	int32_t last; /* index of the last column of Cb and Cr */
	chroma_kind kind;
	/* Constants that are added for rounding, in units of 1/256: for even and for odd columns, or for odd and for even rows if only rows are mixed. The two
	 * halves of a word hold the same constant. */
	uint32_t round[2];
};

/* Returns true if color_rows supports the image; color_row_slowly makes the rows of other images. */
static __device__ __forceinline__ bool is_common(const stk_jpeg_gpu_image &im)
{
	if ((im.type != STK_RGB && im.type != STK_BGR) || im.plane[0].upsample != STK_JPEG_UP_NONE)
		return false;
	uint32_t how = im.plane[1].upsample;
	return im.color == STK_JPEG_GRAY || (im.color == STK_JPEG_YCBCR && how == im.plane[2].upsample && how != STK_JPEG_UP_REPLICATE);
}

static __device__ __forceinline__ const uint8_t *row_of(const uint8_t *planes, const stk_jpeg_gpu_plane &p, int32_t y)
{
	return planes + p.at + (size_t)min(max(y, 0), (int32_t)p.height - 1) * p.pitch;
}

static __device__ __forceinline__ row_sources sources_of(const uint8_t *planes, const stk_jpeg_gpu_image &im, int32_t k)
{
	const stk_jpeg_gpu_plane &p = im.plane[1];
	const uint32_t how = p.upsample, both = 0x00010001;
	row_sources s = {{row_of(planes, im.plane[0], 2 * k - 1), row_of(planes, im.plane[0], 2 * k)}};
	if (im.color == STK_JPEG_GRAY)
		return s;
	bool tall = how == STK_JPEG_UP_H2V2 || how == STK_JPEG_UP_H1V2, wide = how == STK_JPEG_UP_H2V2 || how == STK_JPEG_UP_H2V1;
	s.cb[0] = row_of(planes, p, tall ? k - 1 : 2 * k - 1);
	s.cb[1] = row_of(planes, p, tall ? k : 2 * k);
	s.cr = im.plane[2].at - p.at;
	s.last = (int32_t)p.width - 1;
	s.kind = wide ? tall ? CHROMA_WIDE_TALL : CHROMA_WIDE : tall ? CHROMA_TALL : CHROMA_FULL;
	/* The weights of a sample add up to 4 if only rows or only columns are mixed, and to 16 if both are. */
	s.round[0] = both * (tall ? 128 : wide ? 64 : 0);
	s.round[1] = both * (tall && wide ? 112 : tall ? 64 : wide ? 128 : 0);
	return s;
}

/* Samples of the colour components for 8 pixels of a row. The two halves of element i have the samples for pixels i and i + 4 in their upper bytes. */
struct chroma8 {
	uint32_t cb[4], cr[4];
};

/* The samples of columns c - 1 to c + 4, which the 8 pixels from column 2 c on need. The halves of at02 have those of columns c and
 * c + 2, the halves of at13 those of c + 1 and c + 3. */
struct wide_samples {
	uint32_t before, at02, at13, after;
};

static __device__ __forceinline__ uint32_t load1(const uint8_t *at)
{
	return (uint32_t)stk__forget(__ldg(at));
}

/* Returns the samples of columns c - 1 to c + 4; that of column c is at `at`. At both ends of the row the outermost sample is repeated. */
static __device__ __forceinline__ wide_samples load_wide(const uint8_t *at, int32_t c, int32_t last)
{
	uint32_t four = __ldg((const uint32_t *)at);
	if (last - c < 4)
		four = __byte_perm(four, 0, (uint32_t)(0x3210221011100000u >> 16 * (last - c)));
	wide_samples s = {four & 255, four & 0x00ff00ff, __byte_perm(four, 0, 0x4341), four >> 24};
	if (c > 0)
		s.before = load1(at - 1);
	if (last - c >= 4)
		s.after = load1(at + 4);
	return s;
}

/* Mixes rows first, then columns, as stk__jpeg_gpu_sample does. Each half of out[i] is a sum in units of 1/256, whose upper byte is the sample. */
static __device__ __forceinline__ void mix_wide(const wide_samples &near, const wide_samples &far, const uint32_t round[2], uint32_t out[4])
{
	uint32_t before = 3 * near.before + far.before, after = 3 * near.after + far.after;
	uint32_t at02 = 3 * near.at02 + far.at02, at13 = 3 * near.at13 + far.at13;
	out[0] = 48 * at02 + 16 * __byte_perm(before, at13, 0x5410) + round[0];
	out[1] = 48 * at02 + 16 * at13 + round[1];
	out[2] = 48 * at13 + 16 * at02 + round[0];
	out[3] = 48 * at13 + 16 * __byte_perm(at02, after, 0x5432) + round[1];
}

/* Returns bytes i and i + 4 of the 8 bytes, one in each half of the word. */
static __device__ __forceinline__ uint32_t two_of(uint2 bytes, int i)
{
	return __byte_perm(bytes.x, bytes.y, i | (i + 4) << 8) & 0x00ff00ff;
}

static __device__ __forceinline__ void mix_narrow(uint2 near, uint2 far, uint32_t round, uint32_t out[4])
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		out[i] = 192 * two_of(near, i) + 64 * two_of(far, i) + round;
}

/* Makes a component's samples for pixels x to x + 7 of both rows. x is a multiple of 8. component: offset in bytes from Cb's samples to the component's. */
static __device__ __forceinline__ void make_wide(
	const row_sources &s, uint32_t component, uint32_t x, bool tall, uint32_t upper[4], uint32_t lower[4])
{
	const uint32_t at = component + x / 2;
	const wide_samples a = load_wide(s.cb[0] + at, (int32_t)(x / 2), s.last), b = load_wide(s.cb[1] + at, (int32_t)(x / 2), s.last);
	mix_wide(a, tall ? b : a, s.round, upper);
	mix_wide(b, tall ? a : b, s.round, lower);
}

static __device__ __forceinline__ void make_narrow(
	const row_sources &s, uint32_t component, uint32_t x, uint32_t upper[4], uint32_t lower[4])
{
	const uint2 a = __ldg((const uint2 *)(s.cb[0] + component + x)), b = __ldg((const uint2 *)(s.cb[1] + component + x));
	mix_narrow(a, s.kind == CHROMA_TALL ? b : a, s.round[0], upper);
	mix_narrow(b, s.kind == CHROMA_TALL ? a : b, s.round[1], lower);
}

static __device__ __forceinline__ void make_chroma(const row_sources &s, uint32_t x, chroma8 *upper, chroma8 *lower)
{
	if (s.kind == CHROMA_WIDE_TALL) {
		make_wide(s, 0, x, true, upper->cb, lower->cb);
		make_wide(s, s.cr, x, true, upper->cr, lower->cr);
	} else if (s.kind == CHROMA_WIDE) {
		make_wide(s, 0, x, false, upper->cb, lower->cb);
		make_wide(s, s.cr, x, false, upper->cr, lower->cr);
	} else if (s.kind != CHROMA_GRAY) {
		make_narrow(s, 0, x, upper->cb, lower->cb);
		make_narrow(s, s.cr, x, upper->cr, lower->cr);
	} else {
#pragma unroll
		for (int i = 0; i < 4; i++)
			upper->cb[i] = upper->cr[i] = lower->cb[i] = lower->cr[i] = 0x80008000;
	}
}

/* Converts four of the 8 pixels, from `first` on, and packs them as they are stored. */
static __device__ __forceinline__ void convert4(uint32_t luma, const chroma8 &chroma, int first, bool bgr, uint32_t out[3])
{
	const uint32_t upper = first ? 0x4443 : 0x4441;
	int32_t value[12];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int32_t rgb[3];
		stk__jpeg_gpu_ycbcr((int32_t)__byte_perm(luma, 0, 0x4440 + i), (int32_t)__byte_perm(chroma.cb[i], 0, upper),
			(int32_t)__byte_perm(chroma.cr[i], 0, upper), rgb);
		value[3 * i] = rgb[bgr ? 2 : 0];
		value[3 * i + 1] = rgb[1];
		value[3 * i + 2] = rgb[bgr ? 0 : 2];
	}
#pragma unroll
	for (int i = 0; i < 3; i++)
		out[i] = stk__saturate_bytes(value[4 * i], value[4 * i + 1], value[4 * i + 2], value[4 * i + 3]);
}

static __device__ __forceinline__ void convert8(uint2 luma, const chroma8 &chroma, bool bgr, uint2 *out)
{
	uint32_t left[3], right[3];
	convert4(luma.x, chroma, 0, bgr, left);
	convert4(luma.y, chroma, 4, bgr, right);
	out[0] = make_uint2(left[0], left[1]);
	out[1] = make_uint2(left[2], right[0]);
	out[2] = make_uint2(right[1], right[2]);
}

#define STEP 64               /* pixels of a row that a warp makes at a time */
#define UNITS (STEP * 3 / 16) /* number of 16-byte units that STEP pixels take */
#define WARP_ROWS 8
#define HALF (WARP_ROWS / 2 * UNITS) /* number of 16-byte units in the upper rows of all pairs of rows */
#define WARP_BYTES (16 * WARP_ROWS * UNITS)

/* Describes which pixels a thread copies from shared memory to the image. Shared memory holds STEP pixels of 8 rows, which form four pairs: first the 16-byte
 * units of all upper rows, then those of all lower rows. The thread copies one unit in each row of two pairs: the pair whose upper row begins at `to`, and the
 * pair 4 rows below it. 12 threads copy pairs 0 and 2, 12 others pairs 1 and 3, and the last 8 of the warp copy nothing. */
struct row_store {
	uint8_t *to;
	const uint4 *from;
	/* at: offset of the thread's unit in a row; end: for each of the four rows, the row's size, or 0 if this thread does not store it */
	uint32_t pitch, at, end[4];
};

/* Returns the source and the destination of the units that this thread stores. line: index in the window of the upper row of the warp's first pair. */
static __device__ __forceinline__ row_store row_store_of(
	const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &im, int32_t line, const uint4 *from)
{
	const int32_t lane = threadIdx.x % 32, first = line + 2 * (lane / UNITS);
	const uint32_t pitch = im.rgb_pitch;
	row_store s = {v.rgb + im.rgb + (int64_t)first * pitch, from, pitch, 16u * (lane % UNITS)};
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int32_t row = first + i / 2 * 4 + i % 2;
		s.end[i] = lane < 2 * UNITS && row >= 0 && row < (int32_t)im.h ? pitch : 0;
	}
	return s;
}

static __device__ __forceinline__ void store_rows(const row_store &s)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		if (s.at < s.end[i])
			*(uint4 *)(s.to + ((uint32_t)(i / 2 * 4 + i % 2) * s.pitch + s.at)) = s.from[i / 2 * 2 * UNITS + i % 2 * HALF];
}

/* Makes 8 rows of pixels with a warp, except those outside of the window. 8 threads make a pair of rows; each makes 8 pixels of both rows. Pixels are first
 * written to shared memory, so that adjacent threads can store to adjacent addresses. pair: the k of the first pair, whose rows are 2k - 1 and 2k, counted
 * from the window's first MCU. */
static __device__ __forceinline__ void color_rows(
	const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &im, int32_t pair, bool bgr, char *shared)
{
	const uint32_t lane = threadIdx.x % 32, begin = im.x & ~7u, end = im.x + im.w, warp = threadIdx.x / 32 * WARP_BYTES;
	const row_sources s = sources_of(v.planes, im, pair + (int32_t)lane / 8);
	uint2 *made = (uint2 *)(shared + stk__keep(warp + 24 * lane));
	row_store store = row_store_of(v, im, 2 * pair - 1 - (int32_t)im.y, (const uint4 *)(shared + stk__keep(warp + 16 * lane)));
	uint32_t x = begin + 8 * (lane % 8);
	for (uint32_t turns = (end - begin + STEP - 1) / STEP; turns > 0; turns--, x += STEP, store.at += 16 * UNITS) {
		if (x < end) {
			chroma8 upper, lower;
			uint2 luma_upper = __ldg((const uint2 *)(s.luma[0] + x)), luma_lower = __ldg((const uint2 *)(s.luma[1] + x));
			make_chroma(s, x, &upper, &lower);
			convert8(luma_upper, upper, bgr, made);
			convert8(luma_lower, lower, bgr, made + 2 * HALF);
		}
		__syncwarp();
		store_rows(store);
		__syncwarp();
	}
}

/* Makes row `line` of the window pixel by pixel, for images that color_rows does not support, such as GRAY and YCBCR outputs, files that store RGB, and
 * rare sampling factors like 3 and 4. A warp makes the row, four pixels per thread. */
static __device__ __noinline__ void color_row_slowly(const uint8_t *planes, const stk_jpeg_gpu_image &im, uint32_t line, uint8_t *row)
{
	const uint32_t first = im.x & ~7u, end = im.x + im.w;
	for (uint32_t x = first + 4 * (threadIdx.x % 32); x < end; x += 128) {
		uint32_t pixel[4], *out = (uint32_t *)row + (x - first) / 4 * im.channels;
		for (int i = 0; i < 4; i++) {
			uint32_t rgb[3];
			stk__jpeg_gpu_rgb(planes, &im, min(x + i, end - 1), im.y + line, rgb);
			pixel[i] = stk__jpeg_gpu_pixel(im.type, rgb);
		}
		if (im.channels == 1) {
			*out = pixel[0] & 255 | (pixel[1] & 255) << 8 | (pixel[2] & 255) << 16 | pixel[3] << 24;
			continue;
		}
		out[0] = pixel[0] | pixel[1] << 24;
		out[1] = pixel[1] >> 8 | pixel[2] << 16;
		out[2] = pixel[2] >> 16 | pixel[3] << 8;
	}
}

extern "C" __global__ void __launch_bounds__(32 / WARP_ROWS * STK_JPEG_GPU_COLOR_ROWS, 8)
	jpeg_gpu_color(const __grid_constant__ stk_jpeg_gpu_view v)
{
	__shared__ __align__(16) char shared[STK_JPEG_GPU_COLOR_ROWS / WARP_ROWS * WARP_BYTES];
	uint32_t line = blockIdx.x * STK_JPEG_GPU_COLOR_ROWS + WARP_ROWS * (threadIdx.x / 32);
	for (uint32_t i = threadIdx.x; blockIdx.x == 0 && i < v.n_images; i += blockDim.x)
		v.host_flags[i] = v.flags[i]; /* flags do not change after phase decode_scans */
	const stk_jpeg_gpu_image &im = v.images[stk__find_warp(&v.images->row0, sizeof *v.images, v.n_images, line)];
	line -= im.row0;
	int32_t pair = (int32_t)((im.y + line + 1) / 2);
	if (line > im.h)
		return;
	if (!is_common(im))
		for (uint32_t end = min(line + WARP_ROWS, im.h); line < end; line++)
			color_row_slowly(v.planes, im, line, v.rgb + im.rgb + (size_t)line * im.rgb_pitch);
	else if (im.type == STK_BGR)
		color_rows(v, im, pair, true, shared);
	else
		color_rows(v, im, pair, false, shared);
}
