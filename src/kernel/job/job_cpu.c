/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_cpu.h"

#include <string.h>

#define PUT(size)                                                                                                                          \
	case size:                                                                                                                         \
		_Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++, dst += dst_step, src += src_step) memcpy(dst, src, size);          \
		break

void stk__job_put(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t n, int64_t element)
{
	if (dst_step == element && src_step == element) {
		memcpy(dst, src, (size_t)n * (size_t)element);
		return;
	}
	switch (element) { /* the compiler turns a copy of constant size into one or two loads and stores */
		PUT(1);
		PUT(2);
		PUT(3);
		PUT(4);
		PUT(6);
		PUT(8);
		PUT(12);
		PUT(16);
	default:
		for (int64_t i = 0; i < n; i++, dst += dst_step, src += src_step)
			memcpy(dst, src, (size_t)element);
	}
}

#define FILL(type)                                                                                                                         \
	do {                                                                                                                               \
		type one;                                                                                                                  \
		memcpy(&one, value, sizeof one);                                                                                           \
		for (int64_t i = 0; i < n; i++)                                                                                            \
			((type *)(void *)dst)[i] = one;                                                                                    \
	} while (0);                                                                                                                       \
	break

void stk__job_fill(uint8_t *dst, const uint8_t *value, int64_t n, int64_t element)
{
	switch (element) {
	case 1:
		memset(dst, *value, (size_t)n);
		break;
	case 2:
		FILL(uint16_t);
	case 4:
		FILL(uint32_t);
	case 8:
		FILL(uint64_t);
	default:
		stk__job_put(dst, element, value, 0, n, element);
	}
}

/* ---- operands ---- */

struct stk_job_source stk__job_source(const struct stk_job *job, int k, int32_t element)
{
	int64_t dense = element, period = 1;
	int32_t d = job->ndim - 1;
	for (; d >= 0 && job->dim[d].src[k] == dense; d--) {
		dense *= job->dim[d].size;
		period *= job->dim[d].size;
	}
	if (d < 0 && job->ndim > 0)
		return (struct stk_job_source){STK_JOB_WHOLE, 0};
	for (; d >= 0; d--)
		if (job->dim[d].src[k])
			return (struct stk_job_source){STK_JOB_ELSEWHERE, 0};
	return period <= STK_JOB_BLOCK ? (struct stk_job_source){STK_JOB_REPEATED, period} : (struct stk_job_source){STK_JOB_ELSEWHERE, 0};
}

int stk__job_block(struct stk_job_source *sources, int n)
{
	int block = STK_JOB_BLOCK;
	for (int k = 0; k < n; k++) {
		if (sources[k].pattern == STK_JOB_REPEATED && block == STK_JOB_BLOCK)
			block -= block % (int)sources[k].period;
		else if (sources[k].pattern == STK_JOB_REPEATED && block % sources[k].period)
			sources[k].pattern = STK_JOB_ELSEWHERE;
	}
	return block;
}

const uint8_t *stk__job_gather(
	const struct stk_job *job, int k, const struct stk_job_source *s, int32_t element, int64_t at, int n, uint8_t *buffer)
{
	const uint8_t *src = job->src[k];
	if (s->pattern == STK_JOB_WHOLE)
		return src + at * element;
	if (s->pattern == STK_JOB_REPEATED && s->period == 1) {
		stk__job_fill(buffer, src, n, element);
		return buffer;
	}
	int64_t index[STK_MAX_DIMS];
	int32_t last = job->ndim - 1;
	for (int32_t d = last; d >= 0; d--) {
		index[d] = at % job->dim[d].size;
		at /= job->dim[d].size;
		src += index[d] * job->dim[d].src[k];
	}
	for (uint8_t *to = buffer; n > 0;) {
		const struct stk_job_dim *inner = &job->dim[last];
		int run = inner->size - index[last] < n ? (int)(inner->size - index[last]) : n;
		stk__job_put(to, element, src, inner->src[k], run, element);
		to += run * element;
		n -= run;
		src += run * inner->src[k];
		index[last] += run;
		for (int32_t d = last; d > 0 && index[d] == job->dim[d].size; d--) { /* carries into the next outer dimension */
			src += job->dim[d - 1].src[k] - index[d] * job->dim[d].src[k];
			index[d] = 0;
			index[d - 1]++;
		}
	}
	return buffer;
}
