/* SPDX-License-Identifier: Apache-2.0
 * The functions of element-wise arithmetic, one per line, sorted. A result is computed as int64, as uint64 (if the operands have that type) or as double.
 *     BINARY(name, kind, expression for integers, expression for doubles)     function of a and b
 *     UNARY(name, kind, expression for integers, expression for doubles)      function of a
 * An expression is NONE if the function is not defined for integers, or for doubles. In the expressions for integers, T is int64_t or uint64_t. Integer results
 * wrap around to the range of their type. kind determines the type of the result:
 *     SAME     the type to which the operands are promoted; the function is not defined if all operands are bools
 *     ANY      the type to which the operands are promoted
 *     BITS     the type to which the operands are promoted; the function is defined only for integers and bools
 *     BOOLEAN  bool
 *     REAL     the type to which the operands are promoted, or float32 if that is an integer type; the function is not defined if all operands are bools */
#ifndef BINARY
#define BINARY(name, kind, whole, real)
#endif
#ifndef UNARY
#define UNARY(name, kind, whole, real)
#endif

UNARY(abs, SAME, a < 0 ? (T)(0 - (uint64_t)a) : a, fabs(a))
UNARY(acos, REAL, NONE, acos(a))
UNARY(acosh, REAL, NONE, acosh(a))
BINARY(add, SAME, (T)((uint64_t)a + (uint64_t)b), a + b)
UNARY(asin, REAL, NONE, asin(a))
UNARY(asinh, REAL, NONE, asinh(a))
UNARY(atan, REAL, NONE, atan(a))
BINARY(atan2, REAL, NONE, atan2(a, b))
UNARY(atanh, REAL, NONE, atanh(a))
BINARY(bitand, BITS, (a & b), NONE)
UNARY(bitnot, BITS, ~a, NONE)
BINARY(bitor, BITS, a | b, NONE)
BINARY(bitxor, BITS, a ^ b, NONE)
UNARY(cbrt, REAL, NONE, cbrt(a))
UNARY(ceil, REAL, NONE, ceil(a))
UNARY(cos, REAL, NONE, stk__math_cos(a))
UNARY(cosh, REAL, NONE, (stk__math_exp(a) + stk__math_exp(-a)) / 2)
BINARY(div, SAME, b == (T)-1 && (T)-1 < 0 ? (T)(0 - (uint64_t)a) : a / b, a / b)
BINARY(eq, BOOLEAN, a == b, a == b)
UNARY(exp, REAL, NONE, stk__math_exp(a))
UNARY(fabs, REAL, NONE, fabs(a))
BINARY(fdiv, REAL, NONE, a / b)
UNARY(floor, REAL, NONE, floor(a))
BINARY(fpow, REAL, NONE, stk__math_pow(a, b))
BINARY(ge, BOOLEAN, a >= b, a >= b)
BINARY(gt, BOOLEAN, a > b, a > b)
BINARY(le, BOOLEAN, a <= b, a <= b)
UNARY(log, REAL, NONE, stk__math_log(a))
UNARY(log10, REAL, NONE, stk__math_log(a) * 0.43429448190325182765)
UNARY(log2, REAL, NONE, stk__math_log(a) * 1.4426950408889634074)
BINARY(lt, BOOLEAN, a < b, a < b)
BINARY(max, ANY, a > b ? a : b, a > b || a != a ? a : b)
BINARY(min, ANY, a < b ? a : b, a < b || a != a ? a : b)
BINARY(mod, SAME, b == (T)-1 && (T)-1 < 0 ? 0 : a % b, fmod(a, b))
BINARY(mul, ANY, (T)((uint64_t)a *(uint64_t)b), (a * b))
BINARY(ne, BOOLEAN, a != b, a != b)
UNARY(neg, SAME, (T)(0 - (uint64_t)a), -a)
UNARY(not, BOOLEAN, a == 0, a == 0)
UNARY(pos, ANY, a, a)
BINARY(pow, SAME, (T)stk__whole_power((uint64_t)a, (T)-1 < 0, (int64_t)b), stk__math_pow(a, b))
UNARY(rsqrt, REAL, NONE, 1 / sqrt(a))
BINARY(shl, BITS, (uint64_t)b < 64 ? (T)((uint64_t)a << b) : 0, NONE)
BINARY(shr, BITS, (uint64_t)b < 64 ? a >> b : a < 0 ? (T)-1 : 0, NONE)
UNARY(sin, REAL, NONE, stk__math_sin(a))
UNARY(sinh, REAL, NONE, sinh(a))
UNARY(sqrt, REAL, NONE, sqrt(a))
BINARY(sub, SAME, (T)((uint64_t)a - (uint64_t)b), a - b)
UNARY(tan, REAL, NONE, stk__math_sin(a) / stk__math_cos(a))
UNARY(tanh, REAL, NONE, tanh(a))

#undef BINARY
#undef UNARY
