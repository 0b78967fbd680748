/* SPDX-License-Identifier: Apache-2.0
 * The arguments that give regions of a tensor, and the job that fills them. Shared by erase and erase_noise. */
#ifndef STK_OP_FILTER_REGIONS_H
#define STK_OP_FILTER_REGIONS_H

#include "kernel/pointwise/pointwise.h"
#include "op/op.h"

struct stk_regions {
	struct stk_floats anchor, shape;
	struct stk_ints axes;
	const char *axis_names;
	bool centered_anchor, normalized, normalized_anchor, normalized_shape;
};

extern const struct stk_arg_def stk__regions_group[];

/* Sets the output's desc to the input's. Fails if the regions are not valid, as far as they are known. */
enum stk_status stk__regions_infer(const struct stk_call *call, const struct stk_regions *a, struct stk_error *err);

/* Parameters of the job, and its constants, which are in the worker's arena: the fill values, in the input's type, and the bounds of all regions. */
struct stk_regions_job {
	struct stk_pointwise pointwise;
	uint8_t *constants;
	size_t bytes;
};
enum stk_status stk__regions_job(const struct stk_call *call, const struct stk_regions *a, struct stk_floats fills,
	struct stk_regions_job *job, struct stk_error *err);

#endif
