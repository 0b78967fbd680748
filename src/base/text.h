/* SPDX-License-Identifier: Apache-2.0
 * Builds texts in a growing buffer, finds the most similar name for "did you mean", and recognises the byte order mark of UTF-8. */
#ifndef STK_BASE_TEXT_H
#define STK_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A text that grows as needed. A failed allocation sets `failed`, and later appends do nothing, so one check at the end is enough. All zero: an empty text. */
struct stk_text {
	char *s; /* the text, which ends with NUL; NULL before the first append */
	size_t length, capacity;
	bool failed;
};

void stk__text_add(struct stk_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void stk__text_append(struct stk_text *t, const char *s, size_t n);
void stk__text_free(struct stk_text *t);
/* Erases and frees a text that may contain a secret. */
void stk__text_erase_free(struct stk_text *t);

/* Returns the candidate at the smallest edit distance (Levenshtein) from `name`, or NULL if none is similar enough. next: returns the i-th candidate, or
 * NULL after the last. */
const char *stk__nearest(const char *name, const char *(*next)(const void *from, size_t i), const void *from);

/* Returns the size of the byte order mark at the beginning of the text, 3 or 0. Editors on Windows write one before UTF-8; it is not part of the text. */
size_t stk__byte_order_mark(const char *text, size_t size);

#endif
