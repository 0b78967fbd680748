/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tensor/batch_table.h"

enum stk_status stk__batch_table_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err)
{
	struct stk_tensor *table = stk__gathered_take(out, (size_t)calls[0].batch * sizeof *table);
	if (!table)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a table of %d samples", calls[0].batch);
	for (int32_t i = 0; i < calls[0].batch; i++)
		table[i].desc.ndim = -1;
	for (int32_t i = 0; i < count; i++)
		table[calls[i].index] = calls[i].in[0];
	return STK_OK;
}

const struct stk_tensor *stk__batch_table_at(const struct stk_call *call, int32_t index)
{
	const struct stk_tensor *t = (const struct stk_tensor *)call->gathered + index;
	return t->desc.ndim < 0 ? NULL : t;
}
