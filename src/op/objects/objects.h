/* SPDX-License-Identifier: Apache-2.0
 * What operators on the objects of a sample share: points, boxes, matrices and masks, as small tensors of any number type. */
#ifndef STK_OP_OBJECTS_H
#define STK_OP_OBJECTS_H

#include "op/dims.h"

/* STK_SHAPE unless the tensor has `ndim` dims, the last of them of extent `last` (-1: any). what: "boxes", for the message. Unknown passes. */
enum stk_status stk__objects_check(const struct stk_desc *desc, const char *what, int32_t ndim, int64_t last, struct stk_error *err);

/* STK_SHAPE unless it is one value for each object: all extents but one are 1. *count: how many, -1 while it is not known. */
enum stk_status stk__objects_column(const struct stk_desc *desc, const char *what, int64_t *count, struct stk_error *err);

/* STK_SHAPE where a tensor of `count` objects stands beside one of `wanted`; -1 is unknown and fits. */
enum stk_status stk__objects_same(const char *what, int64_t count, int64_t wanted, struct stk_error *err);

/* STK_INVALID unless it is float32 or float64. */
enum stk_status stk__objects_float(const struct stk_desc *desc, const char *what, struct stk_error *err);

/* The values of input k as double, in scratch of the sample. */
enum stk_status stk__objects_values(const struct stk_call *call, int32_t k, const double **out, struct stk_error *err);

/* Height and width, the first two values of input k: a size (h, w), or the shape of an image. */
enum stk_status stk__objects_size(const struct stk_call *call, int32_t k, double hw[2], struct stk_error *err);
/* The same of its desc: STK_SHAPE unless it is a vector of at least two values. */
enum stk_status stk__objects_size_check(const struct stk_desc *desc, struct stk_error *err);

/* from lo to hi, hi itself left out; lo where they are equal. Always one draw. */
double stk__draw_between(struct stk_random *r, float lo, float hi);

#define STK_OBJECTS_SEED(S)                                                                                                                \
	STK_ARG(S, seed, STK_ARG_INT, "-1", STK_FREE, 0,                                                                                   \
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed.")

#endif
