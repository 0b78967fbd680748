/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads bytes for samples.
 *
 * The parts that a reader names for a sample form a *read*; io gets one request for each separate place that they lie in. A worker that comes to a
 * sample first tries a read that cannot block, so that cached files need no second thread. After a few reads in short succession that would have
 * blocked, reading ahead begins: from then on requests are submitted in order of need, before workers come to their samples.
 *
 * Reads and the window are private to fetch.c. Call with the pipeline's lock held unless the comment says otherwise. The only function of engine.h that these
 * files call is stk__on_bytes. */
#ifndef STK_EXEC_FETCH_H
#define STK_EXEC_FETCH_H

#include "exec/exec.h"

STK_MUST_USE enum stk_status stk__fetch_create(struct stk_pipeline *p, struct stk_error *err); /* after the records */
void stk__fetch_destroy(struct stk_pipeline *p);                                               /* after a drain, or after a failed create */
int64_t stk__fetch_sample_bytes(const struct stk_pipeline *p); /* memory of stk__fetch_create for each sample in flight */

/* ---- a batch ---- */

void stk__fetch_forget(struct stk_sample_state *s); /* the batch is abandoned; reads that are not under way may begin for another batch */
void stk__fetch_again(struct stk_sample_state *s);  /* the sample was replaced: its reads restart */
void stk__fetch_opened(struct stk_record *r);       /* the bytes read for its samples no longer count as early */

/* ---- a sample ---- */

enum stk_fetch_turn {
	STK_FETCH_TAKE,  /* its bytes have been read, or this worker should try to read them */
	STK_FETCH_LATER, /* the window is full, and a try would probably add a request to it: try again when a request has ended */
	STK_FETCH_WAITS, /* the chain waits: it becomes ready when its bytes have arrived */
};
/* Decides how a worker continues with the chain's sample. idle: the worker will not run the chain, because another chain of the sample has failed. */
enum stk_fetch_turn stk__fetch_turn(struct stk_sample_state *s, int32_t chain, bool idle);
/* Returns whether the chain's bytes are being read; the chain becomes ready when they have arrived. */
bool stk__fetch_waits(struct stk_sample_state *s, int32_t chain);
/* Tries to read without blocking, after STK_FETCH_TAKE. Returns false if some bytes would have blocked; the chain then waits. Call without
 * the lock. */
bool stk__fetch_now(struct stk_exec_worker *w, struct stk_sample_state *s, int32_t chain);
/* Returns the error of a chain's reads, or STK_OK. Call without the lock, after all reads have ended. */
STK_MUST_USE enum stk_status stk__fetch_status(const struct stk_sample_state *s, const struct stk_chain *chain, struct stk_error *err);
size_t stk__fetch_bytes(const struct stk_sample_state *s, const struct stk_chain *chain); /* byte count; no lock needed */
/* Writes the parts of a read to out[0 .. parts - 1]. No lock needed. */
void stk__fetch_parts(const struct stk_sample_state *s, int32_t reader, struct stk_bytes *out);
/* Returns io's buffer with these bytes of a reader, with a second reference for the caller (stk__buffer_share). NULL if the bytes are copied more cheaply, or
 * if the buffer has a second reference already. No lock: chains of a sample may call it concurrently. */
struct stk_buffer *stk__fetch_share(const struct stk_sample_state *s, int32_t reader, const uint8_t *data, size_t size);
bool stk__fetch_complete(const struct stk_sample_state *s);
/* Releases the sample's bytes, except those of a request that is under way. */
void stk__fetch_release(struct stk_sample_state *s);
/* Releases the bytes after the sample's chains have run, unless the GPU may send the sample back and no other copy exists. */
void stk__fetch_read_through(struct stk_sample_state *s);

/* Copies of the sample's bytes in pinned memory, which exist while the batch has work for the GPU. is_pinned: returns whether `data` is
 * such a copy. keep_pinned: notes that `file` is the copy of `data`, for the cores to read if the GPU refuses it and `data` has been
 * released. No lock: chains of a sample may call these concurrently. */
bool stk__fetch_is_pinned(const struct stk_sample_state *s, const uint8_t *data);
void stk__fetch_keep_pinned(struct stk_sample_state *s, const uint8_t *data, const uint8_t *file);

/* ---- the window ---- */

void stk__fetch_taken(struct stk_pipeline *p);   /* the consumer takes a batch */
void stk__fetch_restart(struct stk_pipeline *p); /* after a drain: reading continues with the batch that is delivered next */
bool stk__fetch_runs_ahead(const struct stk_pipeline *p);
void stk__fetch_ahead(struct stk_pipeline *p); /* submits requests until the window is full; call without the lock */
/* Cancels requests that have not begun and waits for the others. Call without the lock, when no more requests are submitted. */
void stk__fetch_end(struct stk_pipeline *p);
/* Returns whether enough requests in a row have failed to conclude that the source itself is down. */
bool stk__fetch_source_down(const struct stk_pipeline *p);
/* Returns whether the sample failed because its source did not return the object in any try, while the source serves others. */
bool stk__fetch_object_failed(const struct stk_sample_state *s);

struct stk_fetch_counts {
	int32_t in_flight; /* number of requests in flight */
	int32_t early;     /* reads for batches that are not open yet, whose bytes are in memory */
	int64_t bytes_held;
};
struct stk_fetch_counts stk__fetch_counts(const struct stk_pipeline *p);

#endif
