/* SPDX-License-Identifier: Apache-2.0
 * What a lane of the parallel JPEG decoder does with one symbol, and how its state is written down. Shared by the twins and the kernels. */
#ifndef STK_KERNEL_JPEGPAR_LANE_H
#define STK_KERNEL_JPEGPAR_LANE_H

#include "kernel/common/hd.h"
#include "kernel/jpeg_gpu/jpeg_gpu.h"

/* Where a lane stands: bit p of the stream, block c of the MCU, coefficient z (0: a DC symbol comes next). */
struct stk_jpegpar_lane {
	uint32_t p, c, z;
};

/* What an image's symbols are decoded with. */
struct stk_jpegpar_code {
	uint32_t pairs, blocks, size, split;
};

STK_HD struct stk_jpegpar_code stk__jpegpar_code(const struct stk_jpegpar_image *image, const struct stk_jpegpar_set *set)
{
	struct stk_jpegpar_code code = {image->pairs, image->blocks_mcu, set->size, set->split};
	return code;
}

/* Of a lane that has nothing to do, but goes along with its warp: any table's first 1024 entries serve it. */
STK_HD struct stk_jpegpar_code stk__jpegpar_no_code(void)
{
	struct stk_jpegpar_code code = {0, 1, 0, 65536};
	return code;
}

/* The entry for the 32 bits ahead. */
STK_HD uint32_t stk__jpegpar_entry(
	const uint16_t *lut, const struct stk_jpegpar_code *code, const struct stk_jpegpar_lane *lane, uint32_t ahead)
{
	uint32_t v = ahead >> 16;
	uint32_t pair = code->pairs >> 2 * lane->c & 3;
	uint32_t table = (2 * pair + (lane->z != 0)) * code->size;
	return lut[table + (v < code->split ? v >> 6 : v - code->split + (code->split >> 6))];
}

STK_HD uint32_t stk__jpegpar_entry_bits(uint32_t entry)
{
	return entry & 31;
}

STK_HD uint32_t stk__jpegpar_entry_moves(uint32_t entry)
{
	return entry >> 9;
}

/* The coefficient that an entry and the bits ahead stand for [T.81 F.2.2.1, EXTEND]. 0 where it has no extra bits. */
STK_HD int32_t stk__jpegpar_value(uint32_t entry, uint32_t ahead)
{
	uint32_t extra = entry >> 5 & 15, code_bits = (entry & 31) - extra, bits = ahead << code_bits;
	uint32_t below = bits >> 31 ? 0 : ~0u; /* an extra bit of 0 first: less than 0 */
	return (int32_t)((uint32_t)((uint64_t)bits << extra >> 32) + (below << extra) - below);
}

/* Moves behind the symbol; true when it finished a block. */
STK_HD bool stk__jpegpar_step(struct stk_jpegpar_lane *lane, const struct stk_jpegpar_code *code, uint32_t entry)
{
	lane->p += stk__jpegpar_entry_bits(entry);
	lane->z += stk__jpegpar_entry_moves(entry);
	bool finished = lane->z >= 64;
	lane->z = finished ? 0 : lane->z;
	lane->c += finished;
	lane->c = lane->c == code->blocks ? 0 : lane->c;
	return finished;
}

/* Where one of the image's blocks is: in row y of MCUs, block x of the row, of which the window has low .. high - 1. */
struct stk_jpegpar_place {
	uint32_t x, y, row, low, high; /* row: blocks of a whole one */
};

STK_HD struct stk_jpegpar_place stk__jpegpar_place(const struct stk_jpegpar_image *image, uint32_t b)
{
	uint32_t blocks = image->blocks_mcu, row = image->mcus_x * blocks, y = b / row;
	struct stk_jpegpar_place p = {b - y * row, y, row, image->mcu_x0 * blocks, image->mcu_x1 * blocks};
	return p;
}

STK_HD bool stk__jpegpar_inside(const struct stk_jpegpar_image *image, const struct stk_jpegpar_place *p)
{
	return p->y >= image->mcu_y0 && p->x >= p->low && p->x < p->high;
}

/* Where in coef the block is, or the next that is inside the window. */
STK_HD uint32_t stk__jpegpar_coef_of(const struct stk_jpegpar_image *image, const struct stk_jpegpar_place *p)
{
	uint32_t x = p->x < p->low ? p->low : p->x < p->high ? p->x : p->high;
	return image->coef0 + (p->y < image->mcu_y0 ? 0 : (p->y - image->mcu_y0) * (p->high - p->low) + x - p->low);
}

/* A checkpoint: bits past the interval's end 0..4, c 5..8, z 9..14, blocks finished in the interval 16..31. Where the stream ends inside the
 * interval the state is END. */
#define STK_JPEGPAR_STATE 0x7fffu
#define STK_JPEGPAR_END 0x7fffu

STK_HD uint32_t stk__jpegpar_pack(const struct stk_jpegpar_lane *lane, uint32_t interval_end, uint32_t blocks)
{
	return (lane->p - interval_end) | lane->c << 5 | lane->z << 9 | blocks << 16;
}

STK_HD struct stk_jpegpar_lane stk__jpegpar_unpack(uint32_t state, uint32_t interval_end)
{
	struct stk_jpegpar_lane lane = {interval_end + (state & 31), state >> 5 & 15, state >> 9 & 63};
	return lane;
}

/* The last of the n elements, at a stride, whose first number is not above x; the first element's is 0. */
STK_HD uint32_t stk__jpegpar_find(const void *first, size_t stride, uint32_t n, uint32_t x)
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

STK_HD uint32_t stk__jpegpar_stream_of_segment(const struct stk_jpegpar_view *v, uint32_t segment)
{
	return stk__jpegpar_find(&v->streams->segment0, sizeof *v->streams, v->n_streams, segment);
}

STK_HD uint32_t stk__jpegpar_stream_of_chunk(const struct stk_jpegpar_view *v, uint32_t chunk)
{
	return stk__jpegpar_find(&v->streams->chunk0, sizeof *v->streams, v->n_streams, chunk);
}

/* Row `row` of the checkpoints of a stream, by interval. */
STK_HD uint32_t *stk__jpegpar_row(const struct stk_jpegpar_view *v, const struct stk_jpegpar_stream *s, uint32_t row)
{
	return v->checkpoints + ((size_t)row * v->n_segments + s->segment0) * STK_JPEGPAR_PER_SEGMENT;
}

STK_HD const uint32_t *stk__jpegpar_words(const struct stk_jpegpar_view *v, const struct stk_jpegpar_stream *s)
{
	return (const uint32_t *)(v->bits + (size_t)s->segment0 * (STK_JPEGPAR_SEGMENT / 8));
}

#endif
