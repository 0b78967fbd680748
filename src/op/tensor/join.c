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

static enum stk_status check_extents(
	const struct stk_desc *first, int32_t a, const struct stk_desc *other, int32_t b, int32_t except, struct stk_error *err)
{
	if (first->ndim < 0 || other->ndim < 0)
		return STK_OK;
	if (other->ndim != first->ndim)
		return stk__fail(err, STK_SHAPE, "inputs %d and %d have %d and %d dims", a, b, first->ndim, other->ndim);
	for (int32_t k = 0; k < first->ndim; k++)
		if (k != except && other->shape[k] >= 0 && first->shape[k] >= 0 && other->shape[k] != first->shape[k])
			return stk__fail(err, STK_SHAPE, "inputs %d and %d have extents %lld and %lld in dim %d", a, b,
				(long long)first->shape[k], (long long)other->shape[k], k);
	return STK_OK;
}

enum stk_status stk__join_check(const struct stk_call *call, int32_t except, struct stk_error *err)
{
	int32_t typed = -1, shaped = -1;
	for (int32_t i = 0; i < call->n_in; i++) {
		const struct stk_desc *d = &call->in[i].desc;
		if (d->dtype != STK_NO_DTYPE && typed >= 0 && d->dtype != call->in[typed].desc.dtype)
			return stk__fail(err, STK_INVALID, "inputs %d and %d have the types %s and %s; cast one", typed, i,
				stk_dtype_name(call->in[typed].desc.dtype), stk_dtype_name(d->dtype));
		enum stk_status s = shaped < 0 ? STK_OK : check_extents(&call->in[shaped].desc, shaped, d, i, except, err);
		if (s)
			return s;
		typed = typed < 0 && d->dtype != STK_NO_DTYPE ? i : typed;
		shaped = shaped < 0 && d->ndim >= 0 ? i : shaped;
	}
	return STK_OK;
}

enum stk_status stk__check_axis_name(const char *name, struct stk_error *err)
{
	if (!name || strlen(name) == 1)
		return STK_OK;
	return stk__fail(err, STK_INVALID, "axis_name is one letter of a layout, not \"%s\"", name);
}

enum stk_status stk__join_lower_array(const struct stk_call *call, int64_t count, struct stk_array_jobs *jobs, struct stk_error *err)
{
	int64_t elements = stk_desc_elements(&call->out[0].desc);
	if (elements == 0)
		return STK_OK;
	struct stk_array_rows rows = {.count = count, .stride = elements / count};
	enum stk_status s = STK_OK;
	for (int32_t i = 0; i < call->n_in && s == STK_OK; i++, rows.first += rows.length) {
		rows.length = stk_desc_elements(&call->in[i].desc) / count;
		if (rows.length)
			s = stk__array_copy_rows(jobs, &call->in[i], &call->out[0], &rows, err);
	}
	return s;
}
