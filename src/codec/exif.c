/* SPDX-License-Identifier: Apache-2.0
 * EXIF 2.3 (CIPA DC-008) on TIFF 6.0: an 8-byte header, then directories of 12-byte entries. */
#include "codec/exif.h"

#include <stdbool.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4 };

static uint32_t get16(const uint8_t *p, bool little)
{
	return little ? p[0] | (uint32_t)p[1] << 8 : (uint32_t)p[0] << 8 | p[1];
}

static uint32_t get32(const uint8_t *p, bool little)
{
	return little ? get16(p, true) | get16(p + 2, true) << 16 : get16(p, false) << 16 | get16(p + 2, false);
}

int stk__exif_orientation(const uint8_t *tiff, size_t size)
{
	if (size < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M'))
		return 0;
	bool little = tiff[0] == 'I';
	if (get16(tiff + 2, little) != 42)
		return 0;
	uint32_t directory = get32(tiff + 4, little);
	if (directory > size - 2)
		return 0;
	uint32_t entries = get16(tiff + directory, little);
	size_t room = (size - directory - 2) / 12;
	if (entries > room)
		entries = (uint32_t)room;
	for (uint32_t i = 0; i < entries; i++) {
		const uint8_t *entry = tiff + directory + 2 + 12 * (size_t)i;
		if (get16(entry, little) != TAG_ORIENTATION)
			continue;
		uint32_t type = get16(entry + 2, little);
		if (get32(entry + 4, little) != 1 || (type != TYPE_SHORT && type != TYPE_LONG))
			return 0;
		uint32_t value = type == TYPE_SHORT ? get16(entry + 8, little) : get32(entry + 8, little);
		return value >= 1 && value <= 8 ? (int)value : 0;
	}
	return 0;
}
