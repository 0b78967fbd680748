/* SPDX-License-Identifier: Apache-2.0
 * stk__jpeg_gpu_plan_add collects files. stk__jpeg_gpu_plan_end sorts the bitstreams by their sets of decoding tables, so that each thread block loads
 * only one set, and writes all arrays of the plan one after the other. */
#include "codec/jpeg_gpu/jpeg_gpu_plan.h"

#include "base/memory.h"
#include "codec/jpeg_gpu/jpeg_gpu_layout.h"
#include "codec/jpeg_gpu/jpeg_gpu_script.h"
#include "kernel/jpeg_gpu/jpeg_gpu_tables.h"

#include <string.h>

enum {
	CACHE = 16,
	MIN_INTERVAL = 128 /* minimum average size in bytes of a restart interval: smaller bitstreams cost more time than they save */
};

static const uint8_t natural_order[64] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
	13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61,
	54, 47, 55, 62, 63};

/* An image's pairs of DC and AC tables, as in its DHT segments. Images with equal keys have equal decoding tables. */
struct tables_key {
	uint64_t hash;
	int pairs;
	struct stk_jpeg_huffman table[6];
};

struct cached_set {
	struct tables_key key;
	struct stk_jpeg_gpu_set set;
	bool fits; /* false: the tables are too large, and `set` and `lut` are undefined */
	uint16_t lut[STK_JPEG_GPU_MAX_SET];
};

struct range {
	uint32_t first, count;
};

struct stk_jpeg_gpu_plan {
	struct stk_jpeg_gpu_capacity cap; /* number of elements of each array in the current batch */
	uint8_t *tables;                  /* the caller's memory, to which stk__jpeg_gpu_plan_end writes */
	/* stk__jpeg_gpu_plan_add fills the following members. */
	struct stk_jpeg_gpu_image *images;
	struct range *image_bitstreams;
	struct stk_jpeg_gpu_bitstream *bitstreams; /* in the order in which the files were added */
	struct stk_jpeg_gpu_progressive *progressive;
	struct stk_jpeg_gpu_scan *scans;
	struct tables_key *set_key;
	struct stk_jpeg_gpu_set *sets;
	uint16_t *lut;
	uint16_t *quant;
	uint32_t n_images, n_bitstreams, n_sets, n_lut, n_subsequences, n_chunks, n_progressive, n_scans;
	uint64_t n_blocks, n_dc, n_idct, n_planes, n_rgb, n_rows;
	/* Made by stk__jpeg_gpu_plan_end, with host addresses of the tables and no addresses of the results; stk__jpeg_gpu_plan_view makes both device addresses. */
	struct stk_jpeg_gpu_view view;
	struct cached_set *cache;
	unsigned next_victim;
};

/* ---- memory ---- */

struct stk_jpeg_gpu_plan_sizes stk__jpeg_gpu_plan_sizes(const struct stk_jpeg_gpu_plan_limits *limits)
{
	struct stk_jpeg_gpu_capacity c = stk__jpeg_gpu_capacity(limits);
	struct stk_jpeg_gpu_view v = {.n_images = c.images,
		.n_bitstreams = c.bitstreams,
		.n_sync_work = c.sync_work,
		.n_coefficient_work = c.coefficient_work,
		/* A progressive file has at least one scan, so the number of scans limits the number of such files. */
		.n_progressive = c.scans,
		.n_scans = c.scans};
	return (struct stk_jpeg_gpu_plan_sizes){stk__jpeg_gpu_place_tables(&v, 0, c.lut), stk__jpeg_gpu_place_work(&v, 0, &c), c.rgb};
}

