/* SPDX-License-Identifier: Apache-2.0
 * Copies elements to a tensor with other strides or another type, and fills outputs that have no source: transpositions, slices, paddings, stacks, flips,
 * casts. */
#ifndef STK_KERNEL_COPY_H
#define STK_KERNEL_COPY_H

#include "kernel/job/job.h"

struct stk_job_copy {
	uint8_t fill[8];        /* the fill value, an element of the output's type */
	int32_t element;        /* size in bytes of an element that is copied as it is; 0: elements are converted */
	bool has_unset_outputs; /* true if some outputs read no element of the source and get `fill` */
};
STK_PARAMS_FIT(stk_job_copy);

/* One dimension of a copy's output; the outermost is first. Index i of the output reads index start + step * i of a dimension of the source. If that is
 * outside of 0 .. limit - 1, the output gets the fill value. `src` is the stride of the source dimension; a transposition only permutes these strides. */
struct stk_copy_dim {
	int64_t size;               /* number of indices in the output; may be 0 */
	int64_t start, step, limit; /* step may be negative or 0 (repeats) */
	int64_t dst, src;           /* strides in elements; any sign */
};

/* Computes dims[0 .. ndim - 1] for a dense source of `shape` and a dense output of shape `size`. order: the source dimension of each output dimension;
 * NULL: the same dimension. start, step: values for each output dimension; NULL: all starts are 0, or all steps are 1. */
void stk__copy_dims(struct stk_copy_dim *dims, int ndim, const int64_t *shape, const int *order, const int64_t *start, const int64_t *step,
	const int64_t *size);

/* Makes a copy job. fill: an element of the output's type, or NULL if no index is outside of the source. If both types are the same, bits are copied
 * unchanged, unless `convert` is set (which makes bools 0 or 1). Of in and out, only data and type are used, not the shape. */
STK_MUST_USE enum stk_status stk__job_copy(struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_copy_dim *dims, int ndim, const void *fill, bool convert, struct stk_error *err);

/* Parameters of a copy without conversion. `count` rows of `length` elements, which are contiguous in the source, are stored `stride` elements apart in the
 * output, from its element `first` on. Concatenation along a dimension makes one such job for each input. */
struct stk_job_rows {
	int64_t count, length, first, stride;
};
STK_MUST_USE enum stk_status stk__job_copy_rows(struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_job_rows *rows, struct stk_error *err);

/* Copies all elements of `in` to `out`, in the order of memory. Converts them if the types differ, or if `convert` is set (which makes bools 0 or 1). */
STK_MUST_USE enum stk_status stk__job_copy_all(
	struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, bool convert, struct stk_error *err);

/* Copies `bytes` bytes to `to`; source and target must not overlap. A job copies at most 2^30 bytes, so larger copies are made of several jobs. */
STK_MUST_USE enum stk_status stk__job_copy_bytes(struct stk_jobs *jobs, const void *from, void *to, int64_t bytes, struct stk_error *err);

#endif
