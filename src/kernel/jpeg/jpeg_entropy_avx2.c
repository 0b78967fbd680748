/* SPDX-License-Identifier: Apache-2.0
 * Unstuffing (removal of the 0 after each FF) with AVX2, 32 bytes per step, and the Huffman decoder compiled for BMI2. */
#define ENTROPY_NAME(name) stk__jpeg_##name##_avx2
#define ENTROPY_PLACE STK_JPEG_PLACE_AVX2
#include "kernel/jpeg/jpeg_entropy_body.h"
#include "kernel/jpeg/jpeg_entropy_progressive.h"

#include "kernel/common/avx2.h"

struct stk_jpeg_unstuffed stk__jpeg_unstuff_avx2(const uint8_t *src, size_t size, uint8_t *dst, size_t capacity)
{
	const __m256i ff = _mm256_set1_epi8(-1);
	struct stk_jpeg_unstuffed u = {0, 0, false};
	while (u.written < capacity && size - u.read > 32) {
		__m256i bytes = _mm256_loadu_si256((const void *)(src + u.read));
		uint32_t mask = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, ff));
		_mm256_storeu_si256((void *)(dst + u.written), bytes);
		if (!mask) {
			u.read += 32;
			u.written += 32;
			continue;
		}
		uint32_t at = (uint32_t)__builtin_ctz(mask);
		u.read += at;
		u.written += at;
		if (src[u.read + 1] != 0) {
			u.ended = true;
			return u;
		}
		u.read += 2;
		u.written += 1;
	}
	if (u.written >= capacity)
		return u;
	struct stk_jpeg_unstuffed tail = stk__jpeg_unstuff_c(src + u.read, size - u.read, dst + u.written, capacity - u.written);
	return (struct stk_jpeg_unstuffed){u.read + tail.read, u.written + tail.written, tail.ended};
}
