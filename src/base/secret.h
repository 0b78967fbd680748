/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for keys and tokens: pages that core files do not contain, and that are erased when they are freed. */
#ifndef STK_BASE_SECRET_H
#define STK_BASE_SECRET_H

/* Copies a secret text. Returns NULL if `text` is NULL or memory is short. */
char *stk__secret_copy(const char *text);
/* Copies a text of malloc's memory, then erases and frees it. Returns NULL like stk__secret_copy. */
char *stk__secret_take(char *text);
/* Erases and frees a text that stk__secret_copy or stk__secret_take returned. Takes NULL. */
void stk__secret_free(char *text);
/* Erases and frees a text of malloc's memory. Takes NULL. */
void stk__erase_free(char *text);

#endif
