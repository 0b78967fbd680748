/* SPDX-License-Identifier: Apache-2.0 */
#include "letters.h"

#include <stdio.h>
#include <string.h>

/* The shapes of the characters from 0x20 to 0x7e and from 0xa0 on. A shape is 13 bytes, one for each row from the top: '0' plus the row's left five dots as
 * bits. The sixth, rightmost dot is never set. */
static const char rows[] =
#include "letter_rows.inc"
	;

bool letter_dot(uint8_t letter, int x, int y)
{
	enum { FIRST = 0x20, END = 0x7f, SECOND = 0xa0 };
	const int i = letter >= SECOND ? END - FIRST + letter - SECOND : letter - FIRST;
	const bool has_glyph = letter >= SECOND || (letter >= FIRST && letter < END);
	return has_glyph && x < LETTER_WIDTH - 1 && (rows[i * LETTER_HEIGHT + y] - '0') >> (LETTER_WIDTH - 2 - x) & 1;
}

/* Returns the code point of a text's first character, and sets *bytes to its number of bytes. If it is not UTF-8, returns -1 and sets *bytes to 1. */
static int32_t character(const unsigned char *text, int *bytes)
{
	static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const int count = *text < 0x80 ? 1 : *text >> 5 == 6 ? 2 : *text >> 4 == 14 ? 3 : *text >> 3 == 30 ? 4 : 0;
	int32_t code = count == 1 ? *text : *text & (0x7f >> count);
	*bytes = 1;
	for (int i = 1; i < count; i++) {
		if (text[i] >> 6 != 2) /* true also for the NUL at the end of the text */
			return -1;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (count == 0 || code < least[count] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return -1;
	*bytes = count;
	return code;
}

size_t letters_of(const char *text, uint8_t *letters)
{
	size_t n = 0;
	for (int bytes; *text; text += bytes) {
		char escape[16] = "";
		const int32_t code = character((const unsigned char *)text, &bytes);
		if (code < 0)
			snprintf(escape, sizeof(escape), "\\x%02x", (unsigned)(unsigned char)*text);
		else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
			snprintf(escape, sizeof(escape), "\\x%02x", (unsigned)code);
		else if (code > 0xff)
			snprintf(escape, sizeof(escape), code > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)code);
		else
			letters[n++] = (uint8_t)code;
		memcpy(letters + n, escape, strlen(escape));
		n += strlen(escape);
	}
	return n;
}
