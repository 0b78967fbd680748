/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a batch: its levels, its failed samples, its end. It sees the parts that work on batches: they call up to it with what has come about, by
 * stk__on_..., and know nothing else of it. The pipeline's lock is held unless said. */
#ifndef STK_EXEC_ENGINE_H
#define STK_EXEC_ENGINE_H

#include "exec/exec.h"

/* ---- what parts tell ---- */

/* fetch: bytes that the chain of this sample waited for have come, or could not be had. */
void stk__on_bytes(struct stk_sample_state *s, int32_t chain);
/* feed: all sources have given for the batch. STK_END: they have no more in this epoch; else err says why they failed. */
void stk__on_fed(struct stk_record *r, enum stk_status status, const struct stk_error *err);
/* The GPU is through with the level's jobs, or failed at them. Samples that it would not do run again on the cores; those that failed there are bad. */
struct stk_gpu_verdict {
	int32_t sample;
	const struct stk_error *failed; /* NULL: for the cores */
};
void stk__on_gpu_done(struct stk_record *r, const struct stk_gpu_verdict *verdicts, int32_t count, const struct stk_error *err);

/* Batches by levels and chains. It has no `wait`: what is FINISHED has arrived. */
extern const struct stk_way stk__way_of_workers;

/* ---- a batch ---- */

/* It has a slot. no_memory: it has none, and ends as an error. */
void stk__record_open(struct stk_record *r, bool no_memory);
void stk__record_error(
	struct stk_record *r, const struct stk_error *err, int64_t rank); /* it has failed, unless an error of a lower rank is there */
void stk__level_part_done(struct stk_record *r);
void stk__level_over(struct stk_record *r); /* its steps on the GPU too */
/* Makes what the consumer gets of batches that have ended; gives the lock up for that. Whoever may have ended one calls it before it gives up the lock. */
void stk__end_records(struct stk_pipeline *p);
void stk__record_return(struct stk_record *r); /* gives back what users, the ring or the GPU own of it; without the lock */
void stk__record_reset(struct stk_record *r);  /* after that */

/* ---- a sample ---- */

void stk__sample_part_done(struct stk_record *r, int32_t i); /* one chain of the level is through with it */
/* It fails in this chain; the error of the first chain that it fails in counts. */
void stk__sample_fails(struct stk_record *r, int32_t i, int32_t chain, const struct stk_error *err);

#endif
