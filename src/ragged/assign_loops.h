/* SPDX-License-Identifier: Apache-2.0
 * Loops over a row of costs, for the search of a shortest augmenting path, in plain C and in AVX2. Both give bit-identical results. */
#ifndef STK_RAGGED_ASSIGN_LOOPS_H
#define STK_RAGGED_ASSIGN_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

/* A row of costs, and the state of the search that reads it. path_cost[j]: length of the shortest path to column j found so far; path[j]: the last row on
 * that path, or -1 for the row from which the search started; price[j]: the dual variable of column j, or -inf after the column has left the search. so_far:
 * length of the path to this row; row_dual: the row's dual variable. */
struct stk_assign_row {
	const void *cost; /* float or double */
	double so_far, row_dual;
	const double *price;
	double *path_cost;
	int32_t *path;
	int32_t row, n;
};

struct stk_assign_loops {
	/* For the first row of a search: sets path_cost[j] = ((so_far + cost[j]) - row_dual) - price[j], and returns the minimum. Clears *valid if a cost is
	 * NaN or -inf. */
	double (*first)(const struct stk_assign_row *r, bool *valid);
	/* For a later row: if ((so_far + cost[j]) - row_dual) - price[j] is below path_cost[j], sets path_cost[j] to it and path[j] to row. Returns the minimum
	 * of path_cost. */
	double (*next)(const struct stk_assign_row *r);
};

struct stk_assign_kernels {
	struct stk_assign_loops f32, f64;
	/* Returns the column that SciPy's linear_sum_assignment takes among the columns with path_cost[j] == least: the free column (owner[j] < 0) with the
	 * largest position[j] or, if none is free, the owned column with the smallest. */
	int32_t (*pick)(const double *path_cost, double least, const int32_t *owner, const int32_t *position, int32_t n);
	/* Sets out[c * rows + r] = in[r * in_stride + c]. */
	void (*transpose)(const float *in, int64_t in_stride, float *out, int32_t rows, int32_t cols);
};

void stk__assign_kernels_init(struct stk_assign_kernels *k, unsigned cpu); /* cpu: base/cpu.h */
void stk__assign_kernels_x86(struct stk_assign_kernels *k, unsigned cpu);  /* called by stk__assign_kernels_init */
extern const struct stk_assign_kernels stk__assign_kernels_c, stk__assign_kernels_avx2;

/* Returns whether SciPy prefers column j to the best column so far, given equal path costs. */
static inline bool stk__assign_prefers(int32_t j, int32_t best, const int32_t *owner, const int32_t *position)
{
	if (best < 0)
		return true;
	if (owner[j] < 0)
		return owner[best] >= 0 || position[j] > position[best];
	return owner[best] >= 0 && position[j] < position[best];
}

#endif
