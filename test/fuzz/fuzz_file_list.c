/* SPDX-License-Identifier: Apache-2.0
 * Parses lists of files as text. In an accepted list no path is empty, and no label is negative. Each path has the returned length or, if the buffer is too
 * small for that, fills the buffer. The error of a refused list names a line. */
#include "fuzz.h"

#include "base/memory.h"
#include "format/list.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_file_list *l = stk__calloc(1, sizeof *l);
	struct stk_error err = {0};
	char path[64];
	if (!l)
		return 0;
	l->root = stk__strdup("root");
	if (l->root && stk__list_parse(l, (const char *)data, size, "fuzz", &err) == STK_OK) {
		for (int64_t i = 0; i < l->size; i++) {
			size_t n = stk__file_list_path(l, i, path, sizeof path);
			if (n == 0 || strlen(path) != (n < sizeof path ? n : sizeof path - 1) || stk__file_list_label(l, i) < 0)
				abort();
		}
	} else if (l->root && !strstr(err.message, "fuzz, line ")) {
		abort();
	}
	stk__file_list_destroy(l);
	return 0;
}
