/* SPDX-License-Identifier: Apache-2.0
 * The tables: flags, items, constants. */
#include "kernel/array/array_gpu.h"

#include "base/memory.h"
#include "kernel/array/array_bytes.h"
#include "kernel/array/array_image.h"
#include "kernel/array/array_resize.h"
#include "kernel/array/array_sample_pixels.h"
#include "kernel/equalize/equalize_element.h"
#include "kernel/filter/filter_element.h"
#include "kernel/filter/filter_words.h"
#include "kernel/jpeg_distortion/jpeg_distortion_tile.h"

#include <string.h>

/* Jobs that follow each other in all they read and write, and are otherwise the same: an item stands for all of them, of one shape and one more dim. The item is the
 * first until the run is closed. */
struct stk_array_run {
	uint32_t jobs;                                   /* 0: the last item is no run, or closed */
	const uint8_t *dst, *src[STK_ARRAY_SOURCES];     /* of the last job */
	ptrdiff_t dst_step, src_step[STK_ARRAY_SOURCES]; /* from one job to the next, where there are two */
};

struct stk_array_gpu {
	struct stk_array_gpu_limits limits;
	uint8_t *tables;
	stk_gpu_ptr device_tables, device_work;
	struct stk_array_gpu_item *items; /* in tables */
	size_t items_at, constants_at;
	uint32_t n_items;
	struct stk_array_run run; /* in the last item */
	uint64_t n_constants, n_work;
	uint32_t blocks[STK_ARRAY_GPU_LAUNCHES], shared[STK_ARRAY_GPU_LAUNCHES]; /* shared: bytes */
	uint32_t each[STK_ARRAY_GPU_LAUNCHES];                                   /* blocks of each item so far; 0: they differ */
	bool closed;                                                             /* the last item has its blocks */
	bool may_fail;                                                           /* a job divides whole numbers */
};

static size_t aligned(size_t n)
{
	return (n + 255) & ~(size_t)255;
}

/* What one job's constants or work memory take, so that the next ones are aligned. */
static uint64_t padded(uint64_t n)
{
	return (n + 15) & ~(uint64_t)15;
}

static bool is_tiled(const struct stk_array_job *job)
{
	return job->kind == STK_ARRAY_FILTER && stk__filter_tiling(&job->filter) != STK_FILTER_NO_TILES;
}

/* A normalisation that measures nothing: what others find out comes with its tables. */
static bool is_given(const struct stk_array_job *job)
{
	return job->kind == STK_ARRAY_NORMALIZE && job->normalize.n_mean && job->normalize.n_factor;
}

/* Bytes of a job's memory on the device. A frame that is measured has a word that counts the thread blocks which are through, and what each block measures. A filter
 * that is tiled needs no work memory. */
static void memory_of(const struct stk_array_job *job, uint64_t *constants, uint64_t *work)
{
	*constants = job->constant_bytes;
	*work = is_tiled(job) ? 0 : job->work_bytes;
	if (stk__array_is_columns(job))
		*constants = sizeof(struct stk_array_totals);
	if (is_given(job)) {
		*constants = job->work_bytes;
		*work = 0;
	}
	if (!stk__array_is_image(job))
		return;
	struct stk_array_image im = stk__array_image(job);
	if (im.measured) {
		*constants = (uint64_t)im.frames * sizeof(uint32_t);
		*work = stk__array_image_results(job, &im) + (uint64_t)im.frames * im.blocks * im.measured * sizeof(uint32_t);
	}
}

void stk__array_gpu_need(const struct stk_array_job *job, struct stk_array_gpu_limits *sum)
{
	uint64_t constants, work;
	memory_of(job, &constants, &work);
	sum->jobs++;
	sum->constants += padded(constants);
	sum->work += padded(work);
}

struct stk_array_gpu_sizes stk__array_gpu_sizes(const struct stk_array_gpu_limits *l)
{
	size_t flags = aligned(sizeof(uint32_t) * l->jobs), items = aligned(sizeof(struct stk_array_gpu_item) * l->jobs);
	return (struct stk_array_gpu_sizes){flags + items + aligned(l->constants), aligned(l->work)};
}

