/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue of requests by deadline: a pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986) that links the requests themselves, so that queueing cannot
 * fail. `next` is the right sibling, `source_data` the first child. The caller does the locking. */
#ifndef STK_IO_QUEUE_H
#define STK_IO_QUEUE_H

#include "io/io.h"

struct stk_request_queue {
	struct stk_request *root;
};

void stk__queue_push(struct stk_request_queue *q, struct stk_request *r);
/* Removes and returns the request with the smallest deadline, or returns NULL. */
struct stk_request *stk__queue_pop(struct stk_request_queue *q);
/* Removes and returns the request with the smallest deadline of those that `wanted` accepts, or returns NULL. May search the whole queue. */
struct stk_request *stk__queue_pop_wanted(
	struct stk_request_queue *q, bool (*wanted)(const struct stk_request *r, const void *arg), const void *arg);
/* Removes r; returns false if it is not in the queue. Searches the whole queue. */
bool stk__queue_remove(struct stk_request_queue *q, struct stk_request *r);

#endif
