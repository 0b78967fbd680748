/* SPDX-License-Identifier: Apache-2.0
 * What operators that filter images share: which dims of a tensor are spatial, and arguments that are given once or once for each of them. */
#ifndef STK_OP_FILTER_SPATIAL_H
#define STK_OP_FILTER_SPATIAL_H

#include "kernel/filter/filter.h"
#include "op/dims.h"

/* Dims first .. first + count - 1 are spatial. Before them stand frames and channels, behind them channels. count -1: ndim is not known yet. */
struct stk_spatial {
	int32_t first, count;
};

/* Letters of the layout but F and C are spatial; without a layout all dims are. STK_SHAPE unless there are 1 to 3 of them, side by side. */
enum stk_status stk__spatial_of(const struct stk_desc *desc, struct stk_spatial *out, struct stk_error *err);

/* The filter's extents over an image of `in`; windows of size 1. out: its extents of the output, those of in where NULL. */
void stk__spatial_filter(const struct stk_desc *in, const struct stk_desc *out, const struct stk_spatial *s, struct stk_filter *f);

/* The axis of struct stk_filter that the i-th spatial dim is. */
static inline int stk__spatial_axis(const struct stk_spatial *s, int32_t i)
{
	return STK_FILTER_AXES - s->count + i;
}

/* STK_INVALID unless there is one value, or one for each spatial dim. */
enum stk_status stk__check_per_axis(const char *name, int32_t count, const struct stk_spatial *s, struct stk_error *err);

/* The type of the output: the input's, or float32. STK_UNSUPPORTED where dtype asks for another. */
enum stk_status stk__filter_dtype(int32_t dtype, enum stk_dtype in, enum stk_dtype *out, struct stk_error *err);
extern const char stk__filter_dtype_doc[];

#endif
