/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear assignment on CUDA, with one thread block for each problem. It makes the same searches and has the same prices and ties as assign_cpu.c.
 *
 * A thread owns the columns threadIdx.x + k blockDim.x, and keeps their price, path length and position in SciPy's list, in registers for usual sizes. In each
 * step of a search, every thread compares its columns, then the warps and the block find the minimum, with one barrier. Columns are compared by three
 * unsigned numbers: the high and low half of the path length in an order-preserving code, and a code for SciPy's tie rule. */
#include "ragged/index_args.h"
#include "ragged/kernel_c.h"

#define COST_F32 1
#define COST_ANY 0

struct found {
	uint32_t high, low, tie;
	int32_t col;
};

/* Converts a double to an unsigned integer, so that the order is kept. -0 would come out less than 0, but does not occur: a sum or difference is -0 only if
 * its first operand is, and the callers begin with c + 0.0 or with a path length. */
STK_DEVICE uint64_t order_code(double v)
{
	uint64_t u = (uint64_t)__double_as_longlong(v);
	return u >> 63 ? ~u : u | 0x8000000000000000ull;
}

STK_DEVICE double order_value(uint32_t high, uint32_t low)
{
	uint64_t u = (uint64_t)high << 32 | low;
	return __longlong_as_double((long long)(u >> 63 ? u ^ 0x8000000000000000ull : ~u));
}

/* Returns a code by which columns with paths of equal length are compared. The minimum is the free column that is last in SciPy's list, or if none is free,
 * the owned column that is first. */
STK_DEVICE uint32_t tie_code(int32_t owner, int32_t place)
{
	return owner < 0 ? 0x7fffffffu - (uint32_t)place : 0x80000000u | (uint32_t)place;
}

STK_DEVICE int32_t tie_place(uint32_t tie)
{
	return (int32_t)(tie >> 31 ? tie & 0x7fffffffu : 0x7fffffffu - tie);
}

#define NOTHING 0xffffffffu
#define BAD_COST (-2)

/* Returns the lesser of `best`, the least entry so far, and the entry of a column. A column whose tie is NOTHING is not in the search. */
STK_DEVICE struct found lesser(struct found best, uint64_t code, uint32_t tie, int32_t col)
{
	uint64_t least = (uint64_t)best.high << 32 | best.low;
	if (tie != NOTHING && (code < least || (code == least && tie < best.tie))) {
		best.high = (uint32_t)(code >> 32);
		best.low = (uint32_t)code;
		best.tie = tie;
		best.col = col;
	}
	return best;
}

/* Returns the lane that has the least entry of the warp. Usually the high halves of the path lengths decide, and the other comparisons are left out. */
STK_DEVICE int least_lane(struct found f)
{
	uint32_t high = stk__warp_min(f.high);
	unsigned who = __ballot_sync(STK_FULL, f.high == high);
	if (who & (who - 1)) {
		uint32_t low = stk__warp_min(f.high == high ? f.low : NOTHING);
		uint32_t tie = stk__warp_min(f.high == high && f.low == low ? f.tie : NOTHING);
		who = __ballot_sync(STK_FULL, f.high == high && f.low == low && f.tie == tie);
	}
	return __ffs((int)who) - 1;
}

/* Returns the minimum over all threads of the block. The caller alternates `slots` between calls, so that one barrier is enough. */
STK_DEVICE struct found block_least(struct found mine, struct found *slots)
{
	int lane = (int)threadIdx.x & 31, warps = (int)blockDim.x >> 5;
	if (lane == least_lane(mine))
		slots[threadIdx.x >> 5] = mine;
	__syncthreads();
	if (warps == 1)
		return slots[0];
	struct found none = {NOTHING, NOTHING, NOTHING, -1};
	return slots[least_lane(lane < warps ? slots[lane] : none)];
}