enum stk_status stk__jpeg_gpu_plan_create(
	const struct stk_jpeg_gpu_plan_limits *limits, void *tables, struct stk_jpeg_gpu_plan **out, struct stk_error *err)
{
	struct stk_jpeg_gpu_plan *p = stk__calloc(1, sizeof *p);
	if (!p)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	p->cap = stk__jpeg_gpu_capacity(limits);
	p->tables = tables;
	p->images = stk__alloc(sizeof *p->images * p->cap.images);
	p->image_bitstreams = stk__alloc(sizeof *p->image_bitstreams * p->cap.images);
	p->bitstreams = stk__alloc(sizeof *p->bitstreams * p->cap.bitstreams);
	p->set_key = stk__alloc(sizeof *p->set_key * p->cap.images);
	p->sets = stk__alloc(sizeof *p->sets * p->cap.images);
	p->lut = stk__alloc(sizeof *p->lut * ((size_t)p->cap.lut + 1));
	p->quant = stk__alloc(sizeof *p->quant * 64 * 3 * p->cap.images);
	p->cache = stk__calloc(CACHE, sizeof *p->cache);
	p->progressive = stk__alloc(sizeof *p->progressive * (p->cap.scans + 1));
	p->scans = stk__alloc(sizeof *p->scans * (p->cap.scans + 1));
	if (!p->progressive || !p->scans || !p->images || !p->image_bitstreams || !p->bitstreams || !p->set_key || !p->sets || !p->lut ||
		!p->quant || !p->cache) {
		stk__jpeg_gpu_plan_destroy(p);
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	}
	*out = p;
	return STK_OK;
}

void stk__jpeg_gpu_plan_destroy(struct stk_jpeg_gpu_plan *p)
{
	if (!p)
		return;
	stk__free(p->images);
	stk__free(p->image_bitstreams);
	stk__free(p->bitstreams);
	stk__free(p->set_key);
	stk__free(p->sets);
	stk__free(p->lut);
	stk__free(p->quant);
	stk__free(p->cache);
	stk__free(p->progressive);
	stk__free(p->scans);
	stk__free(p);
}

void stk__jpeg_gpu_plan_begin(struct stk_jpeg_gpu_plan *p, const struct stk_jpeg_gpu_plan_limits *limits)
{
	p->cap = stk__jpeg_gpu_capacity(limits);
	p->n_images = p->n_bitstreams = p->n_sets = p->n_lut = p->n_subsequences = p->n_chunks = p->n_progressive = p->n_scans = 0;
	p->n_blocks = p->n_dc = p->n_idct = p->n_planes = p->n_rgb = p->n_rows = 0;
}

/* ---- tables ---- */

static uint64_t hash_of(const void *data, size_t size)
{
	uint64_t h = 0x9e3779b97f4a7c15u, word;
	for (size_t i = 0; i < size; i += sizeof word) {
		memcpy(&word, (const uint8_t *)data + i, sizeof word);
		h = (h ^ word) * 0x2545f4914f6cdd1du;
		h ^= h >> 29;
	}
	return h;
}

/* Lists the distinct pairs of tables and returns their number. pair_of: set to the index in `pairs` of each component's pair. */
static int list_pairs(const struct stk_jpeg_header *h, struct stk_jpeg_gpu_pair pairs[3], uint32_t pair_of[3])
{
	int n = 0;
	for (int c = 0; c < h->components; c++) {
		int match = 0;
		while (match < c && (h->component[match].dc != h->component[c].dc || h->component[match].ac != h->component[c].ac))
			match++;
		pair_of[c] = match < c ? pair_of[match] : (uint32_t)n;
		if (match == c)
			pairs[n++] = (struct stk_jpeg_gpu_pair){&h->tables.dc[h->component[c].dc], &h->tables.ac[h->component[c].ac]};
	}
	return n;
}

static void make_key(const struct stk_jpeg_header *h, struct tables_key *key, uint32_t pair_of[3])
{
	struct stk_jpeg_gpu_pair pairs[3];
	key->pairs = list_pairs(h, pairs, pair_of);
	for (int i = 0; i < key->pairs; i++) {
		key->table[2 * i] = *pairs[i].dc;
		key->table[2 * i + 1] = *pairs[i].ac;
	}
	key->hash = hash_of(key->table, 2 * (size_t)key->pairs * sizeof *key->table) + (uint64_t)key->pairs;
}

