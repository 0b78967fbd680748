/* SPDX-License-Identifier: Apache-2.0
 * Shared by operators on sequences: frames lie along the outermost dim. */
#ifndef STK_OP_TENSOR_FRAMES_H
#define STK_OP_TENSOR_FRAMES_H

#include "op/dims.h"

/* Fails unless the tensor is a sequence: it has two dims or more, and its layout, if it has one, begins with F. Unknown descs pass. */
enum stk_status stk__check_frames(const struct stk_desc *desc, struct stk_error *err);

/* Returns STK_SHAPE unless the sequence has this frame. */
enum stk_status stk__check_frame(const struct stk_desc *desc, int64_t frame, struct stk_error *err);

#endif
