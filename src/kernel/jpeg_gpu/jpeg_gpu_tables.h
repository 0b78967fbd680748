/* SPDX-License-Identifier: Apache-2.0
 * The decoding tables of struct stk_jpegpar_set, made from DHT's. */
#ifndef STK_KERNEL_JPEGPAR_TABLES_H
#define STK_KERNEL_JPEGPAR_TABLES_H

#include "kernel/jpeg_gpu/jpeg_gpu.h"

/* A pair of tables that at least one component uses. Both are valid prefix codes (stk__jpeg_huffman_valid). */
struct stk_jpegpar_pair {
	const struct stk_jpeg_huffman *dc, *ac;
};

/* Writes the tables of n (1..3) pairs to lut, at most STK_JPEGPAR_MAX_SET entries, and describes them in *set (all but `at`).
 * False: they are larger than that. */
bool stk__jpegpar_tables_make(const struct stk_jpegpar_pair *pairs, int n, struct stk_jpegpar_set *set, uint16_t *lut);

#endif
