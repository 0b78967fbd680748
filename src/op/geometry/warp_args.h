/* SPDX-License-Identifier: Apache-2.0
 * Shared by warp_affine and rotate: their arguments, and how a matrix becomes a step of a pass. Where a pass cannot do the work, the matrix becomes a job. */
#ifndef STK_OP_GEOMETRY_WARP_ARGS_H
#define STK_OP_GEOMETRY_WARP_ARGS_H

#include "kernel/sample/sample.h"
#include "op/geometry/affine.h"

struct stk_warp_args {
	struct stk_floats size;
	float fill_value;
	int32_t interp_type, dtype;
};
extern const struct stk_arg_def stk__warp_group[];

/* Layouts that can be processed in a pass. Volumes are processed by jobs, and so are types whose values float32 cannot hold exactly. */
#define STK_WARP_LAYOUTS "HWC CHW HW FHWC FCHW FHW"

/* The dims of a tensor that are width, height and, in volumes, depth: of.axis[0] is the width. A tensor without layout is taken as an image. */
struct stk_warp_dims {
	int32_t count; /* 2 or 3; 0: not known yet */
	struct stk_sample_dims of;
};

/* The state that infer passes to lower and lower_jobs. */
struct stk_warp_state {
	struct stk_warp_dims dims;
	struct stk_warp warp;
	struct stk_job_sample sample;
	float fill;
};

/* Finds the dims. STK_SHAPE: desc is neither an image nor a volume, or has frames that are not its first dim. */
enum stk_status stk__warp_dims(const struct stk_desc *desc, struct stk_warp_dims *out, struct stk_error *err);

/* Does the first half of an operator's infer: finds the dims, and sets the output's type and shape. The shape is the input's unless `size` is given. */
enum stk_status stk__warp_begin(
	const struct stk_call *call, const struct stk_warp_args *a, struct stk_warp_dims *dims, struct stk_error *err);

/* Returns STK_INVALID unless the `count` numbers of a map from the output to the image are finite. NaN and infinities are possible: a matrix that is an input
 * can hold any numbers, and inverting a matrix can overflow. */
enum stk_status stk__check_map(const float *m, int32_t count, struct stk_error *err);

/* Does the second half of an operator's infer, when the output's shape is known: checks the extents, and stores in call->state what lower and lower_jobs
 * need. map: from positions in the output to positions in the input; it has dims->count dims. */
enum stk_status stk__warp_end(const struct stk_call *call, const struct stk_warp_args *a, const struct stk_warp_dims *dims,
	const struct stk_affine *map, struct stk_error *err);

unsigned stk__warp_classify(const struct stk_warp_args *a, const struct stk_desc *in);
void stk__warp_lower(const struct stk_call *call, struct stk_pass *pass);
enum stk_status stk__warp_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err);

#endif
