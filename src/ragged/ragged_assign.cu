/* SPDX-License-Identifier: Apache-2.0
 * Linear assignment on CUDA: a block for each problem, the same searches, prices and ties as assign_cpu.c.
 *
 * A thread owns the columns threadIdx.x + k blockDim.x and keeps their price, path length and place in SciPy's list; for usual sizes in registers.
 * A step of a search is: every thread looks at its columns, the warps and then the block find the least, one barrier. Which column is least is
 * decided by three unsigned minima: the high and low half of its path length in an order-preserving code, and a code of SciPy's tie rule. */
#include "ragged/index_args.h"
#include "ragged/kernel_c.h"

#define COST_F32 1
#define COST_ANY 0

struct found {
	uint32_t high, low, tie;
	int32_t col;
};

/* Doubles as unsigned integers of the same order; -0 counts as 0. */
STK_DEVICE uint64_t order_code(double v)
{
	uint64_t u = (uint64_t)__double_as_longlong(v + 0.0);
	return u >> 63 ? ~u : u | 0x8000000000000000ull;
}

STK_DEVICE double order_value(uint32_t high, uint32_t low)
{
	uint64_t u = (uint64_t)high << 32 | low;
	return __longlong_as_double((long long)(u >> 63 ? u ^ 0x8000000000000000ull : ~u));
}

/* Least of equals first: the free column with the last place, else the owned one with the first. */
STK_DEVICE uint32_t tie_code(int32_t owner, int32_t place)
{
	return owner < 0 ? 0x7fffffffu - (uint32_t)place : 0x80000000u | (uint32_t)place;
}

STK_DEVICE int32_t tie_place(uint32_t tie)
{
	return (int32_t)(tie >> 31 ? tie & 0x7fffffffu : 0x7fffffffu - tie);
}

#define NOTHING 0xffffffffu

/* The least of a warp's, in all lanes. */
STK_DEVICE struct found warp_least(struct found f)
{
	uint32_t high = stk__warp_min(f.high);
	uint32_t low = stk__warp_min(f.high == high ? f.low : NOTHING);
	uint32_t tie = stk__warp_min(f.high == high && f.low == low ? f.tie : NOTHING);
	unsigned who = __ballot_sync(STK_FULL, f.high == high && f.low == low && f.tie == tie);
	f.high = high;
	f.low = low;
	f.tie = tie;
	f.col = __shfl_sync(STK_FULL, f.col, __ffs((int)who) - 1);
	return f;
}

/* The least of the block's. `slots` alternate between calls, so that one barrier is enough. */
STK_DEVICE struct found block_least(struct found mine, struct found *slots)
{
	int lane = (int)threadIdx.x & 31, warps = (int)blockDim.x >> 5;
	mine = warp_least(mine);
	if (warps == 1)
		return mine;
	if (lane == 0)
		slots[threadIdx.x >> 5] = mine;
	__syncthreads();
	struct found none = {NOTHING, NOTHING, NOTHING, -1};
	return warp_least(lane < warps ? slots[lane] : none);
}

/* A problem as the search sees it. */
struct problem {
	const void *cost;
	int64_t row_stride, col_stride; /* elements */
	int32_t rows, cols, tall, dtype, maximize;
};

STK_DEVICE struct problem find_problem(const struct stk_assign_launch *l, int64_t p)
{
	const struct stk_assign *a = &l->a;
	struct problem s;
	int64_t rows = stk__size_of(a->num_rows, p, a->rows), cols = stk__size_of(a->num_cols, p, a->cols), at = p * a->problem_stride;
	int64_t element = a->dtype == STK_FLOAT64 ? 8 : a->dtype == STK_FLOAT ? 4 : 2;
	s.tall = cols < rows;
	s.rows = (int32_t)(s.tall ? cols : rows);
	s.cols = (int32_t)(s.tall ? rows : cols);
	s.row_stride = s.tall ? a->col_stride : a->row_stride;
	s.col_stride = s.tall ? a->row_stride : a->col_stride;
	s.cost = (const uint8_t *)a->cost + at * element;
	if (s.tall && l->turned) {
		s.cost = (const uint8_t *)l->turned + p * a->rows * a->cols * element;
		s.row_stride = a->rows;
		s.col_stride = 1;
	}
	s.dtype = a->dtype;
	s.maximize = a->maximize;
	return s;
}

STK_DEVICE double load_cost(const struct problem *s, int kind, int32_t i, int32_t j)
{
	int64_t at = i * s->row_stride + j * s->col_stride;
	double c = kind == COST_F32 ? (double)((const float *)s->cost)[at] : stk__load_double(s->cost, s->dtype, at);
	return s->maximize ? -c : c;
}

/* What a block shares. */
struct shared_state {
	double *row_dual;		/* [rows] */
	int32_t *col_of;		/* [rows] */
	int32_t *row_of, *path;		/* [cols] */
	struct found *slots;		/* [2 * 32] */
	int32_t *flags;			/* [0]: a bad cost was seen; [32 ..]: the warps' counts of give_pairs */
};

STK_DEVICE struct shared_state carve_shared(uint8_t *memory, uint8_t *fixed, int64_t rows, int64_t cols)
{
	struct shared_state s;
	s.row_dual = (double *)memory;
	s.col_of = (int32_t *)(s.row_dual + rows);
	s.row_of = s.col_of + rows;
	s.path = s.row_of + cols;
	s.slots = (struct found *)fixed;
	s.flags = (int32_t *)(s.slots + 64);
	return s;
}

