/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_gpu/jpeg_gpu_script.h"

#include "codec/jpeg_script.h"

#include <string.h>

enum {
	MIN_INTERVAL = 128, /* minimum average size in bytes of a restart interval: smaller bitstreams cost more time than they save */
	MAX_SCAN = 96 << 10 /* maximum size of a scan in bytes: the GPU takes some 100 ns for each symbol, while the batch waits, so a CPU
		       * core decodes larger scans sooner */
};

/* The state of a walk over the scans. A scan's end is known only when the next scan is found. */
struct walk {
	const struct stk_jpeg_gpu_script *script;
	struct stk_jpeg_gpu_script_size size;
	struct stk_jpeg_gpu_scan scan; /* the current scan */
	size_t begin;                  /* offset of the scan's entropy-coded bytes in the file */
	uint32_t min_delay[3][64];     /* [component][coefficient]: minimum delay of the coefficient's next scan, in rows of MCUs */
};

/* libjpeg uses the quantisation table that is defined when a component's first scan begins. Here that is always the table at the file's first scan, since
 * stk__jpeg_script_walk refuses files that define quantisation tables later. */
bool stk__jpeg_gpu_script_frame(const struct stk_jpeg_header *h, struct stk_jpeg_scan *frame)
{
	if (!stk__jpeg_frame_plan(h, frame))
		return false;
	for (int c = 0; c < h->components; c++) {
		if (h->component[c].quant >= STK_JPEG_TABLES || !(h->tables.quant_mask >> h->component[c].quant & 1))
			return false;
		for (int i = 0; i < c; i++)
			if (h->component[i].id == h->component[c].id)
				return false;
	}
	return true;
}

static bool tables_usable(const struct stk_jpeg_header *h)
{
	for (int i = 0; i < h->scan_components && !h->approx_high; i++) {
		const struct stk_jpeg_component *c = &h->component[h->scan_order[i]];
		if (!h->spectral_start &&
			(c->dc >= STK_JPEG_TABLES || !(h->tables.dc_mask >> c->dc & 1) || !stk__jpeg_dc_usable(&h->tables.dc[c->dc])))
			return false;
	}
	const struct stk_jpeg_component *c = &h->component[h->scan_order[0]];
	return !h->spectral_start ||
	       (c->ac < STK_JPEG_TABLES && h->tables.ac_mask >> c->ac & 1 && stk__jpeg_huffman_valid(&h->tables.ac[c->ac], false));
}

/* Lists the blocks of a unit: one block if the scan has a single component, otherwise all blocks of the scan's components in an MCU. */
static void describe_units(struct stk_jpeg_gpu_scan *s, const struct stk_jpeg_header *h, const struct stk_jpeg_scan *frame)
{
	s->single = h->scan_components == 1;
	s->component = h->scan_order[0];
	for (int i = 0; i < h->scan_components; i++)
		for (int b = 0; b < frame->blocks; b++)
			if (frame->block_component[b] == h->scan_order[i] && !(s->single && s->parts)) {
				s->part[s->parts] = (uint8_t)b;
				s->slot[s->parts++] = (uint8_t)i;
			}
}

static void describe_tables(struct stk_jpeg_gpu_scan *s, const struct stk_jpeg_header *h)
{
	for (int i = 0; i < h->scan_components && !(h->approx_high && !h->spectral_start); i++) {
		const struct stk_jpeg_component *c = &h->component[h->scan_order[i]];
		s->table[i] = h->spectral_start ? h->tables.ac[c->ac] : h->tables.dc[c->dc];
	}
}

/* Sets the scan's delay, so that it stays a row of MCUs after all earlier scans of its coefficients. Records this for later scans, and updates the file's
 * number of steps. */
static void delay(struct walk *w, const struct stk_jpeg_header *h)
{
	struct stk_jpeg_gpu_scan *s = &w->scan;
	for (int i = 0; i < h->scan_components; i++)
		for (int k = h->spectral_start; k <= h->spectral_end; k++) {
			uint32_t ready = w->min_delay[h->scan_order[i]][k];
			s->delay = ready > s->delay ? ready : s->delay;
		}
	for (int i = 0; i < h->scan_components; i++)
		for (int k = h->spectral_start; k <= h->spectral_end; k++)
			w->min_delay[h->scan_order[i]][k] = s->delay + 1;
	uint32_t steps = s->delay + w->script->mcu_rows;
	w->size.steps = steps > w->size.steps ? steps : w->size.steps;
}

