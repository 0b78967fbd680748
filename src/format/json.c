/* SPDX-License-Identifier: Apache-2.0 */
#include "format/json.h"

#include "base/error.h"
#include "codec/foreign.h"
#include "format/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY = 64 };

static bool is_blank(const struct stk_json *j)
{
	struct stk_json copy = *j;
	copy.at = j->begin;
	stk__json_blanks(&copy);
	return copy.at == j->end;
}

enum stk_status stk__json_bad(const struct stk_json *j, const char *what)
{
	int64_t at = j->offset + (j->at - j->begin), line = 1;
	char position[64], reason[256];
	struct stk_foreign kind;
	if (at == 0 && j->at < j->end && stk__foreign_find((const uint8_t *)j->at, (size_t)(j->end - j->at), &kind)) {
		snprintf(reason, sizeof reason, "not JSON: it is %s; %s", kind.name, kind.remedy);
		what = reason;
	}
	if (j->whole && j->at == j->end && is_blank(j))
		snprintf(position, sizeof position, " is empty");
	else if (j->whole) {
		for (const char *c = j->begin; c < j->at; c++)
			line += *c == '\n';
		snprintf(position, sizeof position, "%s, at byte %lld (line %lld)", j->at == j->end ? " ends early" : "", (long long)at,
			(long long)line);
	} else {
		snprintf(position, sizeof position, ", at byte %lld", (long long)at);
	}
	enum stk_status s = stk__fail(j->err, STK_CORRUPT, "%.300s%s: %s", j->path, position, what);
	if (j->err)
		j->err->offset = at;
	return s;
}

void stk__json_blanks(struct stk_json *j)
{
	while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\r' || *j->at == '\n'))
		j->at++;
}

bool stk__json_is(struct stk_json *j, char c)
{
	stk__json_blanks(j);
	return j->at < j->end && *j->at == c;
}

bool stk__json_take(struct stk_json *j, char c)
{
	bool found = stk__json_is(j, c);
	j->at += found;
	return found;
}

static bool take_word(struct stk_json *j, const char *word)
{
	size_t n = strlen(word);
	bool found = (size_t)(j->end - j->at) >= n && memcmp(j->at, word, n) == 0;
	j->at += found ? n : 0;
	return found;
}

bool stk__json_null(struct stk_json *j)
{
	stk__json_blanks(j);
	return take_word(j, "null");
}

/* ---- strings ---- */

static int hex_of(const char *at)
{
	int value = 0;
	for (int i = 0; i < 4; i++) {
		char c = at[i];
		int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	return value;
}

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	size_t n = c < 0x10000 ? 3 : 4;
	out[0] = (char)(n == 3 ? 0xe0 | c >> 12 : 0xf0 | c >> 18);
	for (size_t i = 1; i < n; i++)
		out[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 63));
	return n;
}

/* Reads an escape after its backslash, and appends its character in UTF-8 to the *n bytes at `out`. Returns false if the escape is not valid. */
static bool take_escape(struct stk_json *j, char *out, size_t *n)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = j->at < j->end && *j->at ? strchr(from, *j->at) : NULL;
	if (at) {
		j->at++;
		out[(*n)++] = to[at - from];
		return true;
	}
	if (j->end - j->at < 5 || *j->at != 'u')
		return false;
	int high = hex_of(j->at + 1), low = -1;
	j->at += 5;
	if (high >= 0xd800 && high < 0xdc00 && j->end - j->at >= 6 && j->at[0] == '\\' && j->at[1] == 'u') {
		low = hex_of(j->at + 2);
		j->at += 6;
	}
	if (high <= 0 || (high >= 0xd800 && high < 0xe000 && (high >= 0xdc00 || low < 0xdc00 || low >= 0xe000)))
		return false;
	*n += put_utf8(out + *n, low < 0 ? (uint32_t)high : 0x10000u + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
	return true;
}

/* Returns a mask with 0x80 in the position of each zero byte of a word. Bytes above the lowest zero byte may be marked wrongly, bytes below it never. */
static uint64_t zeros(uint64_t bytes)
{
	return (bytes - 0x0101010101010101u) & ~bytes & 0x8080808080808080u;
}

/* Returns the number of bytes before the next quote, backslash or zero byte. Looks at eight bytes at a time, since most text of a file is skipped. */
static size_t plain_bytes(const struct stk_json *j)
{
	const uint64_t ones = 0x0101010101010101u;
	const char *at = j->at;
	for (; j->end - at >= 8; at += 8) {
		uint64_t bytes;
		memcpy(&bytes, at, sizeof bytes);
		if (zeros(bytes) | zeros(bytes ^ ones * '"') | zeros(bytes ^ ones * '\\'))
			break;
	}
	while (at < j->end && *at != '"' && *at != '\\' && *at)
		at++;
	return (size_t)(at - j->at);
}

/* Reads the rest of a string after the opening quote, and appends it to the *used bytes that `out` already contains. out NULL: skips the string. */
static enum stk_status take_rest(struct stk_json *j, char *out, size_t capacity, size_t *used)
{
	while (j->at < j->end && *j->at != '"') {
		char piece[8];
		const char *from = j->at;
		size_t n = plain_bytes(j);
		j->at += n;
		if (n == 0) {
			if (*j->at++ == 0)
				return stk__json_bad(j, "a string with a zero byte");
			from = piece;
			if (!take_escape(j, piece, &n))
				return stk__json_bad(j, "a string with an escape that JSON has not");
		}
		if (out && *used + n >= capacity)
			return stk__json_bad(j, "a string that is too long");
		if (out)
			memcpy(out + *used, from, n);
		*used += n;
	}
	if (j->at == j->end)
		return stk__json_bad(j, "a string without end");
	j->at++;
	return STK_OK;
}

