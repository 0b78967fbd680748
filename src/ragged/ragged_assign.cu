/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear assignment on CUDA, with one thread block for each problem. It makes the same searches and has the same prices and ties as assign_cpu.c.
 *
 * First, the warps find the least cost of each row, which is where most searches end with their first step; one thread assigns these rows. For the others,
 * a thread owns the columns threadIdx.x + k blockDim.x, and keeps their price, path length and position in SciPy's list, in registers for usual sizes. In each
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
	if (s.tall && l->transposed) {
		s.cost = (const uint8_t *)l->transposed + p * a->rows * a->cols * element;
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
	if (kind == COST_F32) {
		float f = ((const float *)s->cost)[at];
		return (double)(s->maximize ? -f : f);
	}
	double c = stk__load_double(s->cost, s->dtype, at);
	return s->maximize ? -c : c;
}

/* The arrays that the threads of a block share. Their extents are given in brackets. */
struct shared_state {
	double *row_dual;       /* [rows]; before a row is assigned, the least cost of the row if col_of is not -1 */
	int32_t *col_of;        /* [rows]; before a row is assigned: see least_of_rows */
	int32_t *row_of, *path; /* [cols] */
	int32_t *at;            /* [cols]: the column at each place of SciPy's list */
	float *row_costs;       /* [l.kept_rows][l.pitch]: the costs of the first rows */
	struct found *slots;    /* [2 * 32] */
	int32_t *flags;         /* [0]: the row to search next; [32 ..]: counts of the warps in give_pairs */
};

STK_DEVICE struct shared_state carve_shared(uint8_t *memory, uint8_t *fixed, const struct stk_assign_launch *l)
{
	struct shared_state s;
	s.row_costs = (float *)memory; /* first, because its rows are aligned to 16 bytes */
	s.row_dual = (double *)(memory + (int64_t)l->kept_rows * l->pitch * (int64_t)sizeof(float));
	s.col_of = (int32_t *)(s.row_dual + l->rows);
	s.row_of = s.col_of + l->rows;
	s.path = s.row_of + l->cols;
	s.at = s.path + l->cols;
	s.slots = (struct found *)fixed;
	s.flags = (int32_t *)(s.slots + 64);
	return s;
}

/* Reads the costs of row i in this thread's n columns, for columns that do not exist the cost of column 0. n is a constant, and there are no branches between
 * the columns, so that their reads and sums overlap. */
STK_DEVICE void read_row(
	const struct problem *s, const struct shared_state *m, int kind, int32_t kept_rows, int32_t pitch, int32_t i, int n, double *out)
{
	if (kind == COST_F32 && i < kept_rows) {
		const float *row = m->row_costs + i * pitch;
#pragma unroll
		for (int k = 0; k < n; k++) {
			int32_t j = (int32_t)(threadIdx.x + k * blockDim.x);
			float c = row[j < s->cols ? j : 0];
			out[k] = (double)(s->maximize ? -c : c);
		}
	} else {
#pragma unroll
		for (int k = 0; k < n; k++) {
			int32_t j = (int32_t)(threadIdx.x + k * blockDim.x);
			out[k] = load_cost(s, kind, i, j < s->cols ? j : 0);
		}
	}
}

/* Copies row i to shared memory. Only the calling warp may read it before the block's next barrier, after stk__copy_wait. */
STK_DEVICE void keep_row(const struct problem *s, float *to, int32_t i)
{
	const float *from = (const float *)s->cost + i * s->row_stride;
	int32_t lane = (int32_t)threadIdx.x & 31, done = 0;
	if (s->col_stride == 1 && ((uintptr_t)from & 15) == 0) {
		done = s->cols & ~3;
		for (int32_t j = lane * 4; j < done; j += 128)
			stk__copy_ahead16(to + j, from + j);
	}
	for (int32_t j = done + lane; j < s->cols; j += 32)
		stk__copy_ahead4(to + j, from + j * s->col_stride);
}

