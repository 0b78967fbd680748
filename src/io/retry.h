/* SPDX-License-Identifier: Apache-2.0
 * Requests that wait before they are tried again. Any thread, except end. */
#ifndef STK_IO_RETRY_H
#define STK_IO_RETRY_H

#include "io/io.h"

#include <pthread.h>

struct stk_retry {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct stk_request *first; /* by `next`, the one that is due soonest first */
	bool started, ending;      /* the thread */
	pthread_t thread;
	void (*again)(void *user, struct stk_request *r); /* called by the thread */
	void *user;
};

void stk__retry_init(struct stk_retry *t, void (*again)(void *user, struct stk_request *r), void *user);
/* Calls `again` when the clock shows due_ns. False: nobody waits, since r is cancelled, retry has ended, or the system refuses a thread. */
bool stk__retry_at(struct stk_retry *t, struct stk_request *r, int64_t due_ns);
/* False: r does not wait here. */
bool stk__retry_remove(struct stk_retry *t, struct stk_request *r);
/* From here on nothing waits. Returns the requests that waited, linked by `next`. */
struct stk_request *stk__retry_end(struct stk_retry *t);
void stk__retry_destroy(struct stk_retry *t);

/* "Full jitter": anything up to base * 2^tries, at most `most`, so that those who failed together do not come again together. */
int64_t stk__retry_delay(int64_t base_ns, int64_t most_ns, int32_t tries, uint64_t salt);

#endif