static bool same_key(const struct tables_key *a, const struct tables_key *b)
{
	return a->hash == b->hash && a->pairs == b->pairs && memcmp(a->table, b->table, 2 * (size_t)a->pairs * sizeof *a->table) == 0;
}

static struct cached_set *cached(struct stk_jpeg_gpu_plan *p, const struct tables_key *key)
{
	for (int i = 0; i < CACHE; i++)
		if (same_key(&p->cache[i].key, key))
			return &p->cache[i];
	struct cached_set *c = &p->cache[p->next_victim++ % CACHE];
	struct stk_jpeg_gpu_pair pairs[3];
	c->key = *key;
	for (int i = 0; i < key->pairs; i++)
		pairs[i] = (struct stk_jpeg_gpu_pair){&c->key.table[2 * i], &c->key.table[2 * i + 1]};
	c->fits = stk__jpeg_gpu_tables_make(pairs, key->pairs, &c->set, c->lut);
	return c;
}

/* Returns the number of the table set with this key in this batch; adds it if necessary. NONE: the set is too large, or the batch is full. */
static uint32_t add_set(struct stk_jpeg_gpu_plan *p, const struct tables_key *key)
{
	for (uint32_t i = 0; i < p->n_sets; i++)
		if (same_key(&p->set_key[i], key))
			return i;
	const struct cached_set *c = cached(p, key);
	uint32_t entries = c->set.size * c->set.tables;
	if (!c->fits || p->n_lut + entries > p->cap.lut || p->n_sets == p->cap.images)
		return STK_JPEG_GPU_NONE;
	p->set_key[p->n_sets] = *key;
	p->sets[p->n_sets] = c->set;
	p->sets[p->n_sets].at = p->n_lut;
	memcpy(p->lut + p->n_lut, c->lut, sizeof *c->lut * entries);
	p->n_lut += entries;
	return p->n_sets++;
}

/* ---- bitstreams ---- */

static bool add_bitstream(struct stk_jpeg_gpu_plan *p, struct stk_jpeg_gpu_bitstream s, const uint8_t *data)
{
	/* An FF before a marker is a fill byte and not part of the data. */
	while (s.src_size && data[s.src_size - 1] == 0xff)
		s.src_size--;
	uint64_t bits = 8 * (uint64_t)s.src_size;
	s.subsequences = (uint32_t)((bits + STK_JPEG_GPU_SUBSEQUENCE - 1) / STK_JPEG_GPU_SUBSEQUENCE);
	s.subsequences = s.subsequences ? s.subsequences : 1;
	s.chunks = ((s.src & 15) + s.src_size + STK_JPEG_GPU_CHUNK - 1) / STK_JPEG_GPU_CHUNK;
	s.chunks = s.chunks ? s.chunks : 1;
	if (p->n_bitstreams == p->cap.bitstreams || p->cap.subsequences - p->n_subsequences < s.subsequences ||
		p->cap.chunks - p->n_chunks < s.chunks)
		return false;
	p->n_subsequences += s.subsequences;
	p->n_chunks += s.chunks;
	p->bitstreams[p->n_bitstreams++] = s;
	return true;
}

/* Adds a bitstream for each restart interval down to the window's last row. Intervals above the window are decoded too, because the CPU does so and reports
 * their damage. Returns false if the CPU must decode the file: intervals are tiny, restart markers are missing or out of order, or the batch is full. */
