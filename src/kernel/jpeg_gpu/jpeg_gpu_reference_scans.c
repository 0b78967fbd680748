/* SPDX-License-Identifier: Apache-2.0
 * Plain C version of jpeg_gpu_scans.cu. Decodes scan by scan and coefficient by coefficient, as in the figures of the standard. */
#include "kernel/jpeg_gpu/jpeg_gpu_reference.h"
#include "kernel/jpeg_gpu/jpeg_gpu_scans.h"
#include "kernel/jpeg_gpu/jpeg_gpu_symbols.h"

#include <string.h>

struct decoder {
	const struct stk_jpeg_gpu_view *v;
	const struct stk_jpeg_gpu_image *image;
	const struct stk_jpeg_gpu_scan *scan;
	const uint32_t *words;
	uint32_t bitstream, p, length, left, end_run, flags;
	int32_t prediction[3];
};

static uint32_t word(const struct decoder *d, uint32_t i)
{
	return i < (d->length + 31) / 32 ? d->words[i] : 0;
}

static uint32_t ahead(const struct decoder *d)
{
	uint64_t two = (uint64_t)word(d, d->p >> 5) << 32 | word(d, (d->p >> 5) + 1);
	return (uint32_t)(two << (d->p & 31) >> 32);
}

static uint32_t take_bit(struct decoder *d)
{
	uint32_t bit = ahead(d) >> 31;
	d->p++;
	return bit;
}

static void begin(struct decoder *d)
{
	d->words = stk__jpeg_gpu_words(d->v, &d->v->bitstreams[d->bitstream]);
	d->length = d->v->bit_length[d->bitstream];
	d->p = d->end_run = 0;
	d->left = d->scan->interval;
	memset(d->prediction, 0, sizeof d->prediction);
}

/* Continues with the next restart interval if the current one has ended. If the interval had too few bits, or a whole byte is left over, sets a flag in
 * d->flags and returns false. */
static bool enter_interval(struct decoder *d)
{
	if (d->left)
		return true;
	if (d->p > d->length)
		d->flags |= STK_JPEG_GPU_SHORT;
	else if (d->length - d->p >= 8)
		d->flags |= STK_JPEG_GPU_LEFTOVER;
	else {
		d->bitstream++;
		begin(d);
	}
	return !d->flags;
}

/* Reads a code and returns its symbol (0 to 255). If the code does not exist, sets STK_JPEG_GPU_BAD_CODE in d->flags and returns 0. */
static uint32_t take_symbol(struct decoder *d, const struct stk_jpeg_huffman *table)
{
	uint32_t symbol = stk__jpeg_gpu_symbol(table, ahead(d), 16);
	d->flags |= symbol ? 0 : STK_JPEG_GPU_BAD_CODE;
	d->p += symbol >> 8;
	return symbol & 255;
}

static uint32_t take_extra(struct decoder *d, uint32_t count)
{
	uint32_t extra = 0;
	for (uint32_t i = 0; i < count; i++)
		extra = extra << 1 | take_bit(d);
	return extra;
}

/* ---- AC scans ---- */

static void first_block(struct decoder *d, int16_t *block)
{
	const struct stk_jpeg_gpu_scan *s = d->scan;
	for (uint32_t k = s->start; k <= s->end && !d->flags;) {
		uint32_t symbol = take_symbol(d, &s->table[0]), run = symbol >> 4, size = symbol & 15;
		if (d->flags)
			return;
		if (!size && run < 15) {
			d->end_run = (1u << run) + take_extra(d, run);
			break;
		}
		k += run;
		if (k > s->end) {
			d->flags |= STK_JPEG_GPU_OVERRUN;
			return;
		}
		int32_t value = stk__jpeg_gpu_extend(take_extra(d, size), size);
		if (size)
			block[k] = (int16_t)((uint32_t)value << s->low);
		k++;
	}
}

static void correct(struct decoder *d, int16_t *c)
{
	int step = 1 << d->scan->low;
	if (take_bit(d))
		*c = (int16_t)(*c + (*c < 0 ? -step : step));
}

