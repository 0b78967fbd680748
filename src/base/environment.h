/* SPDX-License-Identifier: Apache-2.0
 * The environment variables that the library reads, so that neither a misspelt name nor a misspelt value silently does nothing. */
#ifndef STK_BASE_ENVIRONMENT_H
#define STK_BASE_ENVIRONMENT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* The i-th variable that begins with STOKER_ and that neither the library nor the project's own tools read, and the known name that is most like it
 * (NULL: none is). Returns its name with '=' and value behind it, or NULL at the end. Do not call it while another thread changes the environment. */
const char *stk__environment_unknown(size_t i, const char **meant);

/* The value of one that is a number, 0 where it is not set. Call stk__environment_check first. */
int64_t stk__environment_number(const char *name);

/* STK_INVALID: one of the library's variables has a value that it does not know. An empty one is like none. The same about threads. */
STK_MUST_USE enum stk_status stk__environment_check(struct stk_error *err);

#endif
