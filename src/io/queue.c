/* SPDX-License-Identifier: Apache-2.0 */
#include "io/queue.h"

/* Joins two heaps, either may be NULL; siblings of the roots are not kept. */
static struct stk_request *meld(struct stk_request *a, struct stk_request *b)
{
	if (!a || !b)
		return a ? a : b;
	if (b->deadline < a->deadline) {
		struct stk_request *t = a;
		a = b;
		b = t;
	}
	b->next = a->source_data;
	a->source_data = b;
	return a;
}

void stk__queue_push(struct stk_request_queue *q, struct stk_request *r)
{
	r->next = NULL;
	r->source_data = NULL;
	q->root = meld(q->root, r);
}

/* Two passes: children in pairs from the left, then the pairs from the right. */
struct stk_request *stk__queue_pop(struct stk_request_queue *q)
{
	struct stk_request *top = q->root, *child, *pairs = NULL;
	if (!top)
		return NULL;
	for (child = top->source_data; child;) {
		struct stk_request *a = child, *b = a->next;
		child = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	q->root = NULL;
	while (pairs) {
		struct stk_request *rest = pairs->next;
		pairs->next = NULL;
		q->root = meld(q->root, pairs);
		pairs = rest;
	}
	top->next = NULL;
	top->source_data = NULL;
	return top;
}
