/* SPDX-License-Identifier: Apache-2.0
 * Phase decode_scans of jpeg_gpu.h. All lanes of a warp follow the scan's symbols together, with the same values in registers; each holds words of the bits
 * and two coefficients of a block of its own. */
#include "kernel/common/cuda.cuh"
#include "kernel/jpeg_gpu/jpeg_gpu_scans.h"
#include "kernel/jpeg_gpu/jpeg_gpu_symbols.h"

#define AC_BITS 10 /* of a lookup */
#define DC_BITS 8

/* A warp's shared memory. Lookups give a symbol and the length of its code << 8, or 0 where the code is longer; a scan's DC tables follow each other. */
struct scan_shared {
	uint16_t lookup[1 << AC_BITS];
	uint8_t zeros[64]; /* the places of a block's coefficients that are zero, in order */
};
static_assert(sizeof(struct scan_shared) == STK_JPEG_GPU_SCAN_SHARED, "what a launch asks for");
static_assert(3 << DC_BITS <= 1 << AC_BITS, "three DC tables fit");

/* The bits of a bitstream from bit p on. Each lane holds a word of the line of 32 that p is in, and one of the next. */
struct scan_bits {
	const uint32_t *words;
	uint32_t count, line; /* words there are, and the number of the first in the line */
	uint32_t here, behind;
	uint32_t p, length;
	uint32_t high, low; /* the word that p is in, and the next */

	__device__ __forceinline__ uint32_t load(uint32_t i) const
	{
		return i < count ? words[i] : 0;
	}

	/* After p moved into another word, of this line or the next. */
	__device__ __forceinline__ void seek()
	{
		uint32_t i = (p >> 5) - line;
		if (i >= 32) {
			i -= 32;
			line += 32;
			here = behind;
			behind = load(line + 32 + threadIdx.x % 32);
		}
		high = __shfl_sync(~0u, here, i);
		low = __shfl_sync(~0u, i == 31 ? behind : here, (i + 1) & 31);
	}

	__device__ __forceinline__ void begin(const stk_jpeg_gpu_view &v, uint32_t bitstream)
	{
		words = stk__jpeg_gpu_words(&v, &v.bitstreams[bitstream]);
		length = v.bit_length[bitstream];
		count = (length + 31) / 32;
		p = line = 0;
		here = load(threadIdx.x % 32);
		behind = load(32 + threadIdx.x % 32);
		seek();
	}

	__device__ __forceinline__ uint32_t ahead() const
	{
		return __funnelshift_l(low, high, p);
	}

	/* Moves on by less than 1000 bits. */
	__device__ __forceinline__ void skip(uint32_t bits)
	{
		uint32_t from = p;
		p += bits;
		if ((p ^ from) >> 5)
			seek();
	}

	__device__ __forceinline__ uint32_t bit(uint32_t at) const
	{
		return load(at >> 5) >> (31 - at % 32) & 1;
	}
};

/* A warp at work on its scan. */
struct scan_warp {
	scan_bits bits;
	uint32_t bitstream, left; /* units until the restart interval ends */
	uint32_t end_run;	  /* blocks that end at once */
	int32_t prediction[3];
	uint32_t flags;
};

static __device__ __forceinline__ void restart(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_scan &scan, scan_warp &w)
{
	w.bits.begin(v, w.bitstream);
	w.left = scan.interval;
	w.end_run = 0;
#pragma unroll
	for (int i = 0; i < 3; i++)
		w.prediction[i] = 0;
}

/* Goes on to the next restart interval if this one has ended. */
static __device__ __forceinline__ bool go_on(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_scan &scan, scan_warp &w)
{
	if (w.left)
		return true;
	if (w.bits.p > w.bits.length || w.bits.length - w.bits.p >= 8) {
		w.flags |= w.bits.p > w.bits.length ? STK_JPEG_GPU_SHORT : STK_JPEG_GPU_LEFTOVER;
		return false;
	}
	w.bitstream++;
	restart(v, scan, w);
	return true;
}

static __device__ __forceinline__ uint32_t look_up(
	const uint16_t *lookup, const stk_jpeg_huffman &table, uint32_t ahead, uint32_t lookup_bits)
{
	uint32_t symbol = lookup[ahead >> (32 - lookup_bits)];
	return symbol ? symbol : stk__jpeg_gpu_symbol(&table, ahead, 16);
}

