/* SPDX-License-Identifier: Apache-2.0
 * Normalisation on the CPU: adds up groups in the order that reduce.h fixes, then goes over all elements. */
#include "kernel/reduce/reduce_run.h"

#include "kernel/convert/convert.h"
#include "kernel/job/job_cpu.h"
#include "kernel/reduce/normalize_one.h"

#include <string.h>

static inline float value_at(const uint8_t *x, int dtype)
{
	return dtype == STK_FLOAT ? *(const float *)(const void *)x : stk__job_float(x, dtype);
}

static inline double term(float x, const double *about)
{
	return about ? (x - *about) * (x - *about) : (double)x;
}

/* Adds n values of type dtype at x to the partial sums. k: index of the first value in its group; step: distance in bytes between values; about: as in
 * sum_group. */
static void add_run(double *sums, uint32_t k, const uint8_t *x, int dtype, int64_t step, uint32_t n, const double *about)
{
	float block[STK_JOB_PARTIAL_SUMS];
	_Alignas(8) uint8_t gathered[8 * STK_JOB_PARTIAL_SUMS];
	int32_t size = stk__job_size(dtype);
	for (uint32_t i = 0; i < n;) {
		uint32_t first = (k + i) % STK_JOB_PARTIAL_SUMS, most = STK_JOB_PARTIAL_SUMS - first, m = n - i < most ? n - i : most;
		const uint8_t *from = x + (int64_t)i * step;
		if (step != size)
			stk__job_put(gathered, size, from, step, m, size);
		stk__convert(block, STK_FLOAT, step == size ? from : gathered, (enum stk_dtype)dtype, m);
		for (uint32_t j = 0; j < m; j++)
			sums[first + j] += term(block[j], about);
		i += m;
	}
}

/* Returns the sum over the group at `base` of its values or, if `about` is not NULL, of the squares of their distances from *about. */
static double sum_group(const struct stk_job_groups *g, const uint8_t *base, int dtype, const double *about)
{
	const struct stk_job_axis one = {1, 1}, *inner = g->n_reduced ? &g->reduced[g->n_reduced - 1] : &one;
	int64_t size = stk__job_size(dtype), step = inner->stride * size;
	double sums[STK_JOB_PARTIAL_SUMS], sum = 0;
	bool serial = g->count < STK_JOB_SERIAL;
	if (!serial)
		memset(sums, 0, sizeof sums);
	for (uint32_t k = 0; k < g->count; k += inner->size) {
		const uint8_t *x = base + stk__job_offset(g->reduced, g->n_reduced, k) * size;
		for (uint32_t i = 0; serial && i < inner->size; i++)
			sum += term(value_at(x + i * step, dtype), about);
		if (!serial)
			add_run(sums, k, x, dtype, step, inner->size, about);
	}
	for (uint32_t stride = serial ? 0 : STK_JOB_PARTIAL_SUMS / 2; stride > 0; stride /= 2)
		for (uint32_t i = 0; i < stride; i++)
			sums[i] += sums[i + stride];
	return serial ? sum : sums[0];
}

static const uint8_t *group_base(const struct stk_job_groups *g, const uint8_t *data, int dtype, uint32_t group)
{
	return data + stk__job_offset(g->kept, g->n_kept, group) * stk__job_size(dtype);
}

void stk__job_sums(const struct stk_job_groups *g, const struct stk_tensor *in, const double *about, double *sums)
{
	int dtype = in->desc.dtype;
	for (uint32_t k = 0; g->count && k < g->groups; k++)
		sums[k] += sum_group(g, group_base(g, in->data, dtype, k), dtype, about ? &about[k] : NULL);
}

/* The mean and the factor that are applied to the elements of a group. */
struct stats {
	double mean, factor;
};

static void measure(const struct stk_job *job, struct stats *stats)
{
	const struct stk_job_normalize *n = &STK_PARAMS(stk_job_normalize, job);
	int dtype = job->src_dtype[0];
	bool exact = stk__job_measures_exactly(job);
	for (uint32_t k = 0; k < n->groups.groups; k++) {
		const uint8_t *base = group_base(&n->groups, job->src[0], dtype, k);
		double sum = n->n_mean ? 0 : sum_group(&n->groups, base, dtype, NULL), mean = stk__job_mean(job, k, sum);
		double about = exact ? 0 : mean, squares = n->n_factor ? 0 : sum_group(&n->groups, base, dtype, &about);
		if (exact && !n->n_factor)
			squares = stk__job_spread(n->groups.count, sum, squares);
		stats[k] = (struct stats){mean, stk__job_factor(job, k, squares)};
	}
}

void stk__normalize_run(const struct stk_job *job)
{
	enum { BLOCK = STK_JOB_BLOCK };
	struct stats stats_room[BLOCK];
	const struct stats *stats = stats_room;
	float converted[BLOCK], rounded[BLOCK];
	struct stk_job_source groups = stk__job_source(job, 1, sizeof *stats);
	int block = stk__job_block(&groups, 1);
	int32_t from = stk__job_size(job->src_dtype[0]), to = stk__job_size(job->dst_dtype);
	double shift = STK_PARAMS(stk_job_normalize, job).shift;
	measure(job, job->work);
	const struct stats one = *(const struct stats *)job->work;
	bool in_float = job->src_dtype[0] == STK_FLOAT, out_float = job->dst_dtype == STK_FLOAT;
	for (int64_t at = 0; at < job->n; at += block) {
		int n = job->n - at < block ? (int)(job->n - at) : block;
		const float *x = in_float ? (const float *)(const void *)job->src[0] + at : converted;
		float *y = out_float ? (float *)(void *)job->dst + at : rounded;
		if (!in_float)
			stk__convert(converted, STK_FLOAT, job->src[0] + at * from, (enum stk_dtype)job->src_dtype[0], n);
		if (groups.pattern != STK_JOB_REPEATED || (at == 0 && groups.period > 1))
			stats = (const void *)stk__job_gather(job, 1, &groups, sizeof *stats, at, n, (uint8_t *)stats_room);
		if (groups.pattern == STK_JOB_REPEATED && groups.period == 1)
			for (int i = 0; i < n; i++)
				y[i] = (float)((x[i] - one.mean) * one.factor + shift);
		else
			for (int i = 0; i < n; i++)
				y[i] = (float)((x[i] - stats[i].mean) * stats[i].factor + shift);
		if (!out_float)
			stk__convert(job->dst + at * to, (enum stk_dtype)job->dst_dtype, y, STK_FLOAT, n);
	}
}