static bool add_intervals(struct stk_jpeg_gpu_plan *p, const struct stk_jpeg_gpu_file *f, const struct stk_jpeg_scan *scan,
	const struct stk_jpeg_window *window, uint32_t image)
{
	uint64_t total = (uint64_t)scan->mcus_x * (uint64_t)scan->mcus_y, interval = (uint64_t)scan->restart_interval;
	uint64_t stop = (uint64_t)window->mcu_y1 * (uint64_t)scan->mcus_x;
	if ((total + interval - 1) / interval * MIN_INTERVAL > scan->size)
		return false;
	const uint8_t *at = f->data + scan->offset, *end = at + scan->size;
	for (uint64_t mcu = 0, number = 0; mcu < stop; mcu += interval, number++) {
		uint64_t mcus = stop - mcu < interval ? stop - mcu : interval;
		bool continues = mcu + interval < total;
		const uint8_t *marker = continues ? stk__jpeg_find_marker(at, end) : NULL, *to = marker ? marker : end;
		bool last = mcu + interval >= stop;
		if ((continues && !marker) || (!last && marker[1] != 0xd0 + (number & 7)))
			return false;
		struct stk_jpeg_gpu_bitstream s = {.image = image,
			.src = f->raw + (uint32_t)(at - f->data),
			.src_size = (uint32_t)(to - at),
			.mcu0 = (uint32_t)mcu,
			.blocks = (uint32_t)mcus * (uint32_t)scan->blocks,
			.last = last};
		if (!add_bitstream(p, s, at))
			return false;
		at = marker ? marker + 2 : end;
	}
	return true;
}

static bool add_bitstreams(struct stk_jpeg_gpu_plan *p, const struct stk_jpeg_gpu_file *f, const struct stk_jpeg_scan *scan,
	const struct stk_jpeg_window *window, uint32_t image)
{
	if (scan->restart_interval && (int64_t)scan->restart_interval < (int64_t)scan->mcus_x * scan->mcus_y)
		return add_intervals(p, f, scan, window, image);
	struct stk_jpeg_gpu_bitstream s = {.image = image,
		.src = f->raw + (uint32_t)scan->offset,
		.src_size = (uint32_t)scan->size,
		.blocks = (uint32_t)(window->mcu_y1 * scan->mcus_x * scan->blocks),
		.last = 1};
	return add_bitstream(p, s, f->data + scan->offset);
}

/* ---- images ---- */

static void add_planes(
	struct stk_jpeg_gpu_plan *p, struct stk_jpeg_gpu_image *im, const struct stk_jpeg_header *h, const struct stk_jpeg_scan *scan)
{
	uint16_t *quant = p->quant + (size_t)64 * 3 * p->n_images;
	for (uint32_t c = 0; c < im->components; c++) {
		const struct stk_jpeg_component *from = &scan->component[c];
		uint32_t mcus_x = im->mcu_x1 - im->mcu_x0, mcus_y = im->mcu_y1 - im->mcu_y0;
		struct stk_jpeg_gpu_plane *to = &im->plane[c];
		*to = (struct stk_jpeg_gpu_plane){.at = (uint32_t)p->n_planes,
			.pitch = 8 * from->h * mcus_x,
			.width = (uint32_t)from->width - 8 * from->h * im->mcu_x0,
			.height = (uint32_t)from->height - 8 * from->v * im->mcu_y0,
			.h = from->h,
			.v = from->v,
			.quant = 3 * p->n_images + c,
			.upsample = scan->upsample[c]};
		p->n_planes += (to->pitch * (uint64_t)(8 * from->v * mcus_y) + 15) & ~(uint64_t)15;
		for (int k = 0; k < 64; k++)
			quant[64 * c + (uint32_t)k] = h->tables.quant[from->quant][natural_order[k]];
	}
}

/* Describes the image, except for its table set, its planes and its bitstreams. */
static struct stk_jpeg_gpu_image describe(
	const struct stk_jpeg_gpu_file *f, const struct stk_jpeg_scan *scan, const struct stk_jpeg_window *w, const uint32_t pair_of[3])
{
	struct stk_jpeg_gpu_image im = {.blocks_mcu = (uint32_t)scan->blocks,
		.components = (uint32_t)scan->components,
		.color = scan->color,
		.h_max = (uint32_t)scan->h_max,
		.v_max = (uint32_t)scan->v_max,
		.mcus_x = (uint32_t)scan->mcus_x,
		.mcu_x0 = (uint32_t)w->mcu_x0,
		.mcu_y0 = (uint32_t)w->mcu_y0,
		.mcu_x1 = (uint32_t)w->mcu_x1,
		.mcu_y1 = (uint32_t)w->mcu_y1,
		.x = (uint32_t)(w->pixels.x - w->mcu_x0 * scan->mcu_w),
		.y = (uint32_t)(w->pixels.y - w->mcu_y0 * scan->mcu_h),
		.w = (uint32_t)w->pixels.w,
		.h = (uint32_t)w->pixels.h,
		.type = f->type,
		.channels = f->type == STK_GRAY ? 1 : 3};
	im.rgb_pitch = (((im.x & 7) + im.w + 7) / 8 * 8 * im.channels + 15) & ~15u;
	for (int b = 0; b < scan->blocks; b++) {
		im.pairs |= pair_of[scan->block_component[b]] << 2 * b;
		im.block_components |= (uint32_t)scan->block_component[b] << 2 * b;
	}
	return im;
}

