/* SPDX-License-Identifier: Apache-2.0 */
#include "ragged/assign_loops.h"

#include <math.h>

#define ROW_LOOPS(suffix, type)                                                                                                            \
	static double first_##suffix(const struct stk_assign_row *r, bool *valid)                                                          \
	{                                                                                                                                  \
		const type *cost = r->cost;                                                                                                \
		double least = INFINITY;                                                                                                   \
		bool good = true;                                                                                                          \
		for (int32_t j = 0; j < r->n; j++) {                                                                                       \
			double value = ((r->so_far + (double)cost[j]) - r->row_dual) - r->price[j];                                        \
			good &= cost[j] > (type)-INFINITY; /* false for NaN too */                                                         \
			r->path_cost[j] = value;                                                                                           \
			least = value < least ? value : least;                                                                             \
		}                                                                                                                          \
		*valid &= good;                                                                                                            \
		return least;                                                                                                              \
	}                                                                                                                                  \
	static double next_##suffix(const struct stk_assign_row *r)                                                                        \
	{                                                                                                                                  \
		const type *cost = r->cost;                                                                                                \
		double least = INFINITY;                                                                                                   \
		for (int32_t j = 0; j < r->n; j++) {                                                                                       \
			double value = ((r->so_far + (double)cost[j]) - r->row_dual) - r->price[j];                                        \
			if (value < r->path_cost[j]) {                                                                                     \
				r->path_cost[j] = value;                                                                                   \
				r->path[j] = r->row;                                                                                       \
			}                                                                                                                  \
			least = r->path_cost[j] < least ? r->path_cost[j] : least;                                                         \
		}                                                                                                                          \
		return least;                                                                                                              \
	}
ROW_LOOPS(f32, float)
ROW_LOOPS(f64, double)

static int32_t pick(const double *path_cost, double least, const int32_t *owner, const int32_t *position, int32_t n)
{
	int32_t best = -1;
	for (int32_t j = 0; j < n; j++) {
		if (path_cost[j] == least && stk__assign_prefers(j, best, owner, position))
			best = j;
	}
	return best;
}

#define TILE 16

static void transpose(const float *in, int64_t in_stride, float *out, int32_t rows, int32_t cols)
{
	for (int32_t r0 = 0; r0 < rows; r0 += TILE) {
		int32_t r1 = r0 + TILE < rows ? r0 + TILE : rows;
		for (int32_t c = 0; c < cols; c++) {
			for (int32_t r = r0; r < r1; r++)
				out[(int64_t)c * rows + r] = in[r * in_stride + c];
		}
	}
}

const struct stk_assign_kernels stk__assign_kernels_c = {
	.f32 = {first_f32, next_f32}, .f64 = {first_f64, next_f64}, .pick = pick, .transpose = transpose};

void stk__assign_kernels_init(struct stk_assign_kernels *k, unsigned cpu)
{
	*k = stk__assign_kernels_c;
#ifdef STK_X86
	stk__assign_kernels_x86(k, cpu);
#endif
	(void)cpu;
}
