/* SPDX-License-Identifier: Apache-2.0
 * The functions that a fuzz target defines, for replay.c and libFuzzer to call. */
#ifndef STK_TEST_FUZZ_H
#define STK_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the i-th input that is worth mutating, to be freed with free, or NULL after the last one. Targets without this function have a corpus. */
uint8_t *fuzz_seed(int i, size_t *size) __attribute__((weak));

/* Changes a part of an input's format, such as a field or a segment, and may add up to FUZZ_ROOM / 4 bytes. For targets without this function, the mutator
 * changes random bits and bytes. */
enum { FUZZ_ROOM = 256 };
__attribute__((weak)) void fuzz_mutate(uint8_t *data, size_t *size, uint64_t *state);

#endif