/* The launches, in the order in which those of one job follow each other. */
static const struct {
	int launch;
	const char *module, *kernel;
} steps[STK_ARRAY_GPU_LAUNCHES] = {
	{STK_ARRAY_COPY, "array_gpu", "array_copy"},
	{STK_ARRAY_ONE_HOT, "array_gpu", "array_copy"},
	{STK_ARRAY_GPU_FLAT_COPY, "array_gpu_flat", "array_flat_copy"},
	{STK_ARRAY_GPU_FLAT_CONVERT, "array_gpu_flat", "array_flat_convert"},
	{STK_ARRAY_ARITHMETIC, "array_gpu", "array_arithmetic"},
	{STK_ARRAY_GPU_FLAT_ARITHMETIC, "array_gpu_flat", "array_flat_arithmetic"},
	{STK_ARRAY_GPU_FLAT_REALS, "array_gpu_flat", "array_flat_reals"},
	{STK_ARRAY_GPU_MEASURE, "array_gpu", "array_measure"},
	{STK_ARRAY_GPU_BYTE_COLUMNS, "array_gpu_bytes", "array_byte_columns"},
	{STK_ARRAY_GPU_BYTE_ROWS, "array_gpu_bytes", "array_byte_rows"},
	{STK_ARRAY_NORMALIZE, "array_gpu", "array_normalize"},
	{STK_ARRAY_GPU_FLAT_NORMALIZE, "array_gpu_flat", "array_flat_normalize"},
	{STK_ARRAY_REDUCE, "array_gpu", "array_reduce"},
	{STK_ARRAY_POINTS, "array_gpu", "array_points"},
	{STK_ARRAY_SAMPLE, "array_gpu", "array_sample"},
	{STK_ARRAY_GPU_SAMPLE_PIXELS, "array_gpu_sample", "array_sample_pixels"},
	{STK_ARRAY_RESIZE, "array_gpu", "array_resize"},
	{STK_ARRAY_GPU_RESIZE_1, "array_gpu", "array_resize"},
	{STK_ARRAY_GPU_RESIZE_2, "array_gpu", "array_resize"},
	{STK_ARRAY_FILTER, "array_gpu_filter", "array_filter"},
	{STK_ARRAY_GPU_FILTER_1, "array_gpu_filter", "array_filter"},
	{STK_ARRAY_GPU_FILTER_2, "array_gpu_filter", "array_filter"},
	{STK_ARRAY_GPU_FILTER_TILES + STK_FILTER_SUM_TILES, "array_gpu_filter_tiles", "array_filter_sums"},
	{STK_ARRAY_GPU_FILTER_TILES + STK_FILTER_EXTREME_TILES, "array_gpu_filter_tiles", "array_filter_extremes"},
	{STK_ARRAY_GPU_FILTER_TILES + STK_FILTER_DENSE_TILES, "array_gpu_filter_tiles", "array_filter_dense"},
	{STK_ARRAY_GPU_FILTER_TILES + STK_FILTER_MEDIAN_TILES, "array_gpu_filter_tiles", "array_filter_median"},
	{STK_ARRAY_GPU_FILTER_WORDS, "array_gpu_filter_words", "array_filter_words"},
	{STK_ARRAY_GPU_FILTER_EXTREMES, "array_gpu_filter_extremes", "array_filter_word_extremes"},
	{STK_ARRAY_POINTWISE, "array_gpu_pointwise", "array_pointwise"},
	{STK_ARRAY_GPU_LOOKUP, "array_gpu_lookup", "array_lookup"},
	{STK_ARRAY_GPU_FLAT_MASK, "array_gpu_mask", "array_flat_mask"},
	{STK_ARRAY_GPU_TABLES, "array_gpu_equalize", "array_tables"},
	{STK_ARRAY_EQUALIZE, "array_gpu_equalize", "array_equalize"},
	{STK_ARRAY_DEBAYER, "array_gpu_debayer", "array_debayer"},
	{STK_ARRAY_ENHANCE, "array_gpu_enhance", "array_enhance"},
	{STK_ARRAY_TRANSFORM, "array_gpu_transform", "array_transform"},
	{STK_ARRAY_GPU_IMAGE_MEASURE, "array_gpu_image", "array_image_measure"},
	{STK_ARRAY_GPU_IMAGE, "array_gpu_image", "array_image"},
	{STK_ARRAY_GPU_IMAGE_MIX, "array_gpu_image", "array_image_mix"},
	{STK_ARRAY_JPEG_DISTORTION, "array_gpu_jpeg_distortion", "array_jpeg_samples"},
	{STK_ARRAY_GPU_JPEG_PIXELS, "array_gpu_jpeg_distortion", "array_jpeg_pixels"},
	{STK_ARRAY_GPU_NOISE, "array_gpu_noise", "array_noise"},
	{STK_ARRAY_GPU_POISSON, "array_gpu_noise", "array_noise_poisson"},
};

