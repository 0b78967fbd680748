/* SPDX-License-Identifier: Apache-2.0
 * Parses numbers in text, independently of the locale's decimal point. */
#ifndef STK_FORMAT_NUMBER_H
#define STK_FORMAT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Parses a whole number of decimal digits at *at and moves *at to its end. Returns false if there is no digit, or if the number has more than 63 bits. */
bool stk__take_number(const char **at, const char *end, int64_t *out);

/* Parses a number such as "-1.5e3", in which minus, point and exponent are optional, and moves *at to its end. Returns false if the text is not a number.
 * The result is correctly rounded if the number has at most 15 digits and a small exponent. */
bool stk__take_real(const char **at, const char *end, double *out);
bool stk__skip_real(const char **at, const char *end); /* moves *at to the end of a number; returns false if the text is not a number */

#endif
