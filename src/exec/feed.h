/* SPDX-License-Identifier: Apache-2.0
 *
 * Users' sources. One thread a pipeline calls them, for one batch after the other, as soon as the batch has a slot: so a source runs ahead by as many
 * batches as the pipeline does. Where there is no reader, the source decides where an epoch ends. The thread, and where the sources are, are feed.c's own.
 * Up goes one call: stk__on_fed (engine.h). */
#ifndef STK_EXEC_FEED_H
#define STK_EXEC_FEED_H

#include "exec/exec.h"

/* Each takes a pipeline without sources, for which it does nothing. */
STK_MUST_USE enum stk_status stk__feed_create(struct stk_pipeline *p, struct stk_error *err);
void stk__feed_destroy(struct stk_pipeline *p);                                              /* stopped */
STK_MUST_USE enum stk_status stk__feed_start(struct stk_pipeline *p, struct stk_error *err); /* its thread */
void stk__feed_stop(struct stk_pipeline *p);                                                 /* ends it */
void stk__feed_wake(struct stk_pipeline *p);      /* with the lock: a batch waits for its sources */
bool stk__feed_waits(const struct stk_record *r); /* with the lock: its sources have not given yet */
bool stk__feed_calls(
	const struct stk_pipeline *p); /* with the lock: a source is being called; `delivered` tells of its end where the run stops */

/* Stopped: the sources go on at this step of the epoch. tell: they are told that it begins. */
void stk__feed_begin_at(struct stk_pipeline *p, int64_t epoch, int64_t step, bool tell);

bool stk__feed_is_me(const struct stk_pipeline *p); /* the caller runs in a callback of its sources */
/* By a callback: its thread calls `destroy` when it has returned. */
void stk__feed_abandon(struct stk_pipeline *p, void (*destroy)(struct stk_pipeline *p));

/* Whether the value is what a source gave, and lies on the GPU in this batch, though it is one of the host for the graph. */
bool stk__feed_on_gpu(const struct stk_record *r, int32_t value);

/* What a source said of sample i: that it failed, before its name alone. NULL: nothing. Valid until stk__feed_release. */
const struct stk_fed_sample *stk__feed_says(const struct stk_record *r, int32_t i);

/* What sources gave for the batch is needed no more. Without the lock. */
void stk__feed_release(struct stk_record *r);

#endif
