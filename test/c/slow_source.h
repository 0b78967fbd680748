/* SPDX-License-Identifier: Apache-2.0
 * A source of bytes that takes its time, "slow://NUMBER": never at hand, each request completes after a latency, the latest asked first; one object
 * may stall until it is let go, and requests may fail. And pipelines that read from it. */
#ifndef STK_TEST_SLOW_SOURCE_H
#define STK_TEST_SLOW_SOURCE_H

#include "image_files.h"

#include "io/io.h"
#include "stoker/stoker.h"

#include <pthread.h>

/* Copies of one JPEG. Requests wait in a list; a thread completes those that are due. What a test reads or sets while requests are under way it does
 * with the lock. */
struct slow_source {
	struct stk_io *io;
	struct test_file file;
	int64_t latency_ns;
	const char *stalled;                      /* a uri that waits for release */
	bool all_stalled;                         /* every uri does */
	bool narrow;                              /* one object at a time, the soonest needed first */
	void (*completes)(struct slow_source *s); /* nullable; with the lock, behind each end of a request and what its owner did then */
	void *user;
	int fail_every; /* the first `failures` requests of every n-th uri fail with `status`; 0: none */
	int failures;
	enum stk_status status;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	struct stk_request *waiting; /* newest first */
	bool stop, release;
	int in_flight, most_in_flight;
	int64_t completed, cancelled;
	int asked[256];         /* requests that came to an end, by uri */
	int64_t deadline[1024]; /* of the first request, by uri; 0: there was none */
};

/* io owns it. */
struct slow_source *add_slow_source(struct stk_context *ctx, int64_t latency_ns);
/* Lets what stalls complete. */
void slow_source_release(struct slow_source *s);
/* Requests so far, under way or complete. */
int64_t slow_source_asked(struct slow_source *s);
int slow_source_in_flight(struct slow_source *s);

/* readers.file over slow://0 ..., decoded, and the label. more: what the configuration has besides. */
struct stk_pipeline *slow_pipeline_with(struct stk_context *ctx, int files, bool shuffle, const struct stk_pipeline_config *more);
struct stk_pipeline *slow_pipeline(struct stk_context *ctx, int files, int32_t batch, bool shuffle);
struct stk_context *two_workers(void);

#endif