static void refine_block(struct decoder *d, int16_t *block)
{
	const struct stk_jpeg_gpu_scan *s = d->scan;
	uint32_t k = s->start;
	while (k <= s->end && !d->end_run) {
		uint32_t symbol = take_symbol(d, &s->table[0]), run = symbol >> 4, size = symbol & 15;
		d->flags |= size > 1 ? STK_JPEG_GPU_BAD_CODE : 0;
		if (d->flags)
			return;
		if (!size && run < 15) {
			d->end_run = (1u << run) + take_extra(d, run);
			break;
		}
		int sign = size && take_bit(d) ? 1 : -1;
		for (; k <= s->end && (block[k] || run); k++)
			if (block[k])
				correct(d, &block[k]);
			else
				run--;
		if (k > s->end) {
			d->flags |= STK_JPEG_GPU_OVERRUN;
			return;
		}
		if (size)
			block[k] = (int16_t)(sign * (1 << s->low));
		k++;
	}
	for (; d->end_run && k <= s->end; k++)
		if (block[k])
			correct(d, &block[k]);
}

static void decode_band(struct decoder *d, int16_t *block)
{
	if (d->scan->high)
		refine_block(d, block);
	else if (!d->end_run)
		first_block(d, block);
	d->end_run -= d->end_run > 0;
}

/* ---- DC scans ---- */

static void decode_dc(struct decoder *d, uint32_t slot, int16_t *dc)
{
	const struct stk_jpeg_gpu_scan *s = d->scan;
	if (s->high) {
		*dc = (int16_t)(*dc | (int)take_bit(d) << s->low);
		return;
	}
	uint32_t size = take_symbol(d, &s->table[slot]) & 15;
	if (d->flags)
		return;
	d->prediction[slot] += stk__jpeg_gpu_extend(take_extra(d, size), size);
	*dc = (int16_t)((uint32_t)d->prediction[slot] << s->low);
}

/* ---- whole files ---- */

static void decode_row(struct decoder *d, uint32_t y, uint32_t row)
{
	uint32_t columns = stk__jpeg_gpu_scan_columns(d->image, d->scan);
	for (uint32_t x = 0; x < columns && enter_interval(d) && !d->flags; x++, d->left--)
		for (uint32_t i = 0; i < d->scan->parts && !d->flags; i++) {
			uint32_t at = stk__jpeg_gpu_scan_block(d->image, d->scan, y, row, x, i);
			if (d->scan->start)
				decode_band(d, d->v->coef + 64 * (size_t)(d->image->coef0 + at));
			else
				decode_dc(d, d->scan->slot[i], &d->v->dc[d->image->dc0 + at]);
		}
	for (int c = 0; c < 3; c++)
		if (d->prediction[c] > STK_JPEG_GPU_PREDICTION_LIMIT || d->prediction[c] < -STK_JPEG_GPU_PREDICTION_LIMIT)
			d->flags |= STK_JPEG_GPU_DC_RANGE;
	d->flags |= d->p > d->length ? STK_JPEG_GPU_SHORT : 0;
}

void stk__jpeg_gpu_decode_scans(const struct stk_jpeg_gpu_view *v, uint32_t file)
{
	const struct stk_jpeg_gpu_progressive *f = &v->progressive[file];
	const struct stk_jpeg_gpu_image *image = &v->images[f->image];
	memset(v->coef + 64 * (size_t)image->coef0, 0, 128 * (size_t)image->idct);
	memset(v->dc + image->dc0, 0, sizeof *v->dc * image->idct);
	for (uint32_t i = 0; i < f->scans && !v->flags[f->image]; i++) {
		const struct stk_jpeg_gpu_scan *scan = &v->scans[f->scan0 + i];
		struct decoder d = {.v = v, .image = image, .scan = scan, .bitstream = scan->bitstream};
		begin(&d);
		for (uint32_t y = 0; y < image->mcu_y1 && !d.flags; y++)
			for (uint32_t row = 0; row < stk__jpeg_gpu_scan_rows(image, scan, y) && !d.flags; row++)
				decode_row(&d, y, row);
		v->flags[f->image] |= d.flags;
	}
}
