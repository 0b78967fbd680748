/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes XXH64 (Yann Collet's xxHash, https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), a checksum, about as fast as memory can be read. Do
 * not use it for security. */
#ifndef STK_BASE_XXHASH_H
#define STK_BASE_XXHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t stk__xxh64(const void *data, size_t n, uint64_t seed);

#endif