static uint64_t window_blocks(const struct stk_jpeg_gpu_image *im)
{
	return (uint64_t)(im->mcu_x1 - im->mcu_x0) * (im->mcu_y1 - im->mcu_y0) * im->blocks_mcu;
}

static bool has_room(const struct stk_jpeg_gpu_plan *p, const struct stk_jpeg_gpu_image *im, uint64_t blocks, uint64_t dc)
{
	return p->n_images < p->cap.images && p->n_blocks + blocks <= p->cap.blocks && p->n_dc + dc <= p->cap.dc &&
	       p->n_rgb + (uint64_t)im->rgb_pitch * im->h <= p->cap.rgb;
}

/* Returns the number of restart intervals down to the window's last row, or 1 if the file has no restart intervals. */
static uint64_t count_intervals(const struct stk_jpeg_scan *scan, const struct stk_jpeg_window *window)
{
	uint64_t interval = (uint64_t)scan->restart_interval, stop = (uint64_t)window->mcu_y1 * (uint64_t)scan->mcus_x;
	return interval ? (stop + interval - 1) / interval : 1;
}

static uint64_t largest(uint64_t a, uint64_t b, uint64_t c)
{
	a = a > b ? a : b;
	return a > c ? a : c;
}

static bool is_progressive(const struct stk_jpeg_gpu_file *f)
{
	return f->header->process == STK_JPEG_PROGRESSIVE;
}

static bool plan_scan(const struct stk_jpeg_gpu_file *f, struct stk_jpeg_scan *scan)
{
	size_t end;
	bool type = f->type == STK_RGB || f->type == STK_BGR || f->type == STK_GRAY || f->type == STK_YCBCR;
	if (!type || f->size > UINT32_MAX / 16)
		return false;
	if (is_progressive(f) ? !stk__jpeg_gpu_script_frame(f->header, scan)
			      : !stk__jpeg_find_eoi(f->data, f->size, f->header, &end) || !stk__jpeg_scan_plan(f->header, end, scan))
		return false;
	return f->type != STK_GRAY || scan->color != STK_JPEG_RGB;
}

/* Returns which MCUs to decode: those that the window needs; for a progressive file, whose scans visit all MCUs, every MCU down to the window's last row. */
static struct stk_jpeg_window plan_window(const struct stk_jpeg_gpu_file *f, const struct stk_jpeg_scan *scan)
{
	struct stk_jpeg_window w = stk__jpeg_window_plan(scan, f->window);
	if (is_progressive(f)) {
		w.mcu_x0 = w.mcu_y0 = 0;
		w.mcu_x1 = scan->mcus_x;
	}
	return w;
}

/* Returns the number of entries of the decoding tables, or 0 if they would be too large. */
static uint32_t count_entries(const struct stk_jpeg_header *h)
{
	struct stk_jpeg_gpu_pair pairs[3];
	struct stk_jpeg_gpu_set set;
	uint32_t pair_of[3];
	int n = list_pairs(h, pairs, pair_of);
	return stk__jpeg_gpu_tables_measure(pairs, n, &set) ? set.size * set.tables : 0;
}

