/* SPDX-License-Identifier: Apache-2.0
 * How much memory the machine and this process's control group have left. */
#ifndef STK_BASE_MACHINE_MEMORY_H
#define STK_BASE_MACHINE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* A number from a small file of the kernel's, after `key` or at its start; -1: no such file, no such key, or "max". Any thread. */
int64_t stk__kernel_number(const char *path, const char *key);

/* Bytes of host memory that this process could still take without swapping: the least of what the machine and its control group (version 2 or 1, as a
 * container sees it) have left, with the page cache that they would give up. SIZE_MAX where neither says. Takes some 50 us. Any thread. */
size_t stk__memory_available(void);

#endif
