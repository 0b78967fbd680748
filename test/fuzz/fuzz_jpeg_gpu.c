/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target of the parallel JPEG decoder: the host's planning of batches, and the plain C versions of the phases. The batch holds the input once, twice,
 * or together with an intact file. An image that is decoded without error flags must equal the CPU decoders' result, without warnings from them; the intact
 * file must be decoded correctly in any batch. Buffers have exactly the size that the plan asks for. */
#include "base/cpu.h"
#include "codec/codec.h"
#include "codec/jpeg_gpu/jpeg_gpu_plan.h"
#include "fuzz.h"
#include "fuzz_images.h"
#include "kernel/jpeg_gpu/jpeg_gpu_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PIXELS = 1 << 18,
	MAX_FILES = 3,
	ALIGNMENT = 256, /* alignment of tables and results in bytes */
	AROUND = 16,     /* number of readable bytes before and after the files, if they have their own memory (view.raw) */
	RAW_SLACK = 64   /* number of bytes before the first file, if the files are in the memory of the results, as in jpeg_gpu.c */
};

/* Limits of the plan `roomy`. Batches that need more bytes or blocks are skipped (add_needs). */
static const struct stk_jpeg_gpu_plan_limits roomy_limits = {
	.images = 64, .bytes = 8 << 20, .blocks = 1 << 20, .scans = 64 * STK_JPEG_GPU_MAX_SCANS, .tables = 64 * STK_JPEG_GPU_MAX_SET};

static const int32_t max_scans[] = {0, 4, 12, 20};
enum { DECODERS = sizeof max_scans / sizeof *max_scans };

/* The first input creates the decoders; they are never freed. */
static struct stk_decoder *decoders[DECODERS]; /* indexed by max_scans */
static struct stk_arena scratch;               /* shared by all decoders */
/* Is used for one batch after another, to check that a plan does not depend on earlier files. */
static struct stk_jpeg_gpu_plan *roomy;
static void *roomy_tables;

/* Files that share a batch with the input: the first baseline file and the first progressive file of the seeds. */
struct whole {
	uint8_t *data;
	size_t size;
};
static struct whole whole[2];

struct file {
	const uint8_t *data;
	size_t size;
	bool is_whole;
	struct stk_image_info info;
	struct stk_jpeg_header header;
	struct stk_rect window;
	enum stk_image_type type;
	int decoder; /* index into decoders */
	/* Members that planning sets: */
	struct stk_jpeg_gpu_file ask;
	bool taken;
	uint32_t index;
};

struct batch {
	struct file file[MAX_FILES];
	int count;
	struct stk_jpeg_gpu_plan_limits limits;
};

static void *get(size_t size)
{
	void *p = malloc(size);
	if (!p)
		abort();
	return p;
}

static void *get_aligned(size_t size)
{
	void *p = aligned_alloc(ALIGNMENT, size);
	if (!p)
		abort();
	return p;
}

static void complain(const char *what, const struct file *f, const struct stk_error *err)
{
	fprintf(stderr, "%s: %s file of %zu bytes, type %d, window %d %d %d %d of %dx%d, at most %d scans; the cores' error \"%s\"\n", what,
		f->is_whole ? "whole" : "tested", f->size, f->type, f->window.x, f->window.y, f->window.w, f->window.h, f->header.width,
		f->header.height, max_scans[f->decoder], err ? err->message : "");
	abort();
}

/* ---- the batch ---- */

static void keep_whole(void)
{
	size_t size;
	uint8_t *data;
	for (int i = 0; (data = fuzz_seed(i, &size)); i++) {
		struct stk_jpeg_header h;
		bool jpeg = stk__jpeg_header_parse(data, size, &h, NULL) == STK_OK;
		struct whole *to = jpeg && h.process == STK_JPEG_PROGRESSIVE ? &whole[1] : &whole[0];
		if (!jpeg || h.process == STK_JPEG_ARITHMETIC || to->data) {
			free(data);
			continue;
		}
		to->size = size;
		to->data = calloc(1, size + FUZZ_SLACK);
		if (!to->data)
			abort();
		memcpy(to->data, data, size);
		free(data);
	}
	if (!whole[0].data || !whole[1].data)
		abort();
}

static void prepare(void)
{
	if (roomy)
		return;
	setenv("STOKER_JPEG", "stoker", 1);
	for (int i = 0; i < DECODERS; i++) {
		struct stk_codec_limits limits = {.max_pixels = MAX_PIXELS, .max_scans = max_scans[i]};
		if (stk__decoder_create(&limits, stk__cpu_capabilities(), &scratch, &decoders[i], NULL))
			abort();
	}
	unsetenv("STOKER_JPEG");
	roomy_tables = get_aligned(stk__jpeg_gpu_plan_sizes(&roomy_limits).tables);
	if (stk__jpeg_gpu_plan_create(&roomy_limits, roomy_tables, &roomy, NULL))
		abort();
	keep_whole();
}

