/* SPDX-License-Identifier: Apache-2.0
 * Shared by experimental.dilate and experimental.erode: the largest or smallest value in a window. */
#ifndef STK_OP_FILTER_MORPHOLOGY_H
#define STK_OP_FILTER_MORPHOLOGY_H

#include "op/filter/spatial.h"

struct stk_morphology {
	struct stk_ints mask_size, anchor;
	int64_t iterations;
	const char *border_mode;
};
extern const struct stk_arg_def stk__morphology_args[];

enum stk_status stk__morphology_infer(const struct stk_call *call, struct stk_error *err);
enum stk_status stk__morphology_lower(
	const struct stk_call *call, enum stk_filter_reduction reduction, struct stk_jobs *jobs, struct stk_error *err);

/* For operators on images with two-dimensional windows: sets *out to height and width. Fails if `in` is not an image whose width follows its height, or if
 * float32 cannot hold all values of its type exactly. */
enum stk_status stk__planar_image(const struct stk_desc *in, struct stk_spatial *out, struct stk_error *err);

/* Returns value i (0: width, 1: height) of an argument that has one value, or two. */
static inline int64_t stk__planar_size(struct stk_ints v, int i)
{
	return v.v[v.count == 1 ? 0 : i];
}

#endif
