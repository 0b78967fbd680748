/* SPDX-License-Identifier: Apache-2.0
 * What operators on sequences share: frames lie along the outermost dim. */
#ifndef STK_OP_TENSOR_FRAMES_H
#define STK_OP_TENSOR_FRAMES_H

#include "op/dims.h"

/* An error unless the tensor is a sequence: of two dims or more, whose layout begins with F where it has one. Unknown ones pass. */
enum stk_status stk__check_frames(const struct stk_desc *desc, struct stk_error *err);

/* STK_SHAPE unless the sequence has this frame. */
enum stk_status stk__check_frame(const struct stk_desc *desc, int64_t frame, struct stk_error *err);

#endif
