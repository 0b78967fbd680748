/* SPDX-License-Identifier: Apache-2.0
 * Makes the decoding tables of struct stk_jpeg_gpu_set from the tables of DHT segments. */
#ifndef STK_KERNEL_JPEG_GPU_TABLES_H
#define STK_KERNEL_JPEG_GPU_TABLES_H

#include "kernel/jpeg_gpu/jpeg_gpu.h"

/* A DC and an AC table that a component uses. Both must be valid prefix codes (stk__jpeg_huffman_valid). */
struct stk_jpeg_gpu_pair {
	const struct stk_jpeg_huffman *dc, *ac;
};

/* Computes the size of the tables for n (1..3) pairs: sets *set, with `at` = 0. Returns false if they would have more than STK_JPEG_GPU_MAX_SET
 * entries. */
bool stk__jpeg_gpu_tables_measure(const struct stk_jpeg_gpu_pair *pairs, int n, struct stk_jpeg_gpu_set *set);

/* Like stk__jpeg_gpu_tables_measure, but also writes the tables to lut, which must have space for set->size * set->tables entries. */
bool stk__jpeg_gpu_tables_make(const struct stk_jpeg_gpu_pair *pairs, int n, struct stk_jpeg_gpu_set *set, uint16_t *lut);

#endif