enum stk_status stk__array_gpu_kernels_load(struct stk_gpu_device *dev, struct stk_array_gpu_kernels *k, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	for (int i = 0; !status && i < STK_ARRAY_GPU_LAUNCHES; i++)
		status = stk__gpu_kernel(dev, steps[i].module, steps[i].kernel, 0, &k->of[steps[i].launch], err);
	return status;
}

enum stk_status stk__array_gpu_create(const struct stk_array_gpu_limits *limits, void *tables, stk_gpu_ptr device_tables,
	stk_gpu_ptr device_work, struct stk_array_gpu **out, struct stk_error *err)
{
	struct stk_array_gpu *b = stk__calloc(1, sizeof *b);
	if (!b)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	b->limits = *limits;
	b->tables = tables;
	b->device_tables = device_tables;
	b->device_work = device_work;
	b->items_at = aligned(sizeof(uint32_t) * limits->jobs);
	b->constants_at = b->items_at + aligned(sizeof *b->items * limits->jobs);
	b->items = (struct stk_array_gpu_item *)(void *)(b->tables + b->items_at);
	*out = b;
	return STK_OK;
}

void stk__array_gpu_destroy(struct stk_array_gpu *b)
{
	stk__free(b);
}

void stk__array_gpu_begin(struct stk_array_gpu *b)
{
	b->n_items = 0;
	b->n_constants = b->n_work = 0;
	memset(b->blocks, 0, sizeof b->blocks);
	memset(b->each, 0, sizeof b->each);
	b->may_fail = false;
	memset(b->shared, 0, sizeof b->shared);
	b->run.jobs = 0;
	b->closed = true;
}

/* Two elements that follow each other everywhere may move as one. */
static bool may_pair(const struct stk_array_job *job)
{
	int32_t element = job->copy.element;
	const struct stk_array_dim *inner = &job->dim[job->ndim - 1];
	uint64_t all = (uintptr_t)job->dst | (uintptr_t)job->src[0];
	for (int32_t k = 0; k + 1 < job->ndim; k++)
		all |= (uint64_t)job->dim[k].dst | (uint64_t)job->dim[k].src[0];
	return element < 8 && inner->dst == element && inner->src[0] == element && !((inner->size | inner->begin | inner->end) & 1) &&
	       !(all & (uint64_t)(2 * element - 1));
}

static void pair(struct stk_array_job *job)
{
	int32_t element = job->copy.element;
	struct stk_array_dim *inner = &job->dim[job->ndim - 1];
	*inner = (struct stk_array_dim){inner->size / 2, inner->begin / 2, inner->end / 2, 2 * element, {2 * element, 0}};
	memcpy(job->copy.fill + element, job->copy.fill, (size_t)element);
	job->copy.element *= 2;
	job->n /= 2;
}

/* The mean and the factor of each group, as a measure of them would write. */
static void put_stats(const struct stk_array_job *job, uint8_t *to)
{
	for (uint32_t k = 0; k < job->normalize.groups.groups; k++, to += 2 * sizeof(double)) {
		double stats[] = {stk__array_mean(job, k, 0), stk__array_factor(job, k, 0)};
		memcpy(to, stats, sizeof stats);
	}
}

/* Gives the job its memory on the device: constants go to the tables, where the device will have them. */
static void place(struct stk_array_gpu *b, struct stk_array_job *job, uint64_t constants, uint64_t work)
{
	size_t at = b->constants_at + b->n_constants;
	if (is_given(job))
		put_stats(job, b->tables + at);
	else if (job->constant_bytes)
		memcpy(b->tables + at, job->constants, job->constant_bytes);
	else if (constants)
		memset(b->tables + at, 0, constants);
	job->constants = (const void *)(uintptr_t)(b->device_tables + at);
	b->n_constants += padded(constants);
	job->work = (void *)(uintptr_t)(b->device_work + b->n_work);
	if (job->kind == STK_ARRAY_NORMALIZE)
		job->src[1] = is_given(job) ? job->constants : job->work;
	b->n_work += padded(work);
}

