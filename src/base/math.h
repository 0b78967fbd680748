/* SPDX-License-Identifier: Apache-2.0
 * Computes mathematical functions with the same bits on every machine. Their results determine pixels, window functions and random draws, and libm's results
 * differ between versions and processors. These functions use only IEEE arithmetic and exact functions such as floor, and their error is at most about 1 ulp
 * (tests compare with libm's). IEEE prescribes the results of sqrt, floor, round and similar functions exactly: use libm's. Any thread. */
#ifndef STK_BASE_MATH_H
#define STK_BASE_MATH_H

double stk__exp(double x);
double stk__log(double x); /* returns -infinity for 0, NaN for negative numbers */

/* x is in radians. For |x| from 1e5 on, more than any angle that users give, the result is libm's. */
double stk__sin(double x);
double stk__cos(double x);

#endif
