/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads bytes for samples.
 *
 * The parts that a reader names for a sample form a *read*; io gets one request for each separate range that contains some of them. A worker that comes to a
 * sample first tries a read that cannot block, so that cached files need no second thread. After a few such tries in short succession that would have
 * blocked, reading ahead begins: from then on requests are submitted in order of need, before workers come to their samples.
 *
 * Reads, and the window that limits them, are private to the files fetch*.c. Call these functions with the pipeline's lock held unless the comment says
 * otherwise. The only function of engine.h that these files call is stk__on_bytes. */
#ifndef STK_EXEC_FETCH_H
#define STK_EXEC_FETCH_H

#include "exec/exec.h"

STK_MUST_USE enum stk_status stk__fetch_create(struct stk_pipeline *p, struct stk_error *err); /* call after the records were created */
/* Call after a drain of the pipeline, or after stk__fetch_create has failed. */
void stk__fetch_destroy(struct stk_pipeline *p);
int64_t stk__fetch_sample_bytes(const struct stk_pipeline *p); /* returns the number of bytes that stk__fetch_create allocates for each
							        * sample in flight */

/* ---- a batch ---- */

/* Makes the sample's reads ready for another batch, except those that are still under way. Called when the sample's record becomes free, after its batch
 * was delivered or abandoned. */
void stk__fetch_forget(struct stk_sample_state *s);
void stk__fetch_again(struct stk_sample_state *s); /* call it when the sample was replaced: restarts its reads */
/* Stops counting the completed reads of the batch's samples as early ones. Called when the batch is opened. */
void stk__fetch_opened(struct stk_record *r);

/* ---- a sample ---- */

enum stk_fetch_turn {
	STK_FETCH_TAKE, /* the worker continues: the chain needs no bytes or has them, or this worker tries to read them */
	/* The window is full, a try would probably need another request, and the consumer waits for an earlier batch: try again after a request has ended. */
	STK_FETCH_LATER,
	STK_FETCH_WAITS, /* the chain waits, and becomes ready when its bytes have arrived */
};
/* Returns what a worker does with the chain's sample. idle: the worker will not run the chain, since another chain of the sample has failed. */
enum stk_fetch_turn stk__fetch_order_next(struct stk_sample_state *s, int32_t chain, bool idle);
/* Returns whether the chain's bytes are being read. If so, the chain becomes ready when they have arrived. */
bool stk__fetch_is_reading(struct stk_sample_state *s, int32_t chain);
/* Tries to read without blocking, after STK_FETCH_TAKE. Returns false if reading would have blocked; the chain then waits. Call without the lock. */
bool stk__fetch_now(struct stk_exec_worker *w, struct stk_sample_state *s, int32_t chain);
/* Returns the error of a chain's reads, or STK_OK. Call without the lock, after all reads have ended. */
STK_MUST_USE enum stk_status stk__fetch_status(const struct stk_sample_state *s, const struct stk_chain *chain, struct stk_error *err);
size_t stk__fetch_bytes(const struct stk_sample_state *s,
	const struct stk_chain *chain); /* returns the number of bytes in the chain's reads; needs no lock */
/* Sets out[0 .. parts - 1] to views of the parts that `reader` has read for the sample. Needs no lock. */
void stk__fetch_parts(const struct stk_sample_state *s, int32_t reader, struct stk_bytes *out);
/* Returns the buffer of a request for this reader if the buffer holds exactly these bytes. The caller gets a second reference to it (stk__buffer_share).
 * Returns NULL if there is no such buffer, if copying the bytes is better, or if the buffer already has a second reference. Needs no lock: chains of a sample
 * may call it concurrently. */
struct stk_buffer *stk__fetch_share(const struct stk_sample_state *s, int32_t reader, const uint8_t *data, size_t size);
bool stk__fetch_complete(const struct stk_sample_state *s);
/* Releases the sample's bytes, except those of requests under way. */
void stk__fetch_release(struct stk_sample_state *s);
/* Releases the bytes after the sample's chains have run. Keeps them if the GPU may refuse the sample and no other copy exists. */
void stk__fetch_read_through(struct stk_sample_state *s);

/* Returns whether `data` is a copy of the sample's bytes in pinned memory. Copies exist as long as the batch has work for the GPU. Needs no lock. */
bool stk__fetch_is_pinned(const struct stk_sample_state *s, const uint8_t *data);
/* Records that `file` is a copy of `data` in pinned memory, from which the cores read if the GPU refuses the file after `data` was released. Needs no lock. */
void stk__fetch_keep_pinned(struct stk_sample_state *s, const uint8_t *data, const uint8_t *file);

/* ---- the window: the limit of requests and bytes ---- */

void stk__fetch_batch_delivered(struct stk_pipeline *p); /* call it when the consumer takes a batch */
/* Allows the requests of the batch that is delivered next to exceed the window. Call it when the number of that batch has changed. */
void stk__fetch_awaits_next(struct stk_pipeline *p);
void stk__fetch_restart(struct stk_pipeline *p); /* called after a drain: reading continues with the batch that is delivered next */
bool stk__fetch_runs_ahead(const struct stk_pipeline *p);
void stk__fetch_ahead(struct stk_pipeline *p); /* submits requests until the window is full; call without the lock */
/* Cancels requests that have not begun and waits for the others. Call without the lock, when no more requests are submitted. */
void stk__fetch_end(struct stk_pipeline *p);
/* Returns whether the source seems to be down: many requests in a row have failed. */
bool stk__fetch_source_down(const struct stk_pipeline *p);
/* Returns whether the sample failed because all tries to read its object failed, while the source answered other requests. */
bool stk__fetch_object_failed(const struct stk_sample_state *s);

struct stk_fetch_counts {
	int32_t in_flight; /* number of requests in flight */
	int32_t early;     /* number of reads whose bytes are in memory, for batches that are not open yet */
	int64_t read_bytes;
};
struct stk_fetch_counts stk__fetch_counts(const struct stk_pipeline *p);

#endif
