/* SPDX-License-Identifier: Apache-2.0
 * The loops behind kernel/array/arithmetic_ops.h. Those that call libm (the inverse and some hyperbolic functions) may differ between machines in a last bit. */
#include "op/arithmetic.h"

#include <math.h>
#include <string.h>

#define LOOP(symbol, type, second, expression)                                                                                             \
	static void symbol(void *rv, const void *av, const void *bv, int n)                                                                \
	{                                                                                                                                  \
		typedef type T;                                                                                                            \
		T *r = rv;                                                                                                                 \
		const T *as = av, *bs = second ? bv : av;                                                                                  \
		for (int i = 0; i < n; i++) {                                                                                              \
			T a = as[i], b = bs[i];                                                                                            \
			(void)a, (void)b;                                                                                                  \
			r[i] = (T)(expression);                                                                                            \
		}                                                                                                                          \
	}

/* NONE makes a loop that nobody is given: the table below has NULL there. */
#define NONE 0
#define BINARY(name, kind, whole, real)                                                                                                    \
	LOOP(name##_i, int64_t, 1, whole)                                                                                                  \
	LOOP(name##_u, uint64_t, 1, whole)                                                                                                 \
	LOOP(name##_f, double, 1, real)
#define UNARY(name, kind, whole, real)                                                                                                     \
	LOOP(name##_i, int64_t, 0, whole)                                                                                                  \
	LOOP(name##_u, uint64_t, 0, whole)                                                                                                 \
	LOOP(name##_f, double, 0, real)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
#include "kernel/array/arithmetic_ops.h"
#pragma GCC diagnostic pop
#undef NONE

static const struct stk_arith table[] = {
#define WHOLE(kind) (STK_ARITH_##kind != STK_ARITH_REAL)
#define FRACTION(kind) (STK_ARITH_##kind != STK_ARITH_BITS)
#define ROW(name, kind, n)                                                                                                                 \
	{                                                                                                                                  \
#name, STK_ARITH_##kind, STK_ARITH_OP_##name, n,                                                                           \
		{                                                                                                                          \
			WHOLE(kind) ? name##_i : NULL, WHOLE(kind) ? name##_u : NULL, FRACTION(kind) ? name##_f : NULL                     \
		}                                                                                                                          \
	}
#define BINARY(name, kind, whole, real) ROW(name, kind, 2),
#define UNARY(name, kind, whole, real) ROW(name, kind, 1),
#include "kernel/array/arithmetic_ops.h"
};

const struct stk_arith *stk__arith_find(const char *name)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
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
