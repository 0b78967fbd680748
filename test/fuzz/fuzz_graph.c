/* SPDX-License-Identifier: Apache-2.0
 * Pipelines as JSON: an accepted graph can be written and read again, and is then written as the same text; a refused graph gives a message. Opens no data
 * set. */
#include "fuzz.h"

#include "stoker/stoker.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_graph *g = NULL, *again = NULL;
	struct stk_error err = {0};
	char *text = NULL, *twice = NULL;
	enum stk_status s = stk_graph_deserialize((const char *)data, size, &g, &err);
	if (s) {
		if (g || err.code != s || !err.message[0])
			abort();
		return 0;
	}
	if (stk_graph_serialize(g, &text, &err) == STK_OK && (stk_graph_deserialize(text, strlen(text), &again, &err) ||
								     stk_graph_serialize(again, &twice, &err) || strcmp(text, twice)))
		abort();
	stk_text_free(text);
	stk_text_free(twice);
	stk_graph_destroy(g);
	stk_graph_destroy(again);
	return 0;
}
