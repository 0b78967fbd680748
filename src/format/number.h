/* SPDX-License-Identifier: Apache-2.0
 * Parses numbers in text, independently of the locale's decimal point. */
#ifndef STK_FORMAT_NUMBER_H
#define STK_FORMAT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a whole number of decimal digits at *at and moves *at past it. Returns false if there is no number, or one of more than 63 bits. */
bool stk__take_number(const char **at, const char *end, int64_t *out);

/* Reads a number such as "-1.5e3", in which minus, point and exponent are optional, and moves *at past it. Returns false if there is no number. Correctly
 * rounded if it has at most 15 digits and a small exponent. */
bool stk__take_real(const char **at, const char *end, double *out);
bool stk__skip_real(const char **at, const char *end); /* skips a number; returns false if there is none */

#endif
