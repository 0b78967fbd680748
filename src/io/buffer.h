/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of buffers for the bytes of requests. Each io has one, from which stk__buffer_take (io.h) takes buffers. Any thread. */
#ifndef STK_IO_BUFFER_H
#define STK_IO_BUFFER_H

#include "io/io.h"

#include <pthread.h>

#define STK_BUFFER_CLASSES 256

struct stk_buffer_pool {
	pthread_mutex_t lock;
	struct stk_buffer *newest[STK_BUFFER_CLASSES],
		*oldest[STK_BUFFER_CLASSES]; /* idle buffers of a class, sorted by the time of release */
	size_t held, peak_held;              /* total size in bytes of all buffers, in use or idle: now, and the maximum so far */
	size_t in_use;                       /* total size of the buffers in use */
	size_t window_peak, last_peak;       /* peak of in_use in this window of takes and in the previous one */
	unsigned count, window_count;        /* number of buffers in use: now, and the maximum in this window */
	unsigned takes;                      /* number of takes in this window */
	uint64_t releases;                   /* number of releases so far */
	bool closed; /* true after stk__buffer_pool_close: each release then frees its buffer, and the last one also frees the pool */
};

struct stk_buffer_pool *stk__buffer_pool_create(void); /* returns NULL if memory is short */
void stk__buffer_pool_close(struct stk_buffer_pool *p);
struct stk_buffer *stk__buffer_pool_take(struct stk_buffer_pool *p, size_t size);

#endif
