/* SPDX-License-Identifier: Apache-2.0
 * The environment variables that the library reads, so that a misspelt one does not silently do nothing. */
#ifndef STK_BASE_ENVIRONMENT_H
#define STK_BASE_ENVIRONMENT_H

#include <stddef.h>

/* The i-th variable that begins with STOKER_ and that neither the library nor the project's own tools read, and the known name that is most like it
 * (NULL: none is). Returns its name with '=' and value behind it, or NULL at the end. Do not call it while another thread changes the environment. */
const char *stk__environment_unknown(size_t i, const char **meant);

#endif
