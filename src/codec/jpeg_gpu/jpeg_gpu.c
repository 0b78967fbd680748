/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_gpu/jpeg_gpu.h"

#include "base/memory.h"
#include "codec/orient.h"

#include <pthread.h>
#include <string.h>

enum { MARKS = STK_JPEG_GPU_TIMES + 1, RAW_SLACK = 64 };

/* Sizes of a part's data in its stream's memory: tables of the decoder and of the passes, then results of both (the decoder's contain the files). */
struct sizes {
	struct stk_jpeg_gpu_plan_sizes decode;
	struct stk_pass_gpu_sizes passes;
	struct stk_jpeg_gpu_plan_limits files; /* limits of the part's files; `raw` is the size in bytes of the memory for the files */
	size_t all;
};

/* A part of a batch: files that one stream decodes together. The batch owns the tables; the stream owns the device memory. */
struct part {
	struct stk_jpeg_gpu_limits limits; /* the limits for which the tables are large enough */
	struct stk_jpeg_gpu_plan *plan;
	struct stk_pass_gpu *passes;
	uint8_t *tables;    /* pinned memory: tables of the decoder, then of the passes */
	size_t pass_tables; /* offset in bytes of the passes' tables in `tables` */
	size_t table_bytes; /* size of `tables` */
	uint32_t *flags;    /* pinned memory whose device address is view.host_flags */
	stk_gpu_event done, marks[MARKS];
	/* The members from here on describe the last submission. */
	int first, count, stream;
	struct stk_jpeg_gpu_limits need;
	struct sizes sizes;
	stk_gpu_ptr work; /* device address of the decoder's results, which the passes' results follow */
	struct stk_jpeg_gpu_view view;
};

struct stk_jpeg_gpu {
	struct stk_gpu_device *dev;
	struct stk_jpeg_gpu_kernels kernels;
	struct stk_pass_gpu_kernels pass_kernels;
	struct stk_jpeg_gpu_streams *streams;
	pthread_mutex_t lock;
	/* the size of new tables: enough for the largest need of any part so far, or larger (see grown) */
	struct stk_jpeg_gpu_limits limits;
};

struct stk_jpeg_gpu_batch {
	struct stk_jpeg_gpu *decoder;
	struct part *parts;
	int n_parts, parts_capacity, items_capacity;
	const uint32_t **flag; /* [item]: address of the image's flag; NULL if the GPU does not decode the item */
	uint32_t *file_offset; /* [item]: offset in bytes of the file in the stream's raw memory; NONE: the CPU decodes the item */
	bool measure;
};

/* ---- memory ---- */

static size_t aligned(size_t n)
{
	return (n + 255) & ~(size_t)255;
}

static struct stk_pass_gpu_limits pass_limits(const struct stk_jpeg_gpu_limits *l)
{
	return (struct stk_pass_gpu_limits){l->files.images, l->taps};
}

static struct stk_jpeg_gpu_plan_limits file_limits(const struct stk_jpeg_gpu_limits *l)
{
	struct stk_jpeg_gpu_plan_limits files = l->files;
	/* Files are copied together with padding for alignment and with the gaps between them. */
	files.raw = aligned((size_t)files.bytes + files.bytes / 8 + (size_t)files.images * 1024 + 2 * RAW_SLACK);
	return files;
}

static struct sizes sizes_of(const struct stk_jpeg_gpu_limits *l)
{
	struct stk_pass_gpu_limits passes = pass_limits(l);
	struct stk_jpeg_gpu_plan_limits files = file_limits(l);
	struct sizes z = {.decode = stk__jpeg_gpu_plan_sizes(&files), .passes = stk__pass_gpu_sizes(&passes), .files = files};
	z.all = aligned(z.decode.tables) + z.passes.tables + aligned(z.decode.work) + z.passes.work;
	return z;
}

size_t stk__jpeg_gpu_bytes(const struct stk_jpeg_gpu_limits *limits)
{
	return sizes_of(limits).all;
}

