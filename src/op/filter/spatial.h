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

/* Finds the spatial dims: all dims of the layout except F and C, or all dims if there is no layout. STK_SHAPE unless they are 1 to 3 adjacent dims. */
enum stk_status stk__spatial_of(const struct stk_desc *desc, struct stk_spatial *out, struct stk_error *err);

/* Sets the extents of a filter whose input has the desc `in`, and all its windows to size 1. out: desc of the output; NULL: it has the input's extents. */
void stk__spatial_filter(const struct stk_desc *in, const struct stk_desc *out, const struct stk_spatial *s, struct stk_filter *f);

/* Returns the axis of struct stk_filter for the i-th spatial dim. */
static inline int stk__spatial_axis(const struct stk_spatial *s, int32_t i)
{
	return STK_FILTER_AXES - s->count + i;
}

/* Returns STK_INVALID unless count, the number of values of argument `name`, is 1 or the number of spatial dims. */
enum stk_status stk__check_per_axis(const char *name, int32_t count, const struct stk_spatial *s, struct stk_error *err);

/* Sets *out to the type of the output: `dtype` or, if that is -1, the input's type. STK_UNSUPPORTED: it is neither the input's type nor float32. */
enum stk_status stk__filter_dtype(int32_t dtype, enum stk_dtype in, enum stk_dtype *out, struct stk_error *err);
extern const char stk__filter_dtype_doc[];

#endif
