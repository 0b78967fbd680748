/* SPDX-License-Identifier: Apache-2.0
 * Shared by operators that filter images: which dims of a tensor are spatial, and arguments that are given once or once for each spatial dim. */
#ifndef STK_OP_FILTER_SPATIAL_H
#define STK_OP_FILTER_SPATIAL_H

#include "kernel/filter/filter.h"
#include "op/dims.h"

/* Dims first to first + count - 1 are spatial. Frames and channels may come before them, channels after them. count -1: the number of dims is not known yet. */
struct stk_spatial {
	int32_t first, count;
};

/* Finds the spatial dims: all letters of the layout except F and C, or all dims without a layout. STK_SHAPE unless they are 1 to 3 neighbouring dims. */
enum stk_status stk__spatial_of(const struct stk_desc *desc, struct stk_spatial *out, struct stk_error *err);

/* Fills the extents of a filter whose input has the desc `in`, with windows of size 1. out: desc of the output; NULL: the output has the input's extents. */
void stk__spatial_filter(const struct stk_desc *in, const struct stk_desc *out, const struct stk_spatial *s, struct stk_filter *f);

/* Returns the axis of struct stk_filter for the i-th spatial dim. */
static inline int stk__spatial_axis(const struct stk_spatial *s, int32_t i)
{
	return STK_FILTER_AXES - s->count + i;
}

/* Returns STK_INVALID unless there is one value, or one for each spatial dim. */
enum stk_status stk__check_per_axis(const char *name, int32_t count, const struct stk_spatial *s, struct stk_error *err);

/* Finds the type of the output: the input's, or float32. STK_UNSUPPORTED if dtype asks for another. */
enum stk_status stk__filter_dtype(int32_t dtype, enum stk_dtype in, enum stk_dtype *out, struct stk_error *err);
extern const char stk__filter_dtype_doc[];

#endif