/* A thread measures short groups, a thread block a long one. */
static uint32_t group_blocks(const struct stk_array_groups *g)
{
	return g->count < STK_ARRAY_SERIAL ? (g->groups + STK_ARRAY_GPU_GROUPS - 1) / STK_ARRAY_GPU_GROUPS : g->groups;
}

/* Of a job that reduces or measures. */
static void add_group_blocks(uint32_t *blocks, const struct stk_array_job *job)
{
	const struct stk_array_groups *g = stk__array_groups_of(job);
	if (is_given(job))
		return;
	if (stk__array_is_columns(job))
		blocks[STK_ARRAY_GPU_BYTE_COLUMNS] += stk__array_column_blocks(g);
	else if (stk__array_is_rows(job))
		blocks[STK_ARRAY_GPU_BYTE_ROWS] += stk__array_row_blocks(g);
	else
		blocks[job->kind == STK_ARRAY_REDUCE ? (int)STK_ARRAY_REDUCE : (int)STK_ARRAY_GPU_MEASURE] += group_blocks(g);
}

static uint32_t blocks_of(int64_t outputs)
{
	return (uint32_t)((outputs + STK_ARRAY_GPU_OUTPUTS - 1) / STK_ARRAY_GPU_OUTPUTS);
}

static void add_filter_blocks(struct stk_array_gpu *b, const struct stk_array_job *job)
{
	const struct stk_filter *f = &job->filter;
	struct stk_filter_data data = stk__array_filter_data(job);
	static const int launch[STK_FILTER_PHASES] = {STK_ARRAY_FILTER, STK_ARRAY_GPU_FILTER_1, STK_ARRAY_GPU_FILTER_2};
	int tiling = stk__filter_tiling(f), axes[STK_FILTER_PHASES], phases = stk__filter_phases(f, axes);
	if (stk__filter_takes_words(f, &data)) {
		uint64_t words = (uint64_t)f->outer * stk__filter_words_across(f) * stk__filter_words_strips(f);
		int words_launch = f->reduction == STK_FILTER_SUM ? STK_ARRAY_GPU_FILTER_WORDS : STK_ARRAY_GPU_FILTER_EXTREMES;
		b->blocks[words_launch] += (uint32_t)((words + STK_ARRAY_GPU_THREADS - 1) / STK_ARRAY_GPU_THREADS);
		return;
	}
	if (tiling != STK_FILTER_NO_TILES) {
		struct stk_filter_tiles tiles = stk__filter_tiles(f);
		uint32_t *shared = &b->shared[STK_ARRAY_GPU_FILTER_TILES + tiling];
		b->blocks[STK_ARRAY_GPU_FILTER_TILES + tiling] += (uint32_t)stk__filter_tile_blocks(f, &tiles);
		*shared = *shared > tiles.shared ? *shared : tiles.shared;
		return;
	}
	for (int k = 0; k < phases; k++)
		b->blocks[launch[k]] += blocks_of(k < phases - 1 ? job->n * f->n_terms : job->n);
}

/* False: the job looks up no bytes. */
static bool add_lookup_blocks(uint32_t *blocks, const struct stk_array_job *job)
{
	if (job->kind != STK_ARRAY_POINTWISE || job->pointwise.op != STK_POINTWISE_LOOKUP || job->src_dtype[0] != STK_UINT8)
		return false;
	blocks[STK_ARRAY_GPU_LOOKUP] += (uint32_t)((job->n + STK_ARRAY_GPU_KEYS - 1) / STK_ARRAY_GPU_KEYS);
	return true;
}

/* False: the job makes no noise. */
static bool add_noise_blocks(uint32_t *blocks, const struct stk_array_job *job)
{
	int32_t op = job->kind == STK_ARRAY_POINTWISE ? job->pointwise.op : -1;
	if (op == STK_POINTWISE_NORMAL)
		blocks[STK_ARRAY_GPU_NOISE] += blocks_of(job->n);
	else if (op == STK_POINTWISE_SALT)
		blocks[STK_ARRAY_GPU_NOISE] += blocks_of(job->n / job->pointwise.noise.channels); /* pixels */
	else if (op == STK_POINTWISE_POISSON)
		blocks[STK_ARRAY_GPU_POISSON] += blocks_of(job->n);
	else
		return false;
	return true;
}

