/* SPDX-License-Identifier: Apache-2.0 */
#include "io/queue.h"

/* Joins two heaps, of which either may be NULL, and returns the root. The root with the later deadline becomes the first child of the other. */
static struct stk_request *join_heaps(struct stk_request *a, struct stk_request *b)
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
	q->root = join_heaps(q->root, r);
}

/* Joins a node's children, a list that begins with `child`, into one heap and returns its root. Two passes keep the heap shallow: the first joins pairs from
 * left to right, the second joins the pairs from right to left. */
static struct stk_request *join_children(struct stk_request *child)
{
	struct stk_request *pairs = NULL, *root = NULL;
	while (child) {
		struct stk_request *a = child, *b = a->next;
		child = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		a = join_heaps(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct stk_request *rest = pairs->next;
		pairs->next = NULL;
		root = join_heaps(root, pairs);
		pairs = rest;
	}
	return root;
}

/* Detaches r from its children, joins the children into one heap, and returns that heap. */
static struct stk_request *remove_top(struct stk_request *r)
{
	struct stk_request *children = join_children(r->source_data);
	r->next = NULL;
	r->source_data = NULL;
	return children;
}

struct stk_request *stk__queue_pop(struct stk_request_queue *q)
{
	struct stk_request *top = q->root;
	if (top)
		q->root = remove_top(top);
	return top;
}

struct stk_request *stk__queue_pop_wanted(
	struct stk_request_queue *q, bool (*wanted)(const struct stk_request *r, const void *arg), const void *arg)
{
	struct stk_request_queue unwanted = {0};
	struct stk_request *top;
	while ((top = stk__queue_pop(q)) && !wanted(top, arg))
		stk__queue_push(&unwanted, top);
	q->root = join_heaps(q->root, unwanted.root);
	return top;
}

static bool is_request(const struct stk_request *r, const void *arg)
{
	return r == arg;
}

bool stk__queue_remove(struct stk_request_queue *q, struct stk_request *r)
{
	return stk__queue_pop_wanted(q, is_request, r) != NULL;
}
