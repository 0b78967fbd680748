/* SPDX-License-Identifier: Apache-2.0
 * Running jobs: copies, one-hot vectors, and how operands of the other kinds are found. */
#include "kernel/array/array_run.h"

#include "kernel/array/array_element.h"
#include "kernel/convert/convert.h"

#include <string.h>

/* ---- copies ---- */

#define PUT(size)                                                                                                                          \
	case size:                                                                                                                         \
		_Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++, dst += dst_step, src += src_step) memcpy(dst, src, size);          \
		break

void stk__array_put(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t n, int64_t element)
{
	if (dst_step == element && src_step == element) {
		memcpy(dst, src, (size_t)n * (size_t)element);
		return;
	}
	switch (element) { /* constant sizes, so that a copy is a load and a store or two */
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

void stk__array_fill(uint8_t *dst, const uint8_t *value, int64_t n, int64_t element)
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
		stk__array_put(dst, element, value, 0, n, element);
	}
}

/* What the loops of a copy need to know. An element is what moves as one: several of the tensor's, where they lie together on both sides. */
struct copy {
	const struct stk_array_job *job;
	int32_t ndim, element; /* bytes in the output */
	bool converts;
	_Alignas(8) uint8_t fill[16];
};

static void fill_all(const struct copy *c, int at, uint8_t *dst, int64_t begin, int64_t end)
{
	if (begin >= end)
		return;
	const struct stk_array_dim *d = &c->job->dim[at];
	dst += begin * d->dst;
	if (at < c->ndim - 1)
		for (int64_t i = begin; i < end; i++, dst += d->dst)
			fill_all(c, at + 1, dst, 0, d[1].size);
	else if (d->dst == 1)
		memset(dst, c->fill[0], (size_t)(end - begin));
	else if (d->dst == c->element)
		stk__array_fill(dst, c->fill, end - begin, c->element);
	else
		stk__array_put(dst, d->dst, c->fill, 0, end - begin, c->element);
}

/* A run of n elements that change their type; those that are not contiguous are gathered before and scattered after. It is a function of its own so that
 * other copies do not pay for its buffers. */
static __attribute__((noinline)) void convert_run(
	const struct stk_array_job *job, uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t n)
{
	enum { PART = 256 };
	_Alignas(8) uint8_t from[8 * PART], to[8 * PART];
	int32_t from_size = stk__array_size(job->src_dtype[0]), to_size = stk__array_size(job->dst_dtype);
	bool gathers = src_step != from_size, scatters = dst_step != to_size;
	if (src_step == 0) { /* one value for all */
		stk__convert_one(to, job->dst_dtype, src, job->src_dtype[0]);
		if (scatters)
			stk__array_put(dst, dst_step, to, 0, n, to_size);
		else
			stk__array_fill(dst, to, n, to_size);
		return;
	}
	for (int64_t i = 0, m; i < n; i += m) {
		m = !gathers && !scatters ? n : n - i < PART ? n - i : PART;
		const uint8_t *x = src + i * src_step;
		uint8_t *y = dst + i * dst_step;
		if (gathers)
			stk__array_put(from, from_size, x, src_step, m, from_size);
		stk__convert(scatters ? to : y, (enum stk_dtype)job->dst_dtype, gathers ? from : x, (enum stk_dtype)job->src_dtype[0], m);
		if (scatters)
			stk__array_put(y, dst_step, to, to_size, m, to_size);
	}
}

static void copy_dim(const struct copy *c, int at, uint8_t *dst, const uint8_t *src)
{
	const struct stk_array_dim *d = &c->job->dim[at];
	fill_all(c, at, dst, 0, d->begin);
	uint8_t *to = dst + d->begin * d->dst;
	const uint8_t *from = src + d->begin * d->src[0];
	if (at < c->ndim - 1)
		for (int64_t i = d->begin; i < d->end; i++, to += d->dst, from += d->src[0])
			copy_dim(c, at + 1, to, from);
	else if (c->converts)
		convert_run(c->job, to, d->dst, from, d->src[0], d->end - d->begin);
	else
		stk__array_put(to, d->dst, from, d->src[0], d->end - d->begin, c->element);
	fill_all(c, at, dst, d->end, d->size);
}

/* Joins a short innermost dim that is contiguous on both sides, such as an image's channels, into one element. */
static void join_elements(struct copy *c)
{
	const struct stk_array_dim *inner = &c->job->dim[c->ndim - 1];
	int64_t bytes = inner->size * c->element;
	bool together = inner->dst == c->element && inner->src[0] == c->element && inner->begin == 0 && inner->end == inner->size;
	if (c->converts || !together || bytes > (int64_t)sizeof c->fill)
		return;
	for (int32_t i = c->element; c->job->copy.fills && i < bytes; i++)
		c->fill[i] = c->fill[i - c->element];
	c->element = (int32_t)bytes;
	c->ndim--;
}