static void part_empty(struct stk_jpeg_gpu *d, struct part *p)
{
	stk__jpeg_gpu_plan_destroy(p->plan);
	stk__pass_gpu_destroy(p->passes);
	stk__gpu_host_retire(d->dev, p->tables, p->table_bytes);
	stk__gpu_host_retire(d->dev, p->flags, sizeof *p->flags * p->limits.files.images);
	p->plan = NULL;
	p->passes = NULL;
	p->tables = NULL;
	p->flags = NULL;
	p->limits = (struct stk_jpeg_gpu_limits){0};
}

/* Returns the new size of a table of size `has`. A table that must grow gets 1.5 times the needed size, and at least the usual size, since allocating
 * pinned memory takes milliseconds. */
static uint32_t grown(uint32_t has, uint32_t need, uint64_t usual)
{
	uint64_t larger = need + (uint64_t)need / 2;
	larger = larger > usual ? larger : usual;
	return has >= need ? has : larger < UINT32_MAX ? (uint32_t)larger : UINT32_MAX;
}

static bool part_holds(const struct part *p, const struct stk_jpeg_gpu_limits *need)
{
	return p->plan && p->limits.files.images >= need->files.images && p->limits.files.bytes >= need->files.bytes &&
	       p->limits.files.blocks >= need->files.blocks && p->limits.files.scans >= need->files.scans &&
	       p->limits.files.tables >= need->files.tables && p->limits.taps >= need->taps;
}

/* Chooses the size of the tables so that they suffice for a part with this need, and probably for later parts. */
static struct stk_jpeg_gpu_limits choose_limits(struct stk_jpeg_gpu *d, const struct stk_jpeg_gpu_limits *need)
{
	/* The needs of a usual image. TABLES is for the Huffman tables that the JPEG standard gives as examples. */
	enum { BYTES = 32 << 10, BLOCKS = 1024, TABLES = 5376, TAPS = 4096 };
	pthread_mutex_lock(&d->lock);
	struct stk_jpeg_gpu_limits *limits = &d->limits;
	uint64_t images = limits->files.images = grown(limits->files.images, need->files.images, 0);
	limits->files.bytes = grown(limits->files.bytes, need->files.bytes, BYTES * images);
	limits->files.blocks = grown(limits->files.blocks, need->files.blocks, BLOCKS * images);
	limits->files.scans = grown(limits->files.scans, need->files.scans, 0);
	limits->files.tables = grown(limits->files.tables, need->files.tables, TABLES * images);
	limits->taps = grown(limits->taps, need->taps, TAPS * images);
	struct stk_jpeg_gpu_limits chosen = *limits;
	pthread_mutex_unlock(&d->lock);
	return chosen;
}

/* Reallocates the part's tables if they are too small for its current files. */
static enum stk_status part_reserve(struct stk_jpeg_gpu *d, struct part *p, struct stk_error *err)
{
	const struct stk_jpeg_gpu_limits *need = &p->need;
	if (part_holds(p, need))
		return STK_OK;
	part_empty(d, p);
	struct stk_jpeg_gpu_limits limits = choose_limits(d, need);
	struct sizes z = sizes_of(&limits);
	struct stk_pass_gpu_limits passes = pass_limits(&limits);
	p->pass_tables = aligned(z.decode.tables);
	p->table_bytes = p->pass_tables + z.passes.tables;
	enum stk_status s = stk__gpu_host_alloc(d->dev, p->table_bytes, (void **)&p->tables, err);
	if (!s)
		s = stk__gpu_host_alloc(d->dev, sizeof *p->flags * limits.files.images, (void **)&p->flags, err);
	if (!s)
		s = stk__jpeg_gpu_plan_create(&limits.files, p->tables, &p->plan, err);
	if (!s)
		s = stk__pass_gpu_create(&passes, p->tables + p->pass_tables, &p->passes, err);
	if (s)
		part_empty(d, p);
	else
		p->limits = limits;
	return s;
}

