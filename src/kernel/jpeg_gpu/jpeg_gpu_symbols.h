/* SPDX-License-Identifier: Apache-2.0
 * Decodes symbols in a thread of the GPU's JPEG decoder, and packs the thread's state. The kernels and the plain C versions share it. */
#ifndef STK_KERNEL_JPEG_GPU_SYMBOLS_H
#define STK_KERNEL_JPEG_GPU_SYMBOLS_H

#include "base/hd.h"
#include "kernel/jpeg_gpu/jpeg_gpu.h"

/* The state of a decoder: p is the position of its next bit in the bitstream, c the index of its block in the MCU, and z the index of its next coefficient
 * in the block (0: a DC symbol is next). */
struct stk_jpeg_gpu_state {
	uint32_t p, c, z;
};

/* The parameters for decoding symbols, which are the same for all symbols of an image. */
struct stk_jpeg_gpu_code {
	uint32_t pairs, blocks, size, split;
};

STK_HD struct stk_jpeg_gpu_code stk__jpeg_gpu_code(const struct stk_jpeg_gpu_image *image, const struct stk_jpeg_gpu_set *set)
{
	struct stk_jpeg_gpu_code code = {image->pairs, image->blocks_mcu, set->size, set->split};
	return code;
}

/* Returns parameters for a thread that has no work but executes the same instructions as its warp. They keep its lookups within the first 1024 entries of a
 * table. */
STK_HD struct stk_jpeg_gpu_code stk__jpeg_gpu_no_code(void)
{
	struct stk_jpeg_gpu_code code = {0, 1, 0, 65536};
	return code;
}

/* Returns the table entry of the symbol that begins with the first of the 32 bits `ahead`. */
STK_HD uint32_t stk__jpeg_gpu_entry(
	const uint16_t *lut, const struct stk_jpeg_gpu_code *code, const struct stk_jpeg_gpu_state *state, uint32_t ahead)
{
	uint32_t v = ahead >> 16;
	uint32_t pair = code->pairs >> 2 * state->c & 3;
	uint32_t table = (2 * pair + (state->z != 0)) * code->size;
	return lut[table + (v < code->split ? v >> 6 : v - code->split + (code->split >> 6))];
}

STK_HD uint32_t stk__jpeg_gpu_entry_bits(uint32_t entry)
{
	return entry & 31;
}

STK_HD uint32_t stk__jpeg_gpu_entry_moves(uint32_t entry)
{
	return entry >> 9;
}

/* Returns the coefficient that an entry and the bits `ahead` encode [T.81 F.2.2.1, EXTEND], or 0 if the entry has no extra bits. */
STK_HD int32_t stk__jpeg_gpu_value(uint32_t entry, uint32_t ahead)
{
	uint32_t extra = entry >> 5 & 15, code_bits = (entry & 31) - extra, bits = ahead << code_bits;
	uint32_t below = bits >> 31 ? 0 : ~0u; /* if the first extra bit is 0, the value is negative */
	return (int32_t)((uint32_t)((uint64_t)bits << extra >> 32) + (below << extra) - below);
}

/* Moves the state past the symbol of a table entry. Returns true if the symbol finished a block. */
STK_HD bool stk__jpeg_gpu_step(struct stk_jpeg_gpu_state *state, const struct stk_jpeg_gpu_code *code, uint32_t entry)
{
	state->p += stk__jpeg_gpu_entry_bits(entry);
	state->z += stk__jpeg_gpu_entry_moves(entry);
	bool finished = state->z >= 64;
	state->z = finished ? 0 : state->z;
	state->c += finished;
	state->c = state->c == code->blocks ? 0 : state->c;
	return finished;
}

/* The position of a block in the image: y is the row of MCUs, x the index in that row. Blocks low .. high - 1 of a row are in the window. */
struct stk_jpeg_gpu_place {
	uint32_t x, y, row, low, high; /* row: number of blocks in a row of MCUs */
};

