/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/boxes.h"

static enum stk_status check_type(const struct stk_desc *d, struct stk_error *err)
{
	if (d->dtype != STK_NO_DTYPE && d->dtype != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "boxes must be of float32, not %s; cast them", stk_dtype_name(d->dtype));
	return STK_OK;
}

enum stk_status stk__boxes_check(const struct stk_desc *d, struct stk_error *err)
{
	enum stk_status s = check_type(d, err);
	int64_t n = d->ndim < 0 ? 0 : stk_desc_elements(d);
	if (!s && n >= 0 && (n % 4 || d->ndim == 0))
		return stk__fail(err, STK_SHAPE, "boxes have four values each, and this tensor has %lld: give one box a row", (long long)n);
	return s;
}

enum stk_status stk__boxes_check_rows(const struct stk_desc *d, struct stk_error *err)
{
	enum stk_status s = check_type(d, err);
	if (!s && d->ndim >= 0 && (d->ndim != 2 || (d->shape[1] >= 0 && d->shape[1] != 4)))
		return stk__fail(err, STK_SHAPE, "boxes must be a tensor of shape (number, 4), not of %d dim%s with %lld values", d->ndim,
			d->ndim == 1 ? "" : "s", (long long)stk_desc_elements(d));
	return s;
}