/* ---- AC ---- */

/* The first bits of a block's band [G.1.2.2]. */
static __device__ __forceinline__ bool first_block(const stk_jpeg_gpu_scan &scan, scan_warp &w, const scan_shared &shared, int16_t *block)
{
	const uint32_t lane = threadIdx.x % 32, end = scan.end;
	int32_t low = 0, high = 0; /* this lane's coefficients: `lane` and `lane + 32` */
	for (uint32_t k = scan.start; k <= end;) {
		uint32_t ahead = w.bits.ahead(), symbol = look_up(shared.lookup, scan.table[0], ahead, AC_BITS);
		uint32_t length = symbol >> 8, run = symbol >> 4 & 15, size = symbol & 15;
		if (!size && run < 15 && symbol) {
			w.end_run = (1u << run) - 1 + stk__jpeg_gpu_extra(ahead, length, run);
			w.bits.skip(length + run);
			break;
		}
		k += run;
		if (k > end || !symbol) {
			w.flags |= symbol ? STK_JPEG_GPU_OVERRUN : STK_JPEG_GPU_BAD_CODE;
			return false;
		}
		int32_t value = (int32_t)((uint32_t)stk__jpeg_gpu_extend(stk__jpeg_gpu_extra(ahead, length, size), size) << scan.low);
		low = lane == k ? value : low;
		high = lane + 32 == k ? value : high;
		w.bits.skip(length + size);
		k++;
	}
	if ((int16_t)low)
		block[lane] = (int16_t)low;
	if ((int16_t)high)
		block[lane + 32] = (int16_t)high;
	return true;
}

/* A coefficient that was not zero grows by one step if its bit says so. */
static __device__ __forceinline__ int32_t corrected(const scan_bits &bits, uint32_t at, int32_t c, int32_t step)
{
	return bits.bit(at) ? c + (c < 0 ? -step : step) : c;
}

/* One more bit of a block's band [G.1.2.3]; low and high are this lane's coefficients. A run passes over zeros alone. For each coefficient that it passes
 * and that is not zero, a bit follows behind the symbol: lanes note where, and read it at the end of the block. */
static __device__ __forceinline__ bool refine_block(
	const stk_jpeg_gpu_scan &scan, scan_warp &w, scan_shared &shared, int32_t low, int32_t high, int16_t *block)
{
	const uint32_t lane = threadIdx.x % 32, start = scan.start, end = scan.end, before = (1u << lane) - 1;
	const int32_t step = 1 << scan.low;
	const bool in_low = lane >= start && lane <= end, in_high = lane + 32 >= start && lane + 32 <= end;
	const uint32_t set_low = __ballot_sync(~0u, in_low && low), set_high = __ballot_sync(~0u, in_high && high);
	const uint32_t zero_low = __ballot_sync(~0u, in_low && !low), zero_high = __ballot_sync(~0u, in_high && !high);
	const uint32_t zeros = __popc(zero_low) + __popc(zero_high), set = __popc(set_low) + __popc(set_high);
	if (zero_low >> lane & 1)
		shared.zeros[__popc(zero_low & before)] = (uint8_t)lane;
	if (zero_high >> lane & 1)
		shared.zeros[__popc(zero_low) + __popc(zero_high & before)] = (uint8_t)(lane + 32);
	__syncwarp();
	/* Where the bits of the coefficients behind lie, if they all came at once: less those that were passed before, so that a rank leads to its bit. */
	uint32_t at_low = 0, at_high = 0, k = start, zero = 0, passed = 0;
	int32_t new_low = 0, new_high = 0;
	while (k <= end && !w.end_run) {
		uint32_t ahead = w.bits.ahead(), symbol = look_up(shared.lookup, scan.table[0], ahead, AC_BITS);
		uint32_t length = symbol >> 8, run = symbol >> 4 & 15, size = symbol & 15;
		if (!size && run < 15 && symbol) {
			w.end_run = (1u << run) + stk__jpeg_gpu_extra(ahead, length, run);
			w.bits.skip(length + run);
			break;
		}
		zero += run;
		if (zero >= zeros || size > 1 || !symbol) {
			w.flags |= zero >= zeros ? STK_JPEG_GPU_OVERRUN : STK_JPEG_GPU_BAD_CODE;
			return false;
		}
		uint32_t target = shared.zeros[zero], behind = w.bits.p + length + size, passes = target - start - zero;
		at_low = lane >= k ? behind - passed : at_low;
		at_high = lane + 32 >= k ? behind - passed : at_high;
		int32_t value = size ? (ahead << length) >> 31 ? step : -step : 0;
		new_low = lane == target ? value : new_low;
		new_high = lane + 32 == target ? value : new_high;
		w.bits.skip(length + size + passes - passed);
		passed = passes;
		zero++;
		k = target + 1;
	}
	if (w.end_run) {
		at_low = lane >= k ? w.bits.p - passed : at_low;
		at_high = lane + 32 >= k ? w.bits.p - passed : at_high;
		w.bits.skip(set - passed);
		w.end_run--;
	}
	if (set_low >> lane & 1)
		new_low = corrected(w.bits, at_low + __popc(set_low & before), low, step);
	if (set_high >> lane & 1)
		new_high = corrected(w.bits, at_high + __popc(set_low) + __popc(set_high & before), high, step);
	if (new_low)
		block[lane] = (int16_t)new_low;
	if (new_high)
		block[lane + 32] = (int16_t)new_high;
	__syncwarp();
	return true;
}

