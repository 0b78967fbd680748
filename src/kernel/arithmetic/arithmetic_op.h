/* SPDX-License-Identifier: Apache-2.0
 * Element-wise functions of one or two numbers, in C and CUDA. */
#ifndef STK_KERNEL_ARITHMETIC_OP_H
#define STK_KERNEL_ARITHMETIC_OP_H

#include "base/math_hd.h"

/* The C type in which values are computed. */
enum stk_arith_domain { STK_ARITH_INT64, STK_ARITH_UINT64, STK_ARITH_DOUBLE, STK_ARITH_DOMAINS };

/* Numbers of the functions in arithmetic_ops.h: STK_ARITH_OP_add, ... */
enum stk_arith_op {
#define BINARY(name, kind, whole, real) STK_ARITH_OP_##name,
#define UNARY(name, kind, whole, real) STK_ARITH_OP_##name,
#include "kernel/arithmetic/arithmetic_ops.h"
	STK_ARITH_OPS
};

/* Returns a^e, wrapping around. For signed types and negative exponents returns 0, even for 1 and -1, as in DALI. */
STK_HD uint64_t stk__whole_power(uint64_t a, bool is_signed, int64_t e)
{
	if (e < 0 && is_signed)
		return 0;
	uint64_t r = 1;
	for (uint64_t bits = (uint64_t)e; bits; bits >>= 1) {
		if (bits & 1)
			r *= a;
		a *= a;
	}
	return r;
}

/* Suppresses warnings about comparisons of unsigned numbers with 0. */
#ifdef __CUDACC__
#pragma nv_diag_suppress 186
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"

/* stk__arith_int64, stk__arith_uint64 and stk__arith_double return the result of `op` on a and b, computed in the type in their name. `op` must be defined for
 * this type (see arithmetic_ops.h). For div and mod of integers, b must not be 0. */
#define NONE 0
#define BINARY(name, kind, whole, real)                                                                                                    \
	case STK_ARITH_OP_##name:                                                                                                          \
		return (T)(whole);
#define UNARY BINARY
STK_HD int64_t stk__arith_int64(int op, int64_t a, int64_t b)
{
	typedef int64_t T;
	switch (op) {
#include "kernel/arithmetic/arithmetic_ops.h"
	}
	return 0;
}

#define BINARY(name, kind, whole, real)                                                                                                    \
	case STK_ARITH_OP_##name:                                                                                                          \
		return (T)(whole);
#define UNARY BINARY
STK_HD uint64_t stk__arith_uint64(int op, uint64_t a, uint64_t b)
{
	typedef uint64_t T;
	switch (op) {
#include "kernel/arithmetic/arithmetic_ops.h"
	}
	return 0;
}

#define BINARY(name, kind, whole, real)                                                                                                    \
	case STK_ARITH_OP_##name:                                                                                                          \
		return real;
#define UNARY BINARY
STK_HD double stk__arith_double(int op, double a, double b)
{
	switch (op) {
#include "kernel/arithmetic/arithmetic_ops.h"
	}
	return 0;
}
#undef NONE

#pragma GCC diagnostic pop
#ifdef __CUDACC__
#pragma nv_diag_default 186
#endif

#endif
