/* SPDX-License-Identifier: Apache-2.0
 * Memory that lives as long as a graph. */
#include "graph/graph.h"

#include <string.h>

bool stk__grow(void **array, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return true;
	size_t more = *room ? 2 * *room : 16;
	void *p = stk__realloc(*array, more * size);
	if (!p)
		return false;
	*array = p;
	*room = more;
	return true;
}

void *stk__graph_alloc(struct stk_graph *g, size_t size)
{
	if (!stk__grow((void **)&g->blocks, g->n_blocks, &g->room_blocks, sizeof *g->blocks))
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
