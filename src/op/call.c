/* SPDX-License-Identifier: Apache-2.0
 * Helpers that operators call with their struct stk_call. */
#include "op/op.h"

void *stk__gathered_take(struct stk_gathered *g, size_t size)
{
	if (size > g->capacity) {
		stk__free(g->data);
		g->data = stk__alloc(size);
		g->capacity = g->data ? size : 0;
	}
	return g->data;
}

bool stk__varies(const struct stk_call *call, const void *field)
{
	size_t offset = (size_t)((const char *)field - (const char *)call->args);
	for (int32_t i = 0; i < call->n_varying; i++)
		if (call->varying[i] == offset)
			return true;
	return false;
}