/* Assigns along the path to a free column; one thread. */
STK_DEVICE void augment(const struct shared_state *m, int32_t row, int32_t sink)
{
	int32_t j = sink, i;
	do {
		i = m->path[j];
		int32_t before = m->col_of[i];
		m->row_of[j] = i;
		m->col_of[i] = j;
		j = before;
	} while (i != row);
}

/* All costs of the rows from `row` on are looked at, though no search reads them any more: an invalid one outranks infeasibility. */
STK_DEVICE void look_for_bad(const struct problem *s, int kind, const struct shared_state *m, int32_t row)
{
	for (int32_t i = row; i < s->rows; i++) {
		for (int32_t j = (int32_t)threadIdx.x; j < s->cols; j += (int32_t)blockDim.x) {
			if (!(load_cost(s, kind, i, j) > -INFINITY))
				m->flags[0] = 1;
		}
	}
	__syncthreads();
}

/* Writes the pairs by ascending row, and zeros behind them. A tall problem's rows are the search's columns: they are counted in order. */
STK_DEVICE void give_pairs(const struct stk_assign *a, const struct problem *s, const struct shared_state *m, int64_t p, int32_t status)
{
	int64_t extent = a->rows < a->cols ? a->rows : a->cols, n = status == STK_ASSIGN_SOLVED ? s->rows : 0;
	int64_t *row = a->row + p * extent, *col = a->col + p * extent;
	int32_t tid = (int32_t)threadIdx.x, threads = (int32_t)blockDim.x, warps = threads >> 5;
	for (int64_t i = tid; i < extent; i += threads) {
		if (i >= n) {
			row[i] = col[i] = 0;
		} else if (!s->tall) {
			row[i] = i;
			col[i] = m->col_of[i];
		}
	}
	int32_t before = 0;
	for (int32_t j0 = 0; n && s->tall && j0 < s->cols; j0 += threads) {
		int32_t j = j0 + tid, owner = j < s->cols ? m->row_of[j] : -1;
		unsigned owned = __ballot_sync(STK_FULL, owner >= 0);
		if ((tid & 31) == 0)
			m->flags[32 + (tid >> 5)] = __popc(owned);
		__syncthreads();
		int32_t at = before;
		for (int32_t w = 0; w < warps; w++) {
			at += w < tid >> 5 ? m->flags[32 + w] : 0;
			before += m->flags[32 + w];
		}
		if (owner >= 0) {
			at += __popc(owned & ((1u << (tid & 31)) - 1));
			row[at] = j;
			col[at] = owner;
		}
		__syncthreads();
	}
	if (tid == 0) {
		a->sizes[p] = n;
		a->status[p] = (int8_t)status;
		if (status != STK_ASSIGN_SOLVED && a->refused)
			atomicAdd((unsigned long long *)a->refused, 1ull);
	}
}

/* Kernels for up to COLS columns a thread, in registers. */
#define KIND COST_F32
#define COLS 1
#define NAME ragged_assign_f32_1
#include "ragged/assign_body.h"
#define COLS 2
#define NAME ragged_assign_f32_2
#include "ragged/assign_body.h"
#define COLS 4
#define NAME ragged_assign_f32_4
#include "ragged/assign_body.h"
#define COLS 8
#define NAME ragged_assign_f32_8
#include "ragged/assign_body.h"
#undef KIND
#define KIND COST_ANY
#define COLS 4
#define NAME ragged_assign_any_4
#include "ragged/assign_body.h"
#define COLS 8
#define NAME ragged_assign_any_8
#include "ragged/assign_body.h"
/* And for any number, all of it in memory. */
#define COLS 0
#define NAME ragged_assign_any
#include "ragged/assign_body.h"

/* Swaps rows and columns of the problems that are taller than wide. Tiles of 32 x 32; grid (problems, tiles of columns, tiles of rows). */
#define TURN(name, type)                                                                                                                   \
	STK_KERNEL void ragged_assign_turn_##name(struct stk_assign_launch l)                                                              \
	{                                                                                                                                  \
		__shared__ type tile[32][33];                                                                                              \
		const struct stk_assign *a = &l.a;                                                                                         \
		int64_t p = blockIdx.x, rows = stk__size_of(a->num_rows, p, a->rows), cols = stk__size_of(a->num_cols, p, a->cols);        \
		int64_t c0 = (int64_t)blockIdx.y * 32, r0 = (int64_t)blockIdx.z * 32, x = threadIdx.x & 31, y0 = threadIdx.x >> 5;         \
		if (rows <= cols || r0 >= rows || c0 >= cols)                                                                              \
			return;                                                                                                            \
		const type *in = (const type *)a->cost + p * a->problem_stride;                                                            \
		type *out = (type *)l.turned + p * a->rows * a->cols;                                                                      \
		for (int64_t y = y0; y < 32; y += 8) {                                                                                     \
			if (r0 + y < rows && c0 + x < cols)                                                                                \
				tile[y][x] = in[(r0 + y) * a->row_stride + c0 + x];                                                        \
		}                                                                                                                          \
		__syncthreads();                                                                                                           \
		for (int64_t y = y0; y < 32; y += 8) {                                                                                     \
			if (c0 + y < cols && r0 + x < rows)                                                                                \
				out[(c0 + y) * a->rows + r0 + x] = tile[x][y];                                                             \
		}                                                                                                                          \
	}
TURN(2, uint16_t)
TURN(4, uint32_t)
TURN(8, uint64_t)
