/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/image.h"

static const struct {
	size_t bytes;
	const char *name;
} dtypes[] = {
#define DTYPE_ROW(name, value, bytes, text) [value] = {bytes, text},
	STK_DTYPE_LIST(DTYPE_ROW) STK_ENUMERATION_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

static bool known(enum stk_dtype dtype)
{
	return dtype >= 0 && (size_t)dtype < sizeof dtypes / sizeof *dtypes && dtypes[dtype].name;
}

size_t stk_dtype_size(enum stk_dtype dtype)
{
	return known(dtype) ? dtypes[dtype].bytes : 0;
}

const char *stk_dtype_name(enum stk_dtype dtype)
{
	return known(dtype) ? dtypes[dtype].name : "?";
}

int64_t stk_desc_elements(const struct stk_desc *desc)
{
	if (!desc || desc->ndim < 0 || desc->ndim > STK_MAX_DIMS)
		return -1;
	int64_t n = 1;
	for (int d = 0; d < desc->ndim; d++)
		if (desc->shape[d] < 0 || __builtin_mul_overflow(n, desc->shape[d], &n))
			return -1;
	return n;
}

int64_t stk_desc_bytes(const struct stk_desc *desc)
{
	int64_t n = stk_desc_elements(desc);
	if (n < 0 || __builtin_mul_overflow(n, (int64_t)stk_dtype_size(desc->dtype), &n))
		return -1;
	return n;
}

bool stk__dtype_in_float(enum stk_dtype dtype)
{
	switch (dtype) {
	case STK_UINT8:
	case STK_INT8:
	case STK_UINT16:
	case STK_INT16:
	case STK_FLOAT16:
	case STK_BFLOAT16:
	case STK_FLOAT:
	case STK_BOOL:
		return true;
	default:
		return false;
	}
}
