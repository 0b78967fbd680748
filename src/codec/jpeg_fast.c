/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_fast.h"

#include "codec/jpeg_input.h"
#include "codec/jpeg_rows.h"
#include "codec/jpeg_table_cache.h"

#include <string.h>

enum { PAIRS = STK_JPEG_MAX_BLOCKS / 2, PREDICTION_LIMIT = 1 << 28 };

struct stk_jpeg_fast {
	const struct stk_jpeg_kernels *kernels;
	/* the state of the current decode */
	const struct stk_cancel *cancel;
	struct stk_jpeg_scan scan;
	struct stk_jpeg_window window;
	struct stk_jpeg_rows rows;
	struct stk_jpeg_bits bits;
	struct stk_jpeg_block block[STK_JPEG_MAX_BLOCKS];
	int32_t prediction[3];
	int n_needed; /* number of an MCU's blocks, from the first on, whose components the output needs */
	bool dc_only; /* some blocks become single samples, so only their DC coefficients are decoded */
	int restart_in, restart_number;
	_Alignas(64) uint16_t quant[PAIRS][128];
	_Alignas(64) int16_t coefficients[PAIRS * STK_JPEG_PAIR];
	uint8_t nowhere[64]; /* receives samples that are not needed, such as those of the second block of a pair with only one */
	struct stk_jpeg_input input;
	struct stk_jpeg_table_cache tables;
};

struct stk_jpeg_fast *stk__jpeg_fast_create(const struct stk_jpeg_kernels *kernels)
{
	struct stk_jpeg_fast *f = stk__alloc(sizeof *f);
	if (!f)
		return NULL;
	memset(f, 0, sizeof *f);
	f->kernels = kernels;
	return f;
}

void stk__jpeg_fast_destroy(struct stk_jpeg_fast *f)
{
	stk__free(f);
}

/* ---- preparation ---- */

static bool prepare_blocks(struct stk_jpeg_fast *f, const struct stk_jpeg_tables *t)
{
	bool skips = f->dc_only || f->rows.planes < f->scan.components || f->window.mcu_x0 > 0 || f->window.mcu_x1 < f->scan.mcus_x ||
		     f->window.mcu_y0 > 0;
	const struct stk_jpeg_ac_table *ac[3];
	const struct stk_jpeg_dc_table *dc[3];
	for (int c = 0; c < f->scan.components; c++) {
		const struct stk_jpeg_component *component = &f->scan.component[c];
		if (!stk__jpeg_dc_usable(&t->dc[component->dc]))
			return false;
		ac[c] = stk__jpeg_cached_ac(&f->tables, &t->ac[component->ac], skips);
		dc[c] = stk__jpeg_cached_dc(&f->tables, &t->dc[component->dc]);
	}
	f->n_needed = 0;
	for (int b = 0; b < f->scan.blocks; b++) {
		int c = f->scan.block_component[b], half = 8 * (b & 1);
		f->block[b] = (struct stk_jpeg_block){dc[c], ac[c], &f->prediction[c], (uint32_t)(b / 2 * STK_JPEG_PAIR + half)};
		f->n_needed += c < f->rows.planes;
		const uint16_t *quant = t->quant[f->scan.component[c].quant];
		for (int i = 0; i < 64; i++)
			f->quant[b / 2][f->kernels->position_of[i] + half] = quant[i];
	}
	return true;
}

/* Computes which MCUs to decode for the window. Gray output needs only luma, and so no neighbours of the window for upsampling chroma. */
static struct stk_jpeg_window plan_window(const struct stk_jpeg_scan *scan, int planes, struct stk_rect pixels)
{
	struct stk_jpeg_scan output_scan = *scan;
	output_scan.components = planes;
	return stk__jpeg_window_plan(&output_scan, pixels);
}

