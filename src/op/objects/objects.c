/* SPDX-License-Identifier: Apache-2.0 */
#include "op/objects/objects.h"

#include "kernel/convert/convert.h"

enum stk_status stk__objects_check(const struct stk_desc *desc, const char *what, int32_t ndim, int64_t last, struct stk_error *err)
{
	if (desc->ndim < 0)
		return STK_OK;
	if (desc->ndim != ndim)
		return stk__fail(err, STK_SHAPE, "%s must be a tensor of %d dims; this one has %d", what, ndim, desc->ndim);
	int64_t extent = ndim > 0 ? desc->shape[ndim - 1] : -1;
	if (last >= 0 && extent >= 0 && extent != last)
		return stk__fail(err, STK_SHAPE, "%s must have %lld values each, in the last dim; these have %lld", what, (long long)last,
			(long long)extent);
	return STK_OK;
}

enum stk_status stk__objects_column(const struct stk_desc *desc, const char *what, int64_t *count, struct stk_error *err)
{
	*count = 1;
	if (desc->ndim < 0) {
		*count = -1;
		return STK_OK;
	}
	int32_t longer = 0;
	for (int32_t d = 0; d < desc->ndim; d++) {
		longer += desc->shape[d] >= 0 && desc->shape[d] != 1;
		if (desc->shape[d] < 0)
			*count = -1;
		else if (*count >= 0 &&
			 desc->shape[d] != 1) /* if there are two such extents, the check below fails, so they are not multiplied: the
		                                              * product could overflow */
			*count = desc->shape[d];
	}
	if (desc->ndim < 1 || longer > 1)
		return stk__fail(err, STK_SHAPE,
			"%s: there must be one value for each object; this tensor has %d dims, of which %d have extents other than 1", what,
			desc->ndim, longer);
	return STK_OK;
}

enum stk_status stk__objects_same(const char *what, int64_t count, int64_t wanted, struct stk_error *err)
{
	if (count >= 0 && wanted >= 0 && count != wanted)
		return stk__fail(err, STK_SHAPE, "%s: there are %lld for %lld objects", what, (long long)count, (long long)wanted);
	return STK_OK;
}

enum stk_status stk__objects_float(const struct stk_desc *desc, const char *what, struct stk_error *err)
{
	if (desc->dtype == STK_NO_DTYPE || desc->dtype == STK_FLOAT || desc->dtype == STK_FLOAT64)
		return STK_OK;
	return stk__fail(err, STK_UNSUPPORTED, "%s are float32 or float64, not %s; cast them", what, stk_dtype_name(desc->dtype));
}

enum stk_status stk__objects_values(const struct stk_call *call, int32_t k, const double **out, struct stk_error *err)
{
	const struct stk_tensor *t = &call->in[k];
	int64_t n = stk_desc_elements(&t->desc);
	double *values = stk__arena_take(call->tools->arena, ((size_t)n + 1) * sizeof *values);
	if (!values)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld values", (long long)n);
	stk__convert(values, STK_FLOAT64, t->data, t->desc.dtype, n);
	*out = values;
	return STK_OK;
}

enum stk_status stk__objects_size_check(const struct stk_desc *desc, struct stk_error *err)
{
	if (desc->ndim >= 0 && (desc->ndim != 1 || (desc->shape[0] >= 0 && desc->shape[0] < 2)))
		return stk__fail(err, STK_SHAPE,
			"the size of an image is a vector that begins with height and width; this tensor has %d dim%s", desc->ndim,
			desc->ndim == 1 ? "" : "s");
	return STK_OK;
}

enum stk_status stk__objects_size(const struct stk_call *call, int32_t k, double hw[2], struct stk_error *err)
{
	stk__convert(hw, STK_FLOAT64, call->in[k].data, call->in[k].desc.dtype, 2);
	if (!(hw[0] > 0 && hw[1] > 0 && hw[0] < 0x1p28 && hw[1] < 0x1p28))
		return stk__fail(err, STK_SHAPE, "the size of an image is %g x %g (height x width)", hw[0], hw[1]);
	return STK_OK;
}

double stk__draw_between(struct stk_random *r, float lo, float hi)
{
	return lo + ((double)hi - lo) * (double)stk__random_float(r);
}
