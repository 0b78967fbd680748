/* SPDX-License-Identifier: Apache-2.0
 * The table of functions by name, and the promotion of types. */
#include "op/tensor/arithmetic.h"

#include <string.h>

static const struct stk_arith table[] = {
#define ROW(name, kind, n)                                                                                                                 \
	{                                                                                                                                  \
#name, STK_ARITH_##kind, STK_ARITH_OP_##name, n                                                                            \
	}
#define BINARY(name, kind, whole, real) ROW(name, kind, 2),
#define UNARY(name, kind, whole, real) ROW(name, kind, 1),
#include "kernel/arithmetic/arithmetic_ops.h"
};

const struct stk_arith *stk__arith_find(const char *name)
{
	size_t low = 0, high = sizeof table / sizeof *table;
	while (low < high) { /* arithmetic_ops.h is sorted */
		size_t middle = (low + high) / 2;
		int order = strcmp(table[middle].name, name);
		if (order == 0)
			return &table[middle];
		low = order < 0 ? middle + 1 : low;
		high = order < 0 ? high : middle;
	}
	return NULL;
}

static bool is_float(enum stk_dtype t)
{
	return t == STK_FLOAT16 || t == STK_BFLOAT16 || t == STK_FLOAT || t == STK_FLOAT64;
}

static bool is_unsigned(enum stk_dtype t)
{
	return t == STK_UINT8 || t == STK_UINT16 || t == STK_UINT32 || t == STK_UINT64;
}

static enum stk_dtype signed_of(size_t bytes)
{
	return bytes == 1 ? STK_INT8 : bytes == 2 ? STK_INT16 : bytes == 4 ? STK_INT32 : STK_INT64;
}

enum stk_dtype stk__arith_promote(enum stk_dtype a, enum stk_dtype b)
{
	if (a == b || b == STK_BOOL)
		return a;
	if (a == STK_BOOL)
		return b;
	size_t sa = stk_dtype_size(a), sb = stk_dtype_size(b);
	if (is_float(a) != is_float(b))
		return is_float(a) ? a : b;
	if (is_float(a))
		return sa == sb ? STK_FLOAT : sa > sb ? a : b;
	if (is_unsigned(a) == is_unsigned(b))
		return sa > sb ? a : b;
	size_t with_sign = is_unsigned(a) ? sb : sa, without = is_unsigned(a) ? sa : sb;
	return signed_of(without < with_sign ? with_sign : without >= 4 ? 8 : 2 * without);
}
