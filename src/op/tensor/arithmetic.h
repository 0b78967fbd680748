/* SPDX-License-Identifier: Apache-2.0
 * Element-wise functions of one or two numbers, and DALI's promotion of types. */
#ifndef STK_OP_ARITHMETIC_H
#define STK_OP_ARITHMETIC_H

#include "kernel/arithmetic/arithmetic.h"
#include "stoker/tensor.h"

/* The types that a function takes and returns. The operands are first converted to their common type, which is the type of the result, except: BOOLEAN returns
 * bool, and REAL returns float32 for whole numbers. SAME and REAL do not take bool, and BITS does not take floats. */
enum stk_arith_kind { STK_ARITH_SAME, STK_ARITH_ANY, STK_ARITH_BITS, STK_ARITH_BOOLEAN, STK_ARITH_REAL };

struct stk_arith {
	const char *name;
	enum stk_arith_kind kind;
	enum stk_arith_op op;
	int operands;
};

const struct stk_arith *stk__arith_find(const char *name);

/* Returns the type to which two operands are converted. A float wins over whole numbers; of two floats the wider wins, and float16 with bfloat16 makes
 * float32. Of two whole numbers the wider wins; a signed one with an unsigned one of the same size or more makes the signed type of twice the unsigned one's
 * size, at most int64. bool gives way to any other type. */
enum stk_dtype stk__arith_promote(enum stk_dtype a, enum stk_dtype b);

#endif
