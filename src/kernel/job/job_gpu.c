/* SPDX-License-Identifier: Apache-2.0
 * The tables of a batch's jobs (flags, items and constants), and their launches. */
#include "kernel/job/job_gpu.h"

#include "base/memory.h"
#include "kernel/job/job_kind.h"
#include "kernel/job/job_place.h"

#include <string.h>

/* Jobs with equal constants of at least LEAST_SHARED bytes, such as windows and twiddle factors, share one copy of these in the tables. The constants of a new
 * job are compared with the last SHARED constants that were stored. */
enum { SHARED = 4, LEAST_SHARED = 256 };
struct shared {
	size_t at; /* offset in the tables */
	uint64_t bytes;
};

/* A run of equal jobs whose addresses advance by a fixed step is stored as one item with an extra dimension. The item holds only the first job until the run
 * ends (close_item). */
struct run {
	uint32_t jobs;                                 /* 0: no job can join the last item */
	const uint8_t *dst, *src[STK_JOB_SOURCES];     /* addresses of the last job */
	ptrdiff_t dst_step, src_step[STK_JOB_SOURCES]; /* distance in bytes between consecutive jobs; valid from the second job on */
};

struct stk_job_gpu {
	struct stk_job_gpu_limits limits;
	uint8_t *tables;
	stk_gpu_ptr device_tables, device_work;
	struct stk_job_gpu_item *items; /* inside `tables` */
	size_t items_at, constants_at;
	uint32_t n_items;
	struct run run; /* the jobs that the last item stands for */
	uint64_t n_constants, n_work;
	struct shared shared[SHARED]; /* the last constants of at least LEAST_SHARED bytes, which later jobs may share */
	uint32_t n_shared;            /* number of constants added to `shared` since the batch began; new ones overwrite the oldest */
	struct stk_job_blocks blocks;
	/* for each launch: number of thread blocks of an item, if all items so far have the same; otherwise 0 */
	uint32_t each[STK_JOB_LAUNCHES];
	bool closed;   /* the last item is complete: its thread blocks have been counted */
	bool may_fail; /* at least one job may set its flag */
};

static size_t aligned(size_t n)
{
	return (n + 255) & ~(size_t)255;
}

/* Returns a size in bytes rounded up to a multiple of 16, so that the memory of the next job is aligned. */
static uint64_t padded(uint64_t n)
{
	return (n + 15) & ~(uint64_t)15;
}

/* Computes how many bytes of constants and of work memory the job needs on the device. */
static void memory_of(const struct stk_job *job, uint64_t *constants, uint64_t *work)
{
	const struct stk_job_kind *kind = stk__job_kind_of(job);
	*constants = job->constant_bytes;
	*work = job->work_bytes;
	if (kind->memory)
		kind->memory(job, constants, work);
}

void stk__job_gpu_need(const struct stk_job *job, struct stk_job_gpu_limits *sum)
{
	uint64_t constants, work;
	memory_of(job, &constants, &work);
	sum->jobs++;
	sum->constants += padded(constants);
	sum->work += padded(work);
}

struct stk_job_gpu_sizes stk__job_gpu_sizes(const struct stk_job_gpu_limits *l)
{
	size_t flags = aligned(sizeof(uint32_t) * l->jobs), items = aligned(sizeof(struct stk_job_gpu_item) * l->jobs);
	return (struct stk_job_gpu_sizes){flags + items + aligned(l->constants), aligned(l->work)};
}

enum stk_status stk__job_gpu_kernels_load(struct stk_gpu_device *dev, struct stk_job_gpu_kernels *k, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	int launch = 0;
	for (int i = 0; i < STK_JOB_KINDS; i++)
		for (int32_t j = 0; !status && j < stk__job_kinds[i]->n_launches; j++)
			status = stk__gpu_kernel(dev, stk__job_kinds[i]->launches[j].module, stk__job_kinds[i]->launches[j].kernel, 0,
				&k->of[launch++], err);
	return status;
}

enum stk_status stk__job_gpu_create(const struct stk_job_gpu_limits *limits, void *tables, stk_gpu_ptr device_tables,
	stk_gpu_ptr device_work, struct stk_job_gpu **out, struct stk_error *err)
{
	struct stk_job_gpu *b = stk__calloc(1, sizeof *b);
	if (!b)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	b->limits = *limits;
	b->tables = tables;
	b->device_tables = device_tables;
	b->device_work = device_work;
	b->items_at = aligned(sizeof(uint32_t) * limits->jobs);
	b->constants_at = b->items_at + aligned(sizeof *b->items * limits->jobs);
	b->items = (struct stk_job_gpu_item *)(void *)(b->tables + b->items_at);
	*out = b;
	return STK_OK;
}

void stk__job_gpu_destroy(struct stk_job_gpu *b)
{
	stk__free(b);
}

