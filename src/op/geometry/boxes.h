/* SPDX-License-Identifier: Apache-2.0
 * Shared by operators on boxes, which are float32 with four values a box. */
#ifndef STK_OP_GEOMETRY_BOXES_H
#define STK_OP_GEOMETRY_BOXES_H

#include "op/dims.h"

/* Fails unless the tensor holds four values for each box, one box after the other, in one dim or more. */
enum stk_status stk__boxes_check(const struct stk_desc *desc, struct stk_error *err);

/* Fails unless the tensor holds boxes and has the shape (number, 4). */
enum stk_status stk__boxes_check_rows(const struct stk_desc *desc, struct stk_error *err);

#endif
