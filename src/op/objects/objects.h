/* SPDX-License-Identifier: Apache-2.0
 * Shared by operators on the objects of a sample: points, boxes, matrices and masks, as small tensors of any number type. */
#ifndef STK_OP_OBJECTS_H
#define STK_OP_OBJECTS_H

#include "op/dims.h"

/* Returns STK_SHAPE unless the tensor has `ndim` dims and its last extent is `last` (-1: any). what: name of the objects for the message, such as "boxes".
 * Extents that are not known yet are accepted. */
enum stk_status stk__objects_check(const struct stk_desc *desc, const char *what, int32_t ndim, int64_t last, struct stk_error *err);

/* Returns STK_SHAPE unless the tensor has one value for each object: all extents but one are 1. Sets *count to the number of objects, or to -1 if it is not
 * known yet. */
enum stk_status stk__objects_column(const struct stk_desc *desc, const char *what, int64_t *count, struct stk_error *err);

/* Returns STK_SHAPE unless count and wanted, the numbers of objects of two tensors, are equal; -1 (not known yet) equals any number. */
enum stk_status stk__objects_same(const char *what, int64_t count, int64_t wanted, struct stk_error *err);

/* Returns STK_UNSUPPORTED unless the type is float32 or float64, or not known yet. */
enum stk_status stk__objects_float(const struct stk_desc *desc, const char *what, struct stk_error *err);

/* Sets *out to the values of input k as doubles, in the sample's scratch memory. */
enum stk_status stk__objects_values(const struct stk_call *call, int32_t k, const double **out, struct stk_error *err);

/* Reads height and width, the first two values of input k: a size (h, w), or the shape of an image. STK_SHAPE unless both are above 0 and below 2^28. */
enum stk_status stk__objects_size(const struct stk_call *call, int32_t k, double hw[2], struct stk_error *err);
/* Checks the desc of an input for stk__objects_size: returns STK_SHAPE unless it is a vector of at least two values. Returns STK_OK if the shape is not known
 * yet. */
enum stk_status stk__objects_size_check(const struct stk_desc *desc, struct stk_error *err);

/* Draws a number from lo up to, but not including, hi; returns lo if they are equal. Always takes one draw. */
double stk__draw_between(struct stk_random *r, float lo, float hi);

#define STK_OBJECTS_SEED(S)                                                                                                                \
	STK_ARG(S, seed, STK_ARG_INT, "-1", STK_FREE, 0,                                                                                   \
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed.")

#endif
