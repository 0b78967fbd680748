/* SPDX-License-Identifier: Apache-2.0
 * Runs copies on the CPU. */
#include "kernel/copy/copy_run.h"

#include "kernel/convert/convert.h"
#include "kernel/copy/copy_one.h"
#include "kernel/job/job_cpu.h"

#include <string.h>

/* Parameters of the loops of a copy. An element here may be several adjacent elements of the tensors (join_elements). */
struct copy {
	const struct stk_job *job;
	int32_t ndim, element; /* ndim: dimensions that loops run over; element: size of an element in the output, in bytes */
	bool converts;
	_Alignas(8) uint8_t fill[16];
};

static void fill_all(const struct copy *c, int at, uint8_t *dst, int64_t begin, int64_t end)
{
	if (begin >= end)
		return;
	const struct stk_job_dim *d = &c->job->dim[at];
	dst += begin * d->dst;
	if (at < c->ndim - 1)
		for (int64_t i = begin; i < end; i++, dst += d->dst)
			fill_all(c, at + 1, dst, 0, d[1].size);
	else if (d->dst == 1)
		memset(dst, c->fill[0], (size_t)(end - begin));
	else if (d->dst == c->element)
		stk__job_fill(dst, c->fill, end - begin, c->element);
	else
		stk__job_put(dst, d->dst, c->fill, 0, end - begin, c->element);
}

/* Converts n elements that are src_step bytes apart, and stores them dst_step bytes apart. Elements that are not contiguous are gathered before the
 * conversion and scattered after it. This is a separate function, so that its buffers are not on the stack of other copies. */
static __attribute__((noinline)) void convert_run(
	const struct stk_job *job, uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t n)
{
	enum { PART = 256 };
	_Alignas(8) uint8_t from[8 * PART], to[8 * PART];
	int32_t from_size = stk__job_size(job->src_dtype[0]), to_size = stk__job_size(job->dst_dtype);
	bool gathers = src_step != from_size, scatters = dst_step != to_size;
	if (src_step == 0) { /* all outputs read the same element */
		stk__convert_one(to, job->dst_dtype, src, job->src_dtype[0]);
		if (scatters)
			stk__job_put(dst, dst_step, to, 0, n, to_size);
		else
			stk__job_fill(dst, to, n, to_size);
		return;
	}
	for (int64_t i = 0, m; i < n; i += m) {
		m = !gathers && !scatters ? n : n - i < PART ? n - i : PART;
		const uint8_t *x = src + i * src_step;
		uint8_t *y = dst + i * dst_step;
		if (gathers)
			stk__job_put(from, from_size, x, src_step, m, from_size);
		stk__convert(scatters ? to : y, (enum stk_dtype)job->dst_dtype, gathers ? from : x, (enum stk_dtype)job->src_dtype[0], m);
		if (scatters)
			stk__job_put(y, dst_step, to, to_size, m, to_size);
	}
}

static void copy_dim(const struct copy *c, int at, uint8_t *dst, const uint8_t *src)
{
	const struct stk_job_dim *d = &c->job->dim[at];
	fill_all(c, at, dst, 0, d->begin);
	uint8_t *to = dst + d->begin * d->dst;
	const uint8_t *from = src + d->begin * d->src[0];
	if (at < c->ndim - 1)
		for (int64_t i = d->begin; i < d->end; i++, to += d->dst, from += d->src[0])
			copy_dim(c, at + 1, to, from);
	else if (c->converts)
		convert_run(c->job, to, d->dst, from, d->src[0], d->end - d->begin);
	else
		stk__job_put(to, d->dst, from, d->src[0], d->end - d->begin, c->element);
	fill_all(c, at, dst, d->end, d->size);
}

/* Turns the innermost dimension, for example the channels of an image, into a single element of at most 16 bytes. Does nothing if elements are converted,
 * or if the dimension is longer, has outputs that are fill, or is not contiguous in source and output. */
static void join_elements(struct copy *c)
{
	const struct stk_job_dim *inner = &c->job->dim[c->ndim - 1];
	int64_t bytes = inner->size * c->element;
	bool together = inner->dst == c->element && inner->src[0] == c->element && inner->begin == 0 && inner->end == inner->size;
	if (c->converts || !together || bytes > (int64_t)sizeof c->fill)
		return;
	for (int32_t i = c->element; STK_PARAMS(stk_job_copy, c->job).has_unset_outputs && i < bytes; i++)
		c->fill[i] = c->fill[i - c->element];
	c->element = (int32_t)bytes;
	c->ndim--;
}

void stk__copy_run(const struct stk_job *job)
{
	struct copy c = {.job = job, .ndim = job->ndim, .converts = !STK_PARAMS(stk_job_copy, job).element};
	c.element = c.converts ? stk__job_size(job->dst_dtype) : STK_PARAMS(stk_job_copy, job).element;
	if (c.ndim == 0) {
		stk__job_copy_one(job, &(struct stk_job_place){job->dst, {job->src[0], NULL}, true});
		return;
	}
	if (STK_PARAMS(stk_job_copy, job).has_unset_outputs)
		memcpy(c.fill, STK_PARAMS(stk_job_copy, job).fill, sizeof STK_PARAMS(stk_job_copy, job).fill);
	if (c.ndim > 1)
		join_elements(&c);
	copy_dim(&c, 0, job->dst, job->src[0]);
}
