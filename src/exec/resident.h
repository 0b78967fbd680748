/* SPDX-License-Identifier: Apache-2.0
 *
 * Data sets that lie in memory decoded, as images of one size, run on the GPU without work for each sample: they are uploaded when the pipeline is
 * made, and a batch is one kernel (kernel/recipe/recipe.h) that makes the draws itself. Whether a program is such a one is decided once (resident.c); what
 * it does is launched by the consumer's own thread, when it comes for a batch (resident_run.c). There are no chains, workers or waiting thread then.
 * What depends on a sample's place afterwards (its name and number) is worked out when it is asked for.
 *
 * On the cores the same recipes run sample by sample in the ordinary chains, which then prepare no calls: small images would spend most of their time on
 * those.
 *
 * A program qualifies where it is one level, fused, with a reader whose images lie in memory (stk_reader_def.resident); where each value in the slot
 * is on the GPU (or each on the cores) and either follows from the sample's id alone (a table is made of it) or is one pass over the reader's images
 * whose operators have a place in a recipe; and where all of it fits into the memory that a pipeline may take. Everything else takes the
 * ordinary path, with the same bytes. */
#ifndef STK_EXEC_RESIDENT_H
#define STK_EXEC_RESIDENT_H

#include "exec/exec.h"
#include "kernel/recipe/recipe.h"

enum { STK_RESIDENT_STREAMS = 4, STK_RESIDENT_VIEWS = 4, STK_RESIDENT_PIECES = 2 * STK_RESIDENT_VIEWS + STK_RECIPE_TABLES + 1 };

/* One launch of a batch: the images of one value. */
struct stk_resident_view {
	struct stk_recipe recipe;
	struct stk_recipe_batch batch; /* what all batches have in common */
	int32_t value;
	size_t scratch; /* of a sample on the cores */
};

struct stk_resident {
	struct stk_gpu_device *dev;
	stk_gpu_stream streams[STK_RESIDENT_STREAMS]; /* batches take turns: a kernel is mostly waiting, for what it reads and draws */
	stk_gpu_kernel kernel;
	struct stk_resident_view views[STK_RESIDENT_VIEWS];
	int32_t n_views, n_tables;
	int32_t tables[STK_RECIPE_TABLES];       /* values; views[0] copies them */
	uint8_t *host_tables[STK_RECIPE_TABLES]; /* on the cores */
	stk_gpu_ptr pieces[STK_RESIDENT_PIECES];
	int32_t n_pieces;
	size_t bytes; /* of the pieces */
	int64_t samples;
	int64_t *begin_ns; /* by place of the batch: when it went to the GPU */
};

/* resident.c: p->parts.resident, on the GPU (dev) or on the cores; stays NULL where the program does not qualify. */
STK_MUST_USE enum stk_status stk__resident_create(struct stk_pipeline *p, struct stk_error *err);
void stk__resident_destroy(struct stk_pipeline *p); /* drained */

/* resident_run.c. On the cores, without the lock: what a chain makes of a sample. */
STK_MUST_USE enum stk_status stk__resident_sample(const struct stk_chain_run *run, struct stk_error *err);
/* On the GPU: the consumer's thread launches a batch, and looks for its end. */
extern const struct stk_way stk__way_of_resident;

#endif