void stk__job_gpu_begin(struct stk_job_gpu *b)
{
	b->n_items = 0;
	b->n_constants = b->n_work = 0;
	b->n_shared = 0;
	memset(&b->blocks, 0, sizeof b->blocks);
	memset(b->each, 0, sizeof b->each);
	b->may_fail = false;
	b->run.jobs = 0;
	b->closed = true;
}

/* Returns the offset in the tables of an earlier job's constants that are equal to these, or SIZE_MAX if none in b->shared are equal. */
static size_t find_shared(const struct stk_job_gpu *b, const void *constants, uint64_t bytes)
{
	const uint32_t n = b->n_shared < SHARED ? b->n_shared : SHARED;
	for (uint32_t i = 0; i < n; i++)
		if (b->shared[i].bytes == bytes && !memcmp(b->tables + b->shared[i].at, constants, bytes))
			return b->shared[i].at;
	return SIZE_MAX;
}

/* Sets the device addresses of the job's constants and work memory. Writes the constants to the tables, unless an earlier job has equal constants that this
 * job can share. */
static void assign_memory(struct stk_job_gpu *b, struct stk_job *job, const struct stk_job_kind *kind, uint64_t constants, uint64_t work)
{
	const void *given = job->constants;
	const bool shares = !kind->write_constants && job->constant_bytes >= LEAST_SHARED && constants == job->constant_bytes;
	size_t at = shares ? find_shared(b, given, constants) : SIZE_MAX;
	if (at != SIZE_MAX) {
		job->constants = (const void *)(uintptr_t)(b->device_tables + at);
		job->work = (void *)(uintptr_t)(b->device_work + b->n_work);
		b->n_work += padded(work);
		return;
	}
	at = b->constants_at + b->n_constants;
	if (shares)
		b->shared[b->n_shared++ % SHARED] = (struct shared){at, constants};
	job->constants = (const void *)(uintptr_t)(b->device_tables + at);
	job->work = (void *)(uintptr_t)(b->device_work + b->n_work);
	if (kind->write_constants)
		kind->write_constants(job, given, b->tables + at);
	else if (job->constant_bytes)
		memcpy(b->tables + at, given, job->constant_bytes);
	else if (constants)
		memset(b->tables + at, 0, constants);
	b->n_constants += padded(constants);
	b->n_work += padded(work);
}

/* ---- runs of equal jobs ---- */

/* Returns true if the two jobs differ only in addresses and parameters, and their kind allows the two to run as one job. */
static bool same_but_addresses(const struct stk_job *job, const struct stk_job *next)
{
	return job->kind == next->kind && job->ndim == next->ndim && job->n == next->n && job->dst_dtype == next->dst_dtype &&
	       job->src_dtype[0] == next->src_dtype[0] && job->src_dtype[1] == next->src_dtype[1] &&
	       memcmp(job->dim, next->dim, (size_t)job->ndim * sizeof *job->dim) == 0 && stk__job_kind_of(job)->joins(job, next);
}

static bool may_run(const struct stk_job *job)
{
	const struct stk_job_kind *kind = stk__job_kind_of(job);
	return kind->joins && job->ndim < STK_MAX_DIMS && kind->joins(job, job);
}

/* Returns one job that does the work of the `jobs` jobs of a run: the first job with an additional outer dimension. */
static struct stk_job whole_run(const struct stk_job *first, const struct run *run, uint32_t jobs)
{
	struct stk_job all = *first;
	struct stk_job_dim outer = {jobs, 0, jobs, run->dst_step, {run->src_step[0], run->src_step[1]}}, *d = &all.dim[0];
	all.n *= jobs;
	if (all.ndim && outer.dst == d->dst * d->size && outer.src[0] == d->src[0] * d->size && outer.src[1] == d->src[1] * d->size) {
		d->size = d->end *= jobs; /* begin is 0 and end is size, since no output is fill */
		return all;
	}
	memmove(d + 1, d, (size_t)all.ndim * sizeof *d);
	*d = outer;
	all.ndim++;
	return all;
}

/* If the job continues the run of the last item, adds it to the run and returns true. The first two jobs of a run determine the distance between its jobs. The
 * job that stands for the run must be flat (job_flat.h), since other kernels would gain nothing from a run. */
static bool joins(struct stk_job_gpu *b, const struct stk_job *job)
{
	struct run *run = &b->run, next = *run;
	if (!run->jobs || !may_run(job))
		return false;
	const struct stk_job *first = &b->items[b->n_items - 1].job;
	if ((int64_t)(run->jobs + 1) * job->n > STK_JOB_MOST || !same_but_addresses(first, job))
		return false;
	next.dst_step = job->dst - run->dst;
	if (next.dst_step != job->n * stk__job_size(job->dst_dtype)) /* the outputs of a flat job have no gaps */
		return false;
	next.dst = job->dst;
	for (int k = 0; k < STK_JOB_SOURCES; k++) {
		next.src_step[k] = (ptrdiff_t)((uintptr_t)job->src[k] - (uintptr_t)run->src[k]);
		next.src[k] = job->src[k];
	}
	if (run->jobs == 1) {
		const struct stk_job two = whole_run(first, &next, 2);
		if (!stk__job_flat_of(&two).pieces)
			return false;
	} else if (next.dst_step != run->dst_step || memcmp(next.src_step, run->src_step, sizeof next.src_step) != 0) {
		return false;
	}
	next.jobs++;
	*run = next;
	return true;
}

