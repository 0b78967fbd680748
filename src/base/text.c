/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/memory.h"
#include "base/system.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Makes room for `more` further bytes and a NUL. Returns false and sets t->failed if memory is short. If the text moves, erases the old memory, which may
 * contain a token. */
static bool reserve(struct stk_text *t, size_t more)
{
	size_t need = t->length + more + 1;
	if (need <= t->capacity)
		return true;
	size_t capacity = need + need / 2 + 64;
	char *s = stk__alloc(capacity);
	if (!s) {
		t->failed = true;
		return false;
	}
	if (t->s) {
		memcpy(s, t->s, t->length);
		stk__erase(t->s, t->capacity);
		stk__free(t->s);
	}
	s[t->length] = 0;
	t->s = s;
	t->capacity = capacity;
	return true;
}

/* Prints directly into the buffer if the text fits, as it nearly always does. */
void stk__text_add(struct stk_text *t, const char *fmt, ...)
{
	if (t->failed)
		return;
	size_t capacity = t->capacity - t->length;
	va_list ap, copy;
	va_start(ap, fmt);
	va_copy(copy, ap);
	int n = vsnprintf(t->s ? t->s + t->length : NULL, capacity, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n >= capacity && reserve(t, (size_t)n))
		vsnprintf(t->s + t->length, (size_t)n + 1, fmt, copy);
	if (n >= 0 && !t->failed)
		t->length += (size_t)n;
	else if (t->s)
		t->s[t->length] = 0;
	va_end(copy);
}

void stk__text_append(struct stk_text *t, const char *s, size_t n)
{
	if (t->failed || !reserve(t, n))
		return;
	if (n)
		memcpy(t->s + t->length, s, n);
	t->length += n;
	t->s[t->length] = 0;
}

void stk__text_free(struct stk_text *t)
{
	stk__free(t->s);
	*t = (struct stk_text){0};
}

void stk__text_erase_free(struct stk_text *t)
{
	if (t->s)
		stk__erase(t->s, t->capacity);
	stk__text_free(t);
}

enum { LONGEST_NAME = 64 };

static size_t least(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;
	return m < c ? m : c;
}

/* Returns the number of letters that must be inserted, left out or replaced to turn one name into the other; case does not matter. Returns LONGEST_NAME if a
 * name is longer than that. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[LONGEST_NAME + 1], m = strlen(a), n = strlen(b);
	if (m > LONGEST_NAME || n > LONGEST_NAME)
		return LONGEST_NAME;
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; i <= m; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t above = row[j];
			row[j] = least(above + 1, row[j - 1] + 1,
				diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1])));
			diagonal = above;
		}
	}
	return row[n];
}

const char *stk__nearest(const char *name, const char *(*next)(const void *from, size_t i), const void *from)
{
	const char *best = NULL;
	size_t bound = strlen(name) / 3 + 2, distance = bound; /* names at this distance or a larger one would mislead */
	for (size_t i = 0;; i++) {
		const char *candidate = next(from, i);
		if (!candidate)
			return best;
		size_t d = edit_distance(name, candidate);
		if (d < distance) {
			distance = d;
			best = candidate;
		}
	}
}

size_t stk__byte_order_mark(const char *text, size_t size)
{
	return size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}
