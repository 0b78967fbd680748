/* SPDX-License-Identifier: Apache-2.0 */
#include "format/text_check.h"

#include "base/text.h"

#include <stdint.h>
#include <string.h>

/* DEEPEST is below Python's recursion limit; LONGEST_WHOLE is Python's limit for the digits of a whole number. */
enum { DEEPEST = 512, LONGEST_WHOLE = 4300 };

struct text {
	const uint8_t *at, *end;
	const char *wrong;
};

/* ---- UTF-8 (RFC 3629) ---- */

/* Returns the number of bytes of the character at p; 0: invalid. surrogates: accepts encoded surrogates (U+D800 to U+DFFF), as Python's json does. */
static size_t character(const uint8_t *p, const uint8_t *end, bool surrogates)
{
	if (*p < 0x80)
		return 1;
	size_t n = *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
	if (n == 0 || (size_t)(end - p) < n)
		return 0;
	uint8_t low = *p == 0xe0 ? 0xa0 : *p == 0xf0 ? 0x90 : 0x80;
	uint8_t high = *p == 0xed && !surrogates ? 0x9f : *p == 0xf4 ? 0x8f : 0xbf;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return n;
}

static const char not_utf8[] = "not UTF-8";

const char *stk__utf8_check(const char *text, size_t n, size_t *at)
{
	const uint8_t *begin = (const uint8_t *)text, *p = begin, *end = p + n;
	for (size_t length; p < end && (length = character(p, end, false)); p += length)
		;
	*at = (size_t)(p - begin);
	return p < end ? not_utf8 : NULL;
}

/* ---- JSON (RFC 8259) ---- */

static bool fails(struct text *t, const char *what)
{
	t->wrong = what;
	return false;
}

static void pass_blanks(struct text *t)
{
	while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r'))
		t->at++;
}

static bool consume(struct text *t, const char *word)
{
	size_t n = strlen(word);
	bool found = (size_t)(t->end - t->at) >= n && memcmp(t->at, word, n) == 0;
	t->at += found ? n : 0;
	return found;
}

static bool is_hex(const struct text *t)
{
	for (int i = 1; i < 5; i++) {
		uint8_t c = t->end - t->at > i ? t->at[i] : 0, lower = c | 32;
		if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'f'))
			return false;
	}
	return true;
}

static bool take_string(struct text *t)
{
	if (!consume(t, "\""))
		return fails(t, "a string is expected here");
	while (t->at < t->end && *t->at != '"') {
		if (*t->at == '\\') {
			t->at++;
			bool code = t->at < t->end && *t->at == 'u' && is_hex(t);
			if (!code && (t->at == t->end || *t->at == 0 || !strchr("\"\\/bfnrt", *t->at)))
				return fails(t, "no such escape");
			t->at += code ? 5 : 1;
			continue;
		}
		size_t n = *t->at < ' ' ? 0 : character(t->at, t->end, true);
		if (n == 0)
			return fails(t, *t->at < ' ' ? "a control character in a string" : not_utf8);
		t->at += n;
	}
	return consume(t, "\"") || fails(t, "a string does not end");
}

static size_t take_digits(struct text *t)
{
	const uint8_t *from = t->at;
	while (t->at < t->end && *t->at >= '0' && *t->at <= '9')
		t->at++;
	return (size_t)(t->at - from);
}

static bool take_number(struct text *t)
{
	if (consume(t, "-") && consume(t, "Infinity"))
		return true;
	const uint8_t *from = t->at;
	size_t digits = consume(t, "0") ? 1 : take_digits(t);
	if (digits == 0)
		return fails(t, "a value is expected here");
	bool real = false;
	const uint8_t *number_end = t->at;
	if (consume(t, ".")) { /* "1." is the number 1 followed by a dot, which is then refused */
		real = take_digits(t);
		t->at = real ? t->at : number_end;
	}
	number_end = t->at;
	if (consume(t, "e") || consume(t, "E")) {
		if (!consume(t, "+"))
			consume(t, "-");
		bool has_exponent = take_digits(t);
		t->at = has_exponent ? t->at : number_end;
		real |= has_exponent;
	}
	if (real || digits <= LONGEST_WHOLE)
		return true;
	t->at = from;
	return fails(t, "a whole number of more than 4300 digits");
}

/* Reads a value that is neither a list nor an object. Returns false if the text is not valid. */
static bool take_plain(struct text *t)
{
	if (t->at < t->end && *t->at == '"')
		return take_string(t);
	return consume(t, "null") || consume(t, "true") || consume(t, "false") || consume(t, "NaN") || consume(t, "Infinity") ||
	       take_number(t);
}

/* Reads the key of an object and the colon after it. Returns false if they are not valid. */
static bool take_key(struct text *t)
{
	pass_blanks(t);
	if (!take_string(t))
		return false;
	pass_blanks(t);
	return consume(t, ":") || fails(t, "a ':' is expected here");
}

/* Reads a value of any kind. Does not recurse: `open` is a stack of the closing brackets, the innermost last. Returns false if the text is not valid. */
static bool take_value(struct text *t)
{
	char open[DEEPEST];
	size_t depth = 0;
	for (;;) {
		pass_blanks(t);
		bool list = consume(t, "["), object = !list && consume(t, "{");
		if (list || object) {
			if (depth == DEEPEST)
				return fails(t, "values nested more than 512 deep");
			open[depth++] = list ? ']' : '}';
			pass_blanks(t);
			if (t->at == t->end || (char)*t->at != open[depth - 1]) {
				if (object && !take_key(t))
					return false;
				continue;
			}
		} else if (!take_plain(t)) {
			return false;
		}
		for (bool ended = true; ended; depth -= ended) {
			pass_blanks(t);
			if (depth == 0)
				return true;
			ended = t->at < t->end && (char)*t->at == open[depth - 1];
			t->at += ended;
		}
		if (!consume(t, ","))
			return fails(t, open[depth - 1] == ']' ? "a ',' or ']' is expected here" : "a ',' or '}' is expected here");
		if (open[depth - 1] == '}' && !take_key(t))
			return false;
	}
}

const char *stk__json_check(const char *text, size_t n, size_t *at)
{
	const uint8_t *begin = (const uint8_t *)text;
	struct text t = {begin + stk__byte_order_mark(text, n), begin + n, NULL};
	if (take_value(&t) && t.at < t.end)
		fails(&t, "more after the end of the value");
	*at = (size_t)(t.at - begin);
	return t.wrong;
}
