/* SPDX-License-Identifier: Apache-2.0 */
#include "format/video_list.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/list.h"
#include "format/number.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char BLANKS[] = " \t\r";

static enum stk_status no_memory(struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory for a list of videos");
}

static bool grow(struct stk_video_list *l)
{
	if (l->count < l->capacity)
		return true;
	const size_t capacity = l->capacity ? 2 * (size_t)l->capacity : 64;
	void *names = stk__realloc(l->names, capacity * sizeof *l->names);
	l->names = names ? names : l->names;
	void *labels = stk__realloc(l->labels, capacity * sizeof *l->labels);
	l->labels = labels ? labels : l->labels;
	void *starts = stk__realloc(l->starts, capacity * sizeof *l->starts);
	l->starts = starts ? starts : l->starts;
	void *ends = stk__realloc(l->ends, capacity * sizeof *l->ends);
	l->ends = ends ? ends : l->ends;
	l->capacity = names && labels && starts && ends ? (int64_t)capacity : l->capacity;
	return names && labels && starts && ends;
}

/* Returns the next word of the text at *at, and moves *at after it. Writes a NUL into the text at the end of the word. Returns NULL if there are no more
 * words. */
static char *next_word(char **at)
{
	char *word = *at + strspn(*at, BLANKS);
	if (!*word)
		return NULL;
	char *end = word + strcspn(word, BLANKS);
	*at = end + (*end != '\0');
	*end = '\0';
	return word;
}

static bool read_number(const char *word, double *out)
{
	const char *end = word + strlen(word);
	word += *word == '+' && word[1] != '-';
	return stk__take_real(&word, end, out) && word == end && isfinite(*out);
}

static bool read_label(const char *word, int64_t *out)
{
	char *end;
	errno = 0;
	*out = strtoll(word, &end, 10);
	return *end == '\0' && end != word && errno == 0 && *out >= INT32_MIN && *out <= INT32_MAX;
}

static enum stk_status parse_line(struct stk_video_list *l, char *line, int64_t number, const char *path, struct stk_error *err)
{
	char *words[5] = {NULL};
	int n = 0;
	while (n < 5 && (words[n] = next_word(&line)))
		n++;
	if (n == 0)
		return STK_OK;
	if (!grow(l))
		return no_memory(err);
	double *start = &l->starts[l->count], *end = &l->ends[l->count];
	*start = *end = NAN;
	const bool ok = n >= 2 && n <= 4 && read_label(words[1], &l->labels[l->count]) && (n < 3 || read_number(words[2], start)) &&
			(n < 4 || read_number(words[3], end));
	if (!ok)
		return stk__fail(err, STK_CORRUPT,
			"%.300s:%lld: a line is \"file label [start [end]]\": a path without blanks, a whole number, and numbers", path,
			(long long)number);
	l->names[l->count++] = words[0];
	return STK_OK;
}

enum stk_status stk__video_list_parse(const char *text, size_t n, const char *path, struct stk_video_list *out, struct stk_error *err)
{
	*out = (struct stk_video_list){0};
	const size_t mark = stk__byte_order_mark(text, n);
	enum stk_status s = STK_OK;
	out->text = stk__alloc(n - mark + 1);
	if (!out->text)
		return no_memory(err);
	memcpy(out->text, text + mark, n - mark);
	out->text[n - mark] = '\0';
	if (strlen(out->text) != n - mark)
		s = stk__fail(err, STK_CORRUPT, "%.300s: it holds a zero byte, so it is not a list of videos", path);
	int64_t number = 1;
	for (char *line = out->text, *next; line && !s; line = next, number++) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		s = parse_line(out, line, number, path, err);
	}
	if (!s && out->count == 0)
		s = stk__fail(err, STK_NOT_FOUND, "%.300s: it names no files", path);
	if (s)
		stk__video_list_free(out);
	return s;
}

enum stk_status stk__video_list_read(const char *path, const struct stk_access *access, struct stk_video_list *out, struct stk_error *err)
{
	uint8_t *text = NULL;
	size_t size;
	*out = (struct stk_video_list){0};
	enum stk_status s = stk__access_read(access, path, (size_t)1 << 32, &text, &size, err);
	if (!s)
		s = stk__video_list_parse((const char *)text, size, path, out, err);
	stk__free(text);
	return s;
}

void stk__video_list_free(struct stk_video_list *l)
{
	stk__free(l->names);
	stk__free(l->labels);
	stk__free(l->starts);
	stk__free(l->ends);
	stk__free(l->text);
	*l = (struct stk_video_list){0};
}