/* ---- create and destroy ---- */

enum stk_status stk__jpeg_gpu_create(struct stk_gpu_device *dev, size_t most, struct stk_jpeg_gpu **out, struct stk_error *err)
{
	struct stk_jpeg_gpu *d = stk__calloc(1, sizeof *d);
	if (!d)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	d->dev = dev;
	pthread_mutex_init(&d->lock, NULL);
	enum stk_status s = stk__jpeg_gpu_kernels_load(dev, &d->kernels, err);
	if (!s)
		s = stk__pass_gpu_kernels_load(dev, &d->pass_kernels, err);
	if (!s)
		s = stk__jpeg_gpu_streams_create(dev, most, &d->streams, err);
	if (s)
		stk__jpeg_gpu_destroy(d);
	else
		*out = d;
	return s;
}

void stk__jpeg_gpu_destroy(struct stk_jpeg_gpu *d)
{
	if (!d)
		return;
	stk__jpeg_gpu_streams_destroy(d->streams);
	pthread_mutex_destroy(&d->lock);
	stk__free(d);
}

size_t stk__jpeg_gpu_memory(struct stk_jpeg_gpu *d)
{
	return stk__jpeg_gpu_streams_memory(d->streams);
}

enum stk_status stk__jpeg_gpu_sync(struct stk_jpeg_gpu *d, struct stk_error *err)
{
	return stk__jpeg_gpu_streams_sync(d->streams, err);
}

enum stk_status stk__jpeg_gpu_batch_create(struct stk_jpeg_gpu *d, struct stk_jpeg_gpu_batch **out, struct stk_error *err)
{
	struct stk_jpeg_gpu_batch *b = stk__calloc(1, sizeof *b);
	if (!b)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	b->decoder = d;
	*out = b;
	return STK_OK;
}

void stk__jpeg_gpu_batch_destroy(struct stk_jpeg_gpu_batch *b)
{
	if (!b)
		return;
	for (int i = 0; i < b->parts_capacity; i++) {
		part_empty(b->decoder, &b->parts[i]);
		stk__gpu_event_destroy(b->decoder->dev, b->parts[i].done);
		for (int k = 0; k < MARKS; k++)
			stk__gpu_event_destroy(b->decoder->dev, b->parts[i].marks[k]);
	}
	stk__free(b->parts);
	stk__free(b->flag);
	stk__free(b->file_offset);
	stk__free(b);
}

/* ---- parts ---- */

static void add_need(struct stk_jpeg_gpu_limits *sum, const struct stk_jpeg_gpu_limits *other)
{
	sum->files.images = stk__jpeg_gpu_add_up(sum->files.images, other->files.images);
	sum->files.bytes = stk__jpeg_gpu_add_up(sum->files.bytes, other->files.bytes);
	sum->files.blocks = stk__jpeg_gpu_add_up(sum->files.blocks, other->files.blocks);
	sum->files.scans = stk__jpeg_gpu_add_up(sum->files.scans, other->files.scans);
	sum->files.tables = stk__jpeg_gpu_add_up(sum->files.tables, other->files.tables);
	sum->taps = stk__jpeg_gpu_add_up(sum->taps, other->taps);
}

static struct part *add_part(struct stk_jpeg_gpu_batch *b, int first)
{
	if (b->n_parts == b->parts_capacity) {
		int capacity = b->parts_capacity ? 2 * b->parts_capacity : 4;
		struct part *grown = stk__realloc(b->parts, (size_t)capacity * sizeof *grown);
		if (!grown)
			return NULL;
		memset(grown + b->parts_capacity, 0, (size_t)(capacity - b->parts_capacity) * sizeof *grown);
		b->parts = grown;
		b->parts_capacity = capacity;
	}
	struct part *p = &b->parts[b->n_parts++];
	p->first = first;
	p->count = 0;
	p->need = (struct stk_jpeg_gpu_limits){0};
	return p;
}