static void open_scan(struct walk *w, const struct stk_jpeg_header *h)
{
	w->scan = (struct stk_jpeg_gpu_scan){.bitstream = w->size.bitstreams,
		.interval = h->restart_interval ? (uint32_t)h->restart_interval : STK_JPEG_GPU_NONE,
		.start = h->spectral_start,
		.end = h->spectral_end,
		.high = h->approx_high,
		.low = h->approx_low};
	w->begin = h->scan_offset;
	describe_units(&w->scan, h, w->script->frame);
	describe_tables(&w->scan, h);
	delay(w, h);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Counts the scan's units: all of them (*all), and those down to the window's last row (*needed). */
static void count_units(const struct walk *w, uint64_t *needed, uint64_t *all)
{
	const struct stk_jpeg_scan *frame = w->script->frame;
	const struct stk_jpeg_component *c = &frame->component[w->scan.component];
	uint64_t columns = (uint64_t)frame->mcus_x, rows = (uint64_t)frame->mcus_y, last = w->script->mcu_rows;
	if (w->scan.single) {
		columns = ((uint64_t)c->width + 7) / 8;
		rows = ((uint64_t)c->height + 7) / 8;
		last = smaller(last * c->v, rows);
	}
	*needed = columns * last;
	*all = columns * rows;
}

/* Adds a bitstream for each restart interval that the window needs. Returns false if the CPU must decode the file: restart markers are out of order or missing,
 * restart intervals are tiny, or there is no space for more bitstreams. */
static bool add_bitstreams(struct walk *w, size_t end_of_scan)
{
	const struct stk_jpeg_gpu_script *script = w->script;
	const uint8_t *at = script->file->data + w->begin, *end = script->file->data + end_of_scan;
	uint64_t needed, all, interval = w->scan.interval;
	count_units(w, &needed, &all);
	if ((all + interval - 1) / interval * MIN_INTERVAL > script->file->size && interval < all)
		return false;
	for (uint64_t unit = 0, number = 0; unit < needed; unit += interval, number++) {
		bool continues = unit + interval < all;
		const uint8_t *marker = continues ? stk__jpeg_find_marker(at, end) : NULL, *to = marker ? marker : end;
		bool last = unit + interval >= needed;
		if ((continues && !marker) || (!last && marker[1] != 0xd0 + (number & 7)))
			return false;
		struct stk_jpeg_gpu_bitstream s = {
			.src = script->file->raw + (uint32_t)(at - script->file->data), .src_size = (uint32_t)(to - at), .last = last};
		if (script->add && !script->add(script->user, s, at))
			return false;
		w->size.bitstreams++;
		at = marker ? marker + 2 : end;
	}
	return true;
}

static bool close_scan(struct walk *w, size_t end)
{
	if (end - w->begin > MAX_SCAN || !add_bitstreams(w, end))
		return false;
	if (w->script->scans)
		w->script->scans[w->size.scans] = w->scan;
	w->size.scans++;
	return true;
}

static bool visit_scan(void *user, const struct stk_jpeg_header *h)
{
	struct walk *w = user;
	if ((w->begin && !close_scan(w, h->scan_offset)) || !tables_usable(h))
		return false;
	open_scan(w, h);
	return true;
}

bool stk__jpeg_gpu_script_plan(const struct stk_jpeg_gpu_script *script, struct stk_jpeg_gpu_script_size *size)
{
	const struct stk_jpeg_gpu_file *f = script->file;
	struct stk_jpeg_header h = *f->header;
	struct walk w = {.script = script};
	int most = f->max_scans > 0 && f->max_scans < STK_JPEG_GPU_MAX_SCANS ? f->max_scans : STK_JPEG_GPU_MAX_SCANS;
	size_t end;
	if (!stk__jpeg_find_eoi(f->data, f->size, &h, &end) || !stk__jpeg_script_walk(f->data, f->size, &h, most, visit_scan, &w) ||
		!close_scan(&w, end))
		return false;
	*size = w.size;
	return true;
}
