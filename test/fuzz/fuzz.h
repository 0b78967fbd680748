/* SPDX-License-Identifier: Apache-2.0
 * What a fuzz target defines, and replay.c and libFuzzer call. */
#ifndef STK_TEST_FUZZ_H
#define STK_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files that are worth mutating, where the target makes some: the i-th, to be freed with free; NULL behind the last. Others have a corpus. */
uint8_t *fuzz_seed(int i, size_t *size) __attribute__((weak));

/* Changes an input by what its format is made of. Room for FUZZ_ROOM bytes more. NULL where the target has none: bits and bytes change then. */
enum { FUZZ_ROOM = 256 };
__attribute__((weak)) void fuzz_mutate(uint8_t *data, size_t *size, uint64_t *state);

#endif
