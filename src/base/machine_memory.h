/* SPDX-License-Identifier: Apache-2.0
 * Measures how much memory is left in the machine and in this process's control group. */
#ifndef STK_BASE_MACHINE_MEMORY_H
#define STK_BASE_MACHINE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Reads a number from a small kernel file: the number after `key`, or, if key is "", the number at the beginning of a line. Returns -1 if the file or the
 * key does not exist, or if the file contains "max" instead. Any thread. */
int64_t stk__kernel_number(const char *path, const char *key);

/* Returns the number of bytes of host memory that this process could still allocate without swapping: the smaller of what the machine and its control group
 * (version 2 or 1, as a container sees it) have left, including page cache that they would free. SIZE_MAX: neither is known. Takes some 50 us. Any thread. */
size_t stk__memory_available(void);

#endif
