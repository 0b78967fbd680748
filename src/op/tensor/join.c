/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tensor/join.h"

#include <string.h>

bool stk__join_known(const struct stk_call *call)
{
	for (int32_t i = 0; i < call->n_in; i++)
		if (call->in[i].desc.ndim < 0)
			return false;
	return true;
}

int64_t stk__join_extent(const struct stk_call *call, int32_t d)
{
	for (int32_t i = 0; i < call->n_in; i++)
		if (call->in[i].desc.shape[d] >= 0)
			return call->in[i].desc.shape[d];
	return -1;
}

enum stk_status stk__join_check(const struct stk_call *call, int32_t except, struct stk_error *err)
{
	const struct stk_desc *first = &call->in[0].desc;
	for (int32_t i = 1; i < call->n_in; i++) {
		const struct stk_desc *d = &call->in[i].desc;
		if (d->dtype != first->dtype && d->dtype != STK_NO_DTYPE && first->dtype != STK_NO_DTYPE)
			return stk__fail(err, STK_INVALID, "inputs 0 and %d have the types %s and %s; cast one", i,
				stk_dtype_name(first->dtype), stk_dtype_name(d->dtype));
		if (d->ndim != first->ndim && d->ndim >= 0 && first->ndim >= 0)
			return stk__fail(err, STK_SHAPE, "inputs 0 and %d have %d and %d dims", i, first->ndim, d->ndim);
		for (int32_t k = 0; d->ndim >= 0 && k < first->ndim; k++)
			if (d->shape[k] != first->shape[k] && k != except && d->shape[k] >= 0 && first->shape[k] >= 0)
				return stk__fail(err, STK_SHAPE, "inputs 0 and %d have extents %lld and %lld in dim %d", i,
					(long long)first->shape[k], (long long)d->shape[k], k);
	}
	return STK_OK;
}

enum stk_status stk__check_axis_name(const char *name, struct stk_error *err)
{
	if (!name || strlen(name) == 1)
		return STK_OK;
	return stk__fail(err, STK_INVALID, "axis_name is one letter of a layout, not \"%s\"", name);
}
