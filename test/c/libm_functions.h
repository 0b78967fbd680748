/* SPDX-License-Identifier: Apache-2.0
 * Names the arithmetic operations that call libm. A GPU has its own math functions, whose last bits may differ (kernel/job/job.h). */
#ifndef STK_TEST_LIBM_FUNCTIONS_H
#define STK_TEST_LIBM_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns whether an operation calls libm. name: its name in arithmetic_ops.h. */
static inline bool calls_libm(const char *name)
{
	static const char *const names[] = {
		"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "sinh", "tanh", "sin", "cos", "tan"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

#endif
