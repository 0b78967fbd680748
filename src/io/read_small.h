/* SPDX-License-Identifier: Apache-2.0
 * Settings, tokens and certificates: small files that others write, and that may be something else than a file. */
#ifndef STK_IO_READ_SMALL_H
#define STK_IO_READ_SMALL_H

#include <stdbool.h>
#include <stddef.h>

/* Reads up to `most` bytes of what `path` names, with a NUL behind them. The caller frees them. A pipe is waited for two seconds, as
 * long as someone has it open for writing: one that nobody writes to, as a FIFO that was left behind, is empty. NULL: it can't be opened, or there is no memory. */
char *stk__read_small(const char *path, size_t most, size_t *size);

#endif
