/* SPDX-License-Identifier: Apache-2.0
 * Defines the functions of math.h for both C and CUDA. They reduce the argument and sum a Taylor series: see W. J. Cody and W. Waite, "Software Manual for the
 * Elementary Functions" (1980). */
#ifndef STK_BASE_MATH_HD_H
#define STK_BASE_MATH_HD_H

#include "base/hd.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* ln 2 and pi/2, each split into parts. The leading parts end in enough zero bits that their product with a small whole number is exact. */
#define STK__LN2_HI 0x1.62e42fee00000p-1
#define STK__LN2_LO 0x1.a39ef35793c76p-33
#define STK__INV_LN2 0x1.71547652b82fep+0
#define STK__HALF_PI_0 0x1.921fb54400000p+0
#define STK__HALF_PI_1 0x1.0b4611a600000p-34
#define STK__HALF_PI_2 0x1.3198a2e037073p-69

STK_HD double stk__math_exp(double x)
{
	if (isnan(x))
		return x;
	if (x > 709.782712893384)
		return INFINITY;
	if (x < -745.2)
		return 0;
	double k = floor(x * STK__INV_LN2 + 0.5);
	double hi = x - k * STK__LN2_HI, lo = k * STK__LN2_LO, r = hi - lo;
	/* e^r = 1 + r + r * tail for |r| <= 0.35. The series is summed from its smallest term. r is added in its two parts, hi - lo, so that its rounding
	 * error is not lost. */
	double tail = 0;
	for (int n = 14; n >= 2; n--)
		tail = (tail + 1.0) * r / n;
	return ldexp(1.0 + (hi - (lo - r * tail)), (int)k);
}

STK_HD double stk__math_log(double x)
{
	if (isnan(x) || x < 0)
		return NAN;
	if (x == 0)
		return -INFINITY;
	if (isinf(x))
		return x;
	int k;
	double m = frexp(x, &k); /* 0.5 <= m < 1 */
	if (m < 0x1.6a09e667f3bcdp-1) {
		m *= 2;
		k--;
	}
	/* log m = 2 atanh(s) with s = f / (2 + f), in a form whose leading term is f, which is exact. */
	double f = m - 1, s = f / (2 + f), z = s * s, series = 0;
	for (int n = 23; n >= 3; n -= 2)
		series = (series + 1.0 / n) * z;
	double half = 0.5 * f * f;
	return k * STK__LN2_HI - ((half - (s * (half + 2 * series) + k * STK__LN2_LO)) - f);
}

/* Below this |x|, the three parts of pi/2 are precise enough to reduce the argument of a sine or cosine. */
#define STK__MATH_REDUCIBLE 1e5

/* Sets *r so that x = n * pi/2 + *r with |*r| <= pi/4, and returns n mod 4. */
STK_HD unsigned stk__math_quadrant(double x, double *r)
{
	double n = floor(x * 0x1.45f306dc9c883p-1 + 0.5);
	*r = x - n * STK__HALF_PI_0;
	*r -= n * STK__HALF_PI_1;
	*r -= n * STK__HALF_PI_2;
	return (unsigned)((int64_t)n & 3);
}

STK_HD double stk__math_sin_series(double x)
{
	double z = x * x, t = 0;
	for (int n = 18; n >= 2; n -= 2)
		t = -(1 + t) * z / (n * (n + 1));
	return x + x * t;
}

STK_HD double stk__math_cos_series(double x)
{
	double z = x * x, t = 0;
	for (int n = 17; n >= 3; n -= 2)
		t = -(1 + t) * z / (n * (n + 1));
	double half = 0.5 * z, w = 1 - half;
	return w + (((1 - w) - half) - half * t);
}

/* Returns sin(x + turn * pi/2), for |x| < STK__MATH_REDUCIBLE or x not finite. */
STK_HD double stk__math_circular(double x, unsigned turn)
{
	if (!isfinite(x))
		return NAN;
	double r;
	unsigned n = stk__math_quadrant(x, &r) + turn;
	double y = n & 1 ? stk__math_cos_series(r) : stk__math_sin_series(r);
	return n & 2 ? -y : y;
}

STK_HD double stk__math_sin(double x)
{
	if (fabs(x) >= STK__MATH_REDUCIBLE)
		return sin(x);
	return stk__math_circular(x, 0);
}

STK_HD double stk__math_cos(double x)
{
	if (fabs(x) >= STK__MATH_REDUCIBLE)
		return cos(x);
	return stk__math_circular(x, 1);
}

STK_HD double stk__math_whole_power(double x, int n)
{
	double result = 1;
	for (unsigned bits = (unsigned)(n < 0 ? -n : n); bits; bits >>= 1) {
		if (bits & 1)
			result *= x;
		x *= x;
	}
	return n < 0 ? 1 / result : result;
}

/* Returns x^y, with the special cases of C. Multiplies if y is a whole number from -64 to 64, takes the square root if y is 0.5, and otherwise computes
 * exp(y log x), with a relative error of up to 1e-13. */
STK_HD double stk__math_pow(double x, double y)
{
	if (y == 0 || x == 1)
		return 1;
	if (isnan(x) || isnan(y))
		return NAN;
	if (isinf(y))
		return fabs(x) == 1 ? 1 : (fabs(x) > 1) == (y > 0) ? INFINITY : 0;
	bool whole = y == floor(y);
	if (whole && fabs(y) <= 64)
		return stk__math_whole_power(x, (int)y);
	if (y == 0.5 && x > 0)
		return sqrt(x);
	if (x < 0 && !whole && !isinf(x))
		return NAN;
	bool negative = signbit(x) && whole && fmod(y, 2.0) != 0;
	double size = x == 0 ? (y > 0 ? 0 : INFINITY) : isinf(x) ? (y > 0 ? INFINITY : 0) : stk__math_exp(y * stk__math_log(fabs(x)));
	return negative ? -size : size;
}

#endif
