/* SPDX-License-Identifier: Apache-2.0
 * A user's source that counts its calls, and pipelines that read from it. */
#ifndef STK_TEST_SOURCES_H
#define STK_TEST_SOURCES_H

#include "test.h"

#include "stoker/stoker.h"

#include <pthread.h>

enum { BATCH = 4, HEIGHT = 3, WIDTH = 2, BYTES = HEIGHT * WIDTH };

enum fault { NO_FAULT, FAILS, FAILS_SILENTLY, WRONG_DTYPE, WRONG_NDIM, NEGATIVE_SHAPE, TOO_MANY, TOO_FEW };

struct source {
	int64_t samples; /* number of samples in an epoch */
	bool per_sample;
	enum stk_seek seek;
	int32_t shards, shard; /* number of shards (0 stands for 1), and index of this source's shard */
	enum fault fault;
	int64_t fault_at;       /* position in the epoch at which the fault occurs */
	enum stk_status status; /* what a source that FAILS returns; 0: STK_USER */
	int delay_us;
	struct stk_pipeline *asks; /* pull, release and reset read the counters of this pipeline; may be NULL */
	/* The following members record calls. */
	int pulls, released, resets, destroyed;
	int64_t last_reset;
	pthread_t thread;
	bool one_thread;
};

struct stk_source_callbacks source_callbacks(struct source *s);
/* Makes a pipeline with two outputs of a source, the first mirrored and the second unchanged. If there is a folder, a reader's label comes before them. */
struct stk_pipeline *source_open(struct stk_context *ctx, struct source *s, const char *folder);
struct stk_context *source_context(void); /* creates a context with two workers */
void source_assert_batch(struct stk_batch *b, int64_t epoch, int64_t position, int32_t count);
/* Checks that every pull was released, that all ran on one thread, and that the source was destroyed once. Call it after the pipeline was freed. */
void source_assert_balanced(const struct source *s);

#endif
