/* SPDX-License-Identifier: Apache-2.0
 * Resamples tensors along some of their dimensions. */
#ifndef STK_KERNEL_RESIZE_H
#define STK_KERNEL_RESIZE_H

#include "kernel/job/job.h"

/* A tensor is resampled along up to three dimensions, one after the other, with float32 values in between. The job's constants are words of four bytes: for
 * each phase the first source element of each output (int32), and its weights (float). The products of an output are added up from the first tap to the
 * last. */
enum { STK_RESIZE_PHASES = 3 };
struct stk_resize_phase {
	/* Products of the extents of the dimensions before and after this one; those that earlier phases resampled have their new extents. */
	int64_t outer, inner;
	int32_t in, out, taps;
	uint32_t first, weights; /* indices in the job's constants at which the two tables begin */
};
struct stk_job_resize {
	int32_t phases;
	struct stk_resize_phase phase[STK_RESIZE_PHASES];
};
STK_PARAMS_FIT(stk_job_resize);

struct stk_filter_axis;

/* Makes a job that resamples dims[0 .. n - 1], with n from 1 to STK_RESIZE_PHASES. Dimensions that shrink most are resampled first, so that the later ones have
 * fewer values to process. axes: the filter of each dimension, which must match its extents in `in` and `out`. float32 must hold all values of in's type. */
STK_MUST_USE enum stk_status stk__job_resize(struct stk_jobs *jobs, const struct stk_filter_axis *axes, const int32_t *dims, int32_t n,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
