/* SPDX-License-Identifier: Apache-2.0
 * Numbers in text, whatever the locale says of points. */
#ifndef STK_FORMAT_NUMBER_H
#define STK_FORMAT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A whole number of decimal digits from *at on; *at is then behind it; false: there is none, or one of more than 63 bits. */
bool stk__take_number(const char **at, const char *end, int64_t *out);

/* "-1.5e3", the sign, the point and the exponent being optional. Correctly rounded where there are at most 15 digits and the exponent is small. */
bool stk__take_real(const char **at, const char *end, double *out);
bool stk__skip_real(const char **at, const char *end); /* passes over one */

#endif
