/* SPDX-License-Identifier: Apache-2.0 */
#include "format/number.h"

static bool is_digit(const char *at, const char *end)
{
	return at < end && *at >= '0' && *at <= '9';
}

bool stk__take_number(const char **at, const char *end, int64_t *out)
{
	const char *first = *at;
	*out = 0;
	for (; is_digit(*at, end); ++*at)
		if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, **at - '0', out))
			return false;
	return *at > first;
}

/* Returns value * 10^exponent. If the power of ten is exact as a double, this takes one operation, and so rounds once. */
static double scale(double value, int exponent)
{
	static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
		1e18, 1e19, 1e20, 1e21, 1e22};
	for (; exponent > 22 && value < 1e300; exponent -= 22)
		value *= 1e22;
	for (; exponent < -22 && value > 0; exponent += 22)
		value /= 1e22;
	if (exponent > 22 || exponent < -22) /* the result is infinite or 0 */
		return exponent > 0 && value > 0 ? value * 1e22 : value;
	return exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
}

bool stk__take_real(const char **at, const char *end, double *out)
{
	const char *p = *at;
	bool minus = p < end && *p == '-', has_digits = false;
	int exponent = 0;
	int64_t digits = 0;
	p += minus;
	for (bool in_fraction = false; is_digit(p, end) || (p < end && *p == '.' && !in_fraction); p++) {
		if (*p == '.') {
			in_fraction = true;
			continue;
		}
		has_digits = true;
		bool significant = digits < 100000000000000000; /* further digits exceed a double's precision */
		digits = significant ? digits * 10 + (*p - '0') : digits;
		if (exponent > -10000 && exponent < 10000)
			exponent += (significant ? 0 : 1) - in_fraction;
	}
	if (has_digits && p < end && (*p == 'e' || *p == 'E')) {
		int sign = 1, power = 0;
		p++;
		if (p < end && (*p == '-' || *p == '+'))
			sign = *p++ == '-' ? -1 : 1;
		has_digits = is_digit(p, end);
		for (; is_digit(p, end); p++)
			power = power < 10000 ? power * 10 + (*p - '0') : power;
		exponent += sign * power;
	}
	*out = scale((double)digits, exponent);
	*out = minus ? -*out : *out;
	*at = p;
	return has_digits;
}

static bool skip_digits(const char **at, const char *end)
{
	const char *first = *at;
	while (is_digit(*at, end))
		++*at;
	return *at > first;
}

bool stk__skip_real(const char **at, const char *end)
{
	*at += *at < end && **at == '-';
	bool has_digits = skip_digits(at, end);
	if (*at < end && **at == '.') {
		++*at;
		has_digits = skip_digits(at, end) || has_digits;
	}
	if (has_digits && *at < end && (**at == 'e' || **at == 'E')) {
		++*at;
		*at += *at < end && (**at == '-' || **at == '+');
		has_digits = skip_digits(at, end);
	}
	return has_digits;
}
