/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves a batch through its life: levels, failed samples, end.
 *
 * fetch_read.c, feed.c and device.c report events by calling stk__on_..., and use nothing else of this header. Call with the pipeline's lock held unless the
 * comment says otherwise. */
#ifndef STK_EXEC_ENGINE_H
#define STK_EXEC_ENGINE_H

#include "exec/exec.h"

/* ---- events from the other parts ---- */

/* Makes the sample's chain ready: the bytes for which it waited have arrived, or could not be read. Called by fetch_read.c. */
void stk__on_bytes(struct stk_sample_state *s, int32_t chain);
/* Applies what the sources have reported for the batch, after all of them have returned. status: STK_OK, or STK_END if they have no more samples in this
 * epoch; any other status is a failure, which err describes. Called by feed.c. */
void stk__on_fed(struct stk_record *r, enum stk_status status, const struct stk_error *err);
/* The GPU's result for a sample that it refused, or whose job failed.
 * stk__on_gpu_done is called by device.c when the GPU has finished the level's jobs, or has failed. err: the failure of the whole batch, or NULL. Samples
 * that the GPU refused run again on the cores; samples whose jobs failed are bad. */
struct stk_gpu_verdict {
	int32_t sample;
	const struct stk_error *failed; /* NULL: the sample runs again on the cores */
};
void stk__on_gpu_done(struct stk_record *r, const struct stk_gpu_verdict *verdicts, int32_t count, const struct stk_error *err);

/* Makes batches by running levels and chains on workers. Its `wait` is NULL, since a FINISHED batch can be delivered at once. */
extern const struct stk_batch_maker stk__made_by_workers;

/* ---- a batch ---- */

/* Begins the work of a batch that has a slot. no_memory: no slot could be allocated, and the batch ends with an error. */
void stk__record_open(struct stk_record *r, bool no_memory);
/* Fails the batch, unless it already has an error of the same or a lower rank (stk_result.rank). */
void stk__record_error(struct stk_record *r, const struct stk_error *err, int64_t rank);
void stk__level_part_done(struct stk_record *r); /* counts one sample, gather or callback of the level as finished */
/* Begins the next level, or ends the batch. Called when all chains and GPU steps of a level have ended. */
void stk__level_over(struct stk_record *r);
/* Builds, for each batch that has ended, the object that the consumer receives; releases the lock while it does. A function that may have ended a batch must
 * call this before it unlocks. */
void stk__end_records(struct stk_pipeline *p);
/* Frees the consumer's object, the data from users' sources and the slot, and resets the batch's GPU memory. Call without the lock. */
void stk__record_return(struct stk_record *r);
void stk__record_reset(struct stk_record *r); /* makes the record FREE; call after stk__record_return, with the lock held */

/* ---- a sample ---- */

void stk__sample_part_done(struct stk_record *r, int32_t i); /* counts one chain of the level as finished for this sample */
/* Fails the sample in this chain; only the error of the first failed chain counts. */
void stk__sample_fails(struct stk_record *r, int32_t i, int32_t chain, const struct stk_error *err);

#endif