/* Adds a file to the batch. Returns false if it is not a JPEG, or is too large. Parses the header first, as pipelines do before they ask whether the GPU
 * supports a file. */
static bool add_file(struct batch *b, const uint8_t *data, size_t size, uint32_t hash, bool is_whole)
{
	static const enum stk_image_type types[] = {STK_RGB, STK_BGR, STK_GRAY, STK_YCBCR};
	struct file *f = &b->file[b->count];
	*f = (struct file){.data = data, .size = size, .is_whole = is_whole, .type = types[(hash >> 12) % 4]};
	f->decoder = is_whole ? 0 : (int)((hash >> 18) % DECODERS);
	if (stk__image_peek(data, size, &(struct stk_codec_limits){.max_pixels = MAX_PIXELS}, &f->info, NULL) ||
		stk__jpeg_header_parse(data, size, &f->header, NULL))
		return false;
	f->window = fuzz_window(hash, f->header.width, f->header.height);
	if (hash >> 28 & 1)
		f->window = (struct stk_rect){0, 0, f->header.width, f->header.height};
	b->count++;
	return true;
}

static bool make_batch(struct batch *b, const uint8_t *data, size_t size, uint32_t hash)
{
	const struct whole *w = &whole[hash >> 29 & 1];
	uint32_t other = hash * 2654435761u;
	bool before = hash >> 30 & 1, behind = hash >> 31;
	if (before && !add_file(b, w->data, w->size, other, true))
		abort();
	if (!add_file(b, data, size, hash, false))
		return false;
	return !behind || (hash >> 27 & 1 ? add_file(b, data, size, other, false) : add_file(b, w->data, w->size, ~other, true));
}

/* ---- planning ---- */

/* Plans the batch with much larger limits than needed. Sets takes[i] to whether file i was accepted, and *view to the plan. */
static void plan_roomily(struct batch *b, bool *takes, struct stk_jpeg_gpu_view *view)
{
	stk__jpeg_gpu_plan_begin(roomy, &roomy_limits);
	for (int i = 0; i < b->count; i++) {
		uint32_t index;
		takes[i] = stk__jpeg_gpu_plan_add(roomy, &b->file[i].ask, &index);
	}
	stk__jpeg_gpu_plan_end(roomy);
	stk__jpeg_gpu_plan_view(roomy, (uintptr_t)roomy_tables, 0, 0, view);
}

