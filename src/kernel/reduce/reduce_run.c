/* SPDX-License-Identifier: Apache-2.0
 * Reductions on the CPU. Adjacent groups are reduced together, a tile of columns at a time, so that inner loops read memory in order, whichever dimensions
 * are reduced. Each column has several partial results (lanes): element k is added to lane k % lanes. At the end the lanes are combined pairwise, in the
 * order of reduce.h. */
#include "kernel/reduce/reduce_run.h"

#include "kernel/convert/convert.h"
#include "kernel/job/job_cpu.h"
#include "kernel/reduce/reduce_one.h"

#include <string.h>

/* ROOM: maximum number of lanes of all columns of a tile together. COLUMNS: maximum number of columns of a tile. COLUMNS_APART: maximum number of columns of a
 * tile if columns are not adjacent, so that each needs its own cache lines. */
enum { ROOM = 4096, COLUMNS = 512, COLUMNS_APART = 128 };

/* The type of a tile's lanes. LANE_ELEMENT, for minima and maxima, is the elements' type, or float for 16-bit floats; the others are for sums. */
enum lane_type { LANE_DOUBLE, LANE_INT64, LANE_INT32, LANE_UINT32, LANE_ELEMENT };

/* A tile lies in scratch memory, because it is larger than some threads' whole stack. */
struct tile {
	const struct stk_job *job;
	enum lane_type type;
	int element;        /* type of the lanes if `type` is LANE_ELEMENT */
	int lanes, columns; /* lane l of column c is at l * columns + c */
	bool squares, centred;
	_Alignas(64) uint8_t lane[8 * ROOM];
	double mean[ROOM]; /* if `centred` is set: for each lane, the mean of its column */
	double converted[ROOM];
	uint8_t gathered[8 * ROOM];
};

size_t stk__reduce_scratch(void)
{
	return sizeof(struct tile);
}

/* ---- add n elements, `step` apart, to n lanes ---- */

#define INTEGERS(X)                                                                                                                        \
	X(INT8, int8_t)                                                                                                                    \
	X(INT16, int16_t)                                                                                                                  \
	X(INT32, int32_t)                                                                                                                  \
	X(INT64, int64_t)                                                                                                                  \
	X(UINT8, uint8_t)                                                                                                                  \
	X(UINT16, uint16_t)                                                                                                                \
	X(UINT32, uint32_t)                                                                                                                \
	X(UINT64, uint64_t)
#define NUMBERS(X)                                                                                                                         \
	INTEGERS(X)                                                                                                                        \
	X(FLOAT, float)                                                                                                                    \
	X(FLOAT64, double)

/* Defines a loop over elements of `type`. GCC compiles a second version of it for a step of 1. */
#define LOOP(name, type, lane, result)                                                                                                     \
	static void name(void *lanes, const void *src, int64_t step, int64_t n)                                                            \
	{                                                                                                                                  \
		lane *restrict p = lanes;                                                                                                  \
		const type *restrict x = src;                                                                                              \
		for (int64_t i = 0; i < n; i++)                                                                                            \
			p[i] = result;                                                                                                     \
	}
#define V x[i * step]
#define ADD64(NAME, type) LOOP(add64_##NAME, type, uint64_t, p[i] + (uint64_t)V)
#define LEAST(NAME, type) LOOP(least_##NAME, type, type, V < p[i] ? V : p[i])
#define GREATEST(NAME, type) LOOP(greatest_##NAME, type, type, V > p[i] ? V : p[i])
INTEGERS(ADD64)
NUMBERS(LEAST)
NUMBERS(GREATEST)
LOOP(add32_INT8, int8_t, int32_t, p[i] + V)
LOOP(add32_INT16, int16_t, int32_t, p[i] + V)
LOOP(add32_UINT8, uint8_t, uint32_t, p[i] + V)
LOOP(add32_UINT16, uint16_t, uint32_t, p[i] + V)
LOOP(add32_BOOL, uint8_t, uint32_t, p[i] + (V != 0))
LOOP(add64_BOOL, uint8_t, uint64_t, p[i] + (V != 0))
LOOP(add_FLOAT, float, double, p[i] + (double)V)
LOOP(add_FLOAT64, double, double, p[i] + V)
LOOP(add_squares, uint64_t, uint64_t, p[i] + V * V)
LOOP(add_square_doubles, double, double, p[i] + V * V)

