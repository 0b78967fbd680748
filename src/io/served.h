/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue of requests with the threads that serve it. A thread is started when a request comes and all threads are busy, up to a limit. The owner may guard
 * its own members with the same lock; all functions except init, end and destroy must be called with it held. */
#ifndef STK_IO_SERVED_H
#define STK_IO_SERVED_H

#include "io/queue.h"

#include <pthread.h>

struct stk_served {
	const char *name;         /* name of the threads */
	void *(*run)(void *user); /* body of a thread: takes requests with stk__served_next until there are no more */
	void *user;
	int limit;          /* maximum number of threads */
	pthread_t *threads; /* the owner's array for `limit` threads; NULL: threads are detached, since their work cannot be stopped */
	/* from here on: the owner may read these members, but not change them */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct stk_request_queue queue;
	int waiting, idle; /* number of items that no thread has taken, and of threads that wait for an item */
	int started;       /* number of threads that were started */
	bool ending;
};

void stk__served_init(struct stk_served *q, const char *name, void *(*run)(void *user), void *user, int limit, pthread_t *threads);
/* Asks the threads to end, and joins them unless they are detached. */
void stk__served_end(struct stk_served *q);
/* Frees the lock and the condition variable. Call after stk__served_end. */
void stk__served_destroy(struct stk_served *q);

/* Queues r. If no thread can be started, that is an error only if there is no thread yet; r is then not queued. */
STK_MUST_USE enum stk_status stk__served_push(struct stk_served *q, struct stk_request *r, struct stk_error *err);
/* Announces an item that the owner keeps in a list of its own: counts it in q->waiting, and wakes a thread or starts one. Fails like
 * stk__served_push. The thread that takes the item must decrement q->waiting. */
STK_MUST_USE enum stk_status stk__served_announce(struct stk_served *q, struct stk_error *err);
/* Removes r from the queue; returns false if it is not in the queue. */
bool stk__served_remove(struct stk_served *q, struct stk_request *r);
/* Empties the queue, and returns the requests that it contained. */
struct stk_request_queue stk__served_take_all(struct stk_served *q);

/* For the threads: waits for a request, and returns it. NULL: the queue is empty and the threads must end. */
struct stk_request *stk__served_next(struct stk_served *q);
/* For the threads: waits until there may be an item, or until the threads must end. */
void stk__served_wait(struct stk_served *q);

#endif