/* Sets value, col, several and bad for this lane's columns of a row: the least cost, its column, whether it occurs more than once, and whether a cost is
 * invalid. `read` is the cost of column j, of the given type. */
#define SCAN(type, read)                                                                                                                   \
	do {                                                                                                                               \
		type least = INFINITY;                                                                                                     \
		_Pragma("unroll 4") for (int32_t j = lane; j < s.cols; j += 32)                                                            \
		{                                                                                                                          \
			type c = (read) + (type)0;                                                                                         \
			bad |= !(c > -INFINITY);                                                                                           \
			several = c < least ? 0 : several | (c == least);                                                                  \
			col = c < least ? j : col;                                                                                         \
			least = c < least ? c : least;                                                                                     \
		}                                                                                                                          \
		value = (double)least;                                                                                                     \
	} while (0)

/* Copies the first `kept_rows` rows to shared memory, and finds for each row the column of its least cost, in m.col_of, and that cost, in m.row_dual. The
 * column is -1 if several columns have the least cost or if it is infinite, and BAD_COST if a cost of the row is invalid. While the column is free, the first
 * step of the row's search would find it too: the price of a free column is 0, and the prices of owned columns only fall, which makes them dearer. A warp does
 * a row. */
static __device__ __noinline__ void least_of_rows(struct problem s, struct shared_state m, int kind, int32_t kept_rows, int32_t pitch)
{
	int32_t lane = (int32_t)threadIdx.x & 31, warp = (int32_t)threadIdx.x >> 5, warps = (int32_t)blockDim.x >> 5;
	const float flip = s.maximize ? -1.0f : 1.0f;
	for (int32_t i = warp; i < s.rows && i < kept_rows; i += warps)
		keep_row(&s, m.row_costs + i * pitch, i);
	stk__copy_commit();
	stk__copy_wait(0);
	__syncwarp();
	for (int32_t i = warp; i < s.rows; i += warps) {
		double value;
		int32_t col = -1, several = 0, bad = 0;
		const float *row = (const float *)s.cost + i * s.row_stride;
		if (i < kept_rows)
			SCAN(float, m.row_costs[i * pitch + j] * flip);
		else if (kind == COST_F32)
			SCAN(float, row[j * s.col_stride] * flip);
		else
			SCAN(double, load_cost(&s, kind, i, j));
		uint64_t code = order_code(value);
		uint32_t high = stk__warp_min((uint32_t)(code >> 32));
		uint32_t low = stk__warp_min((uint32_t)(code >> 32) == high ? (uint32_t)code : NOTHING);
		int mine = code == ((uint64_t)high << 32 | low);
		unsigned who = __ballot_sync(STK_FULL, mine);
		unsigned same = __ballot_sync(STK_FULL, mine && several);
		if (__ballot_sync(STK_FULL, bad))
			col = BAD_COST;
		else if (same || (who & (who - 1)))
			col = -1;
		if (lane == __ffs((int)who) - 1) {
			m.col_of[i] = col;
			m.row_dual[i] = value;
		}
	}
}

/* Assigns rows to the columns of their least cost, from `row` on, as long as that column is free. Returns the first row that needs a search, or the number of
 * rows. Only one thread runs this. */
STK_DEVICE int32_t take_free_columns(const struct shared_state *m, int32_t row, int32_t rows)
{
	for (; row < rows; row++) {
		int32_t j = m->col_of[row];
		if (j < 0 || m->row_of[j] >= 0)
			break;
		m->row_of[j] = row;
	}
	return row;
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

/* Returns whether a row from `row` on has an invalid cost (NaN or -inf): it outranks infeasibility, also in rows that no search will read. */
STK_DEVICE int32_t has_bad_row(const struct shared_state *m, int32_t row, int32_t rows)
{
	while (row < rows && m->col_of[row] != BAD_COST)
		row++;
	return row < rows;
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
		type *out = (type *)l.transposed + p * a->rows * a->cols + c0 * a->rows + r0;                                              \
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