void stk__array_run_copy(const struct stk_array_job *job)
{
	struct copy c = {.job = job, .ndim = job->ndim, .converts = !job->copy.element};
	c.element = c.converts ? stk__array_size(job->dst_dtype) : job->copy.element;
	if (c.ndim == 0) {
		stk__array_copy_one(job, &(struct stk_array_place){job->dst, {job->src[0], NULL}, true});
		return;
	}
	if (job->copy.fills)
		memcpy(c.fill, job->copy.fill, sizeof job->copy.fill);
	if (c.ndim > 1)
		join_elements(&c);
	copy_dim(&c, 0, job->dst, job->src[0]);
}

/* ---- one-hot ---- */

#define SET_ON(type)                                                                                                                       \
	for (int64_t i = 0; i < n; i++, dst += step)                                                                                       \
		if (values[i] > -1 && values[i] < limit)                                                                                   \
			memcpy(dst + (int64_t)values[i] * job->dim[1].dst, job->one_hot.on, sizeof(type));                                 \
	break

/* Sets the classes of n inputs, whose class 0 is at dst, dst + step, ... Numbers are truncated to whole ones. */
static void set_on(const struct stk_array_job *job, uint8_t *dst, int64_t step, const double *values, int64_t n, int32_t size)
{
	double limit = job->one_hot.classes;
	switch (size) {
	case 1:
		SET_ON(uint8_t);
	case 2:
		SET_ON(uint16_t);
	case 4:
		SET_ON(uint32_t);
	default:
		SET_ON(uint64_t);
	}
}

void stk__array_run_one_hot(const struct stk_array_job *job)
{
	int32_t to = stk__array_size(job->dst_dtype), from = stk__array_size(job->src_dtype[0]);
	const struct stk_array_dim *outer = &job->dim[0], *inner = &job->dim[2];
	const uint8_t *src = job->src[0];
	double values[STK_ARRAY_BLOCK];
	/* Consecutive inputs are those of the inner dim; where that is 1, of the outer one. */
	bool rows = inner->size > 1;
	int64_t lines = rows ? outer->size : 1, length = rows ? inner->size : outer->size, step = rows ? inner->dst : outer->dst;
	stk__array_fill(job->dst, job->one_hot.off, job->n, to);
	for (int64_t o = 0; o < lines; o++)
		for (int64_t i = 0, n; i < length; i += n, src += n * from) {
			n = length - i < STK_ARRAY_BLOCK ? length - i : STK_ARRAY_BLOCK;
			stk__convert(values, STK_FLOAT64, src, (enum stk_dtype)job->src_dtype[0], n);
			set_on(job, job->dst + o * outer->dst + i * step, step, values, n, to);
		}
}

/* ---- operands ---- */

struct stk_array_source stk__array_source(const struct stk_array_job *job, int k, int32_t element)
{
	int64_t dense = element, period = 1;
	int32_t d = job->ndim - 1;
	for (; d >= 0 && job->dim[d].src[k] == dense; d--) {
		dense *= job->dim[d].size;
		period *= job->dim[d].size;
	}
	if (d < 0 && job->ndim > 0)
		return (struct stk_array_source){STK_ARRAY_WHOLE, 0};
	for (; d >= 0; d--)
		if (job->dim[d].src[k])
			return (struct stk_array_source){STK_ARRAY_ELSEWHERE, 0};
	return period <= STK_ARRAY_BLOCK ? (struct stk_array_source){STK_ARRAY_REPEATED, period}
					 : (struct stk_array_source){STK_ARRAY_ELSEWHERE, 0};
}

int stk__array_block(struct stk_array_source *sources, int n)
{
	int block = STK_ARRAY_BLOCK;
	for (int k = 0; k < n; k++) {
		if (sources[k].pattern == STK_ARRAY_REPEATED && block == STK_ARRAY_BLOCK)
			block -= block % (int)sources[k].period;
		else if (sources[k].pattern == STK_ARRAY_REPEATED && block % sources[k].period)
			sources[k].pattern = STK_ARRAY_ELSEWHERE;
	}
	return block;
}

const uint8_t *stk__array_gather(
	const struct stk_array_job *job, int k, const struct stk_array_source *s, int32_t element, int64_t at, int n, uint8_t *room)
{
	const uint8_t *src = job->src[k];
	if (s->pattern == STK_ARRAY_WHOLE)
		return src + at * element;
	if (s->pattern == STK_ARRAY_REPEATED && s->period == 1) {
		stk__array_fill(room, src, n, element);
		return room;
	}
	int64_t index[STK_MAX_DIMS];
	int32_t last = job->ndim - 1;
	for (int32_t d = last; d >= 0; d--) {
		index[d] = at % job->dim[d].size;
		at /= job->dim[d].size;
		src += index[d] * job->dim[d].src[k];
	}
	for (uint8_t *to = room; n > 0;) {
		const struct stk_array_dim *inner = &job->dim[last];
		int run = inner->size - index[last] < n ? (int)(inner->size - index[last]) : n;
		stk__array_put(to, element, src, inner->src[k], run, element);
		to += run * element;
		n -= run;
		src += run * inner->src[k];
		index[last] += run;
		for (int32_t d = last; d > 0 && index[d] == job->dim[d].size; d--) { /* on to the next run */
			src += job->dim[d - 1].src[k] - index[d] * job->dim[d].src[k];
			index[d] = 0;
			index[d - 1]++;
		}
	}
	return room;
}