/* The launch that makes the outputs of a job without phases. */
static int launch_of(const struct stk_array_gpu_item *it)
{
	const struct stk_array_job *job = &it->job;
	if (!it->flat.pieces)
		return job->kind;
	if (job->kind == STK_ARRAY_COPY)
		return job->copy.element ? STK_ARRAY_GPU_FLAT_COPY : STK_ARRAY_GPU_FLAT_CONVERT;
	if (job->kind == STK_ARRAY_POINTWISE)
		return STK_ARRAY_GPU_FLAT_MASK;
	if (job->kind == STK_ARRAY_NORMALIZE)
		return STK_ARRAY_GPU_FLAT_NORMALIZE;
	return job->arithmetic.domain == STK_ARITH_DOUBLE ? STK_ARRAY_GPU_FLAT_REALS : STK_ARRAY_GPU_FLAT_ARITHMETIC;
}

/* measures_only: a pass makes the pixels. */
static void add_image_blocks(struct stk_array_gpu *b, const struct stk_array_job *job, bool measures_only)
{
	struct stk_array_image im = stk__array_image(job);
	uint32_t n = (uint32_t)im.frames * im.blocks;
	b->blocks[STK_ARRAY_GPU_IMAGE_MEASURE] += im.measured ? n : 0;
	if (!measures_only)
		b->blocks[stk__array_image_mixes(job) ? STK_ARRAY_GPU_IMAGE_MIX : STK_ARRAY_GPU_IMAGE] += n;
}

/* Adds the thread blocks of a job to those of each launch that it takes part in. */
static void add_blocks(struct stk_array_gpu *b, const struct stk_array_gpu_item *it)
{
	const struct stk_array_job *job = &it->job;
	uint32_t *blocks = b->blocks;
	if (stk__array_is_image(job)) {
		add_image_blocks(b, job, false);
		return;
	}
	if (job->kind == STK_ARRAY_FILTER) {
		add_filter_blocks(b, job);
		return;
	}
	if (job->kind == STK_ARRAY_SAMPLE && stk__array_sample_by_pixels(job)) {
		blocks[STK_ARRAY_GPU_SAMPLE_PIXELS] += (uint32_t)job->dim[0].size * stk__array_sample_tiles(job);
		return;
	}
	if (add_lookup_blocks(blocks, job) || add_noise_blocks(blocks, job))
		return;
	if (job->kind == STK_ARRAY_JPEG_DISTORTION) {
		const struct stk_jpeg_distortion *j = &job->jpeg_distortion;
		struct stk_jpeg_tiles samples = stk__jpeg_sample_tiles(j), pixels = stk__jpeg_pixel_tiles(j);
		blocks[STK_ARRAY_JPEG_DISTORTION] += (uint32_t)j->frames * samples.across * samples.down;
		blocks[STK_ARRAY_GPU_JPEG_PIXELS] += (uint32_t)j->frames * pixels.across * pixels.down;
		return;
	}
	if (job->kind == STK_ARRAY_RESIZE) {
		static const int resize_launch[STK_RESIZE_PHASES] = {STK_ARRAY_RESIZE, STK_ARRAY_GPU_RESIZE_1, STK_ARRAY_GPU_RESIZE_2};
		for (int k = 0; k < job->resize.phases; k++)
			blocks[resize_launch[k]] += blocks_of(stk__resize_outputs(&job->resize.phase[k]));
		return;
	}
	if (job->kind == STK_ARRAY_EQUALIZE)
		blocks[STK_ARRAY_GPU_TABLES] += (uint32_t)stk__equalize_tables(&job->equalize);
	if (job->kind == STK_ARRAY_REDUCE || job->kind == STK_ARRAY_NORMALIZE)
		add_group_blocks(blocks, job);
	if (job->kind != STK_ARRAY_REDUCE)
		blocks[launch_of(it)] +=
			it->flat.pieces ? (it->flat.pieces + STK_ARRAY_GPU_PIECES - 1) / STK_ARRAY_GPU_PIECES : blocks_of(job->n);
}

/* ---- runs ---- */

