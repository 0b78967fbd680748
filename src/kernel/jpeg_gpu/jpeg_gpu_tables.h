/* SPDX-License-Identifier: Apache-2.0
 * Makes the decoding tables of struct stk_jpeg_gpu_set from those of DHT segments. */
#ifndef STK_KERNEL_JPEG_GPU_TABLES_H
#define STK_KERNEL_JPEG_GPU_TABLES_H

#include "kernel/jpeg_gpu/jpeg_gpu.h"

/* A pair of tables that at least one component uses. Both are valid prefix codes (stk__jpeg_huffman_valid). */
struct stk_jpeg_gpu_pair {
	const struct stk_jpeg_huffman *dc, *ac;
};

/* Describes the tables of n (1..3) pairs in *set (all fields but `at`). Returns false if they would take more than STK_JPEG_GPU_MAX_SET entries. */
bool stk__jpeg_gpu_tables_measure(const struct stk_jpeg_gpu_pair *pairs, int n, struct stk_jpeg_gpu_set *set);

/* Does the same and also writes the tables to lut, which has room for size * tables entries. */
bool stk__jpeg_gpu_tables_make(const struct stk_jpeg_gpu_pair *pairs, int n, struct stk_jpeg_gpu_set *set, uint16_t *lut);

#endif