/* A problem in the form that the search uses: if it has more rows than columns (tall), both are swapped. */
struct problem {
	const void *cost;
	int64_t row_stride, col_stride; /* distances in elements */
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

/* The arrays that the threads of a block share. Their extents are given in brackets. */
struct shared_state {
	double *row_dual;       /* [rows] */
	int32_t *col_of;        /* [rows] */
	int32_t *row_of, *path; /* [cols] */
	float *ring;            /* [STK_ASSIGN_AHEAD][cols]: rows fetched ahead; only if l.ahead */
	struct found *slots;    /* [2 * 32] */
	int32_t *flags;         /* [0]: set if look_for_bad has found an invalid cost; [32 ..]: counts of the warps in give_pairs */
};

STK_DEVICE struct shared_state carve_shared(uint8_t *memory, uint8_t *fixed, int64_t rows, int64_t cols)
{
	struct shared_state s;
	s.row_dual = (double *)memory;
	s.col_of = (int32_t *)(s.row_dual + rows);
	s.row_of = s.col_of + rows;
	s.path = s.row_of + cols;
	s.ring = (float *)(s.path + cols);
	s.slots = (struct found *)fixed;
	s.flags = (int32_t *)(s.slots + 64);
	return s;
}

/* Starts to fetch row i of float costs ahead of its use. Each thread copies its own columns, and only waits for its own copies. */
STK_DEVICE void fetch_row(const struct stk_assign_launch *l, const struct problem *s, const struct shared_state *m, int32_t i)
{
	if (l->ahead && i < s->rows) {
		const float *from = (const float *)s->cost + i * s->row_stride;
		float *to = m->ring + (int64_t)(i % STK_ASSIGN_AHEAD) * l->cols;
		for (int32_t j = (int32_t)threadIdx.x; j < s->cols; j += (int32_t)blockDim.x)
			stk__copy_ahead4(to + j, from + j * s->col_stride);
	}
	stk__copy_commit();
}

STK_DEVICE void fetch_wait(void)
{
	stk__copy_wait(STK_ASSIGN_AHEAD - 1);
}

STK_DEVICE double fetched(const struct stk_assign_launch *l, const struct problem *s, const struct shared_state *m, int32_t i, int32_t j)
{
	double c = (double)m->ring[(int64_t)(i % STK_ASSIGN_AHEAD) * l->cols + j];
	return s->maximize ? -c : c;
}

/* Assigns the columns along the path from `row` to the free column `sink`. Only one thread runs this. */
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

/* Sets m->flags[0] if a cost in the rows from `row` on is invalid (NaN or -inf). Called when no search will read these rows, since an invalid cost outranks
 * infeasibility. All threads of the block must call this. */
STK_DEVICE void look_for_bad(const struct problem *s, int kind, const struct shared_state *m, int32_t row)
{
	__syncthreads();
	for (int32_t i = row; i < s->rows; i++) {
		for (int32_t j = (int32_t)threadIdx.x; j < s->cols; j += (int32_t)blockDim.x) {
			if (!(load_cost(s, kind, i, j) > -INFINITY))
				m->flags[0] = 1;
		}
	}
	__syncthreads();
}

/* Writes the pairs by ascending row, followed by zeros. In a tall problem the caller's rows are the search's columns: the number of owned columns before a
 * column is the position of its pair. */
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

/* Kernels for up to COLS columns per thread, with the state in registers. */
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
/* A kernel for any number of columns, with all state in memory. */
#define COLS 0
#define NAME ragged_assign_any
#include "ragged/assign_body.h"

/* Swaps rows and columns of the problems that have more rows than columns. A thread block takes 32 rows and 64 columns; the grid is (problems, tiles of
 * columns, tiles of rows). */
#define TURN_COLS 64

#define TURN(name, type)                                                                                                                   \
	STK_KERNEL void ragged_assign_turn_##name(struct stk_assign_launch l)                                                              \
	{                                                                                                                                  \
		__shared__ type tile[32][TURN_COLS + 1];                                                                                   \
		const struct stk_assign *a = &l.a;                                                                                         \
		int64_t p = blockIdx.x, rows = stk__size_of(a->num_rows, p, a->rows), cols = stk__size_of(a->num_cols, p, a->cols);        \
		int64_t c0 = (int64_t)blockIdx.y * TURN_COLS, r0 = (int64_t)blockIdx.z * 32;                                               \
		if (rows <= cols || r0 >= rows || c0 >= cols)                                                                              \
			return;                                                                                                            \
		int32_t high = (int32_t)(rows - r0 < 32 ? rows - r0 : 32),                                                                 \
			wide = (int32_t)(cols - c0 < TURN_COLS ? cols - c0 : TURN_COLS);                                                   \
		const type *in = (const type *)a->cost + p * a->problem_stride + r0 * a->row_stride + c0;                                  \
		type *out = (type *)l.turned + p * a->rows * a->cols + c0 * a->rows + r0;                                                  \
		int32_t x = (int32_t)(threadIdx.x % TURN_COLS), y = (int32_t)(threadIdx.x / TURN_COLS);                                    \
		for (int k = 0; k < 32 * TURN_COLS / 256; k++) {                                                                           \
			int32_t r = y + k * (256 / TURN_COLS);                                                                             \
			if (r < high && x < wide)                                                                                          \
				tile[r][x] = in[r * a->row_stride + x];                                                                    \
		}                                                                                                                          \
		__syncthreads();                                                                                                           \
		x = (int32_t)(threadIdx.x & 31);                                                                                           \
		for (int k = 0; k < TURN_COLS / 8; k++) {                                                                                  \
			int32_t c = (int32_t)(threadIdx.x >> 5) + k * 8;                                                                   \
			if (c < wide && x < high)                                                                                          \
				out[c * a->rows + x] = tile[x][c];                                                                         \
		}                                                                                                                          \
	}
TURN(2, uint16_t)
TURN(4, uint32_t)
TURN(8, uint64_t)
