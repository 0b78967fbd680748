/* SPDX-License-Identifier: Apache-2.0
 * Argument reduction and Taylor series, the plain way: see W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980). */
#include "base/math.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* ln 2 and pi/2 in parts: the leading ones have so many trailing zero bits that a product with a small whole number is exact. */
static const double ln2_hi = 0x1.62e42fee00000p-1, ln2_lo = 0x1.a39ef35793c76p-33, inv_ln2 = 0x1.71547652b82fep+0;
static const double half_pi[3] = {0x1.921fb54400000p+0, 0x1.0b4611a600000p-34, 0x1.3198a2e037073p-69};

double stk__exp(double x)
{
	if (isnan(x))
		return x;
	if (x > 709.782712893384)
		return INFINITY;
	if (x < -745.2)
		return 0;
	double k = floor(x * inv_ln2 + 0.5);
	double hi = x - k * ln2_hi, lo = k * ln2_lo, r = hi - lo;
	/* e^r for |r| <= 0.35: what follows 1 + r, smallest first; lo's rounding is put back with r. */
	double tail = 0;
	for (int n = 14; n >= 2; n--)
		tail = (tail + 1.0) * r / n;
	return ldexp(1.0 + (hi - (lo - r * tail)), (int)k);
}

double stk__log(double x)
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
	/* log m = 2 atanh(s) with s = f / (2 + f); written so that f, which is exact, is the leading term. */
	double f = m - 1, s = f / (2 + f), z = s * s, series = 0;
	for (int n = 23; n >= 3; n -= 2)
		series = (series + 1.0 / n) * z;
	double half = 0.5 * f * f;
	return k * ln2_hi - ((half - (s * (half + 2 * series) + k * ln2_lo)) - f);
}

/* Up to here the parts of pi/2 are enough to take whole turns away. */
#define REDUCIBLE 1e5

/* x = n * pi/2 + *r with |*r| <= pi/4; returns n mod 4. */
static unsigned quadrant(double x, double *r)
{
	double n = floor(x * 0x1.45f306dc9c883p-1 + 0.5);
	*r = x - n * half_pi[0];
	*r -= n * half_pi[1];
	*r -= n * half_pi[2];
	return (unsigned)((int64_t)n & 3);
}

static double sin_series(double x)
{
	double z = x * x, t = 0;
	for (int n = 18; n >= 2; n -= 2)
		t = -(1 + t) * z / (n * (n + 1));
	return x + x * t;
}

static double cos_series(double x)
{
	double z = x * x, t = 0;
	for (int n = 17; n >= 3; n -= 2)
		t = -(1 + t) * z / (n * (n + 1));
	double half = 0.5 * z, w = 1 - half;
	return w + (((1 - w) - half) - half * t);
}

static double circular(double x, unsigned turn)
{
	if (!isfinite(x))
		return NAN;
	double r;
	unsigned n = quadrant(x, &r) + turn;
	double y = n & 1 ? cos_series(r) : sin_series(r);
	return n & 2 ? -y : y;
}

double stk__sin(double x)
{
	if (fabs(x) >= REDUCIBLE)
		return sin(x);
	return circular(x, 0);
}

double stk__cos(double x)
{
	if (fabs(x) >= REDUCIBLE)
		return cos(x);
	return circular(x, 1);
}

static double whole_power(double x, int n)
{
	double result = 1;
	for (unsigned bits = (unsigned)(n < 0 ? -n : n); bits; bits >>= 1) {
		if (bits & 1)
			result *= x;
		x *= x;
	}
	return n < 0 ? 1 / result : result;
}

double stk__pow(double x, double y)
{
	if (y == 0 || x == 1)
		return 1;
	if (isnan(x) || isnan(y))
		return NAN;
	if (isinf(y))
		return fabs(x) == 1 ? 1 : (fabs(x) > 1) == (y > 0) ? INFINITY : 0;
	bool whole = y == floor(y);
	if (whole && fabs(y) <= 64)
		return whole_power(x, (int)y);
	if (y == 0.5 && x > 0)
		return sqrt(x);
	if (x < 0 && !whole && !isinf(x))
		return NAN;
	bool negative = signbit(x) && whole && fmod(y, 2) != 0;
	double size = x == 0 ? (y > 0 ? 0 : INFINITY) : isinf(x) ? (y > 0 ? INFINITY : 0) : stk__exp(y * stk__log(fabs(x)));
	return negative ? -size : size;
}
