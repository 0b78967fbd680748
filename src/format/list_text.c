/* SPDX-License-Identifier: Apache-2.0
 * Reads lists of files as text: "path label" a line, where the label is the last field, so that paths may contain blanks. */
#include "format/list.h"

#include "base/error.h"
#include "base/text.h"

#include <limits.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static enum stk_status bad_line(struct stk_error *err, const char *path, int64_t number, const char *what, const char *line, size_t n)
{
	return stk__fail(err, STK_INVALID, "%s, line %lld: %s (a line is \"path label\"): \"%.*s\"", path, (long long)number, what,
		n < 200 ? (int)n : 200, line);
}

static enum stk_status parse_line(
	struct stk_file_list *l, const char *line, size_t n, const char *path, int64_t number, struct stk_error *err)
{
	size_t end = n;
	while (end > 0 && is_blank(line[end - 1]))
		end--;
	if (end == 0)
		return STK_OK;
	if (memchr(line, 0, end))
		return stk__fail(err, STK_INVALID, "%s, line %lld: it holds a zero byte; is this a text file?", path, (long long)number);
	size_t label = end;
	while (label > 0 && !is_blank(line[label - 1]))
		label--;
	size_t name = label;
	while (name > 0 && is_blank(line[name - 1]))
		name--;
	if (name == 0)
		return bad_line(err, path, number, "one field where a path and a label belong", line, n);
	if (line[label] == '-')
		return bad_line(err, path, number, "the label is negative", line, n);
	int64_t value = 0;
	for (size_t i = label; i < end; i++) {
		if (line[i] < '0' || line[i] > '9')
			return bad_line(err, path, number, "the label is not a whole number", line, n);
		value = value * 10 + (line[i] - '0');
		if (value > INT32_MAX)
			return bad_line(err, path, number, "the label is above 2147483647", line, n);
	}
	return stk__list_add_labelled(l, line, name, (int32_t)value, err);
}

enum stk_status stk__list_parse(struct stk_file_list *l, const char *text, size_t size, const char *path, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	int64_t number = 0;
	for (size_t at = stk__byte_order_mark(text, size); at < size && !status;) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t n = end ? (size_t)(end - text) - at : size - at;
		status = parse_line(l, text + at, n, path, ++number, err);
		at += n + 1;
	}
	return status;
}
