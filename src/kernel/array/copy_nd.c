/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/array/copy_nd.h"

#include <assert.h>
#include <string.h>

/* A dim reduced to what the loops need: indices [begin, end) have a source. */
struct dim {
	int64_t size, begin, end;
	ptrdiff_t dst, src; /* src: bytes for a step of the output's index */
};

struct copy {
	struct dim dims[STK_MAX_DIMS];
	int ndim;
	size_t element;
	const uint8_t *fill;
	bool fill_is_byte; /* all bytes of the fill are alike */
};

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
	return x < low ? low : x > high ? high : x;
}

void stk__copy_nd_valid(const struct stk_copy_dim *d, int64_t *begin, int64_t *end)
{
	*begin = 0;
	*end = d->size;
	if (d->step == 0) {
		if (d->start < 0 || d->start >= d->limit)
			*end = 0;
		return;
	}
	/* distance to the first valid index, and past the last one, in the direction of the step */
	int64_t step = d->step > 0 ? d->step : -d->step;
	int64_t before = d->step > 0 ? -d->start : d->start - (d->limit - 1);
	int64_t after = d->step > 0 ? d->limit - d->start : d->start + 1;
	*begin = clamp(before > 0 ? (before + step - 1) / step : 0, 0, d->size);
	*end = clamp(after > 0 ? (after + step - 1) / step : 0, *begin, d->size);
}

static void put(uint8_t *dst, ptrdiff_t dst_step, const uint8_t *src, ptrdiff_t src_step, int64_t n, size_t element)
{
	if (dst_step == (ptrdiff_t)element && src_step == (ptrdiff_t)element) {
		memcpy(dst, src, (size_t)n * element);
		return;
	}
	switch (element) { /* constant sizes, so that a copy is a load and a store */
	case 1:
		for (int64_t i = 0; i < n; i++)
			dst[i * dst_step] = src[i * src_step];
		break;
	case 2:
		for (int64_t i = 0; i < n; i++)
			memcpy(dst + i * dst_step, src + i * src_step, 2);
		break;
	case 4:
		for (int64_t i = 0; i < n; i++)
			memcpy(dst + i * dst_step, src + i * src_step, 4);
		break;
	case 8:
		for (int64_t i = 0; i < n; i++)
			memcpy(dst + i * dst_step, src + i * src_step, 8);
		break;
	default:
		for (int64_t i = 0; i < n; i++)
			memcpy(dst + i * dst_step, src + i * src_step, element);
	}
}

static void fill_all(const struct copy *c, int at, uint8_t *dst, int64_t begin, int64_t end)
{
	if (begin >= end)
		return;
	assert(c->fill);
	const struct dim *d = &c->dims[at];
	dst += begin * d->dst;
	if (at == c->ndim - 1) {
		if (c->fill_is_byte && d->dst == (ptrdiff_t)c->element)
			memset(dst, c->fill[0], (size_t)(end - begin) * c->element);
		else
			put(dst, d->dst, c->fill, 0, end - begin, c->element);
		return;
	}
	for (int64_t i = begin; i < end; i++, dst += d->dst)
		fill_all(c, at + 1, dst, 0, c->dims[at + 1].size);
}

static void copy_dim(const struct copy *c, int at, uint8_t *dst, const uint8_t *src)
{
	const struct dim *d = &c->dims[at];
	fill_all(c, at, dst, 0, d->begin);
	if (at == c->ndim - 1 && d->begin < d->end)
		put(dst + d->begin * d->dst, d->dst, src + d->begin * d->src, d->src, d->end - d->begin, c->element);
	else
		for (int64_t i = d->begin; i < d->end; i++)
			copy_dim(c, at + 1, dst + i * d->dst, src + i * d->src);
	fill_all(c, at, dst, d->end, d->size);
}

/* Appends a dim, joining it with the one before where both sides run on without a gap, so that inner loops are long. */
static void append(struct copy *c, struct dim d)
{
	if (c->ndim > 0) {
		struct dim *outer = &c->dims[c->ndim - 1];
		bool whole = d.begin == 0 && d.end == d.size;
		if (whole && outer->dst == d.dst * d.size && outer->src == d.src * d.size) {
			*outer = (struct dim){outer->size * d.size, outer->begin * d.size, outer->end * d.size, d.dst, d.src};
			return;
		}
	}
	c->dims[c->ndim++] = d;
}

void stk__copy_nd(const struct stk_copy_dim *dims, int ndim, size_t element, void *dst, const void *src, const void *fill)
{
	assert(ndim >= 0 && ndim <= STK_MAX_DIMS && element > 0);
	struct copy c = {.element = element, .fill = fill};
	if (fill) {
		c.fill_is_byte = true;
		for (size_t i = 1; i < element; i++)
			c.fill_is_byte = c.fill_is_byte && c.fill[i] == c.fill[0];
	}
	const uint8_t *from = src;
	for (int k = 0; k < ndim; k++) {
		if (dims[k].size == 0)
			return;
		struct dim d = {.size = dims[k].size, .dst = dims[k].dst, .src = dims[k].src * (ptrdiff_t)dims[k].step};
		stk__copy_nd_valid(&dims[k], &d.begin, &d.end);
		from += dims[k].start * dims[k].src;
		if (d.size > 1 || d.begin == d.end)
			append(&c, d);
	}
	if (c.ndim == 0)
		memcpy(dst, from, element);
	else
		copy_dim(&c, 0, dst, from);
}

void stk__copy_nd_dense(struct stk_copy_dim *dims, int ndim, size_t element, const int64_t *shape, const int *order, const int64_t *start,
	const int64_t *step, const int64_t *size)
{
	ptrdiff_t src[STK_MAX_DIMS], src_stride = (ptrdiff_t)element, dst_stride = (ptrdiff_t)element;
	for (int d = ndim - 1; d >= 0; d--) {
		src[d] = src_stride;
		src_stride *= (ptrdiff_t)shape[d];
	}
	for (int d = ndim - 1; d >= 0; d--) {
		int from = order ? order[d] : d;
		dims[d] = (struct stk_copy_dim){size[d], start ? start[d] : 0, step ? step[d] : 1, shape[from], dst_stride, src[from]};
		dst_stride *= (ptrdiff_t)size[d];
	}
}
