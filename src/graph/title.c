/* SPDX-License-Identifier: Apache-2.0
 * What messages call an operator. */
#include "graph/graph.h"

#include <stdio.h>

void stk__node_title(const struct stk_graph_node *node, char *text, size_t capacity)
{
	if (node->where)
		snprintf(text, capacity, "%s at %s", node->def->name, node->where);
	else
		snprintf(text, capacity, "%s", node->def->name);
}
