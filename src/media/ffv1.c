/* SPDX-License-Identifier: Apache-2.0 */
#include "media/ffv1.h"

#include <string.h>
#include <zlib.h>

/* After each slice follow its size in three bytes and, in streams with checksums, a byte of status and the checksum (RFC 9043, 4.8 and 4.9). */
enum { SIZE = 3, SIZE_AND_CHECKSUM = 8 };

/* Reverses the bits of each of the eight bytes. */
static uint64_t reverse_bits(uint64_t v)
{
	v = (v >> 1 & 0x5555555555555555U) | (v & 0x5555555555555555U) << 1;
	v = (v >> 2 & 0x3333333333333333U) | (v & 0x3333333333333333U) << 2;
	return (v >> 4 & 0x0f0f0f0f0f0f0f0fU) | (v & 0x0f0f0f0f0f0f0f0fU) << 4;
}

/* Returns whether the bytes, which end with their checksum, have the remainder 0. The polynomial is zlib's, but zlib takes the bits of each byte in the other
 * order, and begins with the remainder whose complement is 0. */
static bool is_whole(const uint8_t *data, size_t size)
{
	enum { BLOCK = 512 };
	uint64_t block[BLOCK];
	const uLong zero = 0xffffffffU;
	uLong crc = zero;
	while (size > 0) {
		const size_t n = size < sizeof block ? size : sizeof block, words = (n + sizeof *block - 1) / sizeof *block;
		block[words - 1] = 0;
		memcpy(block, data, n);
		for (size_t i = 0; i < words; i++)
			block[i] = reverse_bits(block[i]);
		crc = crc32(crc, (const Bytef *)block, (uInt)n);
		data += n;
		size -= n;
	}
	return crc == zero;
}

bool stk__ffv1_has_slices(const uint8_t *header, size_t size)
{
	return size > 0 && is_whole(header, size); /* headers of version 2 have no checksum; earlier versions have no header */
}

/* Returns the offset of the last slice before `end`, whose size is `tail` bytes before its end; `end` if the bytes do not end with a slice. */
static size_t find_slice(const uint8_t *packet, size_t end, size_t tail)
{
	if (end < tail)
		return end;
	const uint8_t *at = packet + end - tail;
	const size_t size = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
	return size <= end - tail ? end - tail - size : end;
}

/* Returns whether the packet consists of slices. */
static bool has_tails(const uint8_t *packet, size_t size, size_t tail)
{
	for (size_t end = size, begin; end > 0; end = begin)
		if ((begin = find_slice(packet, end, tail)) == end)
			return false;
	return true;
}

enum stk_ffv1_state stk__ffv1_check(const uint8_t *packet, size_t size)
{
	if (has_tails(packet, size, SIZE))
		return STK_FFV1_UNKNOWN;
	if (!has_tails(packet, size, SIZE_AND_CHECKSUM))
		return STK_FFV1_DAMAGED;
	for (size_t end = size, begin; end > 0; end = begin) {
		begin = find_slice(packet, end, SIZE_AND_CHECKSUM);
		if (!is_whole(packet + begin, end - begin))
			return STK_FFV1_DAMAGED;
	}
	return STK_FFV1_WHOLE;
}
