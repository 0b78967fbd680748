/* SPDX-License-Identifier: Apache-2.0
 *
 * N-d strided copy: crops, slices, flips, transpositions and padding of tensors of any element size are all this. */
#ifndef STK_KERNEL_COPY_ND_H
#define STK_KERNEL_COPY_ND_H

#include "stoker/tensor.h"

/* One dim of the output, outermost first. Its index i takes index start + step * i of a dim of the source; outside 0 .. limit - 1 the
 * output gets the fill. Which source dim that is, the stride says: a transposition is an order of strides. */
struct stk_copy_dim {
	int64_t size;               /* of the output; may be 0 */
	int64_t start, step, limit; /* step may be negative or 0 (repeats) */
	ptrdiff_t dst, src;         /* bytes from an index to the next; any sign */
};

/* dst and src: the elements with all indices 0 (of the source: even if start is not 0); they do not overlap. element: bytes of one, any
 * size. fill: one element, or NULL where nothing lies outside (asserted). ndim: 0 .. STK_MAX_DIMS. Touches no other bytes. Any thread. */
void stk__copy_nd(const struct stk_copy_dim *dims, int ndim, size_t element, void *dst, const void *src, const void *fill);

/* The usual case: a dense row-major source of `shape`, a dense row-major output. order: which source dim each output dim is, NULL for the
 * same. start and step (by output dim; NULL: 0 and 1), sizes of the output in `size`. Fills dims[0 .. ndim - 1] for stk__copy_nd. */
void stk__copy_nd_dense(struct stk_copy_dim *dims, int ndim, size_t element, const int64_t *shape, const int *order, const int64_t *start,
	const int64_t *step, const int64_t *size);

/* The outputs [*begin, *end) along a dim whose source index lies inside. */
void stk__copy_nd_valid(const struct stk_copy_dim *d, int64_t *begin, int64_t *end);

#endif
