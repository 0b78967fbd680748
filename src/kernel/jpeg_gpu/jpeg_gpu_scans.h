/* SPDX-License-Identifier: Apache-2.0
 * Symbols and blocks of a progressive file's scans [T.81 annex G]. The kernel and its plain C version share it. */
#ifndef STK_KERNEL_JPEG_GPU_SCANS_H
#define STK_KERNEL_JPEG_GPU_SCANS_H

#include "base/hd.h"
#include "kernel/jpeg_gpu/jpeg_gpu.h"

/* The CPU decodes files with DC predictions of a larger absolute value, since libjpeg refuses predictions that overflow. Undamaged files stay far below the
 * limit. */
#define STK_JPEG_GPU_PREDICTION_LIMIT (1 << 28)

/* Finds the symbol whose code is at the start of the 32 bits `ahead`, among codes of at most `longest` bits. Returns symbol | length of the code << 8, or 0
 * if no code matches [F.2.2.3]. */
STK_HD uint32_t stk__jpeg_gpu_symbol(const struct stk_jpeg_huffman *table, uint32_t ahead, uint32_t longest)
{
	uint32_t first = 0, index = 0;
	for (uint32_t length = 1; length <= longest; length++) {
		uint32_t count = table->counts[length - 1], at = (ahead >> (32 - length)) - first;
		if (at < count)
			return table->values[(index + at) & 255] | length << 8;
		index += count;
		first = (first + count) << 1;
	}
	return 0;
}

/* Returns the `count` (0 to 15) bits after the first `skip` (1 to 16) bits of `ahead`. */
STK_HD uint32_t stk__jpeg_gpu_extra(uint32_t ahead, uint32_t skip, uint32_t count)
{
	return (ahead << skip) >> 1 >> (31 - count);
}

/* Returns whether an AC symbol is EOBn, which ends the current block and a number of blocks after it. Bits 4..7 of the symbol are then n, the number of
 * extra bits from which the number of blocks is computed [G.1.2.2]. symbol: as stk__jpeg_gpu_symbol returns it. */
STK_HD bool stk__jpeg_gpu_scan_ends(uint32_t symbol)
{
	return !(symbol & 15) && (symbol >> 4 & 15) < 15;
}

/* Returns the table entry for an AC symbol that does not end blocks. symbol: as stk__jpeg_gpu_symbol returns it.
 * Fields in a first scan: bits 0..4 number of bits of the code and its extra bits, bits 5..8 number of extra bits, bits 9..15 number of coefficients to
 * advance.
 * Fields in a refinement: bits 0..4 number of bits of the code and the sign, bits 5..11 run of zeros, bit 15 set if the symbol has no sign. Returns NONE if
 * the symbol is invalid in refinements. */
STK_HD uint32_t stk__jpeg_gpu_scan_entry(uint32_t symbol, uint32_t refinement)
{
	uint32_t length = symbol >> 8, run = symbol >> 4 & 15, size = symbol & 15;
	if (!refinement)
		return (length + size) | size << 5 | (run + 1) << 9;
	return size > 1 ? STK_JPEG_GPU_NONE : (length + size) | run << 5 | (uint32_t)!size << 15;
}

/* Returns the value that the `count` extra bits encode [F.2.2.1, EXTEND]. */
STK_HD int32_t stk__jpeg_gpu_extend(uint32_t extra, uint32_t count)
{
	return count && extra < 1u << (count - 1) ? (int32_t)(extra - (1u << count) + 1) : (int32_t)extra;
}

/* Returns the number of units in a row of the scan. */
STK_HD uint32_t stk__jpeg_gpu_scan_columns(const struct stk_jpeg_gpu_image *image, const struct stk_jpeg_gpu_scan *scan)
{
	return scan->single ? (image->plane[scan->component].width + 7) / 8 : image->mcus_x;
}

/* Returns the number of rows of units that row y of MCUs contains. */
STK_HD uint32_t stk__jpeg_gpu_scan_rows(const struct stk_jpeg_gpu_image *image, const struct stk_jpeg_gpu_scan *scan, uint32_t y)
{
	const struct stk_jpeg_gpu_plane *plane = &image->plane[scan->component];
	uint32_t rows = (plane->height + 7) / 8, above = y * plane->v;
	if (!scan->single)
		return 1;
	return rows < above ? 0 : rows - above < plane->v ? rows - above : plane->v;
}

/* Returns the index in the image of block `part` of a unit. The unit is number x of a row of units; `row` is the index of that row among the rows that row
 * y of MCUs contains. */
STK_HD uint32_t stk__jpeg_gpu_scan_block(
	const struct stk_jpeg_gpu_image *image, const struct stk_jpeg_gpu_scan *scan, uint32_t y, uint32_t row, uint32_t x, uint32_t part)
{
	uint32_t h = image->plane[scan->component].h, mcu = scan->single ? x / h : x;
	uint32_t place = scan->single ? scan->part[0] + row * h + x % h : scan->part[part];
	return (y * image->mcus_x + mcu) * image->blocks_mcu + place;
}

#endif
