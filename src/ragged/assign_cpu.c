/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear assignment on the CPU: each problem is solved by one thread, with one shortest augmenting path for each row.
 *
 * The search is Crouse's (see stoker/batching.h). SciPy keeps the columns that are still in the search in a list. The list starts in descending order, and a
 * column is taken out by moving the last one into its place; ties are decided by position in that list. Here costs and prices stay in column order, so that
 * loops run over dense memory, and position[] records the position that each column would have in SciPy's list. */
#include "ragged/assign_loops.h"
#include "ragged/items.h"
#include "ragged/ragged.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>

/* A column that has left a search, with what end_search needs to put it back and to update its price: the length of its path, its position in SciPy's list,
 * and the column that was moved to that position. */
struct visit {
	double path_cost;
	int32_t col, position, moved;
};

struct solver {
	const struct stk_assign_kernels *kernels;
	const struct stk_assign_loops *loops;
	const uint8_t *cost; /* rows x cols with rows <= cols; the columns of a row are contiguous */
	int64_t row_bytes;
	int32_t rows, cols;
	/* row_dual has `rows` elements, the other arrays have `cols`. search_price: a copy of price, with -inf for columns that have left the search. */
	double *row_dual, *price, *search_price, *path_cost;
	int32_t *col_of, *row_of, *position, *list, *path; /* col_of has `rows` elements, the other arrays have `cols` */
	struct visit *visits;                              /* [rows + 1] */
	int32_t visited;
};

