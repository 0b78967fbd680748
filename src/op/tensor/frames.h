/* SPDX-License-Identifier: Apache-2.0
 * Shared by operators on sequences: frames lie along the outermost dim. */
#ifndef STK_OP_TENSOR_FRAMES_H
#define STK_OP_TENSOR_FRAMES_H

#include "op/dims.h"

/* Fails unless the tensor is a sequence: it has two dims or more, and its layout, if it has one, begins with F. A desc that is not known yet is accepted. */
enum stk_status stk__check_frames(const struct stk_desc *desc, struct stk_error *err);

/* Returns STK_SHAPE if `frame` is negative, or is not below the sequence's number of frames. If this number is not known yet, only negative ones fail. */
enum stk_status stk__check_frame(const struct stk_desc *desc, int64_t frame, struct stk_error *err);

#endif
