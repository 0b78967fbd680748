/* SPDX-License-Identifier: Apache-2.0
 * Measures how much memory the machine and this process's control group have left. */
#ifndef STK_BASE_MACHINE_MEMORY_H
#define STK_BASE_MACHINE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Reads a number from a small kernel file: the one after `key`, or the one at the start of a line if key is "". Returns -1 if there is no such file or key,
 * or if the file says "max". Any thread. */
int64_t stk__kernel_number(const char *path, const char *key);

/* Returns how many bytes of host memory this process could still take without swapping: the smaller of what the machine and its control group (version 2 or
 * 1, as a container sees it) have left, including page cache that they would give up. Returns SIZE_MAX if neither is known. Takes some 50 us. Any thread. */
size_t stk__memory_available(void);

#endif
