/* SPDX-License-Identifier: Apache-2.0
 * Copies between tensors with other strides, fill and type: transpositions, slices, paddings, stacks, flips, casts. */
#ifndef STK_KERNEL_COPY_H
#define STK_KERNEL_COPY_H

#include "kernel/job/job.h"

struct stk_job_copy {
	uint8_t fill[8]; /* an element of the output's type */
	int32_t element; /* bytes to move as they are; 0: converts from the source's type to the output's */
	bool fills;      /* some outputs have no source */
};
STK_PARAMS_FIT(stk_job_copy);

/* One dim of a copy's output, outermost first. Its index i takes index start + step * i of a dim of the source; outside 0 .. limit - 1 the output gets
 * the fill. Which source dim that is, the stride says: a transposition is an order of strides. */
struct stk_copy_dim {
	int64_t size;               /* of the output; may be 0 */
	int64_t start, step, limit; /* step may be negative or 0 (repeats) */
	int64_t dst, src;           /* elements from an index to the next; any sign */
};

/* The usual case: a dense source of `shape`, a dense output. order: which source dim each output dim is, NULL for the same. start and step (by output
 * dim; NULL: 0 and 1), extents of the output in `size`. Fills dims[0 .. ndim - 1]. */
void stk__copy_dims(struct stk_copy_dim *dims, int ndim, const int64_t *shape, const int *order, const int64_t *start, const int64_t *step,
	const int64_t *size);

/* fill: an element of the output's type, or NULL where nothing lies outside. Elements of equal types are moved as they are, unless `convert` (which
 * makes bools 0 or 1). in and out: data and type count, not shapes. */
STK_MUST_USE enum stk_status stk__job_copy(struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_copy_dim *dims, int ndim, const void *fill, bool convert, struct stk_error *err);

/* The same where the source is dense: rows of `length` elements, `stride` elements apart in the output, the first at its element `first`. Types are
 * equal. Concatenation along a dim makes one such job for each input. */
struct stk_job_rows {
	int64_t count, length, first, stride;
};
STK_MUST_USE enum stk_status stk__job_copy_rows(struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_job_rows *rows, struct stk_error *err);

/* All elements of `in`, in their order, converted to out's type where `convert`. */
STK_MUST_USE enum stk_status stk__job_copy_all(
	struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, bool convert, struct stk_error *err);

/* Bytes as they are, between places that do not overlap; as several jobs where they are more than one may have. */
STK_MUST_USE enum stk_status stk__job_copy_bytes(struct stk_jobs *jobs, const void *from, void *to, int64_t bytes, struct stk_error *err);

#endif
