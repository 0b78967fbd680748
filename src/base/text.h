/* SPDX-License-Identifier: Apache-2.0
 * Text: a growing buffer, the nearest name for "did you mean", and the mark before UTF-8. */
#ifndef STK_BASE_TEXT_H
#define STK_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Grows by itself; a failed allocation sets `failed` and later appends do nothing, so that one check at the end is enough. */
struct stk_text {
	char *s; /* NUL-terminated once something was added */
	size_t length, capacity;
	bool failed;
};

void stk__text_add(struct stk_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for n bytes as they are. */
void stk__text_append(struct stk_text *t, const char *s, size_t n);
void stk__text_free(struct stk_text *t);

/* The candidate at the smallest edit distance (Levenshtein), or NULL when none is near enough to be what was meant.
 * next: gives the i-th candidate, NULL at the end. */
const char *stk__nearest(const char *name, const char *(*next)(const void *from, size_t i), const void *from);

/* The bytes of the byte order mark at the text's begin, which editors on Windows put before UTF-8 and which is no part of what it says: 3 or 0. */
size_t stk__byte_order_mark(const char *text, size_t size);

#endif
