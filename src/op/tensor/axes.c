/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tensor/axes.h"

enum stk_status stk__axes_named(
	struct stk_ints axes, const char *names, const struct stk_desc *desc, uint32_t *named, struct stk_error *err)
{
	int32_t found[STK_MAX_DIMS];
	*named = 0;
	if (axes.count < 0 && names && names[0] && !desc->layout[0])
		return stk__fail(err, STK_INVALID, "axis_names \"%s\" need a layout, and the input has none; axes takes numbers", names);
	int32_t n = stk__axes_of(axes, names, desc, found, err);
	for (int32_t i = 0; i < n; i++)
		*named |= 1u << found[i];
	return n < 0 ? (enum stk_status) - n : STK_OK;
}