/* Jobs without memory of their own and without flags may stand in one item. */
static bool may_run(const struct stk_array_job *job)
{
	bool plain = job->kind == STK_ARRAY_COPY ? !job->copy.fills : job->kind == STK_ARRAY_ARITHMETIC && !job->arithmetic.divides;
	return plain && job->ndim < STK_MAX_DIMS;
}

static bool same_but_addresses(const struct stk_array_job *a, const struct stk_array_job *b)
{
	if (a->kind != b->kind || a->ndim != b->ndim || a->n != b->n || a->dst_dtype != b->dst_dtype ||
		a->src_dtype[0] != b->src_dtype[0] || a->src_dtype[1] != b->src_dtype[1] ||
		memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) != 0)
		return false;
	return a->kind == STK_ARRAY_COPY ? a->copy.element == b->copy.element && !b->copy.fills
					 : memcmp(&a->arithmetic, &b->arithmetic, sizeof a->arithmetic) == 0;
}

/* The job that does what `jobs` of them do: theirs, with a dim for all of them in front. */
static struct stk_array_job whole_run(const struct stk_array_job *first, const struct stk_array_run *run, uint32_t jobs)
{
	struct stk_array_job all = *first;
	struct stk_array_dim outer = {jobs, 0, jobs, run->dst_step, {run->src_step[0], run->src_step[1]}}, *d = &all.dim[0];
	all.n *= jobs;
	if (all.kind == STK_ARRAY_COPY)
		outer.src[1] = 0;
	if (all.ndim && outer.dst == d->dst * d->size && outer.src[0] == d->src[0] * d->size && outer.src[1] == d->src[1] * d->size) {
		d->size = d->end *= jobs; /* whole, since nothing fills */
		return all;
	}
	memmove(d + 1, d, (size_t)all.ndim * sizeof *d);
	*d = outer;
	all.ndim++;
	return all;
}

/* Whether the job goes on where the last item's ended. Two of them tell how far apart they lie, and whether all of them are a flat job (array_flat.h): no other
 * kernel gains by it. */
static bool joins(struct stk_array_gpu *b, const struct stk_array_job *job)
{
	struct stk_array_run *run = &b->run, next = *run;
	if (!run->jobs || !may_run(job))
		return false;
	const struct stk_array_job *first = &b->items[b->n_items - 1].job;
	if ((int64_t)(run->jobs + 1) * job->n > STK_ARRAY_MOST || !same_but_addresses(first, job))
		return false;
	next.dst_step = job->dst - run->dst;
	if (next.dst_step != job->n * stk__array_size(job->dst_dtype)) /* no flat job has gaps: what lies anywhere is told soon */
		return false;
	next.dst = job->dst;
	for (int k = 0; k < STK_ARRAY_SOURCES; k++) {
		next.src_step[k] = job->src[k] - run->src[k];
		next.src[k] = job->src[k];
	}
	if (run->jobs == 1) {
		const struct stk_array_job two = whole_run(first, &next, 2);
		if (!stk__array_flat(&two).pieces)
			return false;
	} else if (next.dst_step != run->dst_step || memcmp(next.src_step, run->src_step, sizeof next.src_step) != 0) {
		return false;
	}
	next.jobs++;
	*run = next;
	return true;
}

/* ---- items ---- */

/* The last item, which has no thread blocks yet, gets them: those that add_blocks gives it between begin and end. */
static void begin_blocks(const struct stk_array_gpu *b, struct stk_array_gpu_item *it)
{
	it->flat = stk__array_flat(&it->job);
	memcpy(it->block0, b->blocks, sizeof it->block0);
}

static void end_blocks(struct stk_array_gpu *b, const struct stk_array_gpu_item *it)
{
	for (int k = 0; k < STK_ARRAY_GPU_LAUNCHES; k++) {
		uint32_t added = b->blocks[k] - it->block0[k];
		b->each[k] = b->n_items == 1 || b->each[k] == added ? added : 0;
	}
	b->closed = true;
}

/* No job joins the last item any more. */
static void close_item(struct stk_array_gpu *b)
{
	if (b->closed)
		return;
	struct stk_array_gpu_item *it = &b->items[b->n_items - 1];
	struct stk_array_job *job = &it->job;
	if (b->run.jobs > 1)
		*job = whole_run(job, &b->run, b->run.jobs);
	while (job->kind == STK_ARRAY_COPY && job->copy.element && job->ndim && may_pair(job))
		pair(job);
	begin_blocks(b, it);
	add_blocks(b, it);
	end_blocks(b, it);
}

