/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tensor/frames.h"

enum stk_status stk__check_frames(const struct stk_desc *desc, struct stk_error *err)
{
	if (desc->ndim >= 0 && desc->ndim < 2)
		return stk__fail(err, STK_SHAPE, "a sequence must have two dims or more; this tensor has %d", desc->ndim);
	if (desc->layout[0] && desc->layout[0] != 'F')
		return stk__fail(err, STK_SHAPE, "the layout of a sequence must begin with F; this one is \"%s\"", desc->layout);
	return STK_OK;
}

enum stk_status stk__check_frame(const struct stk_desc *desc, int64_t frame, struct stk_error *err)
{
	if (frame >= 0 && (desc->ndim < 0 || desc->shape[0] < 0 || frame < desc->shape[0]))
		return STK_OK;
	return stk__fail(
		err, STK_SHAPE, "element %lld is out of range for a sequence of %lld", (long long)frame, (long long)desc->shape[0]);
}