STK_HD struct stk_jpeg_gpu_place stk__jpeg_gpu_place(const struct stk_jpeg_gpu_image *image, uint32_t b)
{
	uint32_t blocks = image->blocks_mcu, row = image->mcus_x * blocks, y = b / row;
	struct stk_jpeg_gpu_place p = {b - y * row, y, row, image->mcu_x0 * blocks, image->mcu_x1 * blocks};
	return p;
}

STK_HD bool stk__jpeg_gpu_inside(const struct stk_jpeg_gpu_image *image, const struct stk_jpeg_gpu_place *p)
{
	return p->y >= image->mcu_y0 && p->x >= p->low && p->x < p->high;
}

/* Returns the index in coef of the block or, if it is outside of the window, of the next block that is inside. */
STK_HD uint32_t stk__jpeg_gpu_coef_of(const struct stk_jpeg_gpu_image *image, const struct stk_jpeg_gpu_place *p)
{
	uint32_t x = p->x < p->low ? p->low : p->x < p->high ? p->x : p->high;
	return image->coef0 + (p->y < image->mcu_y0 ? 0 : (p->y - image->mcu_y0) * (p->high - p->low) + x - p->low);
}

/* The fields of a checkpoint: bits 0..4 number of bits by which the state is past the end of the interval, bits 5..8 c, bits 9..14 z, bits 16..31 number of
 * blocks finished in the interval. Bits 0..14 are END if the bitstream ends in the interval or at its end. */
#define STK_JPEG_GPU_STATE 0x7fffu
#define STK_JPEG_GPU_END 0x7fffu

STK_HD uint32_t stk__jpeg_gpu_pack(const struct stk_jpeg_gpu_state *state, uint32_t interval_end, uint32_t blocks)
{
	return (state->p - interval_end) | state->c << 5 | state->z << 9 | blocks << 16;
}

STK_HD struct stk_jpeg_gpu_state stk__jpeg_gpu_unpack(uint32_t packed, uint32_t interval_end)
{
	struct stk_jpeg_gpu_state state = {interval_end + (packed & 31), packed >> 5 & 15, packed >> 9 & 63};
	return state;
}

/* Returns the index of the last of n structs in which one field is at most x. The field is a uint32_t whose values ascend from 0. first: address of the
 * field in the first struct; stride: size of a struct in bytes. */
STK_HD uint32_t stk__jpeg_gpu_find(const void *first, size_t stride, uint32_t n, uint32_t x)
{
	uint32_t low = 0, high = n - 1;
	while (low < high) {
		uint32_t middle = (low + high + 1) >> 1;
		if (*(const uint32_t *)((const char *)first + middle * stride) <= x)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

STK_HD uint32_t stk__jpeg_gpu_bitstream_of_subsequence(const struct stk_jpeg_gpu_view *v, uint32_t subsequence)
{
	return stk__jpeg_gpu_find(&v->bitstreams->subsequence0, sizeof *v->bitstreams, v->n_bitstreams, subsequence);
}

STK_HD uint32_t stk__jpeg_gpu_bitstream_of_chunk(const struct stk_jpeg_gpu_view *v, uint32_t chunk)
{
	return stk__jpeg_gpu_find(&v->bitstreams->chunk0, sizeof *v->bitstreams, v->n_bitstreams, chunk);
}

/* Returns row `row` of a bitstream's checkpoints, an array with one element for each interval. */
STK_HD uint32_t *stk__jpeg_gpu_row(const struct stk_jpeg_gpu_view *v, const struct stk_jpeg_gpu_bitstream *s, uint32_t row)
{
	return v->checkpoints + ((size_t)row * v->n_subsequences + s->subsequence0) * STK_JPEG_GPU_PER_SUBSEQUENCE;
}

STK_HD const uint32_t *stk__jpeg_gpu_words(const struct stk_jpeg_gpu_view *v, const struct stk_jpeg_gpu_bitstream *s)
{
	return (const uint32_t *)(v->bits + (size_t)s->subsequence0 * (STK_JPEG_GPU_SUBSEQUENCE / 8));
}

#endif
