/* SPDX-License-Identifier: Apache-2.0
 * Tensors resampled along some of their dims. */
#ifndef STK_KERNEL_RESIZE_H
#define STK_KERNEL_RESIZE_H

#include "kernel/job/job.h"

/* A tensor resampled along up to three of its dims, one after the other, with float32 between them. The job's constants are words of four bytes: for each phase
 * the first source element of each output, an int32, and its weights, floats. Sums go from the first tap to the last. */
enum { STK_RESIZE_PHASES = 3 };
struct stk_resize_phase {
	int64_t outer, inner; /* values before and after the dim, as far as they are resampled by then */
	int32_t in, out, taps;
	uint32_t first, weights; /* where they begin, in words */
};
struct stk_job_resize {
	int32_t phases;
	struct stk_resize_phase phase[STK_RESIZE_PHASES];
};
STK_PARAMS_FIT(stk_job_resize);

/* Resamples dims[0 .. n - 1], n from 1 to STK_RESIZE_PHASES, in the order in which the tensor shrinks most. axes: of each, whose in_size and outputs are the
 * extents of in and out. in's type is one that float32 holds. */
struct stk_filter_axis;
STK_MUST_USE enum stk_status stk__job_resize(struct stk_jobs *jobs, const struct stk_filter_axis *axes, const int32_t *dims, int32_t n,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
