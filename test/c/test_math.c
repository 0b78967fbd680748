/* SPDX-License-Identifier: Apache-2.0
 * Tests of base/math: compares its functions with libm, and checks special cases. */
#include "test.h"

#include "base/math.h"
#include "base/math_hd.h"
#include "base/philox.h"

#include <math.h>
#include <stdbool.h>

enum { DRAWS = 200000 };
static const uint64_t seed = 11;

/* Returns the distance between the two values, in units of the last place of `want`. */
static double ulps(double got, double want)
{
	if (got == want || (isnan(got) && isnan(want)))
		return 0;
	return fabs(got - want) / (nextafter(fabs(want), INFINITY) - fabs(want));
}

static void check(const char *what, double (*ours)(double), double (*theirs)(double), double lo, double hi, double limit)
{
	struct stk_random r = stk__random(seed, 0, 0, 0);
	for (int i = 0; i < DRAWS; i++) {
		double x = lo + (hi - lo) * stk__random_double(&r), d = ulps(ours(x), theirs(x));
		if (!(d <= limit))
			fail_msg("%s(%a) is %a, libm says %a: %g ulps", what, x, ours(x), theirs(x), d);
	}
}

static void test_close_to_libm(void **state)
{
	(void)state;
	check("exp", stk__exp, exp, -2, 2, 1);
	check("exp", stk__exp, exp, -700, 700, 1);
	check("log", stk__log, log, 0.3, 3, 1);
	check("log", stk__log, log, 0, 1e-300, 1);
	check("log", stk__log, log, 1, 1e300, 1);
	check("sin", stk__sin, sin, -7, 7, 2);
	check("cos", stk__cos, cos, -7, 7, 2);
	check("sin", stk__sin, sin, -9e4, 9e4, 2);
	check("cos", stk__cos, cos, -1e18, 1e18, 2);
}

static void test_powers(void **state)
{
	(void)state;
	struct stk_random r = stk__random(seed, 1, 0, 0);
	for (int i = 0; i < DRAWS; i++) {
		double x = 100 * stk__random_double(&r), y = 40 * stk__random_double(&r) - 20, want = pow(x, y);
		if (fabs(stk__math_pow(x, y) - want) > 1e-13 * want)
			fail_msg("pow(%a, %a) is %a, libm says %a", x, y, stk__math_pow(x, y), want);
	}
	static const double special[] = {0, -0., 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e300, -1e300, INFINITY, -INFINITY, NAN};
	enum { COUNT = sizeof special / sizeof *special };
	for (int i = 0; i < COUNT * COUNT; i++) {
		double x = special[i / COUNT], y = special[i % COUNT], got = stk__math_pow(x, y), want = pow(x, y);
		bool close = ulps(got, want) == 0 || fabs(got - want) <= 1e-13 * fabs(want);
		if (!close || (!isnan(want) && signbit(got) != signbit(want)))
			fail_msg("pow(%g, %g) is %g, libm says %g", x, y, got, want);
	}
}

static void test_special_cases(void **state)
{
	(void)state;
	assert_true(isinf(stk__log(0)) && stk__log(0) < 0);
	assert_true(isnan(stk__log(-1)) && isnan(stk__log(NAN)) && isinf(stk__log(INFINITY)));
	assert_true(stk__log(1) == 0 && stk__exp(0) == 1 && stk__sin(0) == 0 && stk__cos(0) == 1);
	assert_true(isinf(stk__exp(1000)) && stk__exp(-1000) == 0 && isinf(stk__exp(INFINITY)) && stk__exp(-INFINITY) == 0 &&
		    isnan(stk__exp(NAN)));
	assert_true(isnan(stk__sin(INFINITY)) && isnan(stk__cos(NAN)));
	assert_true(fabs(stk__exp(-740) / exp(-740) - 1) < 0.01); /* a subnormal result */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close_to_libm),
		cmocka_unit_test(test_powers),
		cmocka_unit_test(test_special_cases),
	};
	return cmocka_run_group_tests_name("math", tests, NULL, NULL);
}
