/* SPDX-License-Identifier: Apache-2.0
 * libFuzzer's custom mutator: if a target can change parts of its input's format, half of the mutations do so. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
	uint8_t *changed = NULL;
	if (fuzz_mutate && size && seed % 2 && size + FUZZ_ROOM <= room)
		changed = malloc(size + FUZZ_ROOM);
	if (!changed)
		return LLVMFuzzerMutate(data, size, room);
	uint64_t state = seed;
	memcpy(changed, data, size);
	for (unsigned n = 1 + seed / 2 % 3; n; n--) /* each change adds at most a quarter of FUZZ_ROOM */
		fuzz_mutate(changed, &size, &state);
	memcpy(data, changed, size);
	free(changed);
	return size;
}
