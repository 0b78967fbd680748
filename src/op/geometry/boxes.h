/* SPDX-License-Identifier: Apache-2.0
 * What operators on boxes share: float32, four values a box. */
#ifndef STK_OP_GEOMETRY_BOXES_H
#define STK_OP_GEOMETRY_BOXES_H

#include "op/dims.h"

/* Four values a box, one after the other, in any number of dims. */
enum stk_status stk__boxes_check(const struct stk_desc *desc, struct stk_error *err);

/* The same as a tensor of shape (number, 4). */
enum stk_status stk__boxes_check_rows(const struct stk_desc *desc, struct stk_error *err);

#endif