typedef void loop(void *lanes, const void *src, int64_t step, int64_t n);

static loop *const add64[STK_DTYPE_COUNT] = {
#define ENTRY(NAME, type) [STK_##NAME] = add64_##NAME,
	INTEGERS(ENTRY)
#undef ENTRY
		[STK_BOOL] = add64_BOOL};
static loop *const add32[STK_DTYPE_COUNT] = {[STK_INT8] = add32_INT8,
	[STK_INT16] = add32_INT16,
	[STK_UINT8] = add32_UINT8,
	[STK_UINT16] = add32_UINT16,
	[STK_BOOL] = add32_BOOL};
static loop *const least[STK_DTYPE_COUNT] = {
#define ENTRY(NAME, type) [STK_##NAME] = least_##NAME,
	NUMBERS(ENTRY)
#undef ENTRY
		[STK_BOOL] = least_UINT8};
static loop *const greatest[STK_DTYPE_COUNT] = {
#define ENTRY(NAME, type) [STK_##NAME] = greatest_##NAME,
	NUMBERS(ENTRY)
#undef ENTRY
		[STK_BOOL] = greatest_UINT8};

static void add_distances(const struct tile *t, int64_t first, const double *restrict x, int64_t n)
{
	double *restrict p = (double *)(void *)t->lane + first;
	const double *restrict mean = t->mean + first;
	for (int64_t i = 0; i < n; i++)
		p[i] += (x[i] - mean[i]) * (x[i] - mean[i]);
}

/* Gathers n elements, which are `step` elements apart, converts them to type `to` in t->converted, and returns that. n is at most ROOM. */
static const void *converted(struct tile *t, int to, const uint8_t *src, int64_t step, int64_t n)
{
	const int from = t->job->src_dtype[0];
	const int32_t size = stk__job_size(from);
	if (step != 1)
		stk__job_put(t->gathered, size, src, step * size, n, size);
	stk__convert(t->converted, (enum stk_dtype)to, step == 1 ? src : t->gathered, (enum stk_dtype)from, n);
	return t->converted;
}

/* Adds n elements, their squares, or their squared distances from the mean to lanes first .. first + n - 1; for MIN and MAX, replaces a lane by the element if
 * this is smaller or larger. step: distance between elements, in elements. */
static void take(struct tile *t, int64_t first, const uint8_t *src, int64_t step, int64_t n)
{
	int from = t->job->src_dtype[0], op = STK_PARAMS(stk_job_reduce, t->job).op;
	if (t->type == LANE_ELEMENT) {
		uint8_t *lanes = t->lane + first * stk__job_size(t->element);
		bool same = t->element == from;
		(op == STK_REDUCE_MIN ? least : greatest)[t->element](
			lanes, same ? src : converted(t, t->element, src, step, n), same ? step : 1, n);
	} else if (t->type == LANE_INT32 || t->type == LANE_UINT32) {
		add32[from]((uint32_t *)(void *)t->lane + first, src, step, n);
	} else if (t->type == LANE_INT64) {
		uint64_t *lanes = (uint64_t *)(void *)t->lane + first;
		if (t->squares)
			add_squares(lanes, converted(t, from == STK_UINT64 ? STK_UINT64 : STK_INT64, src, step, n), 1, n);
		else
			add64[from](lanes, src, step, n);
	} else if (t->centred) {
		add_distances(t, first, converted(t, STK_FLOAT64, src, step, n), n);
	} else {
		double *lanes = (double *)(void *)t->lane + first;
		if (t->squares)
			add_square_doubles(lanes, converted(t, STK_FLOAT64, src, step, n), 1, n);
		else if (from == STK_FLOAT)
			add_FLOAT(lanes, src, step, n);
		else
			add_FLOAT64(lanes, converted(t, STK_FLOAT64, src, step, n), 1, n);
	}
}

/* ---- a tile ---- */