/* Makes the streams' memory large enough for the batch, and sets b->file_offset to NONE for files that are too large for any stream. *share: set to the
 * number of bytes that each part should need, at most the size of a stream's memory; 0 if no file remains. */
static enum stk_status choose_share(
	const struct stk_jpeg_gpu_batch *b, const struct stk_jpeg_gpu_item *items, int n, size_t *share, struct stk_error *err)
{
	struct stk_jpeg_gpu_limits all = {0};
	size_t most = stk__jpeg_gpu_streams_most(b->decoder->streams), largest = 0;
	for (int i = 0; i < n; i++) {
		size_t bytes = stk__jpeg_gpu_bytes(&items[i].need);
		b->file_offset[i] = bytes <= most ? 0 : STK_JPEG_GPU_NONE;
		if (bytes > most)
			continue;
		largest = bytes > largest ? bytes : largest;
		add_need(&all, &items[i].need);
	}
	*share = 0;
	if (!largest)
		return STK_OK;
	size_t bytes = stk__jpeg_gpu_bytes(&all);
	size_t part;
	enum stk_status s = stk__jpeg_gpu_streams_fit(b->decoder->streams, bytes, largest, &part, err);
	if (s)
		return s;
	size_t parts = (bytes + part - 1) / part;
	*share = bytes / parts + bytes / parts / 16;
	*share = *share < part ? *share : part;
	return STK_OK;
}

static enum stk_status split_into_parts(struct stk_jpeg_gpu_batch *b, const struct stk_jpeg_gpu_item *items, int n, struct stk_error *err)
{
	struct part *p = NULL;
	size_t share;
	enum stk_status s = choose_share(b, items, n, &share, err);
	b->n_parts = 0;
	for (int i = 0; i < n && !s; i++) {
		b->flag[i] = NULL;
		if (b->file_offset[i] == STK_JPEG_GPU_NONE)
			continue;
		struct stk_jpeg_gpu_limits total = items[i].need;
		if (p)
			add_need(&total, &p->need);
		if (!p || stk__jpeg_gpu_bytes(&total) > share) {
			p = add_part(b, i);
			total = items[i].need;
		}
		if (!p)
			return stk__fail(err, STK_NO_MEMORY, "out of memory");
		p->need = total;
		p->count = i + 1 - p->first;
	}
	return s;
}

/* ---- the work of one part ---- */

/* Copies the files' bytes to the stream's memory, and sets b->file_offset to each file's offset there. Leaves out files whose offset is NONE, and sets it to
 * NONE for files for which no space is left. */
static enum stk_status copy_files(const struct stk_jpeg_gpu_batch *b, const struct part *p, const struct stk_jpeg_gpu_stream *stream,
	const struct stk_jpeg_gpu_item *items, struct stk_error *err)
{
	size_t used = RAW_SLACK;
	for (int i = p->first, j, end = p->first + p->count; i < end; i = j) {
		const uint8_t *from = items[i].data, *to = from + items[i].size;
		size_t capacity = p->sizes.files.raw - RAW_SLACK - used;
		if (b->file_offset[i] == STK_JPEG_GPU_NONE || items[i].size > capacity) {
			b->file_offset[i] = STK_JPEG_GPU_NONE;
			j = i + 1;
			continue;
		}
		for (j = i + 1; j < end && items[j].data >= to && items[j].data - to <= STK_JPEG_GPU_GAP &&
				(size_t)(items[j].data - from) + items[j].size <= capacity && b->file_offset[j] != STK_JPEG_GPU_NONE;
			j++)
			to = items[j].data + items[j].size;
		for (int k = i; k < j; k++)
			b->file_offset[k] = (uint32_t)(used + (size_t)(items[k].data - from));
		enum stk_status s = stk__gpu_upload(
			b->decoder->dev, stream->cuda, (stk_gpu_ptr)(uintptr_t)p->view.raw + used, from, (size_t)(to - from), err);
		if (s)
			return s;
		used += ((size_t)(to - from) + 15) & ~(size_t)15;
	}
	return STK_OK;
}

