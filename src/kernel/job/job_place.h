/* SPDX-License-Identifier: Apache-2.0
 * Addresses and elements of a job, in C and CUDA. */
#ifndef STK_KERNEL_JOB_PLACE_H
#define STK_KERNEL_JOB_PLACE_H

#include "kernel/convert/convert_one.h"
#include "kernel/job/job.h"

/* The addresses of an output, and of the element that it reads from each source; `inside` is false if the output gets the fill value. */
struct stk_job_place {
	uint8_t *dst;
	const uint8_t *src[2];
	bool inside;
};

STK_HD struct stk_job_place stk__job_place(const struct stk_job *job, uint32_t i)
{
	int64_t dst = 0, first = 0, second = 0;
	bool inside = true;
	for (int32_t k = job->ndim - 1; k >= 0; k--) {
		const struct stk_job_dim *d = &job->dim[k];
		uint32_t size = (uint32_t)d->size, rest = k ? i / size : 0, at = i - rest * size; /* 64-bit divisions would be slow */
		dst += at * d->dst;
		first += at * d->src[0];
		second += at * d->src[1];
		inside = inside && at >= (uint32_t)d->begin && at < (uint32_t)d->end;
		i = rest;
	}
	struct stk_job_place place;
	place.dst = job->dst + dst;
	place.src[0] = job->src[0] + first;
	place.src[1] = job->src[1] + second;
	place.inside = inside;
	return place;
}

STK_HD void stk__job_move(uint8_t *dst, const uint8_t *src, int32_t size)
{
	switch (size) {
	case 1:
		*dst = *src;
		break;
	case 2:
		*(uint16_t *)(void *)dst = *(const uint16_t *)(const void *)src;
		break;
	case 4:
		*(uint32_t *)(void *)dst = *(const uint32_t *)(const void *)src;
		break;
	default:
		*(uint64_t *)(void *)dst = *(const uint64_t *)(const void *)src;
	}
}

/* Returns the size of an element in bytes. A constant holds the binary logarithms of all sizes, two bits each, since the GPU would have to read a table
 * from memory. */
STK_HD int32_t stk__job_size(int dtype)
{
#define STK_JOB_BITS(name, value, bytes, text) | (bytes == 8 ? 3u : bytes / 2u) << 2 * value
	return 1 << ((0u STK_DTYPE_LIST(STK_JOB_BITS)) >> 2 * dtype & 3);
#undef STK_JOB_BITS
}

STK_HD bool stk__job_is_whole(int dtype)
{
	return dtype != STK_FLOAT && dtype != STK_FLOAT64 && dtype != STK_FLOAT16 && dtype != STK_BFLOAT16;
}

STK_HD float stk__job_float(const uint8_t *src, int dtype)
{
	float x;
	stk__convert_one(&x, STK_FLOAT, src, dtype);
	return x;
}

#endif
