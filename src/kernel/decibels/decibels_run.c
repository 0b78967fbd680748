/* SPDX-License-Identifier: Apache-2.0
 * Decibels on the CPU: eight values at a time, with the arithmetic of stk__decibels_one. */
#include "kernel/common/lanes.h"
#include "kernel/decibels/decibels.h"

typedef int32_t words __attribute__((vector_size(4 * STK_LANES)));

/* Sets the bits of *to to those of *a where the mask has ones, and to those of *b elsewhere. */
STK_LANES_INLINE void choose(stk_lanes *to, const words *mask, const stk_lanes *a, const stk_lanes *b)
{
	*to = (stk_lanes)(((words)*a & *mask) | ((words)*b & ~*mask));
}

/* Computes stk__decibels_log2 in each lane. */
STK_LANES_INLINE void log2_lanes(stk_lanes *x)
{
	const stk_lanes none = {0}, infinite = none + stk__decibels_float(0x7f800000u);
	const words small = *x < 0x1p-126f, zero = *x == 0, above = ~(*x < infinite); /* infinite, or NaN */
	stk_lanes scaled = *x * 0x1p24f, result;
	choose(&scaled, &small, &scaled, x);
	words exponent = ((words)scaled - 0x3f3504f3) >> 23;
	stk_lanes m = (stk_lanes)((words)scaled - (exponent << 23)), t = (m - 1) / (m + 1), z = t * t;
	stk_lanes series = 2.88539008f + z * (0.961796694f + z * (0.577078016f + z * (0.412198583f + z * 0.320598898f)));
	result = __builtin_convertvector(exponent - (small & 24), stk_lanes) + t * series;
	choose(&result, &above, x, &result);
	scaled = none - infinite;
	choose(x, &zero, &scaled, &result);
}

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
	const words keep = (words){0} - (int32_t)p.keep_nan; /* all bits are set, or none */
	int64_t i = 0;
	for (; i + STK_LANES <= job->n; i += STK_LANES) {
		stk_lanes v, ratio, least = (stk_lanes){0} + p.least;
		memcpy(&v, x + i, sizeof v);
		ratio = v / reference;
		const words more = (ratio > least) | ((ratio != ratio) & keep);
		choose(&v, &more, &ratio, &least);
		log2_lanes(&v);
		v *= p.factor;
		memcpy(y + i, &v, sizeof v);
	}
	for (; i < job->n; i++)
		y[i] = stk__decibels_one(&p, reference, x[i]);
}