static __device__ bool first_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, scan_warp &w,
	const scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan);
	for (uint32_t x = 0; x < columns;) {
		if (!go_on(v, scan, w))
			return false;
		uint32_t blocks = min(min(w.end_run, columns - x), w.left);
		w.end_run -= blocks;
		if (!blocks) {
			uint32_t at = stk__jpeg_gpu_scan_block(&image, &scan, y, row, x, 0);
			if (!first_block(scan, w, shared, v.coef + 64 * (size_t)(image.coef0 + at)))
				return false;
			blocks = 1;
		}
		x += blocks;
		w.left -= blocks;
	}
	return true;
}

static __device__ bool refine_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, scan_warp &w,
	scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan), lane = threadIdx.x % 32;
	int16_t *next = v.coef + 64 * (size_t)(image.coef0 + stk__jpeg_gpu_scan_block(&image, &scan, y, row, 0, 0));
	int32_t next_low = next[lane], next_high = next[lane + 32];
	for (uint32_t x = 0; x < columns; x++) {
		int16_t *block = next;
		int32_t low = next_low, high = next_high;
		if (x + 1 < columns) { /* loaded while this block is decoded */
			next = v.coef + 64 * (size_t)(image.coef0 + stk__jpeg_gpu_scan_block(&image, &scan, y, row, x + 1, 0));
			next_low = next[lane];
			next_high = next[lane + 32];
		}
		if (!go_on(v, scan, w) || !refine_block(scan, w, shared, low, high, block))
			return false;
		w.left--;
	}
	return true;
}

/* ---- DC ---- */

static __device__ bool first_dc_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, scan_warp &w,
	const scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan);
	for (uint32_t x = 0; x < columns; x++, w.left--) {
		if (!go_on(v, scan, w))
			return false;
		for (uint32_t i = 0; i < scan.parts; i++) {
			uint32_t slot = scan.slot[i], ahead = w.bits.ahead();
			uint32_t symbol = look_up(shared.lookup + (slot << DC_BITS), scan.table[slot], ahead, DC_BITS);
			uint32_t length = symbol >> 8, size = symbol & 15;
			if (!symbol) {
				w.flags |= STK_JPEG_GPU_BAD_CODE;
				return false;
			}
			int32_t difference = stk__jpeg_gpu_extend(stk__jpeg_gpu_extra(ahead, length, size), size), value = 0;
			w.bits.skip(length + size);
#pragma unroll
			for (uint32_t c = 0; c < 3; c++) {
				w.prediction[c] += slot == c ? difference : 0;
				value = slot == c ? w.prediction[c] : value;
			}
			if (threadIdx.x % 32 == 0)
				v.dc[image.dc0 + stk__jpeg_gpu_scan_block(&image, &scan, y, row, x, i)] = (int16_t)((uint32_t)value << scan.low);
		}
	}
#pragma unroll
	for (int c = 0; c < 3; c++)
		if (w.prediction[c] > STK_JPEG_GPU_PREDICTION_LIMIT || w.prediction[c] < -STK_JPEG_GPU_PREDICTION_LIMIT)
			w.flags |= STK_JPEG_GPU_DC_RANGE;
	return !w.flags;
}

