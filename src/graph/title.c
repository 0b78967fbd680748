/* SPDX-License-Identifier: Apache-2.0
 * Makes the names of operators for messages. */
#include "graph/graph.h"

#include <stdio.h>

void stk__node_title(const struct stk_graph_node *node, char *text, size_t capacity)
{
	const char *name = node->def->flags & STK_OP_MERGES ? "the branches" : node->def->name; /* merges have no name that users know */
	if (node->where)
		snprintf(text, capacity, "%s at %s", name, node->where);
	else
		snprintf(text, capacity, "%s", name);
}
