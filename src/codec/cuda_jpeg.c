/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/cuda_jpeg.h"

#include "base/memory.h"
#include "codec/orient.h"

#include <string.h>

enum { NO_IMAGE = -1, MARKS = STK_CUDA_JPEG_TIMES + 1, RAW_SLACK = 64, TAPS = 8192 /* an image, on average: 448 outputs of 18 taps */ };

/* Sizes of a slot's memory: tables of decoder and passes, raw bytes, results of both. */
struct sizes {
	struct stk_jpegpar_sizes decode;
	struct stk_pass_gpu_limits pass_limits;
	struct stk_pass_gpu_sizes passes;
	size_t raw, all;
};

/* A batch in flight and the memory that it has for itself. */
struct slot {
	bool taken;
	stk_gpu_stream stream; /* of the last batch */
	stk_gpu_event done, marks[MARKS];
	struct stk_cuda_jpeg_limits limits; /* 0: no memory */
	struct sizes sizes;
	struct stk_jpegpar_plan *plan;
	struct stk_pass_gpu *passes;
	uint8_t *tables;    /* pinned: the decoder's, then the passes' */
	uint32_t *flags;    /* pinned; what the batch left in view.flags */
	int32_t *image;     /* per item: its number in the plan, or NO_IMAGE */
	stk_gpu_ptr memory; /* tables of both, then raw bytes, then results of both */
	stk_gpu_ptr tables_at, pass_tables_at, raw_at, work_at, pass_work_at;
	struct stk_jpegpar_view view;
};

struct stk_cuda_jpeg {
	struct stk_gpu_device *dev;
	struct stk_cuda_jpeg_kernels kernels;
	struct stk_pass_gpu_kernels pass_kernels;
	bool measure;
	int next, n_slots;
	struct slot *slots;
};

/* ---- memory ---- */

static size_t aligned(size_t n)
{
	return (n + 255) & ~(size_t)255;
}

static struct sizes sizes_of(const struct stk_cuda_jpeg_limits *l)
{
	uint32_t images = l->batch.images;
	struct sizes z = {.decode = stk__jpegpar_plan_sizes(&l->batch)};
	z.pass_limits = (struct stk_pass_gpu_limits){images, l->taps ? l->taps : images * TAPS + (1 << 18)};
	z.passes = stk__pass_gpu_sizes(&z.pass_limits);
	/* Alignment and what lies between files travel too. */
	z.raw = aligned((size_t)l->batch.bytes + l->batch.bytes / 8 + (size_t)images * 1024 + 2 * RAW_SLACK);
	z.all = aligned(z.decode.tables) + z.passes.tables + z.raw + aligned(z.decode.work) + z.passes.work;
	return z;
}

size_t stk__cuda_jpeg_bytes(const struct stk_cuda_jpeg_limits *limits)
{
	return sizes_of(limits).all;
}

static void slot_empty(struct stk_cuda_jpeg *d, struct slot *s)
{
	if (s->memory && stk__gpu_event_sync(d->dev, s->done, NULL)) {
		/* What it ran is lost; its memory is given back all the same. */
	}
	stk__jpegpar_plan_destroy(s->plan);
	stk__pass_gpu_destroy(s->passes);
	stk__free(s->image);
	stk__gpu_free(d->dev, s->memory);
	stk__gpu_host_free(d->dev, s->tables);
	stk__gpu_host_free(d->dev, s->flags);
	s->plan = NULL;
	s->passes = NULL;
	s->image = NULL;
	s->memory = 0;
	s->tables = NULL;
	s->flags = NULL;
	s->limits = (struct stk_cuda_jpeg_limits){0};
	s->sizes = (struct sizes){0};
}

static enum stk_status slot_fill(struct stk_cuda_jpeg *d, struct slot *s, const struct stk_cuda_jpeg_limits *limits, struct stk_error *err)
{
	uint32_t images = limits->batch.images;
	struct sizes z = sizes_of(limits);
	s->stream = NULL;
	s->image = stk__alloc(sizeof *s->image * images);
	if (!s->image)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	enum stk_status status = stk__gpu_host_alloc(d->dev, aligned(z.decode.tables) + z.passes.tables, (void **)&s->tables, err);
	if (!status)
		status = stk__gpu_host_alloc(d->dev, sizeof *s->flags * images, (void **)&s->flags, err);
	if (!status)
		status = stk__gpu_alloc(d->dev, z.all, &s->memory, err);
	if (!status)
		status = stk__jpegpar_plan_create(&limits->batch, s->tables, &s->plan, err);
	if (status)
		return status;
	s->tables_at = s->memory;
	s->pass_tables_at = s->tables_at + aligned(z.decode.tables);
	s->raw_at = s->pass_tables_at + z.passes.tables;
	s->work_at = s->raw_at + z.raw;
	s->pass_work_at = s->work_at + aligned(z.decode.work);
	status = stk__pass_gpu_create(
		&z.pass_limits, s->tables + aligned(z.decode.tables), s->pass_tables_at, s->pass_work_at, &s->passes, err);
	if (status)
		return status;
	s->limits = *limits;
	s->sizes = z;
	return STK_OK;
}