static enum stk_status prepare(
	struct stk_jpeg_fast *f, const struct stk_jpeg_header *h, size_t end, const struct stk_decode *rq, struct stk_arena *scratch)
{
	if (!stk__jpeg_scan_plan(h, end, &f->scan) || !stk__jpeg_rows_supports(&f->scan, rq->type, &f->rows.planes))
		return STK_UNSUPPORTED;
	stk__jpeg_scan_scale(&f->scan, rq->denom > 1 ? rq->denom : 1);
	f->dc_only = f->scan.scale == 1;
	f->window = plan_window(&f->scan, f->rows.planes, rq->window);
	if (!prepare_blocks(f, &h->tables))
		return STK_UNSUPPORTED;
	f->rows.kernels = f->kernels;
	f->rows.scan = &f->scan;
	f->rows.window = &f->window;
	f->rows.dst = &rq->dst;
	f->rows.type = rq->type;
	return stk__jpeg_rows_begin(&f->rows, scratch) ? STK_OK : STK_NO_MEMORY;
}

/* ---- decoding ---- */

/* Prepares the input for the next MCU: provides enough bytes and, if a restart marker is due, skips it and resets the DC predictions. Returns false if the
 * marker is missing, or if more bits were consumed than the scan has. */
static bool begin_mcu(struct stk_jpeg_fast *f)
{
	if (f->scan.restart_interval && f->restart_in-- == 0) {
		if (!stk__jpeg_input_restart(&f->input, &f->bits, f->restart_number))
			return false;
		f->restart_number = (f->restart_number + 1) & 7;
		f->restart_in = f->scan.restart_interval - 1;
		memset(f->prediction, 0, sizeof f->prediction);
	}
	return stk__jpeg_input_ready(&f->input, &f->bits);
}

static bool skip_mcus(struct stk_jpeg_fast *f, int count)
{
	for (int i = 0; i < count; i++)
		if (!begin_mcu(f) || f->kernels->skip(&f->bits, f->block, f->scan.blocks) < 0)
			return false;
	return true;
}

/* Transforms the coefficients of an MCU to samples. mask: bit b is set if block b has AC coefficients. */
static void transform(struct stk_jpeg_fast *f, int mask, uint8_t *const *to, const ptrdiff_t *stride)
{
	for (int b = 0; b < f->n_needed; b += 2) {
		bool flat = !(mask >> b & 3);
		(flat ? f->kernels->idct_flat : f->kernels->idct)(
			f->coefficients + b / 2 * STK_JPEG_PAIR, f->quant[b / 2], to + b, stride + b);
	}
}

static void transform_pair(const struct stk_jpeg_fast *f, int pair, int size, uint8_t *const to[2], const ptrdiff_t stride[2])
{
	const struct stk_jpeg_kernels *k = f->kernels;
	(size == 8 ? k->idct : k->idct_small[size / 2])(f->coefficients + pair * STK_JPEG_PAIR, f->quant[pair], to, stride);
}

/* Transforms the coefficients of an MCU at a fraction of the size, at which the two blocks of a pair may have different sizes in samples. */
static void transform_scaled(struct stk_jpeg_fast *f, uint8_t *const *to, const ptrdiff_t *stride)
{
	const struct stk_jpeg_scan *s = &f->scan;
	for (int b = 0; b < f->n_needed; b += 2) {
		int first = s->block_size[s->block_component[b]],
		    second = b + 1 < f->n_needed ? s->block_size[s->block_component[b + 1]] : first;
		if (first == second) {
			transform_pair(f, b / 2, first, to + b, stride + b);
			continue;
		}
		uint8_t *const targets[3] = {to[b], f->nowhere, to[b + 1]};
		const ptrdiff_t strides[3] = {stride[b], 8, stride[b + 1]};
		transform_pair(f, b / 2, first, targets, strides);
		transform_pair(f, b / 2, second, targets + 1, strides + 1);
	}
}

/* Decodes the coefficients of the needed blocks. Returns a mask in which bit b is set if block b has AC coefficients; a negative value means damage. If
 * dc_only is set, decodes only the DC coefficients of blocks that become single samples, and only the sign of the result has a meaning. */
