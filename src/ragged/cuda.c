/* SPDX-License-Identifier: Apache-2.0
 * Launches the kernels of this layer: chooses grids, thread blocks and the units in which rows are moved, and divides the workspace of the assignment. */
#include "ragged/index_args.h"
#include "ragged/ragged.h"

#include "base/error.h"
#include "base/memory.h"
#include "gpu/gpu.h"

#include <string.h>

#define BLOCK 256
#define WORKSPACE_ALIGN 256

/* X(module, kernel, whether it uses more than the usual 48 KiB of shared memory). */
#define UNITS(X, name) X(index, name##1, 0) X(index, name##2, 0) X(index, name##4, 0) X(index, name##8, 0) X(index, name##16, 0)
#define SUMS(X, name)                                                                                                                      \
	X(index, name##float, 0)                                                                                                           \
	X(index, name##double, 0)                                                                                                          \
	X(index, name##int32, 0)                                                                                                           \
	X(index, name##int64, 0)                                                                                                           \
	X(index, name##half, 0)                                                                                                            \
	X(index, name##bfloat, 0)
#define KERNEL_LIST(X)                                                                                                                     \
	UNITS(X, gather_stk_unit)                                                                                                          \
	UNITS(X, keep_stk_unit)                                                                                                            \
	UNITS(X, scatter_stk_unit)                                                                                                         \
	X(index, scatter_winner, 0)                                                                                                        \
	X(index, scatter_source, 0)                                                                                                        \
	SUMS(X, scatter_add_)                                                                                                              \
	SUMS(X, scatter_add_short_)                                                                                                        \
	X(index, mask_to_index, 0)                                                                                                         \
	X(index, index_to_mask, 0)                                                                                                         \
	X(assign, assign_f32_1, 1)                                                                                                         \
	X(assign, assign_f32_2, 1)                                                                                                         \
	X(assign, assign_f32_4, 1)                                                                                                         \
	X(assign, assign_f32_8, 1)                                                                                                         \
	X(assign, assign_any_4, 1)                                                                                                         \
	X(assign, assign_any_8, 1)                                                                                                         \
	X(assign, assign_any, 0)                                                                                                           \
	X(assign, assign_turn_2, 0)                                                                                                        \
	X(assign, assign_turn_4, 0)                                                                                                        \
	X(assign, assign_turn_8, 0)                                                                                                        \
	X(cost, cost, 0)                                                                                                                   \
	X(loss, focal, 0)                                                                                                                  \
	X(loss, focal_grad, 0)                                                                                                             \
	X(loss, l1, 0)                                                                                                                     \
	X(loss, l1_grad, 0)                                                                                                                \
	X(heatmap, heatmap, 0)                                                                                                             \
	X(polyline, polyline_along, 0)                                                                                                     \
	X(polyline, polyline_at, 0)

enum kernel {
#define KERNEL_ENUM(module, name, big) K_##name,
	KERNEL_LIST(KERNEL_ENUM)
#undef KERNEL_ENUM
		KERNELS
};

static const struct {
	const char *module, *name;
	bool big;
} kernels[] = {
#define KERNEL_ROW(module, name, big) {"ragged_" #module, "ragged_" #name, big},
	KERNEL_LIST(KERNEL_ROW)
#undef KERNEL_ROW
};

struct stk_ragged_cuda {
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev;
	stk_gpu_kernel kernel[KERNELS];
	size_t shared; /* bytes of dynamic shared memory that a thread block of the assignment's kernels may use */
};

static enum stk_status load_kernels(struct stk_ragged_cuda *c, struct stk_error *err)
{
	int most = stk__gpu_device_facts(c->dev)->shared;
	/* 4 KiB remain for the static shared memory of the kernels. */
	c->shared = most > 4096 ? (size_t)most - 4096 : 0;
	enum stk_status status = stk__gpu_enter(c->dev, err);
	if (status)
		return status;
	for (int k = 0; k < KERNELS && !status; k++)
		status = stk__gpu_kernel(c->dev, kernels[k].module, kernels[k].name, kernels[k].big ? c->shared : 0, &c->kernel[k], err);
	stk__gpu_leave(c->dev);
	return status;
}

enum stk_status stk__cuda_create(struct stk_ragged *r, struct stk_error *err)
{
	struct stk_ragged_cuda *c = stk__calloc(1, sizeof *c);
	if (!c)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a handle");
	enum stk_status status = stk__gpu_open(&c->gpu, err);
	if (!status)
		status = stk__gpu_device_open(c->gpu, r->device, &c->dev, err);
	if (!status)
		status = load_kernels(c, err);
	if (status)
		stk__cuda_destroy(c);
	else
		r->cuda = c;
	return status;
}

void stk__cuda_destroy(struct stk_ragged_cuda *c)
{
	if (!c)
		return;
	if (c->dev)
		stk__gpu_device_close(c->dev);
	if (c->gpu)
		stk__gpu_close(c->gpu);
	stk__free(c);
}

/* Launches a kernel with a grid of x * y * z thread blocks (each at least 1) of `threads` threads, which have `shared` bytes of dynamic shared memory. The
 * kernel takes one argument, a struct by value. STK_LIMIT: the grid is too large. */
static enum stk_status launch(struct stk_ragged *r, void *stream, int kernel, int64_t x, int64_t y, int64_t z, unsigned threads,
	size_t shared, void *argument, struct stk_error *err)
{
	if (x > INT32_MAX || y > 65535 || z > 65535)
		return stk__fail(err, STK_LIMIT, "%s: a grid of %lld x %lld x %lld blocks is too large", kernels[kernel].name, (long long)x,
			(long long)y, (long long)z);
	struct stk_gpu_grid grid = {.blocks = {(unsigned)x, (unsigned)y, (unsigned)z}, .threads = {threads}, .shared = (unsigned)shared};
	enum stk_status status = stk__gpu_enter(r->cuda->dev, err);
	if (status)
		return status;
	status = stk__gpu_launch(r->cuda->dev, stream, r->cuda->kernel[kernel], grid, (void *[]){argument}, err);
	stk__gpu_leave(r->cuda->dev);
	return status;
}

static enum stk_status fill(struct stk_ragged *r, void *stream, void *to, int byte, size_t size, struct stk_error *err)
{
	enum stk_status status = stk__gpu_enter(r->cuda->dev, err);
	if (status)
		return status;
	status = stk__gpu_fill(r->cuda->dev, stream, (stk_gpu_ptr)(uintptr_t)to, byte, size, err);
	stk__gpu_leave(r->cuda->dev);
	return status;
}

/* Returns log2 of the largest unit (1 to 16 bytes) that divides row_bytes and all of the addresses. */
static int unit_log2(int64_t row_bytes, const void *a, const void *b, const void *c)
{
	uint64_t all = (uint64_t)row_bytes | (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | 16;
	return __builtin_ctzll(all);
}

static int lanes_log2(int64_t units)
{
	int n = 0;
	while (n < 5 && (1 << n) < units)
		n++;
	return n;
}

static union stk_filler repeated(const uint8_t *filler, int32_t element)
{
	union stk_filler out;
	for (int i = 0; i < 16; i++)
		out.bytes[i] = filler[i % element];
	return out;
}

static int64_t row_blocks(int64_t rows, int lanes)
{
	return (rows + (BLOCK >> lanes) - 1) / (BLOCK >> lanes);
}

enum stk_status stk__cuda_gather(struct stk_ragged *r, const struct stk_gather *g, void *stream, struct stk_error *err)
{
	int unit = unit_log2(g->inner * g->element, g->source, g->base, g->out);
	struct stk_gather_launch a = {.g = *g, .rows = g->batch * g->outer * g->index.count, .inner = g->inner * g->element >> unit};
	a.lanes_log2 = lanes_log2(a.inner);
	a.filler = repeated(g->filler, g->element);
	return launch(r, stream, K_gather_stk_unit1 + unit, row_blocks(a.rows, a.lanes_log2), 1, 1, BLOCK, 0, &a, err);
}

enum stk_status stk__cuda_keep(struct stk_ragged *r, const struct stk_keep *k, void *stream, struct stk_error *err)
{
	int unit = unit_log2(k->inner * k->element, k->source, k->out, NULL);
	struct stk_keep_launch a = {.k = *k, .rows = k->batch * k->outer * k->items, .inner = k->inner * k->element >> unit};
	a.lanes_log2 = lanes_log2(a.inner);
	a.filler = repeated(k->filler, k->element);
	return launch(r, stream, K_keep_stk_unit1 + unit, row_blocks(a.rows, a.lanes_log2), 1, 1, BLOCK, 0, &a, err);
}

/* Scatters many indices: sets the origins to -1, computes them with one or two small kernels, then moves the rows with a gather. */
static enum stk_status scatter_large(struct stk_ragged *r, const struct stk_scatter *s, void *stream, struct stk_error *err)
{
	if (!s->origin)
		return stk__fail(err, STK_INVALID, "scatter: origin must be given for more than %d indices", STK_SCATTER_SMALL);
	struct stk_scatter_launch a = {.s = *s};
	enum stk_status status = fill(r, stream, s->origin, 0xff, (size_t)(s->batch * s->items) * sizeof *s->origin, err);
	if (!status)
		status = launch(r, stream, K_scatter_winner, (s->batch * s->target.count + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 0, &a, err);
	if (!status && s->from.data)
		status = launch(r, stream, K_scatter_source, (s->batch * s->items + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 0, &a, err);
	if (status || !s->out || s->outer * s->inner == 0)
		return status;
	struct stk_gather g = {.batch = s->batch,
		.outer = s->outer,
		.inner = s->inner,
		.element = s->element,
		.exact = 1,
		.source = s->source,
		.source_items = s->source_items,
		.index = {.data = s->origin, .count = s->items, .bytes = 4},
		.base = s->base,
		.out = s->out};
	memcpy(g.filler, s->filler, sizeof g.filler);
	return stk__cuda_gather(r, &g, stream, err);
}

enum stk_status stk__cuda_scatter(struct stk_ragged *r, const struct stk_scatter *s, void *stream, struct stk_error *err)
{
	if (s->target.count > STK_SCATTER_SMALL)
		return scatter_large(r, s, stream, err);
	int unit = unit_log2(s->inner * s->element, s->source, s->base, s->out);
	struct stk_scatter_launch a = {.s = *s, .tiles = (s->items + STK_SCATTER_TILE - 1) / STK_SCATTER_TILE};
	a.inner = s->inner * s->element >> unit;
	a.filler = repeated(s->filler, s->element);
	if (a.inner == 0) /* only origins are computed, and nothing must be divided by the size of a row */
		a.s.out = NULL;
	/* A tile of large rows is split over up to 64 thread blocks, of which each moves at least 8 units per thread. */
	int64_t units = STK_SCATTER_TILE * s->outer * a.inner, parts = units / (BLOCK * 8);
	parts = parts < 1 ? 1 : parts > 64 ? 64 : parts;
	return launch(r, stream, K_scatter_stk_unit1 + unit, s->batch * a.tiles, parts, 1, BLOCK, 0, &a, err);
}

/* A warp computes SUM_ROWS rows of sums if rows have at most SUM_SHORT elements, otherwise one row. */
#define SUM_ROWS 4
#define SUM_SHORT 32

enum stk_status stk__cuda_scatter_add(struct stk_ragged *r, const struct stk_scatter_add *s, void *stream, struct stk_error *err)
{
	struct stk_sum_launch a = {.s = *s};
	bool is_short = s->inner <= SUM_SHORT;
	int64_t warps = s->batch * s->outer * (is_short ? (s->items + SUM_ROWS - 1) / SUM_ROWS : s->items);
	int kernel = s->dtype == STK_FLOAT     ? K_scatter_add_float
		     : s->dtype == STK_FLOAT64 ? K_scatter_add_double
		     : s->dtype == STK_INT32   ? K_scatter_add_int32
		     : s->dtype == STK_INT64   ? K_scatter_add_int64
		     : s->dtype == STK_FLOAT16 ? K_scatter_add_half
					       : K_scatter_add_bfloat;
	if (is_short)
		kernel += K_scatter_add_short_float - K_scatter_add_float;
	return launch(r, stream, kernel, row_blocks(warps, 5), 1, 1, BLOCK, 0, &a, err);
}

enum stk_status stk__cuda_mask_to_index(struct stk_ragged *r, const struct stk_mask *m, void *stream, struct stk_error *err)
{
	struct stk_mask a = *m;
	return launch(r, stream, K_mask_to_index, m->batch, 1, 1, BLOCK, 0, &a, err);
}

enum stk_status stk__cuda_index_to_mask(struct stk_ragged *r, int64_t batch, int64_t items, const struct stk_indices *index, uint8_t *mask,
	uint64_t *refused, void *stream, struct stk_error *err)
{
	struct stk_index_mask_launch a = {
		.batch = batch, .items = items, .tiles = (items + BLOCK - 1) / BLOCK, .index = *index, .mask = mask, .refused = refused};
	if (items == 0)
		return STK_OK;
	return launch(r, stream, K_index_to_mask, batch * a.tiles, 1, 1, BLOCK, 0, &a, err);
}

enum stk_status stk__cuda_cost(struct stk_ragged *r, const struct stk_cost *c, void *stream, struct stk_error *err)
{
	struct stk_cost_launch a = {.c = *c};
	int64_t boxes = c->boxes ? c->box_values : 0, classes = c->logits ? c->classes : 0;
	int64_t table = (boxes + classes) * STK_COST_TILE * (int64_t)sizeof(float);
	a.table = table <= 40 << 10;
	size_t shared = (size_t)(a.table ? table : boxes * STK_COST_TILE * (int64_t)sizeof(float));
	return launch(r, stream, K_cost, c->outer * c->batch, (c->queries + STK_COST_TILE - 1) / STK_COST_TILE,
		(c->targets + STK_COST_STRETCH - 1) / STK_COST_STRETCH, STK_COST_TILE, shared, &a, err);
}

/* Returns the number of parts of a sample's gradient: one for each thread block, whose threads compute several values each. */
static int64_t gradient_parts(int64_t values)
{
	int64_t parts = (values + 4 * STK_LOSS_THREADS - 1) / (4 * STK_LOSS_THREADS);
	return parts < 65535 ? parts : 65535;
}

enum stk_status stk__cuda_focal(struct stk_ragged *r, const struct stk_focal *f, void *stream, struct stk_error *err)
{
	struct stk_focal_launch a = {.f = *f};
	enum stk_status status = STK_OK;
	if (f->loss)
		status = launch(r, stream, K_focal, f->samples, 1, 1, STK_LOSS_THREADS, 0, &a, err);
	if (status || !f->grad || !f->queries || !f->classes)
		return status;
	int64_t parts = gradient_parts(f->queries * f->classes), queries = (f->queries + parts - 1) / parts;
	a.part = (int32_t)(queries < STK_LOSS_QUERIES ? queries : STK_LOSS_QUERIES);
	return launch(r, stream, K_focal_grad, f->samples, parts, 1, STK_LOSS_THREADS, 0, &a, err);
}

enum stk_status stk__cuda_l1(struct stk_ragged *r, const struct stk_l1 *l, void *stream, struct stk_error *err)
{
	struct stk_l1 a = *l;
	enum stk_status status = STK_OK;
	if (l->loss)
		status = launch(r, stream, K_l1, l->samples, 1, 1, STK_LOSS_THREADS, 0, &a, err);
	if (status || !l->grad || !l->queries || !l->values)
		return status;
	return launch(r, stream, K_l1_grad, l->samples, gradient_parts(l->queries * l->values), 1, STK_LOSS_THREADS, 0, &a, err);
}

enum stk_status stk__cuda_heatmap(struct stk_ragged *r, const struct stk_heatmap *h, void *stream, struct stk_error *err)
{
	struct stk_heatmap a = *h;
	int64_t tiles = (h->height * h->width + BLOCK - 1) / BLOCK;
	return launch(r, stream, K_heatmap, h->groups * h->classes * tiles, 1, 1, BLOCK, 0, &a, err);
}

enum stk_status stk__cuda_polyline(struct stk_ragged *r, const struct stk_polyline *p, void *stream, struct stk_error *err)
{
	struct stk_polyline a = *p;
	enum stk_status status = launch(r, stream, K_polyline_along, p->batch, 1, 1, STK_POLYLINE_THREADS, 0, &a, err);
	if (status || !p->out || !p->samples || !p->dims)
		return status;
	const int64_t blocks = (p->batch * p->samples + BLOCK - 1) / BLOCK;
	return launch(r, stream, K_polyline_at, blocks, 1, 1, BLOCK, 0, &a, err);
}

/* ---- assignment ---- */

static int64_t smaller(const struct stk_assign *a)
{
	return a->rows < a->cols ? a->rows : a->cols;
}

static int64_t larger(const struct stk_assign *a)
{
	return a->rows < a->cols ? a->cols : a->rows;
}

static size_t align_up(size_t n)
{
	return (n + WORKSPACE_ALIGN - 1) & ~(size_t)(WORKSPACE_ALIGN - 1);
}

/* Returns the size in bytes of the arrays row_dual, col_of, row_of, path and at of a thread block (struct shared_state in ragged_assign.cu). */
static size_t shared_bytes(const struct stk_assign *a)
{
	return (size_t)smaller(a) * 12 + (size_t)larger(a) * 12;
}

/* Returns whether the costs are copied with rows and columns swapped before the search. This is done for tall problems whose rows are contiguous: a search
 * runs along their columns, and reads contiguous memory after the swap. */
static bool is_transposed(const struct stk_assign *a)
{
	return a->rows > a->cols && a->cols > 1 && a->col_stride == 1;
}

static size_t transposed_bytes(const struct stk_assign *a)
{
	return is_transposed(a) ? align_up((size_t)(a->problems * a->rows * a->cols) * stk_dtype_size(a->dtype)) : 0;
}

/* Maximum number of columns of a problem whose state a thread block keeps in registers. */
#define REGISTER_COLS 8192

static size_t state_bytes(const struct stk_assign *a)
{
	return align_up(shared_bytes(a) + (size_t)larger(a) * (8 + 8 + 4));
}

static bool fits_registers(const struct stk_assign *a, size_t shared)
{
	return larger(a) <= REGISTER_COLS && shared_bytes(a) <= shared;
}

size_t stk__cuda_assign_workspace(const struct stk_assign *a, size_t shared)
{
	return transposed_bytes(a) + (fits_registers(a, shared) ? 0 : (size_t)a->problems * state_bytes(a));
}

size_t stk__cuda_shared(const struct stk_ragged *r)
{
	return r->cuda->shared;
}

static enum stk_status transpose(struct stk_ragged *r, const struct stk_assign_launch *l, void *stream, struct stk_error *err)
{
	struct stk_assign_launch a = *l;
	size_t element = stk_dtype_size(a.a.dtype);
	int kernel = element == 2 ? K_assign_turn_2 : element == 4 ? K_assign_turn_4 : K_assign_turn_8;
	return launch(r, stream, kernel, a.a.problems, (a.a.cols + 63) / 64, (a.a.rows + 31) / 32, BLOCK, 0, &a, err);
}

/* Chooses the kernel and its number of threads: the more columns the largest problem may have, the more of them a thread owns. */
static int choose(const struct stk_assign *a, unsigned *threads)
{
	int64_t cols = larger(a);
	bool f32 = a->dtype == STK_FLOAT;
	int per_thread = cols <= 128 ? 1 : cols <= 256 ? 2 : cols <= 4096 ? 4 : 8;
	if (!f32 && per_thread < 4)
		per_thread = 4;
	int64_t want = (cols + per_thread - 1) / per_thread;
	*threads = (unsigned)(want < 1 ? 32 : (want + 31) / 32 * 32);
	if (!f32)
		return per_thread == 4 ? K_assign_any_4 : K_assign_any_8;
	return per_thread == 1 ? K_assign_f32_1 : per_thread == 2 ? K_assign_f32_2 : per_thread == 4 ? K_assign_f32_4 : K_assign_f32_8;
}

/* Returns how many rows of `pitch` floats fit into a block's part of its multiprocessor's shared memory, if all blocks that the multiprocessor can run get an
 * equal part. */
static int32_t kept_rows(const struct stk_ragged *r, const struct stk_assign *a, unsigned threads, int64_t pitch)
{
	const int64_t processors = stk__gpu_device_facts(r->cuda->dev)->processors, at_once = 2048 / threads;
	const int64_t fixed = 5 << 10; /* the kernels' static shared memory, and 1 KiB that the driver takes for each block */
	int64_t blocks = (a->problems + processors - 1) / processors;
	if (blocks > at_once)
		blocks = at_once;
	int64_t part = ((int64_t)r->cuda->shared + fixed) / blocks - fixed - (int64_t)shared_bytes(a),
		rows = part / (pitch * (int64_t)sizeof(float));
	return (int32_t)(rows < 0 ? 0 : rows < smaller(a) ? rows : smaller(a));
}

enum stk_status stk__cuda_assign(struct stk_ragged *r, const struct stk_assign *a, void *stream, struct stk_error *err)
{
	struct stk_assign_launch l = {.a = *a, .rows = (int32_t)smaller(a), .cols = (int32_t)larger(a)};
	bool in_registers = fits_registers(a, r->cuda->shared);
	if (stk__cuda_assign_workspace(a, r->cuda->shared) > 0 && !a->workspace)
		return stk__fail(
			err, STK_INVALID, "assign: workspace is needed for %lld x %lld costs", (long long)a->rows, (long long)a->cols);
	if (is_transposed(a)) {
		l.transposed = a->workspace;
		enum stk_status status = transpose(r, &l, stream, err);
		if (status)
			return status;
	}
	unsigned threads = 1024;
	int kernel = K_assign_any;
	size_t shared = 0;
	if (in_registers) {
		kernel = choose(a, &threads);
		l.pitch = (l.cols + 3) & ~3;
		if (a->dtype == STK_FLOAT)
			l.kept_rows = kept_rows(r, a, threads, l.pitch);
		shared = shared_bytes(a) + (size_t)l.kept_rows * (size_t)l.pitch * sizeof(float);
	} else {
		l.state = (uint8_t *)a->workspace + transposed_bytes(a);
		l.state_bytes = (int64_t)state_bytes(a);
	}
	return launch(r, stream, kernel, a->problems, 1, 1, threads, shared, &l, err);
}
