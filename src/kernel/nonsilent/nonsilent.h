/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the part of a signal that is not silent: from the first to the last window whose mean power reaches a threshold.
 *
 * A window begins at every sample from which it fits in the signal. Sums of squares are computed in double. For the first window of a chunk of windows, all
 * squares are added; for each later window, the sum is updated by the sample that enters the window and the one that leaves it. CPU and GPU use the same
 * chunks, so all sums have the same bits. */
#ifndef STK_KERNEL_NONSILENT_H
#define STK_KERNEL_NONSILENT_H

#include "kernel/job/job_place.h"

enum { STK_NONSILENT_CHUNK = 1024 }; /* number of windows of a chunk */

struct stk_nonsilent {
	int64_t window;   /* length of a window in samples; at most the signal's length */
	double ratio;     /* the threshold, relative to the reference power */
	double reference; /* the reference power; 0: the mean power of the loudest window */
	int32_t *length;  /* receives the part's length, as the job's `dst` receives its begin; both are 0 if everything is silent */
};
STK_PARAMS_FIT(stk_nonsilent);

/* The results of one chunk: the largest sum of squares, and the first and the last window whose sum reaches a limit, or -1 if no sum does. */
struct stk_nonsilent_chunk {
	double largest;
	int64_t first, last;
};

/* Makes a job that sets *begin and *p->length. in: a signal of at least one sample. */
STK_MUST_USE enum stk_status stk__job_nonsilent(struct stk_jobs *jobs, const struct stk_nonsilent *p, const struct stk_tensor *in,
	const struct stk_tensor *begin, struct stk_error *err);

STK_HD int64_t stk__nonsilent_windows(const struct stk_job *job)
{
	return job->n - STK_PARAMS(stk_nonsilent, job).window + 1;
}

STK_HD int64_t stk__nonsilent_chunks(const struct stk_job *job)
{
	return (stk__nonsilent_windows(job) + STK_NONSILENT_CHUNK - 1) / STK_NONSILENT_CHUNK;
}

/* Returns the square of sample i; 0 if the sample is NaN or infinite, since the running sum of later windows would stay NaN. dtype: the signal's type; if it
 * is a constant, the compiler removes the choice between types. */
STK_HD double stk__nonsilent_square(const struct stk_job *job, int32_t dtype, int64_t i)
{
	double x;
	stk__convert_one(&x, STK_FLOAT64, job->src[0] + i * stk__job_size(dtype), dtype);
	x *= x;
	return x < 1e80 ? x : 0; /* squares of finite float32 are at most 1.2e77 */
}

/* Returns the results of chunk number `chunk`. dtype: the signal's type. limit: the lowest sum of squares of a window that is not silent. */
STK_HD struct stk_nonsilent_chunk stk__nonsilent_search(const struct stk_job *job, int32_t dtype, int64_t chunk, double limit)
{
	const int64_t window = STK_PARAMS(stk_nonsilent, job).window, begin = chunk * STK_NONSILENT_CHUNK;
	int64_t end = begin + STK_NONSILENT_CHUNK;
	struct stk_nonsilent_chunk found = {0, -1, -1};
	double part[4] = {0, 0, 0, 0}, sum;
	end = end < stk__nonsilent_windows(job) ? end : stk__nonsilent_windows(job);
	for (int64_t k = 0; k < window; k++)
		part[k & 3] += stk__nonsilent_square(job, dtype, begin + k);
	sum = part[0] + part[1] + (part[2] + part[3]);
	for (int64_t i = begin; i < end; i++) {
		if (i > begin)
			sum += stk__nonsilent_square(job, dtype, i + window - 1) - stk__nonsilent_square(job, dtype, i - 1);
		found.largest = sum > found.largest ? sum : found.largest;
		found.last = sum >= limit ? i : found.last;
		found.first = sum >= limit && found.first < 0 ? i : found.first;
	}
	return found;
}

/* Returns the smallest sum of squares of a window that is not silent. largest: the largest sum of all windows. */
STK_HD double stk__nonsilent_limit(const struct stk_job *job, double largest)
{
	const struct stk_nonsilent *p = &STK_PARAMS(stk_nonsilent, job);
	return p->ratio * (p->reference > 0 ? p->reference * (double)p->window : largest);
}

/* Stores the begin and the length of the part that is not silent. first, last: indices of the first and last window that are not silent; first is -1 if all
 * windows are silent. */
STK_HD void stk__nonsilent_store(const struct stk_job *job, int64_t first, int64_t last)
{
	const struct stk_nonsilent *p = &STK_PARAMS(stk_nonsilent, job);
	*(int32_t *)(void *)job->dst = first < 0 ? 0 : (int32_t)first;
	*p->length = first < 0 ? 0 : (int32_t)(last - first + p->window);
}

#endif