bool stk__cuda_jpeg_holds(const struct stk_cuda_jpeg *d, int slot, const struct stk_cuda_jpeg_limits *wanted)
{
	const struct slot *s = &d->slots[slot];
	const struct stk_cuda_jpeg_limits *has = &s->limits;
	return has->batch.images >= wanted->batch.images && has->batch.bytes >= wanted->batch.bytes &&
	       has->batch.blocks >= wanted->batch.blocks && s->sizes.pass_limits.taps >= wanted->taps;
}

static void raise_limit(uint32_t *limit, uint32_t to)
{
	*limit = *limit > to ? *limit : to;
}

enum stk_status stk__cuda_jpeg_reserve(struct stk_cuda_jpeg *d, int slot, const struct stk_cuda_jpeg_limits *limits, struct stk_error *err)
{
	struct slot *s = &d->slots[slot];
	struct stk_cuda_jpeg_limits all = s->limits;
	if (stk__cuda_jpeg_holds(d, slot, limits))
		return STK_OK;
	raise_limit(&all.batch.images, limits->batch.images);
	raise_limit(&all.batch.bytes, limits->batch.bytes);
	raise_limit(&all.batch.blocks, limits->batch.blocks);
	raise_limit(&all.taps, limits->taps);
	slot_empty(d, s);
	enum stk_status status = slot_fill(d, s, &all, err);
	if (status)
		slot_empty(d, s);
	return status;
}

/* ---- create and destroy ---- */

static enum stk_status slot_create(
	struct stk_cuda_jpeg *d, struct slot *s, const struct stk_cuda_jpeg_limits *limits, struct stk_error *err)
{
	enum stk_status status = stk__gpu_event_create(d->dev, false, &s->done, err);
	for (int i = 0; !status && i < MARKS; i++)
		status = stk__gpu_event_create(d->dev, true, &s->marks[i], err);
	return status ? status : slot_fill(d, s, limits, err);
}

enum stk_status stk__cuda_jpeg_create(
	struct stk_gpu_device *dev, const struct stk_cuda_jpeg_limits *limits, struct stk_cuda_jpeg **out, struct stk_error *err)
{
	struct stk_cuda_jpeg *d = stk__calloc(1, sizeof *d);
	struct slot *slots = stk__calloc((size_t)limits->slots, sizeof *slots);
	if (!d || !slots) {
		stk__free(d);
		stk__free(slots);
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	}
	d->dev = dev;
	d->n_slots = limits->slots;
	d->slots = slots;
	enum stk_status status = stk__cuda_jpeg_kernels_load(dev, &d->kernels, err);
	if (!status)
		status = stk__pass_gpu_kernels_load(dev, &d->pass_kernels, err);
	for (int i = 0; !status && i < limits->slots; i++)
		status = slot_create(d, &slots[i], limits, err);
	if (status) {
		stk__cuda_jpeg_destroy(d);
		return status;
	}
	*out = d;
	return STK_OK;
}

void stk__cuda_jpeg_destroy(struct stk_cuda_jpeg *d)
{
	if (!d)
		return;
	for (int i = 0; i < d->n_slots; i++) {
		struct slot *s = &d->slots[i];
		slot_empty(d, s);
		stk__gpu_event_destroy(d->dev, s->done);
		for (int k = 0; k < MARKS; k++)
			stk__gpu_event_destroy(d->dev, s->marks[k]);
	}
	stk__free(d->slots);
	stk__free(d);
}

/* ---- slots ---- */

int stk__cuda_jpeg_acquire(struct stk_cuda_jpeg *d)
{
	for (int i = 0; i < d->n_slots; i++) {
		int slot = (d->next + i) % d->n_slots;
		if (d->slots[slot].taken)
			continue;
		d->slots[slot].taken = true;
		d->next = slot + 1;
		return slot;
	}
	return -1;
}

void stk__cuda_jpeg_release(struct stk_cuda_jpeg *d, int slot)
{
	d->slots[slot].taken = false;
}