static struct stk_jpeg_gpu_file file_of(const struct stk_jpeg_gpu_item *it, uint32_t raw_offset)
{
	return (struct stk_jpeg_gpu_file){it->data, it->size, it->header, it->window, raw_offset, it->type, it->max_scans};
}

/* Returns whether the GPU can run the item's pass on the decoded image, which is uint8 with the image type's number of channels. */
static bool pass_can_read(const struct stk_jpeg_gpu_item *it)
{
	return it->header && it->pass && it->pass->in_dtype == STK_UINT8 && it->pass->in_c == (it->type == STK_GRAY ? 1 : 3) &&
	       stk__pass_gpu_supports(it->pass);
}

bool stk__jpeg_gpu_need(const struct stk_jpeg_gpu_item *it, struct stk_jpeg_gpu_limits *sum)
{
	struct stk_jpeg_gpu_file file = file_of(it, 0);
	if (!pass_can_read(it) || !stk__jpeg_gpu_plan_need(&file, &sum->files))
		return false;
	struct stk_pass_gpu_limits passes = {0, sum->taps};
	stk__pass_gpu_need(it->pass, &passes);
	sum->taps = passes.taps;
	return true;
}

/* Adds the item's pass to p->passes. The pass reads the decoded window through a view that applies the image's orientation. Returns false if that fails. */
static bool plan_pass(const struct part *p, const struct stk_jpeg_gpu_item *it, uint32_t index)
{
	uint64_t at;
	uint32_t pitch;
	stk__jpeg_gpu_plan_window(p->plan, index, &at, &pitch);
	struct stk_image src = stk__image_hwc((void *)((uintptr_t)p->view.rgb + at), STK_UINT8, it->window.w, it->window.h, it->pass->in_c);
	src.row = pitch;
	struct stk_rect seen = it->window;
	if (it->orientation > 1)
		seen = stk__orient_view(it->orientation, it->header->width, it->header->height, it->window, &src);
	return stk__pass_gpu_add(p->passes, it->pass, &src, seen.x, seen.y, &it->dst);
}

/* Decides which of the part's items the GPU decodes, plans their decoding and their passes, and sets b->flag of each item. */
static void plan_items(
	struct stk_jpeg_gpu_batch *b, struct part *p, const struct stk_jpeg_gpu_stream *stream, const struct stk_jpeg_gpu_item *items)
{
	struct stk_pass_gpu_limits passes = pass_limits(&p->need);
	stk__pass_gpu_begin(p->passes, &passes, stream->memory + aligned(p->sizes.decode.tables), p->work + aligned(p->sizes.decode.work));
	for (int i = p->first; i < p->first + p->count; i++) {
		uint32_t index, at = b->file_offset[i];
		struct stk_jpeg_gpu_file file = file_of(&items[i], at);
		bool accepted = at != STK_JPEG_GPU_NONE && pass_can_read(&items[i]) && stk__jpeg_gpu_plan_add(p->plan, &file, &index) &&
				plan_pass(p, &items[i], index);
		b->flag[i] = accepted ? &p->flags[index] : NULL;
	}
}

static enum stk_status mark(
	const struct stk_jpeg_gpu_batch *b, struct part *p, const struct stk_jpeg_gpu_stream *stream, int i, struct stk_error *err)
{
	if (!b->measure)
		return STK_OK;
	enum stk_status s = p->marks[i] ? STK_OK : stk__gpu_event_create(b->decoder->dev, true, &p->marks[i], err);
	return s ? s : stk__gpu_event_record(b->decoder->dev, p->marks[i], stream->cuda, err);
}

