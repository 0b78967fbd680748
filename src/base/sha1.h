/* SPDX-License-Identifier: Apache-2.0
 * Computes SHA-1 (FIPS 180-4), by which AWS's tools name files. Do not use it for security. */
#ifndef STK_BASE_SHA1_H
#define STK_BASE_SHA1_H

#include <stddef.h>

enum { STK_SHA1_HEX = 41 };

/* Writes the hash of n bytes in lower-case hex, which ends with NUL. */
void stk__sha1_hex(const void *data, size_t n, char hex[STK_SHA1_HEX]);

#endif