stk_gpu_event stk__cuda_jpeg_done(const struct stk_cuda_jpeg *d, int slot)
{
	return d->slots[slot].done;
}

enum stk_cuda_jpeg_verdict stk__cuda_jpeg_verdict(const struct stk_cuda_jpeg *d, int slot, int item)
{
	const struct slot *s = &d->slots[slot];
	if (s->image[item] == NO_IMAGE)
		return STK_CUDA_JPEG_REFUSED;
	return s->flags[s->image[item]] ? STK_CUDA_JPEG_FLAGGED : STK_CUDA_JPEG_OK;
}

stk_gpu_ptr stk__cuda_jpeg_window(const struct stk_cuda_jpeg *d, int slot, int item, uint32_t *pitch)
{
	const struct slot *s = &d->slots[slot];
	uint64_t at;
	stk__jpegpar_plan_window(s->plan, (uint32_t)s->image[item], &at, pitch);
	return (stk_gpu_ptr)(uintptr_t)s->view.rgb + at;
}

size_t stk__cuda_jpeg_memory(const struct stk_cuda_jpeg *d)
{
	size_t bytes = 0;
	for (int i = 0; i < d->n_slots; i++)
		bytes += d->slots[i].sizes.all;
	return bytes;
}

/* ---- a batch ---- */

/* Files that follow each other in memory with at most this between them travel together. */
enum { GAP = 4096 };

/* Copies the files' bytes and gives each its place; files that do not fit any more are refused. */
static enum stk_status copy_files(
	struct stk_cuda_jpeg *d, struct slot *s, const struct stk_cuda_jpeg_item *items, int n, uint32_t *place, struct stk_error *err)
{
	size_t used = RAW_SLACK;
	for (int i = 0, j; i < n; i = j) {
		const uint8_t *from = items[i].data, *to = from + items[i].size;
		size_t room = s->sizes.raw - RAW_SLACK - used;
		if (items[i].size > room) {
			place[i] = STK_JPEGPAR_NONE;
			j = i + 1;
			continue;
		}
		for (j = i + 1;
			j < n && items[j].data >= to && items[j].data - to <= GAP && (size_t)(items[j].data - from) + items[j].size <= room;
			j++)
			to = items[j].data + items[j].size;
		for (int k = i; k < j; k++)
			place[k] = (uint32_t)(used + (size_t)(items[k].data - from));
		enum stk_status status = stk__gpu_upload(d->dev, s->stream, s->raw_at + used, from, (size_t)(to - from), err);
		if (status)
			return status;
		used += ((size_t)(to - from) + 15) & ~(size_t)15;
	}
	return STK_OK;
}

static enum stk_status mark(struct stk_cuda_jpeg *d, struct slot *s, int i, struct stk_error *err)
{
	return d->measure ? stk__gpu_event_record(d->dev, s->marks[i], s->stream, err) : STK_OK;
}

static struct stk_jpegpar_file file_of(const struct stk_cuda_jpeg_item *it, uint32_t place)
{
	return (struct stk_jpegpar_file){it->data, it->size, it->header, it->window, place, it->type};
}

/* Passes are of uint8 with as many channels as the type has, and turned windows are for passes alone. */
static bool suits(const struct stk_cuda_jpeg_item *it)
{
	if (!it->header || (it->orientation > 1 && !it->pass))
		return false;
	return !it->pass ||
	       (it->pass->in_dtype == STK_UINT8 && it->pass->in_c == (it->type == STK_GRAY ? 1 : 3) && stk__pass_gpu_supports(it->pass));
}

bool stk__cuda_jpeg_need(const struct stk_cuda_jpeg_item *it, struct stk_cuda_jpeg_limits *sum)
{
	struct stk_jpegpar_file file = file_of(it, 0);
	if (!suits(it) || !stk__jpegpar_need(&file, &sum->batch))
		return false;
	struct stk_pass_gpu_limits passes = {0, sum->taps};
	if (it->pass)
		stk__pass_gpu_need(it->pass, &passes);
	sum->taps = passes.taps;
	return true;
}

/* The pass reads the window from where the decoder puts it, turned as it sees it. */
static bool plan_pass(struct slot *s, const struct stk_cuda_jpeg_item *it, uint32_t index)
{
	uint64_t at;
	uint32_t pitch;
	stk__jpegpar_plan_window(s->plan, index, &at, &pitch);
	struct stk_image src = stk__image_hwc((void *)((uintptr_t)s->view.rgb + at), STK_UINT8, it->window.w, it->window.h, it->pass->in_c);
	src.row = pitch;
	struct stk_rect seen = it->window;
	if (it->orientation > 1)
		seen = stk__orient_view(it->orientation, it->header->width, it->header->height, it->window, &src);
	return stk__pass_gpu_add(s->passes, it->pass, &src, seen.x, seen.y, &it->dst);
}