/* Copies the tables to the stream's memory. All copies of a part are submitted before its kernels, and nothing is copied back. The reason is that the copy
 * engines have few queues, in which a copy that waits for kernels would delay the copies of other streams. */
static enum stk_status copy_tables(
	const struct stk_jpeg_gpu_batch *b, struct part *p, const struct stk_jpeg_gpu_stream *stream, struct stk_error *err)
{
	struct stk_gpu_device *dev = b->decoder->dev;
	size_t bytes = stk__jpeg_gpu_plan_end(p->plan), passes = stk__pass_gpu_end(p->passes);
	stk__jpeg_gpu_plan_view(p->plan, stream->memory, p->work, 0, &p->view);
	p->view.host_flags = p->flags;
	enum stk_status s = stk__gpu_upload(dev, stream->cuda, stream->memory, p->tables, bytes, err);
	return s ? s
		 : stk__gpu_upload(
			   dev, stream->cuda, stream->memory + aligned(p->sizes.decode.tables), p->tables + p->pass_tables, passes, err);
}

static enum stk_status decode(
	const struct stk_jpeg_gpu_batch *b, struct part *p, const struct stk_jpeg_gpu_stream *stream, struct stk_error *err)
{
	const struct stk_jpeg_gpu *d = b->decoder;
	enum stk_status s = mark(b, p, stream, 1, err);
	for (int phase = 0; !s && phase < STK_JPEG_GPU_PHASES; phase++) {
		s = stk__jpeg_gpu_launch(d->dev, &d->kernels, &p->view, (enum stk_jpeg_gpu_phase)phase, stream->cuda, err);
		if (!s)
			s = mark(b, p, stream, phase + 2, err);
	}
	return s;
}

static enum stk_status run_passes(
	const struct stk_jpeg_gpu_batch *b, struct part *p, const struct stk_jpeg_gpu_stream *stream, struct stk_error *err)
{
	const struct stk_jpeg_gpu *d = b->decoder;
	enum stk_status s = stk__pass_gpu_launch(d->dev, &d->pass_kernels, p->passes, stream->cuda, err);
	return s ? s : mark(b, p, stream, MARKS - 1, err);
}

static enum stk_status run_part(struct stk_jpeg_gpu_batch *b, struct part *p, const struct stk_jpeg_gpu_stream *stream,
	const struct stk_jpeg_gpu_item *items, struct stk_error *err)
{
	struct stk_gpu_device *dev = b->decoder->dev;
	p->work = stream->memory + aligned(p->sizes.decode.tables) + p->sizes.passes.tables;
	stk__jpeg_gpu_plan_begin(p->plan, &p->sizes.files);
	stk__jpeg_gpu_plan_view(p->plan, stream->memory, p->work, 0, &p->view); /* sets view.raw, the destination of copy_files */
	enum stk_status s = p->done ? STK_OK : stk__gpu_event_create(dev, false, &p->done, err);
	if (s || (s = mark(b, p, stream, 0, err)) || (s = copy_files(b, p, stream, items, err)))
		return s;
	plan_items(b, p, stream, items);
	if ((s = copy_tables(b, p, stream, err)) || (s = decode(b, p, stream, err)) || (s = run_passes(b, p, stream, err)))
		return s;
	return stk__gpu_event_record(dev, p->done, stream->cuda, err);
}

/* ---- a batch ---- */

static enum stk_status submit_part(
	struct stk_jpeg_gpu_batch *b, struct part *p, const struct stk_jpeg_gpu_item *items, struct stk_error *err)
{
	struct stk_jpeg_gpu *d = b->decoder;
	p->sizes = sizes_of(&p->need);
	enum stk_status s = part_reserve(d, p, err);
	if (s)
		return s;
	struct stk_jpeg_gpu_stream *stream = stk__jpeg_gpu_streams_take(d->streams, err);
	if (!stream)
		return STK_NO_MEMORY;
	p->stream = stream->number;
	s = run_part(b, p, stream, items, err);
	enum stk_status give_status = stk__jpeg_gpu_streams_give(d->streams, stream, s ? NULL : err);
	return s ? s : give_status;
}

