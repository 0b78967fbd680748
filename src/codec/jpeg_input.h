/* SPDX-License-Identifier: Apache-2.0
 * Reads the entropy-coded bytes of a scan and unstuffs them piece by piece into a small buffer that stays in the cache. */
#ifndef STK_CODEC_JPEG_INPUT_H
#define STK_CODEC_JPEG_INPUT_H

#include "kernel/jpeg/jpeg_kernels.h"

enum { STK_JPEG_INPUT_BYTES = 12 << 10, STK_JPEG_INPUT_SLACK = STK_JPEG_MCU_BYTES + 64 };

struct stk_jpeg_input {
	const struct stk_jpeg_kernels *kernels;
	const uint8_t *next, *end; /* the input bytes that have not been unstuffed yet */
	uint8_t *limit;            /* end of the bytes in `buffer`; if `ended`, zeros follow */
	bool ended;                /* a marker or the end of the data follows the bytes in `buffer` */
	uint8_t buffer[STK_JPEG_INPUT_BYTES + STK_JPEG_INPUT_SLACK];
};

/* Begins to read a scan. 64 bytes after the `size` bytes must be readable. */
void stk__jpeg_input_begin(
	struct stk_jpeg_input *in, const struct stk_jpeg_kernels *k, const uint8_t *data, size_t size, struct stk_jpeg_bits *bits);

/* Unstuffs more input, if there is any, after the bytes from bits->next on. Returns false if more bits were consumed than the scan has. */
bool stk__jpeg_input_fill(struct stk_jpeg_input *in, struct stk_jpeg_bits *bits);

static inline bool stk__jpeg_input_ready(struct stk_jpeg_input *in, struct stk_jpeg_bits *bits)
{
	return __builtin_expect(in->limit - bits->next >= STK_JPEG_MCU_BYTES, 1) || stk__jpeg_input_fill(in, bits);
}

/* Returns false if more bits were consumed than the scan has. */
bool stk__jpeg_input_sound(const struct stk_jpeg_input *in, const struct stk_jpeg_bits *bits);

/* Skips restart marker number n (0..7), which must follow after any number of fill bytes. Returns false if it does not. */
bool stk__jpeg_input_restart(struct stk_jpeg_input *in, struct stk_jpeg_bits *bits, int n);

#endif
