/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted sums along one dimension of a float32 tensor: the product with a matrix. Each row of the matrix is stored as a band: the range of its elements
 * that may differ from 0. A sum begins at 0 and adds the products in the order of the weights. */
#ifndef STK_KERNEL_BANDS_H
#define STK_KERNEL_BANDS_H

#include "kernel/job/job_place.h"

/* Number of outputs that a thread makes on the GPU. A thread block first waits several times for memory to find its job. With four outputs per thread, this
 * takes less time than the sums, and one sound still occupies most multiprocessors. */
enum { STK_BANDS_EACH = 4 };

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
