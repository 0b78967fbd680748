/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted sums along one dimension of a float32 tensor: the product with a matrix. Each row of the matrix is stored as a band: the range of its elements
 * that may differ from 0. A sum begins at 0 and adds the products in the order of the weights. */
#ifndef STK_KERNEL_BANDS_H
#define STK_KERNEL_BANDS_H

#include "kernel/job/job_place.h"

enum {
	/* Number of outputs that a thread makes on the GPU, unless the job is divided into tiles. A thread block first waits several times for memory to find
	 * its job. With four outputs per thread, this takes less time than the sums, and one sound still occupies most multiprocessors. */
	STK_BANDS_EACH = 4,
	STK_BANDS_TILE_BYTES = 44 * 1024 /* maximum size of a tile in shared memory, of which every launch may use 48 KiB */
};

/* The weights of one row of the matrix: weights[at .. at + count - 1] belong to elements first .. first + count - 1. */
struct stk_band {
	int32_t first, count, at;
};

/* The parameters. The job's constants are `rows` bands, then the weights. */
struct stk_bands {
	int64_t outer, inner; /* products of the extents before and after the dimension */
	int64_t bins, rows;   /* the dimension's extent in the input and in the output */
	int64_t n_weights;
};
STK_PARAMS_FIT(stk_bands);

/* Returns the number of adjacent columns whose bins a thread block of the GPU loads as one tile; 0 if the job is not divided into tiles. A column is the
 * elements along the dimension at one outer and one inner index. Neighbouring bands use the same bins, so a tile saves loads; but it needs columns that are
 * adjacent in memory, and all of their bins must fit. */
STK_HD uint32_t stk__bands_columns(const struct stk_bands *p)
{
	uint32_t n = 32;
	while (n >= 8 && p->bins * n * (int64_t)sizeof(float) > STK_BANDS_TILE_BYTES)
		n /= 2;
	return n >= 8 && p->inner >= n ? n : 0;
}

STK_HD const float *stk__bands_weights(const struct stk_job *job)
{
	return (const float *)(const void *)((const struct stk_band *)job->constants + STK_PARAMS(stk_bands, job).rows);
}

STK_HD void stk__bands_one(const struct stk_job *job, uint32_t i)
{
	const struct stk_bands *p = &STK_PARAMS(stk_bands, job);
	uint32_t row = i / (uint32_t)p->inner, column = i - row * (uint32_t)p->inner, outer = row / (uint32_t)p->rows;
	const struct stk_band *band = (const struct stk_band *)job->constants + (row - outer * (uint32_t)p->rows);
	const float *x = (const float *)(const void *)job->src[0] + (outer * p->bins + band->first) * p->inner + column;
	const float *weights = stk__bands_weights(job) + band->at;
	float sum = 0;
	for (int32_t k = 0; k < band->count; k++)
		sum += x[k * p->inner] * weights[k];
	((float *)(void *)job->dst)[i] = sum;
}

/* Makes a job that computes the sums of `in`. table: the job's constants (see struct stk_bands). */
STK_MUST_USE enum stk_status stk__job_bands(struct stk_jobs *jobs, const struct stk_bands *p, const void *table,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

/* Runs the job on the CPU. job->work must have space for `bins` + `rows` vectors of eight floats. The _avx2 function is the same source, compiled for AVX2. */
void stk__bands_run(const struct stk_job *job);
void stk__bands_run_avx2(const struct stk_job *job);

#endif