static union stk_job_value lane_value(const struct tile *t, int64_t at)
{
	union stk_job_value v = {0};
	if (t->type == LANE_ELEMENT) {
		int to = STK_PARAMS(stk_job_reduce, t->job).domain == STK_ARITH_DOUBLE  ? STK_FLOAT64
			 : STK_PARAMS(stk_job_reduce, t->job).domain == STK_ARITH_INT64 ? STK_INT64
											: STK_UINT64;
		stk__convert_one(&v, to, t->lane + at * stk__job_size(t->element), t->element);
	} else if (t->type == LANE_INT32) {
		v.i = ((const int32_t *)(const void *)t->lane)[at];
	} else if (t->type == LANE_UINT32) {
		v.u = ((const uint32_t *)(const void *)t->lane)[at];
	} else {
		memcpy(&v, t->lane + 8 * at, 8);
	}
	return v;
}

static void set_lanes(struct tile *t, uint32_t group)
{
	const struct stk_job *job = t->job;
	int64_t n = (int64_t)t->lanes * t->columns;
	if (t->type == LANE_ELEMENT) {
		union stk_job_value v = stk__job_reduce_identity(job);
		int domain = STK_PARAMS(stk_job_reduce, job).domain;
		uint8_t one[8];
		stk__convert_one(one, t->element == STK_BOOL ? STK_UINT8 : t->element, &v,
			domain == STK_ARITH_DOUBLE  ? STK_FLOAT64
			: domain == STK_ARITH_INT64 ? STK_INT64
						    : STK_UINT64);
		stk__job_fill(t->lane, one, n, stk__job_size(t->element));
	} else {
		memset(t->lane, 0, (size_t)n * (t->type == LANE_INT32 || t->type == LANE_UINT32 ? 4 : 8));
	}
	for (int c = 0; t->centred && c < t->columns; c++) {
		t->mean[c] = stk__job_reduce_mean(job, group + (uint32_t)c);
		for (int l = 1; l < t->lanes; l++)
			t->mean[l * t->columns + c] = t->mean[c];
	}
}

/* Combines the lanes of each column of the tile, and stores the results, the first of which belongs to group number `group`. */
static void store_tile(struct tile *t, uint32_t group)
{
	const struct stk_job *job = t->job;
	int32_t to = stk__job_size(job->dst_dtype);
	for (int c = 0; c < t->columns; c++) {
		union stk_job_value v[STK_JOB_PARTIAL_SUMS];
		for (int l = 0; l < t->lanes; l++)
			v[l] = lane_value(t, (int64_t)l * t->columns + c);
		for (int stride = t->lanes / 2; stride > 0; stride /= 2)
			for (int l = 0; l < stride; l++)
				v[l] = stk__job_reduce_join(job, v[l], v[l + stride]);
		stk__job_reduce_store(job, job->dst + (int64_t)(group + (uint32_t)c) * to, v[0]);
	}
}

/* Reduces the columns of a tile, the first of which belongs to group number `group` and begins at `base`. column: distance between columns in elements. */
static void reduce_tile(struct tile *t, uint32_t group, const uint8_t *base, int64_t column)
{
	const struct stk_job_groups *g = &STK_PARAMS(stk_job_reduce, t->job).groups;
	const struct stk_job_axis one = {1, 1}, *rows = g->n_reduced ? &g->reduced[g->n_reduced - 1] : &one;
	int64_t size = stk__job_size(t->job->src_dtype[0]);
	/* if rows are contiguous, or if there is one column, consecutive elements can be added to several lanes at once */
	bool runs = t->columns == 1 || (column == 1 && rows->stride == t->columns);
	int64_t step = t->columns == 1 ? rows->stride : column;
	set_lanes(t, group);
	for (uint32_t k = 0; k < g->count; k += rows->size) {
		const uint8_t *x = base + stk__job_offset(g->reduced, g->n_reduced, k) * size;
		for (uint32_t i = 0, n; i < rows->size; i += n) {
			uint32_t lane = (k + i) % (uint32_t)t->lanes, most = (uint32_t)t->lanes - lane, left = rows->size - i;
			n = !runs ? 1 : left < most ? left : most;
			take(t, (int64_t)lane * t->columns, x + (int64_t)i * rows->stride * size, step, (int64_t)n * t->columns);
		}
	}
	store_tile(t, group);
}