/* Returns the number of bytes that jpeg_gpu.c reserves on the GPU for files within these limits. Must use its formula. */
static size_t raw_room(const struct stk_jpeg_gpu_plan_limits *l)
{
	size_t bytes = (size_t)l->bytes + l->bytes / 8 + (size_t)l->images * 1024 + 2 * RAW_SLACK;
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Removes the files that the GPU does not support under any limits, and sums up the limits for the others. Returns false if no file is left, or if the sum
 * is too large. */
static bool add_needs(struct batch *b)
{
	int kept = 0;
	for (int i = 0; i < b->count; i++) {
		struct file *f = &b->file[i];
		f->ask = (struct stk_jpeg_gpu_file){f->data, f->size, &f->header, f->window, RAW_SLACK, f->type, max_scans[f->decoder]};
		if (!stk__jpeg_gpu_plan_need(&f->ask, &b->limits)) {
			uint32_t index;
			stk__jpeg_gpu_plan_begin(roomy, &roomy_limits);
			if (stk__jpeg_gpu_plan_add(roomy, &f->ask, &index))
				complain("it is taken although its needs are not known", f, NULL);
			if (f->is_whole)
				complain("it is refused", f, NULL);
			continue;
		}
		b->file[kept] = *f;
		b->file[kept].ask.header = &b->file[kept].header;
		kept++;
	}
	b->count = kept;
	return kept && b->limits.bytes <= roomy_limits.bytes && b->limits.blocks <= roomy_limits.blocks;
}

/* Assigns an offset to each file, from `at` on. Returns the offset of the last file's end. */
static size_t place_files(struct batch *b, uint32_t hash, size_t at)
{
	for (int i = 0; i < b->count; i++) {
		at += (hash >> 5 * i) % 32; /* so that files have any alignment */
		b->file[i].ask.raw = (uint32_t)at;
		at += b->file[i].size;
	}
	return at;
}

static bool same_tables(const struct stk_jpeg_gpu_view *a, const struct stk_jpeg_gpu_view *b, uint32_t index)
{
	uint32_t set = a->images[index].set;
	if (set != b->images[index].set)
		return false;
	if (set == STK_JPEG_GPU_NONE) /* the file is progressive */
		return true;
	const struct stk_jpeg_gpu_set *s = &a->sets[set];
	return memcmp(s, &b->sets[set], sizeof *s) == 0 &&
	       memcmp(a->lut + s->at, b->lut + s->at, sizeof *a->lut * s->size * s->tables) == 0;
}

/* Checks that limits which are just large enough for the files accept the same files as larger limits, and give the same tables. */
static void check_plan(const struct batch *b, const bool *takes, const struct stk_jpeg_gpu_view *v, const struct stk_jpeg_gpu_view *more)
{
	for (int i = 0; i < b->count; i++) {
		const struct file *f = &b->file[i];
		if (f->taken != takes[i])
			complain(f->taken ? "it is accepted, but not with more room" : "what it needs does not suffice", f, NULL);
		if (f->is_whole && !f->taken)
			complain("it is not taken", f, NULL);
		if (f->taken && !same_tables(v, more, f->index))
			complain("its tables differ", f, NULL);
	}
}

/* ---- pixels ---- */

static void check_pixels(const struct file *f, const struct stk_jpeg_gpu_plan *plan, const struct stk_jpeg_gpu_view *view)
{
	struct stk_error err = {0};
	int channels = f->type == STK_GRAY ? 1 : 3;
	size_t row = (size_t)f->window.w * (size_t)channels;
	uint64_t at;
	uint32_t pitch;
	uint8_t *want = get(row * (size_t)f->window.h);
	struct stk_decode rq = {.data = f->data, .size = f->size, .info = &f->info, .type = f->type, .denom = 1, .window = f->window};
	rq.dst = stk__image_hwc(want, STK_UINT8, f->window.w, f->window.h, channels);
	enum stk_status status = stk__image_decode(decoders[f->decoder], &rq, &err);
	if (status)
		complain("it is taken for right", f, &err);
	stk__jpeg_gpu_plan_window(plan, f->index, &at, &pitch);
	for (int y = 0; FUZZ_COMPARES_PIXELS && y < f->window.h; y++)
		if (memcmp(view->rgb + at + (size_t)y * pitch, want + (size_t)y * row, row))
			complain("the pixels differ", f, &err);
	free(want);
}

/* ---- planning, decoding and checking a batch ---- */

static void run_batch(struct batch *b, uint32_t hash)
{
	static const uint8_t fills[] = {0, 0xa5, 0xff, 1};
	struct stk_jpeg_gpu_plan *plan;
	struct stk_jpeg_gpu_view view, more;
	bool takes[MAX_FILES], among_results = hash >> 17 & 1;
	int fill = fills[(hash >> 15) % 4];
	b->limits.raw = among_results ? raw_room(&b->limits) : 0;
	struct stk_jpeg_gpu_plan_sizes sizes = stk__jpeg_gpu_plan_sizes(&b->limits);
	uint8_t *tables = get_aligned(sizes.tables), *work = get_aligned(sizes.work), *raw = NULL;
	memset(tables, fill, sizes.tables);
	memset(work, fill, sizes.work);
	if (stk__jpeg_gpu_plan_create(&b->limits, tables, &plan, NULL))
		abort();
	stk__jpeg_gpu_plan_begin(plan, &b->limits);
	size_t end = place_files(b, hash, among_results ? RAW_SLACK : 0);
	if (!among_results) {
		raw = get(AROUND + end + AROUND);
		memset(raw, fill, AROUND + end + AROUND);
	} else if (end > b->limits.raw) {
		complain("the files' bytes have no room", &b->file[0], NULL);
	}
	plan_roomily(b, takes, &more);
	for (int i = 0; i < b->count; i++)
		b->file[i].taken = stk__jpeg_gpu_plan_add(plan, &b->file[i].ask, &b->file[i].index);
	if (stk__jpeg_gpu_plan_end(plan) > sizes.tables)
		complain("its tables take more than planned", &b->file[0], NULL);
	stk__jpeg_gpu_plan_view(plan, (uintptr_t)tables, (uintptr_t)work, (uintptr_t)(raw ? raw + AROUND : NULL), &view);
	check_plan(b, takes, &view, &more);
	for (int i = 0; i < b->count; i++)
		memcpy((uint8_t *)(uintptr_t)view.raw + b->file[i].ask.raw, b->file[i].data, b->file[i].size);
	stk__jpeg_gpu_run(&view, STK_JPEG_GPU_COUNT, STK_JPEG_GPU_PHASES);
	for (int i = 0; i < b->count; i++) {
		const struct file *f = &b->file[i];
		if (f->is_whole && view.flags[f->index])
			complain("it is flagged", f, NULL);
		if (f->taken && !view.flags[f->index])
			check_pixels(f, plan, &view);
	}
	stk__jpeg_gpu_plan_destroy(plan);
	free(tables);
	free(work);
	free(raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	prepare();
	uint8_t *copy = calloc(1, size + FUZZ_SLACK);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	struct batch b = {0};
	uint32_t hash = fuzz_hash(data, size);
	if (make_batch(&b, copy, size, hash) && add_needs(&b))
		run_batch(&b, hash);
	free(copy);
	return 0;
}
