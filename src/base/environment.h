/* SPDX-License-Identifier: Apache-2.0
 * Reads the library's environment variables, and finds misspelt names and invalid values, which would otherwise have no effect. */
#ifndef STK_BASE_ENVIRONMENT_H
#define STK_BASE_ENVIRONMENT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Returns "NAME=VALUE" for the i-th variable that begins with STOKER_ and that neither the library nor the project's own tools read; NULL after the last
 * one. Sets *meant to the most similar known name, or to NULL if no name is similar. Do not call it while another thread changes the environment. */
const char *stk__environment_unknown(size_t i, const char **meant);

/* Returns the value of a numeric variable, or 0 if it is not set. Call stk__environment_check first. */
int64_t stk__environment_number(const char *name);

/* Checks the values of the library's variables. STK_INVALID: a variable has a value that the library does not know. An empty value counts as not set. Do not
 * call it while another thread changes the environment. */
STK_MUST_USE enum stk_status stk__environment_check(struct stk_error *err);

#endif