/* A block has one bit, so that a lane takes a block, 32 or fewer at a time. */
static __device__ bool refine_dc_row(
	const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, scan_warp &w, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan), lane = threadIdx.x % 32, parts = scan.parts;
	for (uint32_t x = 0; x < columns;) {
		if (!go_on(v, scan, w))
			return false;
		uint32_t units = min(min(32 / parts, columns - x), w.left), bits = w.bits.ahead();
		if (lane < units * parts) {
			uint32_t at = stk__jpeg_gpu_scan_block(&image, &scan, y, row, x + lane / parts, lane % parts);
			v.dc[image.dc0 + at] |= (int16_t)((bits >> (31 - lane) & 1) << scan.low);
		}
		w.bits.skip(units * parts);
		x += units;
		w.left -= units;
	}
	return true;
}

/* ---- a file ---- */

static __device__ __forceinline__ void load_tables(scan_shared &shared, const stk_jpeg_gpu_scan &scan)
{
	const uint32_t lane = threadIdx.x % 32;
	if (scan.start)
		for (uint32_t i = lane; i < 1 << AC_BITS; i += 32)
			shared.lookup[i] = (uint16_t)stk__jpeg_gpu_symbol(&scan.table[0], i << (32 - AC_BITS), AC_BITS);
	else
		for (uint32_t i = lane; i < 3 << DC_BITS; i += 32)
			shared.lookup[i] = (uint16_t)stk__jpeg_gpu_symbol(&scan.table[i >> DC_BITS], i << (32 - DC_BITS), DC_BITS);
	__syncwarp();
}

/* The thread block sets all coefficients to zero. */
static __device__ __forceinline__ void clear(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image)
{
	uint4 *coef = (uint4 *)(v.coef + 64 * (size_t)image.coef0);
	for (uint32_t i = threadIdx.x; i < 8 * image.idct; i += blockDim.x)
		coef[i] = make_uint4(0, 0, 0, 0);
	for (uint32_t i = threadIdx.x; i < image.idct; i += blockDim.x)
		v.dc[image.dc0 + i] = 0;
}

/* Decodes row y of MCUs. */
static __device__ __forceinline__ bool decode_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan,
	scan_warp &w, scan_shared &shared, uint32_t y)
{
	const uint32_t rows = stk__jpeg_gpu_scan_rows(&image, &scan, y);
	bool sound = true;
	for (uint32_t row = 0; row < rows && sound; row++)
		if (scan.start)
			sound = scan.high ? refine_row(v, image, scan, w, shared, y, row) : first_row(v, image, scan, w, shared, y, row);
		else
			sound = scan.high ? refine_dc_row(v, image, scan, w, y, row) : first_dc_row(v, image, scan, w, shared, y, row);
	if (w.bits.p > w.bits.length)
		w.flags |= STK_JPEG_GPU_SHORT;
	return !w.flags;
}

extern "C" __global__ void __launch_bounds__(32 * STK_JPEG_GPU_MAX_SCANS) jpeg_gpu_decode_scans(const __grid_constant__ stk_jpeg_gpu_view v)
{
	STK_SHARED_ARRAY(scan_shared, all_shared);
	const stk_jpeg_gpu_progressive &file = v.progressive[blockIdx.x];
	const stk_jpeg_gpu_image &image = v.images[file.image];
	const uint32_t warp = threadIdx.x / 32;
	scan_shared &shared = all_shared[warp];
	const stk_jpeg_gpu_scan &scan = v.scans[file.scan0 + min(warp, file.scans - 1)];
	scan_warp w = {};
	bool run = warp < file.scans;
	if (run) {
		load_tables(shared, scan);
		w.bitstream = scan.bitstream;
		restart(v, scan, w);
	}
	clear(v, image);
	__syncthreads();
	for (uint32_t step = 0; step < file.steps; step++) {
		uint32_t y = step - scan.delay;
		if (run && y < image.mcu_y1)
			run = decode_row(v, image, scan, w, shared, y);
		__syncthreads();
	}
	if (w.flags && threadIdx.x % 32 == 0)
		atomicOr(&v.flags[file.image], w.flags);
}
