/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores keys and tokens in pages that core files do not contain and that are erased before they are freed. */
#ifndef STK_BASE_SECRET_H
#define STK_BASE_SECRET_H

/* Returns a copy of a secret text in memory that core dumps leave out; NULL if `text` is NULL or memory is short. Free it with stk__secret_free. */
char *stk__secret_copy(const char *text);
/* Returns a copy like stk__secret_copy, and erases and frees the original, which stk__alloc has allocated. */
char *stk__secret_take(char *text);
/* Erases and frees a text that stk__secret_copy or stk__secret_take returned. Accepts NULL. */
void stk__secret_free(char *text);
/* Erases and frees a text that stk__alloc has allocated. Accepts NULL. */
void stk__erase_free(char *text);

#endif