bool stk__jpeg_gpu_plan_need(const struct stk_jpeg_gpu_file *f, struct stk_jpeg_gpu_plan_limits *sum)
{
	static const uint32_t no_pairs[3];
	struct stk_jpeg_scan scan;
	struct stk_jpeg_gpu_script_size script = {0};
	uint32_t entries = 0;
	if (!plan_scan(f, &scan) || (!is_progressive(f) && !(entries = count_entries(f->header))))
		return false;
	struct stk_jpeg_window window = plan_window(f, &scan);
	struct stk_jpeg_gpu_image im = describe(f, &scan, &window, no_pairs);
	uint64_t row = (uint64_t)im.mcus_x * im.blocks_mcu, pixels = (uint64_t)im.rgb_pitch * im.h;
	uint64_t blocks = largest(window_blocks(&im), (pixels + STK_JPEG_GPU_BLOCK_BYTES - 1) / STK_JPEG_GPU_BLOCK_BYTES,
		(row * im.mcu_y1 + STK_JPEG_GPU_BLOCK_DC - 1) / STK_JPEG_GPU_BLOCK_DC);
	if (!is_progressive(f))
		script.bitstreams = (uint32_t)count_intervals(&scan, &window);
	else if (!stk__jpeg_gpu_script_plan(&(struct stk_jpeg_gpu_script){.file = f, .frame = &scan, .mcu_rows = im.mcu_y1}, &script))
		return false;
	sum->images = stk__jpeg_gpu_add_up(sum->images, 1);
	sum->bytes = stk__jpeg_gpu_add_up(sum->bytes, largest(f->size, STK_JPEG_GPU_MEAN_INTERVAL * ((uint64_t)script.bitstreams - 1), 0));
	sum->blocks = stk__jpeg_gpu_add_up(sum->blocks, blocks);
	sum->scans = stk__jpeg_gpu_add_up(sum->scans, script.scans);
	sum->tables = stk__jpeg_gpu_add_up(sum->tables, entries);
	return true;
}

static bool add_of_scan(void *user, struct stk_jpeg_gpu_bitstream s, const uint8_t *data)
{
	struct stk_jpeg_gpu_plan *p = user;
	s.image = p->n_images;
	return add_bitstream(p, s, data);
}

static bool add_scans(struct stk_jpeg_gpu_plan *p, const struct stk_jpeg_gpu_file *f, const struct stk_jpeg_scan *frame, uint32_t mcu_rows)
{
	struct stk_jpeg_gpu_scan scans[STK_JPEG_GPU_MAX_SCANS];
	struct stk_jpeg_gpu_script script = {f, frame, mcu_rows, scans, add_of_scan, p};
	struct stk_jpeg_gpu_script_size size;
	if (!stk__jpeg_gpu_script_plan(&script, &size) || p->cap.scans - p->n_scans < size.scans)
		return false;
	p->progressive[p->n_progressive++] = (struct stk_jpeg_gpu_progressive){p->n_images, p->n_scans, size.scans, size.steps};
	memcpy(p->scans + p->n_scans, scans, sizeof *scans * size.scans);
	p->n_scans += size.scans;
	return true;
}

