/* SPDX-License-Identifier: Apache-2.0 */
#include "base/math.h"

#include "base/math_hd.h"

double stk__exp(double x)
{
	return stk__math_exp(x);
}

double stk__log(double x)
{
	return stk__math_log(x);
}

double stk__sin(double x)
{
	return stk__math_sin(x);
}

double stk__cos(double x)
{
	return stk__math_cos(x);
}
