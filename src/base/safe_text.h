/* SPDX-License-Identifier: Apache-2.0
 * Makes text safe before users see it in messages, notices and reports. Parts that others wrote, such as file names, URLs and answers of servers, must
 * neither reveal a secret nor control a terminal. */
#ifndef STK_BASE_SAFE_TEXT_H
#define STK_BASE_SAFE_TEXT_H

#include <stddef.h>

/* Changes a text in place, cut to `capacity` with its NUL:
 * - from URLs, a user's name with a password is removed, and from http URLs also a name without a password. Query and fragment are removed, except from s3
 *   and gs URIs, whose keys may contain ? and #. file URIs stay as they are;
 * - parameters with names such as X-Amz-Signature lose their values, also if the text is encoded as in URLs;
 * - control characters become \xNN, a line break \n.
 * A text that an earlier call has made safe does not change again. */
void stk__safe_text(char *text, size_t capacity);

#endif