bool stk__jpeg_gpu_plan_add(struct stk_jpeg_gpu_plan *p, const struct stk_jpeg_gpu_file *f, uint32_t *index)
{
	struct stk_jpeg_scan scan;
	struct tables_key key;
	uint32_t pair_of[3] = {0}, bitstream0 = p->n_bitstreams, subsequences = p->n_subsequences, chunks = p->n_chunks;
	bool progressive = is_progressive(f);
	if (!plan_scan(f, &scan))
		return false;
	struct stk_jpeg_window window = plan_window(f, &scan);
	if (!progressive)
		make_key(f->header, &key, pair_of);
	struct stk_jpeg_gpu_image im = describe(f, &scan, &window, pair_of);
	uint64_t row = (uint64_t)im.mcus_x * im.blocks_mcu, blocks = window_blocks(&im), dc = row * im.mcu_y1;
	if (!has_room(p, &im, blocks, dc))
		return false;
	im.set = progressive ? STK_JPEG_GPU_NONE : add_set(p, &key);
	if (!progressive && im.set == STK_JPEG_GPU_NONE)
		return false;
	if (!(progressive ? add_scans(p, f, &scan, im.mcu_y1) : add_bitstreams(p, f, &scan, &window, p->n_images))) {
		p->n_bitstreams = bitstream0;
		p->n_subsequences = subsequences;
		p->n_chunks = chunks;
		return false;
	}
	im.dc0 = (uint32_t)p->n_dc;
	im.coef0 = (uint32_t)p->n_blocks;
	im.idct0 = (uint32_t)p->n_idct;
	im.idct = (uint32_t)blocks;
	im.row0 = (uint32_t)p->n_rows;
	im.rgb = p->n_rgb;
	add_planes(p, &im, f->header, &scan);
	p->n_dc += dc;
	p->n_blocks += blocks;
	p->n_idct += (im.idct + STK_JPEG_GPU_IDCT_BLOCKS - 1) / STK_JPEG_GPU_IDCT_BLOCKS * STK_JPEG_GPU_IDCT_BLOCKS;
	p->n_rows += (im.h + STK_JPEG_GPU_COLOR_ROWS) / STK_JPEG_GPU_COLOR_ROWS * STK_JPEG_GPU_COLOR_ROWS;
	p->n_rgb += (uint64_t)im.rgb_pitch * im.h;
	p->image_bitstreams[p->n_images] = (struct range){bitstream0, p->n_bitstreams - bitstream0};
	p->images[p->n_images] = im;
	*index = p->n_images++;
	return true;
}

/* ---- end of a batch ---- */

/* Divides `count` threads that decode with one table set into thread blocks of at most `most` threads. Writes them to `out` and returns their number. */
static uint32_t cut_work(struct stk_jpeg_gpu_work *out, uint32_t set, uint32_t first, uint32_t count, uint32_t most)
{
	uint32_t n = 0;
	for (uint32_t done = 0; done < count; done += most)
		out[n++] = (struct stk_jpeg_gpu_work){set, first + done, count - done < most ? count - done : most};
	return n;
}

/* The numbers of bitstreams, subsequences and chunks that already have their position in the tables. */
struct placed {
	uint32_t bitstreams, subsequences, chunks;
};

/* Assigns the next positions to the image's bitstreams. If `out` is NULL, only counts them. */
static void place_bitstreams(const struct stk_jpeg_gpu_plan *p, uint32_t image, struct placed *at, struct stk_jpeg_gpu_bitstream *out)
{
	struct range r = p->image_bitstreams[image];
	for (uint32_t j = r.first; j < r.first + r.count; j++) {
		if (out) {
			out[at->bitstreams] = p->bitstreams[j];
			out[at->bitstreams].subsequence0 = at->subsequences;
			out[at->bitstreams].chunk0 = at->chunks;
		}
		at->bitstreams++;
		at->subsequences += p->bitstreams[j].subsequences;
		at->chunks += p->bitstreams[j].chunks;
	}
}

/* Sorts bitstreams and thread blocks by table set; those of progressive files come last. If `write` is false, only counts them. */
static void order_bitstreams(const struct stk_jpeg_gpu_plan *p, struct stk_jpeg_gpu_view *v, bool write)
{
	struct stk_jpeg_gpu_bitstream *out = write ? (struct stk_jpeg_gpu_bitstream *)(uintptr_t)v->bitstreams : NULL;
	struct stk_jpeg_gpu_work *sync = write ? (struct stk_jpeg_gpu_work *)(uintptr_t)v->sync_work : NULL;
	struct stk_jpeg_gpu_work *coefficients = write ? (struct stk_jpeg_gpu_work *)(uintptr_t)v->coefficient_work : NULL;
	struct placed at = {0};
	v->n_sync_work = v->n_coefficient_work = 0;
	for (uint32_t set = 0; set < p->n_sets; set++) {
		uint32_t first = at.subsequences;
		for (uint32_t i = 0; i < p->n_images; i++)
			if (p->images[i].set == set)
				place_bitstreams(p, i, &at, out);
		uint32_t subsequences = at.subsequences - first, pieces = subsequences * STK_JPEG_GPU_PIECES;
		if (write) {
			cut_work(sync + v->n_sync_work, set, first, subsequences, STK_JPEG_GPU_SYNC_THREADS);
			cut_work(coefficients + v->n_coefficient_work, set, first * STK_JPEG_GPU_PIECES, pieces,
				STK_JPEG_GPU_COEFFICIENT_THREADS);
		}
		v->n_sync_work += (subsequences + STK_JPEG_GPU_SYNC_THREADS - 1) / STK_JPEG_GPU_SYNC_THREADS;
		v->n_coefficient_work += (pieces + STK_JPEG_GPU_COEFFICIENT_THREADS - 1) / STK_JPEG_GPU_COEFFICIENT_THREADS;
	}
	v->n_baseline = at.bitstreams;
	v->n_subsequences = at.subsequences;
	for (uint32_t i = 0; i < p->n_progressive; i++) {
		const struct stk_jpeg_gpu_progressive *file = &p->progressive[i];
		for (uint32_t k = 0; k < file->scans && write; k++)
			((struct stk_jpeg_gpu_scan *)(uintptr_t)v->scans)[file->scan0 + k].bitstream += at.bitstreams;
		place_bitstreams(p, file->image, &at, out);
	}
}

