/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jansson accepts only UTF-8. So other bytes, and ESCAPE itself, are stored as ESCAPE and two hex digits until print_json writes them. */
#define ESCAPE '\1'

/* Returns the number of bytes of the UTF-8 sequence at the beginning of text; 0 if it is not valid. */
static size_t sequence(const char *text)
{
	const unsigned char *t = (const unsigned char *)text;
	const size_t n = t[0] < 0x80                   ? 1
			 : t[0] >= 0xc2 && t[0] < 0xe0 ? 2
			 : t[0] >= 0xe0 && t[0] < 0xf0 ? 3
			 : t[0] >= 0xf0 && t[0] < 0xf5 ? 4
						       : 0;
	for (size_t i = 1; i < n; i++) {
		if ((t[i] & 0xc0) != 0x80)
			return 0;
	}
	/* True if the character has a shorter encoding. */
	const bool longer = (t[0] == 0xe0 && t[1] < 0xa0) || (t[0] == 0xf0 && t[1] < 0x90);
	/* True for a surrogate, or for a number above Unicode's range. */
	const bool outside = (t[0] == 0xed && t[1] >= 0xa0) || (t[0] == 0xf4 && t[1] >= 0x90);
	return longer || outside ? 0 : n;
}

/* Returns a copy of text in which bytes that are not UTF-8 are escaped, to be freed with free; NULL if memory is short. */
static char *escape(const char *text)
{
	char *out = malloc(3 * strlen(text) + 1), *end = out;
	while (out && *text) {
		const size_t n = sequence(text);
		if (n && *text != ESCAPE) {
			memcpy(end, text, n);
			end += n;
			text += n;
		} else {
			end += sprintf(end, "%c%02x", ESCAPE, (unsigned char)*text++);
		}
	}
	if (out)
		*end = '\0';
	return out;
}

json_t *text_json(const char *value)
{
	char *escaped = escape(value);
	json_t *text = escaped ? json_string(escaped) : NULL;
	free(escaped);
	return text;
}

static void put(json_t *object, const char *key, json_t *value)
{
	char *escaped = escape(key);
	if (escaped)
		json_object_set_new(object, escaped, value);
	else
		json_decref(value);
	free(escaped);
}

void put_text(json_t *object, const char *key, const char *value)
{
	put(object, key, text_json(value));
}

void put_int(json_t *object, const char *key, int64_t value)
{
	put(object, key, json_integer(value));
}

void put_real(json_t *object, const char *key, double value)
{
	put(object, key, isfinite(value) ? json_real(value) : json_null());
}

void put_bool(json_t *object, const char *key, bool value)
{
	put(object, key, json_boolean(value));
}

void print_key(const char *key)
{
	for (; *key; key++) {
		if (*key == ESCAPE) {
			const char digits[] = {key[1], key[2], '\0'};
			putchar((int)strtol(digits, NULL, 16));
			key += 2;
		} else {
			putchar(*key);
		}
	}
}

/* Prints jansson's text; each escaped byte 0xNN is printed as \udcNN, or as \u0001 for ESCAPE itself. */
static void print_dump(const char *dump)
{
	static const char mark[] = "\\u0001"; /* jansson's text for ESCAPE */
	const size_t n = sizeof(mark) - 1;
	for (const char *at = dump; *at;) {
		const size_t plain = strcspn(at, "\\");
		fwrite(at, 1, plain, stdout);
		at += plain;
		if (!*at)
			break;
		if (strncmp(at, mark, n)) { /* another escape: copies both characters, so that "\\\\" is not read as the beginning of one */
			fwrite(at, 1, 2, stdout);
			at += 2;
		} else if (!strncmp(at + n, "01", 2)) {
			fputs(mark, stdout);
			at += n + 2;
		} else {
			printf("\\udc%.2s", at + n);
			at += n + 2;
		}
	}
}

int print_json(json_t *value)
{
	char *dump = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(12) | JSON_ENCODE_ANY) : NULL;
	const int code = dump ? EXIT_FINE : EXIT_PROBLEM;
	json_decref(value);
	if (dump)
		print_dump(dump);
	free(dump);
	putchar('\n');
	return code;
}