/* Decides for each item, and describes what the GPU does. */
static void plan_items(struct slot *s, const struct stk_cuda_jpeg_item *items, int n, const uint32_t *place)
{
	stk__jpegpar_plan_begin(s->plan);
	stk__pass_gpu_begin(s->passes);
	stk__jpegpar_plan_view(s->plan, s->tables_at, s->work_at, s->raw_at, &s->view); /* results lie where they always do */
	for (int i = 0; i < n; i++) {
		uint32_t index, at = place[i];
		struct stk_jpegpar_file file = file_of(&items[i], at);
		bool taken = at != STK_JPEGPAR_NONE && suits(&items[i]) && stk__jpegpar_plan_add(s->plan, &file, &index) &&
			     (!items[i].pass || plan_pass(s, &items[i], index));
		s->image[i] = taken ? (int32_t)index : NO_IMAGE;
	}
}

static enum stk_status decode(struct stk_cuda_jpeg *d, struct slot *s, struct stk_error *err)
{
	size_t bytes = stk__jpegpar_plan_end(s->plan);
	stk__jpegpar_plan_view(s->plan, s->tables_at, s->work_at, s->raw_at, &s->view);
	enum stk_status status = stk__gpu_upload(d->dev, s->stream, s->tables_at, s->tables, bytes, err);
	if (!status)
		status = mark(d, s, 1, err);
	for (int phase = 0; !status && phase < STK_CUDA_JPEG_PHASES; phase++) {
		status = stk__cuda_jpeg_launch(d->dev, &d->kernels, &s->view, (enum stk_cuda_jpeg_phase)phase, s->stream, err);
		if (!status)
			status = mark(d, s, phase + 2, err);
	}
	return status;
}

static enum stk_status run_passes(struct stk_cuda_jpeg *d, struct slot *s, struct stk_error *err)
{
	size_t bytes = stk__pass_gpu_end(s->passes);
	enum stk_status status =
		stk__gpu_upload(d->dev, s->stream, s->pass_tables_at, s->tables + aligned(s->sizes.decode.tables), bytes, err);
	return status ? status : stk__pass_gpu_launch(d->dev, &d->pass_kernels, s->passes, s->stream, err);
}

enum stk_status stk__cuda_jpeg_submit(
	struct stk_cuda_jpeg *d, int slot, stk_gpu_stream stream, const struct stk_cuda_jpeg_item *items, int n, struct stk_error *err)
{
	struct slot *s = &d->slots[slot];
	if (n < 0 || (uint32_t)n > s->limits.batch.images)
		return stk__fail(err, STK_INVALID, "a batch of %d files in a decoder for %u", n, s->limits.batch.images);
	s->stream = stream;
	uint32_t *place = s->flags; /* not needed until the batch is done, and large enough */
	enum stk_status status = mark(d, s, 0, err);
	if (!status)
		status = copy_files(d, s, items, n, place, err);
	if (status)
		return status;
	plan_items(s, items, n, place);
	status = decode(d, s, err);
	if (!status)
		status = run_passes(d, s, err);
	if (!status && s->view.n_images)
		status = stk__gpu_download(
			d->dev, s->stream, s->flags, (stk_gpu_ptr)(uintptr_t)s->view.flags, sizeof *s->flags * s->view.n_images, err);
	if (!status)
		status = mark(d, s, MARKS - 1, err);
	return status ? status : stk__gpu_event_record(d->dev, s->done, s->stream, err);
}

void stk__cuda_jpeg_measure(struct stk_cuda_jpeg *d, bool on)
{
	d->measure = on;
}

enum stk_status stk__cuda_jpeg_times(struct stk_cuda_jpeg *d, int slot, float times[STK_CUDA_JPEG_TIMES], struct stk_error *err)
{
	struct slot *s = &d->slots[slot];
	memset(times, 0, sizeof *times * STK_CUDA_JPEG_TIMES);
	for (int i = 0; d->measure && i < STK_CUDA_JPEG_TIMES; i++) {
		enum stk_status status = stk__gpu_event_elapsed(d->dev, s->marks[i], s->marks[i + 1], &times[i], err);
		if (status)
			return status;
	}
	return STK_OK;
}
