/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes for samples. What a reader names for a sample is a *read*: its parts, by as many requests of io as they lie in separate places. A worker that comes
 * to a sample first tries a read that cannot block: cached files need no handover. A few reads that would block, close together, turn reading ahead on:
 * from then on requests go out in order of need, before workers come to them.
 *
 * Reads and the window are fetch.c's own. The pipeline's lock is held unless said. Up goes one call: stk__on_bytes (engine.h). */
#ifndef STK_EXEC_FETCH_H
#define STK_EXEC_FETCH_H

#include "exec/exec.h"

STK_MUST_USE enum stk_status stk__fetch_create(struct stk_pipeline *p, struct stk_error *err); /* after the records */
void stk__fetch_destroy(struct stk_pipeline *p);                                               /* drained, or after a create that failed */
int64_t stk__fetch_sample_bytes(const struct stk_pipeline *p); /* what stk__fetch_create takes for each sample in flight */

/* ---- a batch ---- */

void stk__fetch_forget(struct stk_sample_state *s); /* its batch is left; a read that is not under way may begin for another */
void stk__fetch_again(struct stk_sample_state *s);  /* the sample was replaced: its reads begin anew */
void stk__fetch_opened(struct stk_record *r);       /* what was read of its samples is not early any more */

/* ---- a sample ---- */

enum stk_fetch_turn {
	STK_FETCH_TAKE,  /* its bytes are there, or it is for this worker to try */
	STK_FETCH_LATER, /* a try would most likely add a request to a full window: again when one of those has ended */
	STK_FETCH_WAITS, /* the chain is ready when they have come */
};
/* A worker comes to the chain's sample. idle: it will only count it, since another chain has failed. */
enum stk_fetch_turn stk__fetch_turn(struct stk_sample_state *s, int32_t chain, bool idle);
/* The chain's bytes are on their way, and it is ready when they have come. */
bool stk__fetch_waits(struct stk_sample_state *s, int32_t chain);
/* Without the lock, after STK_FETCH_TAKE. False: not all of it was at hand, and the chain waits. */
bool stk__fetch_now(struct stk_exec_worker *w, struct stk_sample_state *s, int32_t chain);
/* Why some of a chain's bytes could not be read, or STK_OK. Without the lock, when all reads have ended. */
STK_MUST_USE enum stk_status stk__fetch_status(const struct stk_sample_state *s, const struct stk_chain *chain, struct stk_error *err);
size_t stk__fetch_bytes(const struct stk_sample_state *s, const struct stk_chain *chain); /* how many; no lock */
/* The parts of a reader's read, into out[0 .. parts - 1]. No lock. */
void stk__fetch_parts(const struct stk_sample_state *s, int32_t reader, struct stk_bytes *out);
/* The buffer that holds these bytes of a reader's, all of them and little else, for a second holder (stk__buffer_share); NULL: there is none, or it has
 * one. No lock: chains of a sample call at once. */
struct stk_buffer *stk__fetch_share(const struct stk_sample_state *s, int32_t reader, const uint8_t *data, size_t size);
bool stk__fetch_complete(const struct stk_sample_state *s);
/* Gives back the sample's bytes, except where a request for them is under way. */
void stk__fetch_release(struct stk_sample_state *s);
/* The same when its chains have run, except where the GPU may send the sample back and there is no other copy of its bytes. */
void stk__fetch_read_through(struct stk_sample_state *s);

/* Copies of the sample's bytes in pinned memory, while the batch has work for the GPU. is_pinned: `data` is such a copy. keep_pinned: `file` is the
 * copy of `data`, which the cores read if the GPU refuses it and `data` has gone. No lock: chains of a sample call at once. */
bool stk__fetch_is_pinned(const struct stk_sample_state *s, const uint8_t *data);
void stk__fetch_keep_pinned(struct stk_sample_state *s, const uint8_t *data, const uint8_t *file);

/* ---- the window ---- */

void stk__fetch_taken(struct stk_pipeline *p);   /* the consumer takes a batch */
void stk__fetch_restart(struct stk_pipeline *p); /* drained: reading goes on with the batch that is delivered next */
bool stk__fetch_runs_ahead(const struct stk_pipeline *p);
void stk__fetch_ahead(struct stk_pipeline *p); /* without the lock: asks for what the window still takes */
/* Without the lock, when nothing more is asked for: cancels what has not begun, and waits for the rest. */
void stk__fetch_end(struct stk_pipeline *p);
/* Many objects in a row are missing: that is a lost source, not single bad samples. */
bool stk__fetch_source_lost(const struct stk_pipeline *p);
/* The sample's failure is that of an object which its source failed to give, in all tries, while it serves others. */
bool stk__fetch_object_failed(const struct stk_sample_state *s);

struct stk_fetch_counts {
	int32_t in_flight; /* requests */
	int32_t early;     /* reads of batches that are not open yet, whose bytes are held */
	int64_t bytes_held;
};
struct stk_fetch_counts stk__fetch_counts(const struct stk_pipeline *p);

#endif
