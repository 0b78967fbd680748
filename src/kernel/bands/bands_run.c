/* SPDX-License-Identifier: Apache-2.0
 * Weighted sums along a dimension on the CPU. A column is the elements along that dimension at one outer and one inner index. Each lane of a vector
 * computes a different column. If `inner` is at least the number of lanes, the columns in a vector have the same outer index. */
#include "kernel/bands/bands_lanes.h"

enum { SETS = 4, WIDE = SETS * STK_LANES };

/* Computes sets * STK_LANES columns that are adjacent in memory. x, y: addresses of the first column's first element in input and output. The elements of a
 * column are `pitch` floats apart. */
STK_LANES_INLINE void sum_columns(const struct stk_job *job, const float *x, float *y, int64_t pitch, const int sets)
{
	const struct stk_band *bands = job->constants;
	const float *weights = stk__bands_weights(job);
	for (int64_t row = 0; row < STK_PARAMS(stk_bands, job).rows; row++, y += pitch) {
		const float *w = weights + bands[row].at, *from = x + bands[row].first * pitch;
		stk_lanes sum[SETS] = {{0}};
		for (int32_t k = 0; k < bands[row].count; k++, from += pitch)
			for (int s = 0; s < sets; s++) {
				stk_lanes v;
				memcpy(&v, from + s * STK_LANES, sizeof v);
				sum[s] += v * w[k];
			}
		for (int s = 0; s < sets; s++)
			memcpy(y + s * STK_LANES, &sum[s], sizeof sum[s]);
	}
}

/* Computes columns at .. at + count - 1, numbered over all outer indices. count: at most STK_LANES. */
static void sum_any(const struct stk_job *job, int64_t at, int count)
{
	const struct stk_bands *p = &STK_PARAMS(stk_bands, job);
	const float *src = (const float *)(const void *)job->src[0];
	float *dst = (float *)(void *)job->dst;
	stk_lanes *x = job->work, *y = x + p->bins;
	if (p->inner == 1) {
		const float *rows[STK_LANES];
		for (int l = 0; l < STK_LANES; l++)
			rows[l] = src + (at + (l < count ? l : 0)) * p->bins;
		stk__lanes_load_rows(x, rows, p->bins, NULL);
		stk__bands_sum_lanes(job, x, y);
		stk__lanes_store_rows(dst + at * p->rows, p->rows, y, p->rows, count);
		return;
	}
	for (int l = 0; l < STK_LANES; l++) {
		int64_t column = at + (l < count ? l : 0), outer = column / p->inner, inner = column % p->inner;
		for (int64_t k = 0; k < p->bins; k++)
			x[k][l] = src[(outer * p->bins + k) * p->inner + inner];
	}
	stk__bands_sum_lanes(job, x, y);
	for (int l = 0; l < count; l++) {
		int64_t column = at + l, outer = column / p->inner, inner = column % p->inner;
		for (int64_t k = 0; k < p->rows; k++)
			dst[(outer * p->rows + k) * p->inner + inner] = y[k][l];
	}
}

/* Computes all columns of one outer index. p->inner must be at least STK_LANES. The last vector may compute some columns a second time. */
static void sum_outer(const struct stk_job *job, int64_t outer)
{
	const struct stk_bands *p = &STK_PARAMS(stk_bands, job);
	const float *x = (const float *)(const void *)job->src[0] + outer * p->bins * p->inner;
	float *y = (float *)(void *)job->dst + outer * p->rows * p->inner;
	int64_t i = 0, last = p->inner - STK_LANES;
	for (; i + WIDE <= p->inner; i += WIDE)
		sum_columns(job, x + i, y + i, p->inner, SETS);
	for (; i < p->inner; i += STK_LANES) {
		int64_t at = i < last ? i : last;
		sum_columns(job, x + at, y + at, p->inner, 1);
	}
}

void stk__bands_run(const struct stk_job *job)
{
	const struct stk_bands *p = &STK_PARAMS(stk_bands, job);
	int64_t columns = p->outer * p->inner;
	for (int64_t i = 0; i < p->outer && p->inner >= STK_LANES; i++)
		sum_outer(job, i);
	for (int64_t i = 0; i < columns && p->inner < STK_LANES; i += STK_LANES)
		sum_any(job, i, columns - i < STK_LANES ? (int)(columns - i) : STK_LANES);
}
