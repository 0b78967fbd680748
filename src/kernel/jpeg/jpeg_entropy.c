/* SPDX-License-Identifier: Apache-2.0
 * Unstuffing (removal of the 0 after each FF) in plain C, and the Huffman decoder compiled for any processor. */
#define ENTROPY_NAME(name) stk__jpeg_##name##_c
#define ENTROPY_PLACE STK_JPEG_PLACE_C
#include "kernel/jpeg/jpeg_entropy_body.h"
#include "kernel/jpeg/jpeg_entropy_progressive.h"

struct stk_jpeg_unstuffed stk__jpeg_unstuff_c(const uint8_t *src, size_t size, uint8_t *dst, size_t capacity)
{
	struct stk_jpeg_unstuffed u = {0, 0, false};
	while (u.written < capacity && u.read < size) {
		size_t most = capacity - u.written < size - u.read ? capacity - u.written : size - u.read;
		const uint8_t *from = src + u.read, *ff = memchr(from, 0xff, most);
		size_t plain = ff ? (size_t)(ff - from) : most;
		memcpy(dst + u.written, from, plain);
		u.read += plain;
		u.written += plain;
		if (!ff)
			continue;
		if (size - u.read < 2 || src[u.read + 1] != 0) {
			u.ended = true;
			return u;
		}
		dst[u.written++] = 0xff;
		u.read += 2;
	}
	u.ended = u.read == size;
	return u;
}
