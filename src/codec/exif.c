/* SPDX-License-Identifier: Apache-2.0
 * EXIF 2.3 (CIPA DC-008) on TIFF 6.0: an 8-byte header, then directories of 12-byte entries. */
#include "codec/exif.h"

#include "codec/bytes.h"

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4 };

int stk__exif_orientation(const uint8_t *tiff, size_t size)
{
	if (size < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M'))
		return 0;
	bool little = tiff[0] == 'I';
	if (stk__get16(tiff + 2, little) != 42)
		return 0;
	uint32_t directory = stk__get32(tiff + 4, little);
	if (directory > size - 2)
		return 0;
	uint32_t entries = stk__get16(tiff + directory, little);
	size_t room = (size - directory - 2) / 12;
	if (entries > room)
		entries = (uint32_t)room;
	for (uint32_t i = 0; i < entries; i++) {
		const uint8_t *entry = tiff + directory + 2 + 12 * (size_t)i;
		if (stk__get16(entry, little) != TAG_ORIENTATION)
			continue;
		uint32_t type = stk__get16(entry + 2, little);
		if (stk__get32(entry + 4, little) != 1 || (type != TYPE_SHORT && type != TYPE_LONG))
			return 0;
		uint32_t value = type == TYPE_SHORT ? stk__get16(entry + 8, little) : stk__get32(entry + 8, little);
		return value >= 1 && value <= 8 ? (int)value : 0;
	}
	return 0;
}
