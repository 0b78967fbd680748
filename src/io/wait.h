/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits for the ends of requests. One thread submits and waits. The user may interrupt a wait (io/access.h). */
#ifndef STK_IO_WAIT_H
#define STK_IO_WAIT_H

#include "io/access.h"
#include "io/io.h"

#include <pthread.h>

/* Submits r and waits until it has ended; sets r->done and r->user. If the user interrupts, r is cancelled. access may be NULL. */
void stk__io_wait(struct stk_io *io, struct stk_request *r, const struct stk_access *access);

/* Requests in flight that may end in any order. */
struct stk_requests {
	struct stk_io *io;
	pthread_mutex_t lock;
	pthread_cond_t ended_cond;
	struct stk_request *ended; /* requests that have ended, linked by `next`, the newest first; guarded by the lock */
	bool woken;                /* true if stk__requests_wake was called and no wait has returned because of it; guarded by the lock */
};

void stk__requests_init(struct stk_requests *q, struct stk_io *io);
/* Call after stk__requests_any has returned all requests. */
void stk__requests_destroy(struct stk_requests *q);
/* Submits r. Sets r->done and r->user. */
void stk__requests_submit(struct stk_requests *q, struct stk_request *r);
/* Waits for a request to end, and returns it. Each request is returned once, so call this only if one is in flight, or if another thread will call
 * stk__requests_wake. NULL: the user has interrupted, or another thread has called stk__requests_wake. access may be NULL. */
struct stk_request *stk__requests_any(struct stk_requests *q, const struct stk_access *access);
/* Returns a request that has ended, like stk__requests_any, but does not wait: NULL if no request has ended. */
struct stk_request *stk__requests_ended(struct stk_requests *q);
/* Makes one call of stk__requests_any return NULL: the call that waits now, or otherwise the next one. Any thread, with any of the caller's locks held. */
void stk__requests_wake(struct stk_requests *q);

/* Requests in flight whose bytes are used in the order in which they were submitted. */
struct stk_read_ahead {
	struct stk_requests requests;
	const struct stk_access *access;
	struct stk_ahead *slots; /* a ring of `capacity` slots, of which `count` are in use from `first` on */
	int capacity, first, count;
};

struct stk_ahead {
	struct stk_request request;
	struct stk_object object;
	bool ended;
};

/* `capacity` is the maximum number of requests in flight. `access` may be NULL; it must be valid as long as `a`. Returns false if memory runs out. */
bool stk__ahead_init(struct stk_read_ahead *a, struct stk_io *io, const struct stk_access *access, int capacity);
/* Cancels all requests, waits for them, and frees the slots. */
void stk__ahead_destroy(struct stk_read_ahead *a);
/* Submits a copy of `like` after the others. Fewer than `capacity` requests must be in flight. Sets done, user and object of the copy. */
void stk__ahead_submit(struct stk_read_ahead *a, const struct stk_request *like);
/* Returns request k; request 0 was submitted first. */
struct stk_ahead *stk__ahead_at(const struct stk_read_ahead *a, int k);
/* Waits until the request in slot s has ended. Returns false if the user has interrupted. */
bool stk__ahead_wait(struct stk_read_ahead *a, struct stk_ahead *s);
/* Waits for request 0, and frees its bytes, its error and its slot. If the user interrupts, cancels the request. */
void stk__ahead_drop(struct stk_read_ahead *a);
/* Cancels all requests, and frees their bytes, errors and slots. */
void stk__ahead_drop_all(struct stk_read_ahead *a);

#endif