/* ---- items of the tables ---- */

/* Counts the thread blocks of the last item. add: `blocks` or `measures` of the item's kind. */
static void add_blocks(struct stk_job_gpu *b, void (*add)(const struct stk_job_gpu_item *it, struct stk_job_blocks *blocks))
{
	struct stk_job_gpu_item *it = &b->items[b->n_items - 1];
	it->flat = stk__job_flat_of(&it->job);
	memcpy(it->block0, b->blocks.count, sizeof it->block0);
	add(it, &b->blocks);
	for (int k = 0; k < STK_JOB_LAUNCHES; k++) {
		uint32_t added = b->blocks.count[k] - it->block0[k];
		b->each[k] = b->n_items == 1 || b->each[k] == added ? added : 0;
	}
	b->closed = true;
}

/* Completes the last item and counts its thread blocks. No job can join the item afterwards. */
static void close_item(struct stk_job_gpu *b)
{
	if (b->closed)
		return;
	struct stk_job *job = &b->items[b->n_items - 1].job;
	const struct stk_job_kind *kind = stk__job_kind_of(job);
	if (b->run.jobs > 1)
		*job = whole_run(job, &b->run, b->run.jobs);
	if (kind->close)
		kind->close(job);
	add_blocks(b, kind->blocks);
}

/* Adds an item for the job and assigns the job's memory. The item's thread blocks are counted later. Returns NULL if the batch is full. */
static struct stk_job_gpu_item *open_item(struct stk_job_gpu *b, const struct stk_job *job)
{
	const struct stk_job_gpu_limits *l = &b->limits;
	const struct stk_job_kind *kind = stk__job_kind_of(job);
	uint64_t constants, work;
	memory_of(job, &constants, &work);
	if (b->n_items == l->jobs || padded(constants) > l->constants - b->n_constants || padded(work) > l->work - b->n_work)
		return NULL;
	close_item(b);
	struct stk_job_gpu_item *it = &b->items[b->n_items++];
	stk__job_clone(&it->job, job);
	assign_memory(b, &it->job, kind, constants, work);
	b->run = (struct run){may_run(job), job->dst, {job->src[0], job->src[1]}, 0, {0, 0}};
	b->closed = false;
	b->may_fail |= kind->may_fail && kind->may_fail(job);
	return it;
}

bool stk__job_gpu_add(struct stk_job_gpu *b, const struct stk_job *job, uint32_t *index)
{
	if (!joins(b, job) && !open_item(b, job))
		return false;
	if (index)
		*index = b->n_items - 1;
	return true;
}

bool stk__job_gpu_add_maker(struct stk_job_gpu *b, const struct stk_job *job, const struct stk_job_gpu_item **maker)
{
	if (!open_item(b, job))
		return false;
	*maker = (const struct stk_job_gpu_item *)(uintptr_t)(b->device_tables + b->items_at) + (b->n_items - 1);
	add_blocks(b, stk__job_kind_of(job)->measures);
	return true;
}

size_t stk__job_gpu_end(struct stk_job_gpu *b)
{
	close_item(b);
	memset(b->tables, 0, sizeof(uint32_t) * b->n_items);
	return b->n_constants ? b->constants_at + b->n_constants : b->items_at + sizeof *b->items * b->n_items;
}

uint32_t stk__job_gpu_flags(const struct stk_job_gpu *b)
{
	return b->may_fail ? b->n_items : 0;
}

enum stk_status stk__job_gpu_launch(struct stk_gpu_device *dev, const struct stk_job_gpu_kernels *kernels, const struct stk_job_gpu *b,
	stk_gpu_stream stream, struct stk_error *err)
{
	struct stk_job_gpu_view view = {.items = (const struct stk_job_gpu_item *)(uintptr_t)(b->device_tables + b->items_at),
		.flags = (uint32_t *)(uintptr_t)b->device_tables,
		.n_items = b->n_items};
	enum stk_status status = STK_OK;
	for (int i = 0; i < STK_JOB_KINDS; i++)
		for (int32_t j = 0; !status && j < stk__job_kinds[i]->n_launches; j++, view.launch++) {
			unsigned threads =
				stk__job_kinds[i]->launches[j].threads ? (unsigned)stk__job_kinds[i]->launches[j].threads : STK_JOB_THREADS;
			struct stk_gpu_grid grid = {
				.blocks = {b->blocks.count[view.launch]}, .threads = {threads}, .shared = b->blocks.shared[view.launch]};
			view.each = b->each[view.launch];
			if (grid.blocks[0])
				status = stk__gpu_launch(dev, stream, kernels->of[view.launch], grid, (void *[]){&view}, err);
		}
	return status;
}
