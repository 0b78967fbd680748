/* SPDX-License-Identifier: Apache-2.0
 * Decibels on the CPU, in loops that compilers vectorise. */
#include "kernel/decibels/decibels.h"

/* Returns the largest value, or 1 if no value is above 0. Skips NaNs. */
static float largest_of(const float *x, int64_t n)
{
	enum { LANES = 32 };
	float lane[LANES] = {0}, largest = 0;
	int64_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (int l = 0; l < LANES; l++)
			lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
	for (; i < n; i++)
		lane[0] = x[i] > lane[0] ? x[i] : lane[0];
	for (int l = 0; l < LANES; l++)
		largest = lane[l] > largest ? lane[l] : largest;
	return largest > 0 ? largest : 1;
}

void stk__decibels_run(const struct stk_job *job)
{
	const struct stk_decibels p = STK_PARAMS(stk_decibels, job);
	const float *x = (const float *)(const void *)job->src[0];
	float *restrict y = (float *)(void *)job->dst;
	float reference = p.reference == 0 ? largest_of(x, job->n) : p.reference;
	for (int64_t i = 0; i < job->n; i++)
		y[i] = stk__decibels_one(&p, reference, x[i]);
}
