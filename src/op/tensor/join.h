/* SPDX-License-Identifier: Apache-2.0
 * What cat and stack share: tensors alike, written side by side. */
#ifndef STK_OP_TENSOR_JOIN_H
#define STK_OP_TENSOR_JOIN_H

#include "op/dims.h"

/* An error unless all inputs have the type, number of dims and, but for dim `except` (-1: none), extents of the first. What is not known yet passes. */
enum stk_status stk__join_check(const struct stk_call *call, int32_t except, struct stk_error *err);

/* While a graph is built: whether the number of dims of each input is known. */
bool stk__join_known(const struct stk_call *call);

/* The extent of dim d, known from any input; -1: from none. */
int64_t stk__join_extent(const struct stk_call *call, int32_t d);

/* STK_INVALID unless name is one letter. NULL: not given, which passes. */
enum stk_status stk__check_axis_name(const char *name, struct stk_error *err);

#endif
