/* SPDX-License-Identifier: Apache-2.0
 * Allocates memory that lives as long as a graph. */
#include "graph/graph.h"

#include <string.h>

bool stk__grow(void **array, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return true;
	size_t grown = *capacity ? 2 * *capacity : 16;
	void *p = stk__realloc(*array, grown * size);
	if (!p)
		return false;
	*array = p;
	*capacity = grown;
	return true;
}

void *stk__graph_alloc(struct stk_graph *g, size_t size)
{
	if (!stk__grow((void **)&g->blocks, g->n_blocks, &g->blocks_capacity, sizeof *g->blocks))
		return NULL;
	void *p = stk__calloc(1, size);
	if (p)
		g->blocks[g->n_blocks++] = p;
	return p;
}

char *stk__graph_strdup(struct stk_graph *g, const char *s)
{
	size_t n = strlen(s) + 1;
	char *copy = stk__graph_alloc(g, n);
	return copy ? memcpy(copy, s, n) : NULL;
}
