/* SPDX-License-Identifier: Apache-2.0
 * Reads the input as an index without its hash, which the target appends, so that the reader gets beyond the check of the hash. In an accepted index each
 * path must have the length that is reported, each label must be at least 0, and sizes must be readable. */
#include "fuzz.h"

#include "base/memory.h"
#include "format/list.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_file_list *l = stk__calloc(1, sizeof *l);
	uint8_t *whole = stk__alloc(size + 8);
	struct stk_error err = {0};
	char path[64];
	if (!l || !whole)
		abort();
	memcpy(whole, data, size);
	uint64_t hash = stk__hash_bytes(0, whole, size);
	for (int i = 0; i < 8; i++)
		whole[size + (size_t)i] = (uint8_t)(hash >> 8 * i);
	const struct stk_file_list_options o = {.nested = size % 2};
	l->root = stk__strdup("root");
	if (stk__is_index(whole, size) && stk__index_parse(l, &o, whole, size + 8, "fuzz", &err) == STK_OK) {
		for (int64_t i = 0; i < l->size; i++) {
			size_t n = stk__file_list_path(l, i, path, sizeof path);
			if (strlen(path) != (n < sizeof path ? n : sizeof path - 1) || stk__file_list_label(l, i) < 0)
				abort();
			if (l->sized)
				(void)stk__list_object(l, i);
		}
	}
	stk__free(whole);
	stk__file_list_destroy(l);
	return 0;
}