/* ---- single short columns ---- */

/* Reduces one group with a single partial result, element after element. */
static void reduce_serially(const struct tile *t, uint32_t group, const uint8_t *base)
{
	const struct stk_job *job = t->job;
	const struct stk_job_groups *g = &STK_PARAMS(stk_job_reduce, job).groups;
	int64_t size = stk__job_size(job->src_dtype[0]);
	double mean = stk__job_reduce_mean(job, group);
	union stk_job_value v = stk__job_reduce_identity(job);
	for (uint32_t k = 0; k < g->count; k++) {
		const uint8_t *x = base + stk__job_offset(g->reduced, g->n_reduced, k) * size;
		v = stk__job_reduce_join(job, v, stk__job_reduce_term(job, x, mean));
	}
	stk__job_reduce_store(job, job->dst + (int64_t)group * stk__job_size(job->dst_dtype), v);
}

/* ---- the whole reduction ---- */

static enum lane_type lane_type_of(const struct stk_job *job, bool squares)
{
	const struct stk_job_reduce *r = &STK_PARAMS(stk_job_reduce, job);
	if (r->op == STK_REDUCE_MIN || r->op == STK_REDUCE_MAX)
		return LANE_ELEMENT;
	if (r->domain == STK_ARITH_DOUBLE)
		return LANE_DOUBLE;
	/* below 2^23 elements, each of the 256 lanes gets at most 2^15, so 32 bits hold sums of 16-bit elements */
	if (stk__job_size(job->src_dtype[0]) > 2 || squares || r->groups.count >= 1u << 23)
		return LANE_INT64;
	return r->domain == STK_ARITH_INT64 ? LANE_INT32 : LANE_UINT32;
}

/* Returns the number of groups that a tile reduces together. Long groups have many lanes each, so fewer groups fit into a tile. */
static int columns_of(const struct stk_job_groups *g, int lanes)
{
	if (!g->n_kept)
		return 1;
	struct stk_job_axis inner = g->kept[g->n_kept - 1];
	int most = lanes > 1 ? ROOM / lanes : inner.stride == 1 ? COLUMNS : COLUMNS_APART;
	if (lanes > 1 && inner.stride != 1) /* columns are not adjacent in memory: they are reduced one by one */
		return 1;
	return (int64_t)inner.size < most ? (int)inner.size : most;
}

void stk__reduce_run(const struct stk_job *job)
{
	const struct stk_job_reduce *r = &STK_PARAMS(stk_job_reduce, job);
	const struct stk_job_groups *g = &r->groups;
	int from = job->src_dtype[0];
	struct tile *t = (struct tile *)(void *)job->work;
	t->job = job;
	t->centred = r->op == STK_REDUCE_VARIANCE || r->op == STK_REDUCE_STD_DEV;
	t->squares = r->op == STK_REDUCE_MEAN_SQUARE || r->op == STK_REDUCE_RMS;
	t->type = lane_type_of(job, t->squares);
	t->element = from == STK_FLOAT16 || from == STK_BFLOAT16 ? STK_FLOAT : from;
	t->lanes = g->count < STK_JOB_SERIAL ? 1 : STK_JOB_PARTIAL_SUMS;
	const struct stk_job_axis one = {1, 1}, inner = g->n_kept ? g->kept[g->n_kept - 1] : one;
	int columns = columns_of(g, t->lanes);
	for (uint32_t group = 0; group < g->groups; group += (uint32_t)t->columns) {
		uint32_t left = inner.size - group % inner.size;
		const uint8_t *base = job->src[0] + stk__job_offset(g->kept, g->n_kept, group) * stk__job_size(from);
		t->columns = left < (uint32_t)columns ? (int)left : columns;
		if (t->lanes == 1 && t->columns == 1)
			reduce_serially(t, group, base);
		else
			reduce_tile(t, group, base, inner.stride);
	}
}
