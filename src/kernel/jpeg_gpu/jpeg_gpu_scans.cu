/* SPDX-License-Identifier: Apache-2.0
 * Phase decode_scans of jpeg_gpu.h: decodes progressive files. A thread block decodes a file, and each of its warps a scan, row by row. */
#include "kernel/jpeg_gpu/jpeg_gpu_scan_blocks.cuh"

/* ---- rows of AC scans ---- */

static __device__ bool first_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, scan_warp &w,
	const scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan);
	for (uint32_t x = 0; x < columns;) {
		if (!enter_interval(v, scan, w, shared))
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

/* Steps through the blocks of a component's row. Copies the properties of file and scan that it needs, so that each is read only once. */
struct block_row {
	int16_t *at;
	/* number of blocks of the component in a row of an MCU; position of this block in that row; distance in blocks from the row's last block to the
	 * first one in the next MCU */
	uint32_t h, column, step;

	__device__ __forceinline__ void begin(
		const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, uint32_t y, uint32_t row)
	{
		at = v.coef + 64 * (size_t)(image.coef0 + stk__jpeg_gpu_scan_block(&image, &scan, y, row, 0, 0));
		h = image.plane[scan.component].h;
		column = 0;
		step = image.blocks_mcu - h + 1;
	}

	__device__ __forceinline__ void next()
	{
		column++;
		at += 64 * (column == h ? step : 1);
		column = column == h ? 0 : column;
	}
};

static __device__ bool refine_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, scan_warp &w,
	scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan), lane = threadIdx.x % 32;
	scan_band band;
	band.begin(scan, shared);
	block_row blocks;
	blocks.begin(v, image, scan, y, row);
	int32_t next_low = blocks.at[lane], next_high = blocks.at[lane + 32];
	for (uint32_t x = 0; x < columns; x++) {
		int16_t *block = blocks.at;
		int32_t low = next_low, high = next_high;
		if (x + 1 < columns) { /* loads the next block's values while this block is decoded */
			blocks.next();
			next_low = blocks.at[lane];
			next_high = blocks.at[lane + 32];
		}
		if (!enter_interval(v, scan, w, shared) || !refine_block(scan, band, w, shared, low, high, block))
			return false;
		w.left--;
	}
	return true;
}

/* ---- rows of DC scans ---- */

static __device__ bool first_dc_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan,
	scan_warp &w, const scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan);
	for (uint32_t x = 0; x < columns; x++, w.left--) {
		if (!enter_interval(v, scan, w, shared))
			return false;
		for (uint32_t i = 0; i < scan.parts; i++) {
			uint32_t slot = scan.slot[i], ahead = w.bits.ahead();
			uint32_t symbol = shared.lookup[slot << DC_BITS | ahead >> (32 - DC_BITS)];
			symbol = symbol ? symbol : stk__jpeg_gpu_symbol(&scan.table[slot], ahead, 16);
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
				v.dc[image.dc0 + stk__jpeg_gpu_scan_block(&image, &scan, y, row, x, i)] =
					(int16_t)((uint32_t)value << scan.low);
		}
	}
#pragma unroll
	for (int c = 0; c < 3; c++)
		if (w.prediction[c] > STK_JPEG_GPU_PREDICTION_LIMIT || w.prediction[c] < -STK_JPEG_GPU_PREDICTION_LIMIT)
			w.flags |= STK_JPEG_GPU_DC_RANGE;
	return !w.flags;
}

/* Decodes a row of a DC refinement, which has one bit for each block. Up to 32 blocks are decoded at a time, each by one lane. Returns false, with w.flags set,
 * if enter_interval fails. */
static __device__ bool refine_dc_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan,
	scan_warp &w, const scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan), lane = threadIdx.x % 32, parts = scan.parts;
	for (uint32_t x = 0; x < columns;) {
		if (!enter_interval(v, scan, w, shared))
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

/* ---- whole files ---- */

static __device__ __forceinline__ void load_tables(scan_shared &shared, const stk_jpeg_gpu_scan &scan)
{
	const uint32_t lane = threadIdx.x % 32;
	for (uint32_t i = lane; i < sizeof shared.set_before; i += 32)
		shared.set_before[i] = NO_ZERO;
	if (scan.start)
		for (uint32_t i = lane; i < 1 << AC_BITS; i += 32) {
			uint32_t symbol = stk__jpeg_gpu_symbol(&scan.table[0], i << (32 - AC_BITS), AC_BITS), shift = scan.high ? 5 : 9;
			uint32_t entry = STK_JPEG_GPU_NONE;
			if (symbol)
				entry = stk__jpeg_gpu_scan_ends(symbol) ? symbol >> 8 | (ENDS + (symbol >> 4 & 15)) << shift
									: stk__jpeg_gpu_scan_entry(symbol, scan.high);
			shared.lookup[i] = (uint16_t)(entry != STK_JPEG_GPU_NONE ? entry : LAST << shift);
		}
	else
		for (uint32_t i = lane; i < 3 << DC_BITS; i += 32)
			shared.lookup[i] = (uint16_t)stk__jpeg_gpu_symbol(&scan.table[i >> DC_BITS], i << (32 - DC_BITS), DC_BITS);
	__syncwarp();
}

/* Sets the image's AC and DC coefficients in the window to 0. All threads of the block must call this. */
static __device__ __forceinline__ void clear(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image)
{
	uint4 *coef = (uint4 *)(v.coef + 64 * (size_t)image.coef0);
	for (uint32_t i = threadIdx.x; i < 8 * image.idct; i += blockDim.x)
		coef[i] = make_uint4(0, 0, 0, 0);
	for (uint32_t i = threadIdx.x; i < image.idct; i += blockDim.x)
		v.dc[image.dc0 + i] = 0;
}

/* Decodes row y of MCUs. Returns false, with the reason in w.flags, if the CPU must decode the file. */
static __device__ __forceinline__ bool decode_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image,
	const stk_jpeg_gpu_scan &scan, scan_warp &w, scan_shared &shared, uint32_t y)
{
	const uint32_t rows = stk__jpeg_gpu_scan_rows(&image, &scan, y);
	bool sound = true;
	for (uint32_t row = 0; row < rows && sound; row++)
		if (scan.start)
			sound = scan.high ? refine_row(v, image, scan, w, shared, y, row) : first_row(v, image, scan, w, shared, y, row);
		else
			sound = scan.high ? refine_dc_row(v, image, scan, w, shared, y, row)
					  : first_dc_row(v, image, scan, w, shared, y, row);
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
	scan_shared &shared = *stk__keep_shared(&all_shared[warp]);
	const stk_jpeg_gpu_scan &scan = v.scans[file.scan0 + min(warp, file.scans - 1)];
	scan_warp w = {};
	bool run = warp < file.scans;
	if (run) {
		load_tables(shared, scan);
		w.bitstream = scan.bitstream;
		restart(v, scan, w, shared);
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
