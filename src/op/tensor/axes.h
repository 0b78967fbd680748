/* SPDX-License-Identifier: Apache-2.0
 * Axes of tensors of any kind, as numbers or by name. */
#ifndef STK_OP_TENSOR_AXES_H
#define STK_OP_TENSOR_AXES_H

#include "op/geometry/slice_args.h"

/* Sets in *named one bit for each dim that `axes` or `names` lists. Fails for names if the tensor has no layout: unlike in operators on images, none is
 * assumed. */
enum stk_status stk__axes_named(
	struct stk_ints axes, const char *names, const struct stk_desc *desc, uint32_t *named, struct stk_error *err);

#endif
