/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls the user's sources.
 *
 * A pipeline with sources has one thread that calls them, batch by batch, as soon as the batch has a slot. So the sources run ahead of the consumer by
 * as many batches as the pipeline does. Without a reader, the sources decide where an epoch ends. The thread and the positions of the sources are private to
 * feed.c. The only function of engine.h that feed.c calls is stk__on_fed. */
#ifndef STK_EXEC_FEED_H
#define STK_EXEC_FEED_H

#include "exec/exec.h"

/* In a pipeline without user sources these functions do nothing; stk__feed_wake and stk__feed_abandon must not be called. */
STK_MUST_USE enum stk_status stk__feed_create(struct stk_pipeline *p, struct stk_error *err);
void stk__feed_destroy(struct stk_pipeline *p);                                              /* call it after stk__feed_stop */
STK_MUST_USE enum stk_status stk__feed_start(struct stk_pipeline *p, struct stk_error *err); /* starts the thread */
void stk__feed_stop(struct stk_pipeline *p);                                                 /* ends the thread */
void stk__feed_wake(struct stk_pipeline *p);      /* called when a batch waits for its sources; call with the lock held */
bool stk__feed_waits(const struct stk_record *r); /* whether the sources have not returned yet for this batch; call with the lock held */
bool stk__feed_calls(const struct stk_pipeline *
		p); /* whether a source is being called; call with the lock held. If the run stops, the end of the call signals `delivered` */

/* Sets the epoch and its step from which the sources continue. notify: also calls the sources' reset functions. Call it after stk__feed_stop. */
void stk__feed_begin_at(struct stk_pipeline *p, int64_t epoch, int64_t step, bool notify);

bool stk__feed_is_calling(const struct stk_pipeline *p); /* whether the caller runs inside a callback of the pipeline's sources */
/* Makes the thread call `destroy` after the current callback returns. Call it inside a callback. */
void stk__feed_abandon(struct stk_pipeline *p, void (*destroy)(struct stk_pipeline *p));

/* Returns whether the value came from a source and is in GPU memory in this batch, although the graph places it on the host. */
bool stk__feed_on_gpu(const struct stk_record *r, int32_t value);

/* Returns the name or the failure that a source has reported for sample i, or NULL. If one source reported a name and another a failure, returns the
 * failure. Valid until stk__feed_release. */
const struct stk_fed_sample *stk__feed_sample_report(const struct stk_record *r, int32_t i);

/* Releases the data that sources gave for the batch. Call without the lock. */
void stk__feed_release(struct stk_record *r);

#endif
