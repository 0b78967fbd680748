/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads settings, tokens and certificates: small files that other programs write, and that may not be regular files. */
#ifndef STK_IO_READ_SMALL_H
#define STK_IO_READ_SMALL_H

#include <stdbool.h>
#include <stddef.h>

/* Reads up to `most` bytes of the file at `path` and appends a NUL, which *size does not count. The caller frees the result with stk__free. If the file is
 * a pipe that a process has open for writing, waits up to two seconds for data; a pipe without a writer, like an abandoned FIFO, counts as empty. Returns NULL
 * if the file cannot be opened or memory is short. */
char *stk__read_small(const char *path, size_t most, size_t *size);

#endif
