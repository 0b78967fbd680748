/* SPDX-License-Identifier: Apache-2.0
 * Shared by sphere, water and jitter: operators that move the pixels of an HWC image. */
#ifndef STK_OP_GEOMETRY_DISPLACE_H
#define STK_OP_GEOMETRY_DISPLACE_H

#include "kernel/sample/sample.h"
#include "op/dims.h"

struct stk_displace_args {
	float fill_value;
	int32_t interp_type;
	int64_t mask;
};
extern const struct stk_arg_def stk__displace_group[];

#define STK_DISPLACE_DOC "\n\nImages have the layout HWC and are uint8 or float32; so is the output, with the same shape."

enum stk_status stk__displace_infer(const struct stk_call *call, struct stk_error *err);

/* Completes the job `s`, in which the caller has set map, m and seed, and adds it to `jobs`. If a->mask is 0, adds a copy of the image instead. */
enum stk_status stk__displace_lower(const struct stk_call *call, const struct stk_displace_args *a, struct stk_job_sample *s,
	struct stk_jobs *jobs, struct stk_error *err);

/* Returns STK_UNSUPPORTED for types whose pixels DALI's warps do not interpolate; with the nearest pixel any type is allowed. interp: enum stk_interp. */
enum stk_status stk__check_sampled(enum stk_dtype dtype, int32_t interp, struct stk_error *err);

/* Returns an array with a value for each of n channels, in the call's scratch memory: values.v[c] for channel c, or the only value for all channels, or 0 if
 * there are no values. values.count must be at most 1, or at least n. Returns NULL if memory runs out. */
float *stk__channel_values(const struct stk_call *call, struct stk_floats values, int64_t n);

#endif
