/* SPDX-License-Identifier: Apache-2.0
 * A fuzz target is this function. With clang and -fsanitize=fuzzer it is driven by libFuzzer; replay.c feeds it files, as the unit tests do. */
#ifndef STK_TEST_FUZZ_H
#define STK_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