/* The job and its memory, without thread blocks; NULL: the batch is full. */
static struct stk_array_gpu_item *open_item(struct stk_array_gpu *b, const struct stk_array_job *job)
{
	const struct stk_array_gpu_limits *l = &b->limits;
	uint64_t constants, work;
	memory_of(job, &constants, &work);
	if (b->n_items == l->jobs || padded(constants) > l->constants - b->n_constants || padded(work) > l->work - b->n_work)
		return NULL;
	close_item(b);
	struct stk_array_gpu_item *it = &b->items[b->n_items++];
	stk__array_job_copy(&it->job, job);
	place(b, &it->job, constants, work);
	b->run = (struct stk_array_run){may_run(job), job->dst, {job->src[0], job->src[1]}, 0, {0, 0}};
	b->closed = false;
	b->may_fail |= job->kind == STK_ARRAY_ARITHMETIC && job->arithmetic.divides;
	return it;
}

bool stk__array_gpu_add(struct stk_array_gpu *b, const struct stk_array_job *job, uint32_t *index)
{
	if (!joins(b, job) && !open_item(b, job))
		return false;
	if (index)
		*index = b->n_items - 1;
	return true;
}

bool stk__array_gpu_makes(const struct stk_array_job *job, int32_t width, int32_t height)
{
	if (!stk__array_is_image(job) || stk__array_image_mixes(job))
		return false;
	struct stk_array_image im = stk__array_image(job);
	return im.frames == 1 && (int64_t)im.pixels * im.channels == 3 * (int64_t)width * height &&
	       (im.channels == 3 || job->kind == STK_ARRAY_POINTWISE);
}

bool stk__array_gpu_add_maker(struct stk_array_gpu *b, const struct stk_array_job *job, const struct stk_array_gpu_item **maker)
{
	struct stk_array_gpu_item *it = open_item(b, job);
	if (!it)
		return false;
	*maker = (const struct stk_array_gpu_item *)(uintptr_t)(b->device_tables + b->items_at) + (b->n_items - 1);
	begin_blocks(b, it);
	add_image_blocks(b, &it->job, true);
	end_blocks(b, it);
	return true;
}

size_t stk__array_gpu_end(struct stk_array_gpu *b)
{
	close_item(b);
	memset(b->tables, 0, sizeof(uint32_t) * b->n_items);
	return b->n_constants ? b->constants_at + b->n_constants : b->items_at + sizeof *b->items * b->n_items;
}

uint32_t stk__array_gpu_flags(const struct stk_array_gpu *b)
{
	return b->may_fail ? b->n_items : 0;
}

static unsigned threads_of(int launch)
{
	bool tiles = launch >= STK_ARRAY_GPU_FILTER_TILES && launch <= STK_ARRAY_GPU_FILTER_LAST;
	return tiles ? STK_FILTER_TILE_THREADS : launch == STK_ARRAY_JPEG_DISTORTION ? STK_JPEG_TILE_THREADS : STK_ARRAY_GPU_THREADS;
}

enum stk_status stk__array_gpu_launch(struct stk_gpu_device *dev, const struct stk_array_gpu_kernels *kernels,
	const struct stk_array_gpu *b, stk_gpu_stream stream, struct stk_error *err)
{
	struct stk_array_gpu_view view = {.items = (const struct stk_array_gpu_item *)(uintptr_t)(b->device_tables + b->items_at),
		.flags = (uint32_t *)(uintptr_t)b->device_tables,
		.n_items = b->n_items};
	enum stk_status status = STK_OK;
	for (size_t i = 0; !status && i < STK_ARRAY_GPU_LAUNCHES; i++) {
		view.launch = steps[i].launch;
		view.each = b->each[view.launch];
		struct stk_gpu_grid grid = {
			.blocks = {b->blocks[view.launch]}, .threads = {threads_of(view.launch)}, .shared = b->shared[view.launch]};
		if (grid.blocks[0])
			status = stk__gpu_launch(dev, stream, kernels->of[view.launch], grid, (void *[]){&view}, err);
	}
	return status;
}
