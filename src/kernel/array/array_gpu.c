/* SPDX-License-Identifier: Apache-2.0
 * The tables: flags, items, constants. */
#include "kernel/array/array_gpu.h"

#include "base/memory.h"

#include <string.h>

struct stk_array_gpu {
	struct stk_array_gpu_limits limits;
	uint8_t *tables;
	stk_gpu_ptr device_tables, device_work;
	struct stk_array_gpu_item *items; /* in tables */
	size_t items_at, constants_at;
	uint32_t n_items, n_constants, n_groups;
	uint32_t blocks[STK_ARRAY_GPU_LAUNCHES];
};

static size_t aligned(size_t n)
{
	return (n + 255) & ~(size_t)255;
}

static uint32_t constant_bytes(const struct stk_array_job *job)
{
	const struct stk_array_normalize *n = &job->normalize;
	if (job->kind != STK_ARRAY_NORMALIZE)
		return 0;
	return (uint32_t)sizeof(double) * (uint32_t)((n->mean ? n->n_mean : 0) + (n->factor ? n->n_factor : 0));
}

void stk__array_gpu_need(const struct stk_array_job *job, struct stk_array_gpu_limits *sum)
{
	sum->jobs++;
	sum->constants += constant_bytes(job);
	sum->groups += job->kind == STK_ARRAY_NORMALIZE ? job->normalize.groups : 0;
}

struct stk_array_gpu_sizes stk__array_gpu_sizes(const struct stk_array_gpu_limits *l)
{
	size_t flags = aligned(sizeof(uint32_t) * l->jobs), items = aligned(sizeof(struct stk_array_gpu_item) * l->jobs);
	return (struct stk_array_gpu_sizes){flags + items + aligned(l->constants), aligned(2 * sizeof(double) * l->groups)};
}

enum stk_status stk__array_gpu_kernels_load(struct stk_gpu_device *dev, struct stk_array_gpu_kernels *k, struct stk_error *err)
{
	enum stk_status status = stk__gpu_kernel(dev, "array_gpu", "array_copy", 0, &k->copy, err);
	if (!status)
		status = stk__gpu_kernel(dev, "array_gpu", "array_arithmetic", 0, &k->arithmetic, err);
	if (!status)
		status = stk__gpu_kernel(dev, "array_gpu", "array_measure", 0, &k->measure, err);
	return status ? status : stk__gpu_kernel(dev, "array_gpu", "array_normalize", 0, &k->normalize, err);
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
	b->n_items = b->n_constants = b->n_groups = 0;
	memset(b->blocks, 0, sizeof b->blocks);
}

/* Copies given numbers to the tables; returns where the device will have them. */
static const double *keep(struct stk_array_gpu *b, const double *v, int32_t n)
{
	if (!v)
		return NULL;
	size_t at = b->constants_at + b->n_constants;
	memcpy(b->tables + at, v, (size_t)n * sizeof *v);
	b->n_constants += (uint32_t)n * (uint32_t)sizeof *v;
	return (const double *)(uintptr_t)(b->device_tables + at);
}

static void place_normalize(struct stk_array_gpu *b, struct stk_array_gpu_item *it)
{
	struct stk_array_normalize *n = &it->job.normalize;
	n->mean = keep(b, n->mean, n->n_mean);
	n->factor = keep(b, n->factor, n->n_factor);
	n->stats = (double *)(uintptr_t)(b->device_work + 2 * sizeof(double) * b->n_groups);
	it->job.src[1] = (const uint8_t *)n->stats;
	/* A thread measures a short group, a thread block a long one. */
	b->blocks[STK_ARRAY_GPU_MEASURE] +=
		n->count < STK_ARRAY_SERIAL ? (n->groups + STK_ARRAY_GPU_THREADS - 1) / STK_ARRAY_GPU_THREADS : n->groups;
	b->n_groups += n->groups;
}

bool stk__array_gpu_add(struct stk_array_gpu *b, const struct stk_array_job *job, uint32_t *index)
{
	uint32_t constants = constant_bytes(job), groups = job->kind == STK_ARRAY_NORMALIZE ? job->normalize.groups : 0;
	if (b->n_items == b->limits.jobs || constants > b->limits.constants - b->n_constants || groups > b->limits.groups - b->n_groups)
		return false;
	struct stk_array_gpu_item *it = &b->items[b->n_items];
	it->job = *job;
	memcpy(it->block0, b->blocks, sizeof it->block0);
	b->blocks[job->kind] += (job->n + STK_ARRAY_GPU_OUTPUTS - 1) / STK_ARRAY_GPU_OUTPUTS;
	if (job->kind == STK_ARRAY_NORMALIZE && job->n)
		place_normalize(b, it);
	if (index)
		*index = b->n_items;
	b->n_items++;
	return true;
}

size_t stk__array_gpu_end(struct stk_array_gpu *b)
{
	memset(b->tables, 0, sizeof(uint32_t) * b->n_items);
	return b->n_constants ? b->constants_at + b->n_constants : b->items_at + sizeof *b->items * b->n_items;
}

enum stk_status stk__array_gpu_launch(struct stk_gpu_device *dev, const struct stk_array_gpu_kernels *kernels,
	const struct stk_array_gpu *b, stk_gpu_stream stream, struct stk_error *err)
{
	const struct {
		int launch;
		stk_gpu_kernel kernel;
	} steps[] = {{STK_ARRAY_COPY, kernels->copy}, {STK_ARRAY_ONE_HOT, kernels->copy}, {STK_ARRAY_ARITHMETIC, kernels->arithmetic},
		{STK_ARRAY_GPU_MEASURE, kernels->measure}, {STK_ARRAY_NORMALIZE, kernels->normalize}};
	struct stk_array_gpu_view view = {.items = (const struct stk_array_gpu_item *)(uintptr_t)(b->device_tables + b->items_at),
		.flags = (uint32_t *)(uintptr_t)b->device_tables,
		.n_items = b->n_items};
	enum stk_status status = STK_OK;
	for (size_t i = 0; !status && i < sizeof steps / sizeof *steps; i++) {
		struct stk_gpu_grid grid = {.blocks = {b->blocks[steps[i].launch]}, .threads = {STK_ARRAY_GPU_THREADS}};
		view.launch = steps[i].launch;
		if (grid.blocks[0])
			status = stk__gpu_launch(dev, stream, steps[i].kernel, grid, (void *[]){&view}, err);
	}
	return status;
}