size_t stk__jpeg_gpu_plan_end(struct stk_jpeg_gpu_plan *p)
{
	struct stk_jpeg_gpu_view *v = &p->view;
	*v = (struct stk_jpeg_gpu_view){.n_images = p->n_images,
		.n_bitstreams = p->n_bitstreams,
		.n_chunks = p->n_chunks,
		.n_progressive = p->n_progressive,
		.n_scans = p->n_scans,
		.n_idct = (uint32_t)p->n_idct,
		.n_rows = (uint32_t)p->n_rows};
	order_bitstreams(p, v, false);
	uint64_t used = stk__jpeg_gpu_place_tables(v, (uintptr_t)p->tables, p->n_lut);
	memcpy((void *)(uintptr_t)v->progressive, p->progressive, sizeof *p->progressive * p->n_progressive);
	memcpy((void *)(uintptr_t)v->scans, p->scans, sizeof *p->scans * p->n_scans);
	order_bitstreams(p, v, true);
	memset(v->flags, 0, sizeof *v->flags * p->n_images);
	*v->n_stragglers = 0;
	memset(v->marker, 0xff, sizeof *v->marker * p->n_bitstreams);
	memcpy((void *)(uintptr_t)v->images, p->images, sizeof *p->images * p->n_images);
	memcpy((void *)(uintptr_t)v->sets, p->sets, sizeof *p->sets * p->n_sets);
	memcpy((void *)(uintptr_t)v->lut, p->lut, sizeof *p->lut * p->n_lut);
	memcpy((void *)(uintptr_t)v->quant, p->quant, sizeof *p->quant * 64 * 3 * p->n_images);
	for (uint32_t i = 0; i < p->n_sets; i++) {
		uint32_t entries = p->sets[i].size * p->sets[i].tables;
		v->max_set = v->max_set > entries ? v->max_set : entries;
	}
	for (uint32_t i = 0; i < p->n_progressive; i++)
		v->max_scans = v->max_scans > p->progressive[i].scans ? v->max_scans : p->progressive[i].scans;
	return used;
}

void stk__jpeg_gpu_plan_view(
	const struct stk_jpeg_gpu_plan *p, uint64_t tables, uint64_t work, uint64_t raw, struct stk_jpeg_gpu_view *view)
{
	*view = p->view;
	stk__jpeg_gpu_place_tables(view, tables, p->n_lut);
	stk__jpeg_gpu_place_work(view, work, &p->cap);
	view->raw = raw ? (const uint8_t *)(uintptr_t)raw : (const uint8_t *)view->coef;
	view->host_flags = view->flags;
}

void stk__jpeg_gpu_plan_window(const struct stk_jpeg_gpu_plan *p, uint32_t index, uint64_t *at, uint32_t *pitch)
{
	*at = p->images[index].rgb + p->images[index].channels * (p->images[index].x & 7);
	*pitch = p->images[index].rgb_pitch;
}