enum stk_status stk__json_view(struct stk_json *j, char *buffer, size_t capacity, const char **text, size_t *n)
{
	enum stk_status s = STK_OK;
	if (!stk__json_take(j, '"'))
		return stk__json_bad(j, "a string is expected");
	*text = j->at;
	*n = plain_bytes(j);
	if (j->at + *n < j->end && j->at[*n] == '"') {
		j->at += *n + 1;
	} else {
		*text = buffer;
		*n = 0;
		s = take_rest(j, buffer, capacity, n);
	}
	return s;
}

/* ---- numbers ---- */

enum stk_status stk__json_real(struct stk_json *j, double *out)
{
	stk__json_blanks(j);
	return stk__take_real(&j->at, j->end, out) ? STK_OK : stk__json_bad(j, "a number is expected");
}

/* Reads a whole number of at most 15 digits, as most are written. Returns false and reads nothing if the number is written in another way. */
static bool take_plain(struct stk_json *j, int64_t *out)
{
	enum { EXACT = 15 };
	const char *at = j->at, *first = at;
	int64_t value = 0;
	for (; at < j->end && at - first <= EXACT && *at >= '0' && *at <= '9'; at++)
		value = value * 10 + (*at - '0');
	if (at == first || at - first > EXACT || at == j->end || *at == '.' || (*at | 32) == 'e')
		return false;
	*out = value;
	j->at = at;
	return true;
}

enum stk_status stk__json_whole(struct stk_json *j, int64_t *out)
{
	double value = 0;
	stk__json_blanks(j);
	if (take_plain(j, out))
		return STK_OK;
	enum stk_status s = stk__json_real(j, &value);
	if (s)
		return s;
	if (!(fabs(value) <= 0x1p53) || value != (double)(int64_t)value)
		return stk__json_bad(j, "a whole number is expected");
	*out = (int64_t)value;
	return STK_OK;
}

enum stk_status stk__json_bool(struct stk_json *j, bool *out)
{
	stk__json_blanks(j);
	*out = take_word(j, "true");
	return *out || take_word(j, "false") ? STK_OK : stk__json_bad(j, "true or false is expected");
}

/* ---- objects and lists ---- */

static enum stk_status skip_string(struct stk_json *j)
{
	size_t used = 0;
	j->at++;
	return take_rest(j, NULL, 0, &used);
}

static enum stk_status skip_value(struct stk_json *j, int depth);

static enum stk_status skip_nested(struct stk_json *j, int depth)
{
	enum stk_status s = STK_OK;
	bool object = *j->at++ == '{';
	char close = object ? '}' : ']';
	if (stk__json_take(j, close))
		return STK_OK;
	do {
		if (object && !stk__json_is(j, '"'))
			return stk__json_bad(j, "a string is expected");
		if (object && ((s = skip_string(j)) || !stk__json_take(j, ':')))
			return s ? s : stk__json_bad(j, "a colon is expected");
		s = skip_value(j, depth + 1);
	} while (s == STK_OK && stk__json_take(j, ','));
	return s || stk__json_take(j, close) ? s : stk__json_bad(j, "a comma or the end of a list is expected");
}

static enum stk_status skip_value(struct stk_json *j, int depth)
{
	if (depth == STK_JSON_DEPTH)
		return stk__json_bad(j, "values are nested too deeply");
	stk__json_blanks(j);
	char c = '\0';
	if (j->at < j->end)
		c = *j->at;
	if (c == '{' || c == '[')
		return skip_nested(j, depth);
	if (c == '"')
		return skip_string(j);
	static const char *const literals[] = {
		"true", "false", "null", "NaN", "Infinity", "-Infinity"}; /* Python's json writes the last three */
	for (size_t i = 0; i < sizeof literals / sizeof *literals; i++)
		if (c == literals[i][0] && take_word(j, literals[i]))
			return STK_OK;
	return stk__skip_real(&j->at, j->end) ? STK_OK : stk__json_bad(j, "a number is expected");
}

enum stk_status stk__json_skip(struct stk_json *j)
{
	return skip_value(j, 0);
}

/* Reads a key. A key of KEY bytes or more becomes "". Keys without escapes, which are nearly all, are read in one pass. */
static enum stk_status take_key(struct stk_json *j, char key[KEY])
{
	size_t used = 0;
	key[0] = '\0';
	if (!stk__json_take(j, '"'))
		return stk__json_bad(j, "a string is expected");
	const char *begin = j->at;
	const size_t n = plain_bytes(j);
	if (n < KEY && begin + n < j->end && begin[n] == '"') {
		memcpy(key, begin, n);
		key[n] = '\0';
		j->at += n + 1;
		return STK_OK;
	}
	enum stk_status s = take_rest(j, NULL, 0, &used);
	if (s || used >= KEY)
		return s;
	j->at = begin;
	used = 0;
	s = take_rest(j, key, KEY, &used);
	key[used] = '\0';
	return s;
}

enum stk_status stk__json_each(
	struct stk_json *j, char open, enum stk_status (*entry)(struct stk_json *j, const char *key, void *user), void *user)
{
	char key[KEY] = "", close = open == '{' ? '}' : ']';
	enum stk_status s = STK_OK;
	if (!stk__json_take(j, open))
		return stk__json_bad(j, open == '{' ? "an object is expected" : "a list is expected");
	if (stk__json_take(j, close))
		return STK_OK;
	do {
		if (open == '{' && ((s = take_key(j, key)) || !stk__json_take(j, ':')))
			return s ? s : stk__json_bad(j, "a colon is expected");
		s = entry(j, key, user);
	} while (s == STK_OK && stk__json_take(j, ','));
	return s || stk__json_take(j, close) ? s : stk__json_bad(j, "a comma or the end of a list is expected");
}
