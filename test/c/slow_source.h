/* SPDX-License-Identifier: Apache-2.0
 * A source for tests, "slow://NUMBER": each request completes after a latency. Of the requests that are due, the latest one completes first; with
 * `narrow`, requests complete one after another in the order of their deadlines. Objects may stall until a test calls slow_source_release, be damaged, or
 * be available at once, and requests may fail. Also has functions that make pipelines which read from such a source. */
#ifndef STK_TEST_SLOW_SOURCE_H
#define STK_TEST_SLOW_SOURCE_H

#include "image_files.h"

#include "io/io.h"
#include "stoker/stoker.h"

#include <pthread.h>

enum { SLOW_TRAITS = 1024 };
/* The traits of an object are a sum of these: it stalls until slow_source_release; it does not decode; it is available at once. n * SLOW_LARGER, with n
 * below SLOW_SIZES, makes the object n + 1 times as large. */
enum { SLOW_STALLS = 1, SLOW_DAMAGED = 2, SLOW_AT_HAND = 4, SLOW_LARGER = 8, SLOW_SIZES = 4 };

/* All objects are copies of one JPEG. Requests wait in a list, and a thread completes those that are due. Tests must hold the lock to read or set members
 * while requests are in flight. */
struct slow_source {
	struct stk_io *io;
	struct test_file file;
	int64_t latency_ns;
	const char *stalled; /* uri of the object that stalls until slow_source_release */
	bool all_stalled;
	int at_hand;                 /* the first `at_hand` objects are available at once */
	uint8_t traits[SLOW_TRAITS]; /* the traits of the first objects, by number; set them before the first request */
	uint32_t jitter;             /* not 0: the state of random numbers, by which latencies vary between 0 and latency_ns */
	bool admits;                 /* takes buffers only if the caller's limit admits them, as the source of local files does */
	bool narrow;                 /* serves one request at a time, the one with the earliest deadline first */
	void (*completes)(struct slow_source *s); /* may be NULL; called with the lock held, after a request has ended */
	void *user;
	int fail_every; /* the first `failures` requests for every n-th uri fail with `status`, where n is fail_every; 0: none fail */
	int failures;
	enum stk_status status;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	struct stk_request *waiting; /* requests that have not completed, newest first */
	bool stop, release;
	int in_flight, most_in_flight;
	int64_t completed, cancelled;
	int asked[256];         /* number of requests that ended, for each uri */
	int64_t deadline[1024]; /* deadline of the first request for each uri; 0: not requested */
};

/* Creates a slow source and adds it to the context, whose io owns it: the caller must not free it. */
struct slow_source *add_slow_source(struct stk_context *ctx, int64_t latency_ns);
/* Completes the requests that stall; later requests do not stall. */
void slow_source_release(struct slow_source *s);
/* Returns the number of requests so far, complete or in flight. */
int64_t slow_source_asked(struct slow_source *s);
int slow_source_in_flight(struct slow_source *s);

/* Makes a pipeline whose reader reads slow://0, slow://1, ..., with the outputs image and label. more: further settings of the configuration. */
struct stk_pipeline *slow_pipeline_with(struct stk_context *ctx, int files, bool shuffle, const struct stk_pipeline_config *more);
struct stk_pipeline *slow_pipeline(struct stk_context *ctx, int files, int32_t batch, bool shuffle);
struct stk_context *two_workers(void);

#endif