static int decode_blocks(struct stk_jpeg_fast *f)
{
	if (!f->dc_only)
		return f->kernels->decode(&f->bits, f->block, f->n_needed, f->coefficients);
	int mask = 0;
	for (int b = 0; b < f->n_needed && mask >= 0; b++) {
		struct stk_jpeg_block *block = &f->block[b];
		if (f->scan.block_size[f->scan.block_component[b]] > 1) {
			mask = f->kernels->decode(&f->bits, block, 1, f->coefficients);
		} else {
			mask = f->kernels->skip(&f->bits, block, 1);
			f->coefficients[block->at] = (int16_t)*block->prediction;
		}
	}
	return mask;
}

/* Decodes those MCUs of row mcu_y that the window needs. Returns false if the data are damaged. */
static bool decode_mcus(struct stk_jpeg_fast *f, int mcu_y)
{
	uint8_t *to[STK_JPEG_MAX_BLOCKS + 1];
	ptrdiff_t stride[STK_JPEG_MAX_BLOCKS + 1], step[STK_JPEG_MAX_BLOCKS + 1];
	for (int b = 0; b < f->n_needed; b++) {
		int c = f->scan.block_component[b];
		to[b] = stk__jpeg_rows_block(&f->rows, b, mcu_y);
		stride[b] = f->rows.plane[c].stride;
		step[b] = f->scan.block_size[c] * f->scan.component[c].h;
	}
	to[f->n_needed] = f->nowhere;
	stride[f->n_needed] = 8;
	step[f->n_needed] = 0;
	size_t used = (size_t)(f->n_needed + 1) / 2 * STK_JPEG_PAIR * sizeof *f->coefficients;
	for (int x = f->window.mcu_x0; x < f->window.mcu_x1; x++) {
		if (!begin_mcu(f))
			return false;
		memset(f->coefficients, 0, used);
		int mask = decode_blocks(f);
		int skipped = f->scan.blocks - f->n_needed;
		if (mask < 0 || (skipped && f->kernels->skip(&f->bits, f->block + f->n_needed, skipped) < 0))
			return false;
		if (f->scan.scale == 8)
			transform(f, mask, to, stride);
		else
			transform_scaled(f, to, stride);
		for (int b = 0; b < f->n_needed; b++)
			to[b] += step[b];
	}
	return true;
}

/* Returns false if a DC prediction exceeds the limit, above which libjpeg refuses the file. Undamaged files do not come close to it. */
static bool predictions_sound(const struct stk_jpeg_fast *f)
{
	for (int c = 0; c < 3; c++)
		if (f->prediction[c] > PREDICTION_LIMIT || f->prediction[c] < -PREDICTION_LIMIT)
			return false;
	return true;
}

static bool decode(struct stk_jpeg_fast *f)
{
	const struct stk_jpeg_window *w = &f->window;
	for (int y = 0; y < w->mcu_y1; y++) {
		if (stk__cancelled(f->cancel))
			return false;
		if (y < w->mcu_y0) {
			if (!skip_mcus(f, f->scan.mcus_x))
				return false;
		} else {
			if (!skip_mcus(f, w->mcu_x0) || !decode_mcus(f, y) || !skip_mcus(f, f->scan.mcus_x - w->mcu_x1))
				return false;
			stk__jpeg_rows_finish(&f->rows, y);
		}
		if (!predictions_sound(f))
			return false;
	}
	return stk__jpeg_input_sound(&f->input, &f->bits);
}

enum stk_status stk__jpeg_fast_decode(struct stk_jpeg_fast *f, const struct stk_jpeg_header *header, size_t end,
	const struct stk_decode *request, struct stk_arena *scratch)
{
	enum stk_status status = prepare(f, header, end, request, scratch);
	if (status)
		return status;
	f->cancel = request->cancel;
	memset(f->prediction, 0, sizeof f->prediction);
	f->restart_in = f->scan.restart_interval;
	f->restart_number = 0;
	stk__jpeg_input_begin(&f->input, f->kernels, request->data + f->scan.offset, (size_t)f->scan.size, &f->bits);
	return decode(f) ? STK_OK : STK_CORRUPT;
}
