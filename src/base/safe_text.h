/* SPDX-License-Identifier: Apache-2.0
 * Makes text safe before users see it in messages, notices and reports. Parts that others wrote, such as file names, URLs and answers of servers, must
 * neither reveal a secret nor control a terminal. */
#ifndef STK_BASE_SAFE_TEXT_H
#define STK_BASE_SAFE_TEXT_H

#include <stddef.h>

/* Changes a text in place, cut to `capacity` with its NUL:
 * - of URLs it removes user and password, and the query and fragment where those are no part of a key (as they are in s3://);
 * - of parameters whose names say so, as X-Amz-Signature=..., it removes the values, also where the text is encoded as in URLs;
 * - control characters become \xNN, a line break \n.
 * A safe text stays as it is. */
void stk__safe_text(char *text, size_t capacity);

#endif