static size_t round_up(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

static size_t solver_bytes(int64_t rows, int64_t cols)
{
	size_t r = (size_t)rows, c = (size_t)cols;
	return round_up(r * 8) + 3 * round_up(c * 8) + round_up(r * 4) + 4 * round_up(c * 4) + round_up((r + 1) * sizeof(struct visit));
}

static void *take_piece(uint8_t **at, size_t bytes)
{
	void *p = *at;
	*at += round_up(bytes);
	return p;
}

static void solver_begin(struct solver *s, uint8_t *memory)
{
	size_t r = (size_t)s->rows, c = (size_t)s->cols;
	s->row_dual = take_piece(&memory, r * 8);
	s->price = take_piece(&memory, c * 8);
	s->search_price = take_piece(&memory, c * 8);
	s->path_cost = take_piece(&memory, c * 8);
	s->col_of = take_piece(&memory, r * 4);
	s->row_of = take_piece(&memory, c * 4);
	s->position = take_piece(&memory, c * 4);
	s->list = take_piece(&memory, c * 4);
	s->path = take_piece(&memory, c * 4);
	s->visits = take_piece(&memory, (r + 1) * sizeof *s->visits);
	for (int32_t i = 0; i < s->rows; i++) {
		s->row_dual[i] = 0;
		s->col_of[i] = -1;
	}
	for (int32_t j = 0; j < s->cols; j++) {
		s->price[j] = s->search_price[j] = 0;
		s->row_of[j] = s->path[j] = -1;
		s->position[j] = s->list[j] = s->cols - 1 - j;
	}
}

/* Takes a column out of the search, and records in s->visits the data with which end_search restores it. */
static void remove_column(struct solver *s, int32_t col)
{
	int32_t at = s->position[col], moved = s->list[s->cols - 1 - s->visited];
	s->visits[s->visited++] = (struct visit){.path_cost = s->path_cost[col], .col = col, .position = at, .moved = moved};
	s->list[at] = moved;
	s->position[moved] = at;
	s->path_cost[col] = INFINITY;
	s->search_price[col] = -INFINITY;
}

/* Ends the search of `row`, whose path has this length: updates the duals and the prices, and restores the list of columns. */
static void end_search(struct solver *s, int32_t row, double length)
{
	s->row_dual[row] += length;
	while (s->visited > 0) {
		struct visit v = s->visits[--s->visited];
		double decrease = length - v.path_cost;
		if (s->row_of[v.col] >= 0)
			s->row_dual[s->row_of[v.col]] += decrease;
		s->price[v.col] -= decrease;
		s->search_price[v.col] = s->price[v.col];
		s->position[v.moved] = s->cols - 1 - s->visited;
		s->list[v.position] = v.col;
		s->position[v.col] = v.position;
	}
}

/* Assigns the columns along the path that ends at the free column `sink`. path[j] is -1 if the path reaches column j directly from the search's own row. */
static void augment(struct solver *s, int32_t row, int32_t sink)
{
	int32_t j = sink, i;
	do {
		i = s->path[j] < 0 ? row : s->path[j];
		int32_t previous = s->col_of[i];
		s->row_of[j] = i;
		s->col_of[i] = j;
		j = previous;
	} while (i != row);
}

static enum stk_assign_status assign_row(struct solver *s, int32_t row)
{
	struct stk_assign_row r = {.cost = s->cost + row * s->row_bytes,
		.row_dual = s->row_dual[row],
		.price = s->search_price,
		.path_cost = s->path_cost,
		.path = s->path,
		.row = row,
		.n = s->cols};
	bool valid = true;
	double least = s->loops->first(&r, &valid);
	while (valid && least < INFINITY) {
		int32_t col = s->kernels->pick(s->path_cost, least, s->row_of, s->position, s->cols);
		remove_column(s, col);
		if (s->row_of[col] < 0) {
			bool stepped = s->visited > 1;
			end_search(s, row, least);
			augment(s, row, col);
			if (stepped)
				memset(s->path, 0xff, (size_t)s->cols * sizeof *s->path);
			return STK_ASSIGN_SOLVED;
		}
		r.row = s->row_of[col];
		r.cost = s->cost + r.row * s->row_bytes;
		r.so_far = least;
		r.row_dual = s->row_dual[r.row];
		least = s->loops->next(&r);
	}
	return valid ? STK_ASSIGN_INFEASIBLE : STK_ASSIGN_INVALID;
}

/* Assigns all rows. Each search first reads all costs of its own row. After an infeasible row the remaining rows are still read, since an invalid cost
 * outranks infeasibility. */
static enum stk_assign_status assign_all(struct solver *s)
{
	enum stk_assign_status status = STK_ASSIGN_SOLVED;
	int32_t row = 0;
	for (; row < s->rows && status == STK_ASSIGN_SOLVED; row++)
		status = assign_row(s, row);
	for (; row < s->rows && status == STK_ASSIGN_INFEASIBLE; row++) {
		bool valid = true;
		s->loops->first(
			&(struct stk_assign_row){
				.cost = s->cost + row * s->row_bytes, .price = s->price, .path_cost = s->path_cost, .n = s->cols},
			&valid);
		if (!valid)
			status = STK_ASSIGN_INVALID;
	}
	return status;
}

struct assign_job {
	const struct stk_assign *a;
	const struct stk_assign_kernels *kernels;
	uint8_t *memory; /* memory of all workers: that of worker w begins at memory + w * memory_bytes */
	size_t memory_bytes, solver_bytes;
};

/* Points the solver at the costs of problem p, and chooses its loops; swaps rows and columns of a tall problem. If the layout or type of the costs does not
 * suit the loops, or if the sum is to be maximised, copies the costs to `copy`. To maximise it, the copies have the opposite sign. */
static void take_cost(struct solver *s, const struct stk_assign *a, int64_t p, bool tall, void *copy)
{
	bool wide_type = a->dtype == STK_FLOAT64;
	size_t element = stk_dtype_size(a->dtype);
	int64_t row_stride = tall ? a->col_stride : a->row_stride, col_stride = tall ? a->row_stride : a->col_stride;
	const uint8_t *from = (const uint8_t *)a->cost + p * a->problem_stride * (int64_t)element;
	s->loops = wide_type ? &s->kernels->f64 : &s->kernels->f32;
	if (!a->maximize && col_stride == 1 && element >= 4) {
		s->cost = from;
		s->row_bytes = row_stride * (int64_t)element;
		return;
	}
	s->cost = copy;
	s->row_bytes = (int64_t)s->cols * (wide_type ? 8 : 4);
	if (!a->maximize && a->dtype == STK_FLOAT && row_stride == 1) {
		s->kernels->transpose((const float *)from, col_stride, copy, s->cols, s->rows);
		return;
	}
	for (int64_t i = 0; i < s->rows; i++) {
		for (int64_t j = 0; j < s->cols; j++) {
			int64_t at = i * row_stride + j * col_stride;
			if (wide_type)
				((double *)copy)[i * s->cols + j] = a->maximize ? -((const double *)from)[at] : ((const double *)from)[at];
			else
				((float *)copy)[i * s->cols + j] = (a->maximize ? -1.0f : 1.0f) * stk__load_float(from, a->dtype, at);
		}
	}
}

/* Writes the pairs in ascending order of rows, and returns their number. In a tall problem the solver's columns are the caller's rows, so the second loop
 * goes through the columns. */
static int64_t give_pairs(const struct solver *s, bool tall, int64_t *row, int64_t *col)
{
	int64_t n = 0;
	for (int32_t i = 0; !tall && i < s->rows; i++, n++) {
		row[n] = i;
		col[n] = s->col_of[i];
	}
	for (int32_t j = 0; tall && j < s->cols; j++) {
		if (s->row_of[j] >= 0) {
			row[n] = j;
			col[n++] = s->row_of[j];
		}
	}
	return n;
}

static void assign_problem(void *ctx, int64_t p, int32_t worker)
{
	const struct assign_job *job = ctx;
	const struct stk_assign *a = job->a;
	int64_t rows = stk__size_of(a->num_rows, p, a->rows), cols = stk__size_of(a->num_cols, p, a->cols);
	int64_t extent = a->rows < a->cols ? a->rows : a->cols;
	bool tall = cols < rows;
	uint8_t *memory = job->memory + (size_t)worker * job->memory_bytes;
	struct solver s = {.kernels = job->kernels, .rows = (int32_t)(tall ? cols : rows), .cols = (int32_t)(tall ? rows : cols)};
	take_cost(&s, a, p, tall, memory + job->solver_bytes);
	solver_begin(&s, memory);
	enum stk_assign_status status = assign_all(&s);
	int64_t n = status == STK_ASSIGN_SOLVED ? give_pairs(&s, tall, a->row + p * extent, a->col + p * extent) : 0;
	if (n < extent) {
		memset(a->row + p * extent + n, 0, (size_t)(extent - n) * sizeof *a->row);
		memset(a->col + p * extent + n, 0, (size_t)(extent - n) * sizeof *a->col);
	}
	a->sizes[p] = n;
	a->status[p] = (int8_t)status;
	stk__count_refused(a->refused, status != STK_ASSIGN_SOLVED);
}

enum stk_status stk__cpu_assign(struct stk_ragged *r, const struct stk_assign *a, struct stk_error *err)
{
	int64_t rows = a->rows < a->cols ? a->rows : a->cols, cols = a->rows < a->cols ? a->cols : a->rows;
	int64_t work = a->problems * rows * cols * 8 * 4; /* each cost is read about four times */
	int32_t threads = stk__fork_threads(r, a->problems, work);
	struct stk_assign_kernels kernels;
	stk__assign_kernels_init(&kernels, r->cpu);
	struct assign_job job = {.a = a, .kernels = &kernels};
	job.solver_bytes = solver_bytes(rows, cols);
	job.memory_bytes = job.solver_bytes + round_up((size_t)(rows * cols) * (a->dtype == STK_FLOAT64 ? 8 : 4));
	job.memory = stk__alloc((size_t)threads * job.memory_bytes);
	if (!job.memory)
		return stk__fail(err, STK_NO_MEMORY, "assign: no memory for %d x %zu bytes", threads, job.memory_bytes);
	stk__fork(threads, a->problems, assign_problem, &job);
	stk__free(job.memory);
	return STK_OK;
}
