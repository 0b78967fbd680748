/* SPDX-License-Identifier: Apache-2.0
 * EXIF 2.3 (CIPA DC-008) on TIFF 6.0: an 8-byte header, then directories of 12-byte entries. */
#include "codec/exif.h"

#include "codec/bytes.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, NO_VALUE = -1 };
enum type {
	TYPE_BYTE = 1,
	TYPE_TEXT = 2,
	TYPE_SHORT = 3,
	TYPE_LONG = 4,
	TYPE_RATIONAL = 5,
	TYPE_SIGNED_BYTE = 6,
	TYPE_UNDEFINED = 7,
	TYPE_SIGNED_SHORT = 8,
	TYPE_SIGNED_LONG = 9,
	TYPE_SIGNED_RATIONAL = 10,
	TYPE_FLOAT = 11,
	TYPE_DOUBLE = 12,
	TYPE_DIRECTORY = 13,
	TYPE_LONG8 = 16
};

size_t stk__exif_type_size(uint32_t type)
{
	switch (type) {
	case TYPE_SIGNED_BYTE:
		return 1;
	case TYPE_SHORT:
	case TYPE_SIGNED_SHORT:
		return 2;
	case TYPE_LONG:
	case TYPE_SIGNED_LONG:
	case TYPE_FLOAT:
	case TYPE_DIRECTORY:
		return 4;
	case TYPE_RATIONAL:
	case TYPE_SIGNED_RATIONAL:
	case TYPE_DOUBLE:
	case TYPE_LONG8:
		return 8;
	default:
		return 0;
	}
}

/* Returns the number of this TIFF type at p. Negative integers may become large numbers, which are not valid orientations either. */
static double number_at(const uint8_t *p, uint32_t type, bool little)
{
	uint32_t bits = stk__exif_type_size(type) >= 4 ? stk__get32(p, little) : 0;
	uint64_t long_value = stk__exif_type_size(type) == 8 ? stk__get64(p, little) : 0;
	float single;
	double twice;
	memcpy(&single, &bits, sizeof single);
	memcpy(&twice, &long_value, sizeof twice);
	switch (type) {
	case TYPE_SIGNED_BYTE:
		return *p;
	case TYPE_SHORT:
	case TYPE_SIGNED_SHORT:
		return stk__get16(p, little);
	case TYPE_FLOAT:
		return (double)single;
	case TYPE_DOUBLE:
		return twice;
	case TYPE_RATIONAL:
	case TYPE_SIGNED_RATIONAL:
		return stk__get32(p + 4, little) ? (double)bits / stk__get32(p + 4, little) : 0;
	case TYPE_LONG8:
		return (double)long_value;
	default:
		return bits;
	}
}

int stk__exif_orientation_value(const uint8_t *value, uint32_t type, bool little)
{
	double number = number_at(value, type, little);
	for (int i = 1; i <= 8; i++)
		if (number == i)
			return i;
	return 0;
}

/* Returns the orientation in an entry's first value; 0: it is invalid; NO_VALUE: the entry has no values, or they are outside of the file. */
static int orientation_of(const uint8_t *tiff, size_t size, const uint8_t *entry, bool little)
{
	uint32_t type = stk__get16(entry + 2, little), count = stk__get32(entry + 4, little);
	size_t bytes = stk__exif_type_size(type);
	if (type == TYPE_BYTE || type == TYPE_TEXT || type == TYPE_UNDEFINED)
		return count ? 0 : NO_VALUE;
	if (!bytes || !count)
		return NO_VALUE;
	if (count <= 4 / bytes)
		return stk__exif_orientation_value(entry + 8, type, little);
	uint32_t at = stk__get32(entry + 8, little);
	if (at > size || count > (size - at) / bytes)
		return NO_VALUE;
	return stk__exif_orientation_value(tiff + at, type, little);
}

int stk__exif_orientation(const uint8_t *tiff, size_t size)
{
	/* Some writers put this prefix first although the format does not allow it. Its last byte is the zero that C appends. */
	static const char prefix[] = "Exif\0";
	while (size >= sizeof prefix && memcmp(tiff, prefix, sizeof prefix) == 0) {
		tiff += sizeof prefix;
		size -= sizeof prefix;
	}
	if (size < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M'))
		return 0;
	bool little = tiff[0] == 'I';
	if (stk__get16(tiff + 2, little) != 42)
		return 0;
	uint32_t directory = stk__get32(tiff + 4, little);
	if (directory > size - 2)
		return 0;
	uint32_t entries = stk__get16(tiff + directory, little);
	size_t capacity = (size - directory - 2) / 12;
	if (entries > capacity)
		entries = (uint32_t)capacity;
	int orientation = NO_VALUE;
	for (uint32_t i = 0; i < entries && orientation == NO_VALUE; i++) {
		const uint8_t *entry = tiff + directory + 2 + 12 * (size_t)i;
		if (stk__get16(entry, little) == TAG_ORIENTATION)
			orientation = orientation_of(tiff, size, entry, little);
	}
	return orientation == NO_VALUE ? 0 : orientation;
}
