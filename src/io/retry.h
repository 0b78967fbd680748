/* SPDX-License-Identifier: Apache-2.0
 *
 * Delays requests before they are tried again: until a time, or until their bytes are admitted. Any thread, except stk__retry_end. */
#ifndef STK_IO_RETRY_H
#define STK_IO_RETRY_H

#include "io/queue.h"

#include <pthread.h>

struct stk_retry {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct stk_request *first;       /* requests that wait for a time, linked by `next`, sorted by that time */
	struct stk_request_queue parked; /* requests whose bytes were not admitted */
	uint64_t admission_changes;      /* number of calls of stk__retry_admission_changed */
	bool started, ending;
	pthread_t thread;
	void (*retry)(void *user, struct stk_request *r); /* tries a request again; called on `thread` */
	void *user;
};

void stk__retry_init(struct stk_retry *t, void (*again)(void *user, struct stk_request *r), void *user);
/* Calls `retry` for r at due_ns. Returns false, without waiting, if r is cancelled, stk__retry_end was called, or the system refuses a thread. */
bool stk__retry_at(struct stk_retry *t, struct stk_request *r, int64_t due_ns);
/* Calls `retry` for r when r->admission admits `bytes` bytes, which it has refused. The thread asks it after each stk__retry_admission_changed and a few times
 * a second, about its requests in the order of their deadlines. Once it has refused one request, it is asked only about those that the caller waits for.
 * admission_changes: the result of stk__retry_admission_changes before the refusal. Returns false in the same cases as stk__retry_at. */
bool stk__retry_park(struct stk_retry *t, struct stk_request *r, size_t bytes, uint64_t admission_changes);
uint64_t stk__retry_admission_changes(struct stk_retry *t);
/* Makes the thread ask again whether the requests of stk__retry_park are admitted. Call when a struct stk_admission may admit more bytes. */
void stk__retry_admission_changed(struct stk_retry *t);
/* Removes r, so that `retry` is not called for it. Returns false if r does not wait in `t`. */
bool stk__retry_remove(struct stk_retry *t, struct stk_request *r);
/* Ends the thread, so that requests can no longer wait in `t`. Returns the requests that waited, linked by `next`. */
struct stk_request *stk__retry_end(struct stk_retry *t);
void stk__retry_destroy(struct stk_retry *t);

/* Returns a random delay below base_ns * 2^tries and below most_ns ("full jitter"), so that requests that failed together are not retried together. salt:
 * any number that differs between requests; the delay depends on it. */
int64_t stk__retry_delay(int64_t base_ns, int64_t most_ns, int32_t tries, uint64_t salt);

#endif
