/* SPDX-License-Identifier: Apache-2.0
 * Shared by cat and stack, which join tensors of equal type and extents; cat allows other extents in the dim that it joins. */
#ifndef STK_OP_TENSOR_JOIN_H
#define STK_OP_TENSOR_JOIN_H

#include "op/dims.h"

/* Fails unless all inputs have the first input's type, number of dims and extents. Does not compare the extents in dim `except` (-1: compares all), nor types,
 * numbers and extents that are not known yet. */
enum stk_status stk__join_check(const struct stk_call *call, int32_t except, struct stk_error *err);

/* Returns true if the numbers of dims of all inputs are known. */
bool stk__join_known(const struct stk_call *call);

/* Returns the extent of dim d, which is the same in all inputs, from an input for which it is known; -1: it is not known for any input yet. */
int64_t stk__join_extent(const struct stk_call *call, int32_t d);

/* Returns STK_INVALID unless name is one letter. NULL: the user gave no name, which is valid. */
enum stk_status stk__check_axis_name(const char *name, struct stk_error *err);

#endif