static enum stk_status grow_parts(struct stk_jpeg_gpu_batch *b, int n, struct stk_error *err)
{
	if (n <= b->items_capacity)
		return STK_OK;
	const uint32_t **flag = stk__realloc(b->flag, (size_t)n * sizeof *flag);
	b->flag = flag ? flag : b->flag;
	uint32_t *file_offset = stk__realloc(b->file_offset, (size_t)n * sizeof *file_offset);
	b->file_offset = file_offset ? file_offset : b->file_offset;
	if (!flag || !file_offset)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	b->items_capacity = n;
	return STK_OK;
}

enum stk_status stk__jpeg_gpu_submit(struct stk_jpeg_gpu_batch *b, const struct stk_jpeg_gpu_item *items, int n, struct stk_error *err)
{
	enum stk_status s = grow_parts(b, n, err);
	if (!s)
		s = split_into_parts(b, items, n, err);
	for (int i = 0; i < b->n_parts && !s; i++)
		s = submit_part(b, &b->parts[i], items, err);
	return s;
}

enum stk_status stk__jpeg_gpu_join(const struct stk_jpeg_gpu_batch *b, stk_gpu_stream stream, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	for (int i = 0; i < b->n_parts && !s; i++)
		s = stk__gpu_stream_wait(b->decoder->dev, stream, b->parts[i].done, err);
	return s;
}

stk_gpu_stream stk__jpeg_gpu_last_stream(const struct stk_jpeg_gpu_batch *b, stk_gpu_stream none)
{
	return b->n_parts ? stk__jpeg_gpu_streams_cuda(b->decoder->streams, b->parts[b->n_parts - 1].stream) : none;
}

stk_gpu_stream stk__jpeg_gpu_stream_of_turn(const struct stk_jpeg_gpu *d, int64_t turn)
{
	return stk__jpeg_gpu_streams_cuda(d->streams, (int)((uint64_t)turn % STK_JPEG_GPU_STREAMS));
}

enum stk_status stk__jpeg_gpu_wait(const struct stk_jpeg_gpu_batch *b, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	for (int i = 0; i < b->n_parts && !s; i++)
		s = stk__gpu_event_sync(b->decoder->dev, b->parts[i].done, err);
	return s;
}

enum stk_jpeg_gpu_verdict stk__jpeg_gpu_verdict(const struct stk_jpeg_gpu_batch *b, int item)
{
	return !b->flag[item] ? STK_JPEG_GPU_REFUSED : *b->flag[item] ? STK_JPEG_GPU_FLAGGED : STK_JPEG_GPU_OK;
}

/* ---- times ---- */

void stk__jpeg_gpu_measure(struct stk_jpeg_gpu_batch *b, bool on)
{
	b->measure = on;
}

int stk__jpeg_gpu_parts(const struct stk_jpeg_gpu_batch *b)
{
	return b->n_parts;
}

const char *stk__jpeg_gpu_time_name(int i)
{
	return i == 0 ? "copy" : i <= STK_JPEG_GPU_PHASES ? stk__jpeg_gpu_phase_names[i - 1] : "pass";
}

enum stk_status stk__jpeg_gpu_times(const struct stk_jpeg_gpu_batch *b, int part, struct stk_jpeg_gpu_times *times, struct stk_error *err)
{
	const struct part *p = &b->parts[part];
	times->stream = p->stream;
	times->begin = p->marks[0];
	for (int i = 0; i < STK_JPEG_GPU_TIMES; i++) {
		enum stk_status s = stk__gpu_event_elapsed(b->decoder->dev, p->marks[i], p->marks[i + 1], &times->milliseconds[i], err);
		if (s)
			return s;
	}
	return STK_OK;
}
