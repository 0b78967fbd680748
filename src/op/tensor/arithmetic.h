/* SPDX-License-Identifier: Apache-2.0
 * Element-wise functions of one or two numbers, and DALI's promotion of types. */
#ifndef STK_OP_ARITHMETIC_H
#define STK_OP_ARITHMETIC_H

#include "kernel/arithmetic/arithmetic.h"
#include "stoker/tensor.h"

/* The types that a function takes and returns. The operands are first converted to their common type (stk__arith_promote). BOOLEAN returns bool, REAL returns
 * float32 for whole numbers; otherwise the result has the common type. SAME and REAL do not take bool, and BITS does not take floats. */
enum stk_arith_kind { STK_ARITH_SAME, STK_ARITH_ANY, STK_ARITH_BITS, STK_ARITH_BOOLEAN, STK_ARITH_REAL };

struct stk_arith {
	const char *name;
	enum stk_arith_kind kind;
	enum stk_arith_op op;
	int operands;
};

const struct stk_arith *stk__arith_find(const char *name); /* NULL: there is no such function */

/* Returns the type to which two operands are converted. A float type with whole numbers: the float type. Two float types: the wider; float16 with bfloat16:
 * float32. Two integer types: the wider; a signed type with an unsigned type of the same size or larger: the signed type of twice the unsigned type's size, at
 * most int64. bool with another type: the other type. */
enum stk_dtype stk__arith_promote(enum stk_dtype a, enum stk_dtype b);

#endif
