/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs data sets of equally sized, decoded images that fit in memory, with little or no work for each sample.
 *
 * On the GPU, the images are uploaded when the pipeline is created, and one kernel (kernel/recipe/recipe.h) makes a batch, including its random draws.
 * resident.c decides once whether a program qualifies. The consumer's own thread launches the kernel when it asks for a batch (resident_run.c), so there
 * are no chains, workers or waiting thread. A sample's name and number are computed only on request.
 *
 * On the cores, the same recipes run sample by sample in the ordinary chains, but no calls of operators are prepared, which would take most of the time for
 * small images.
 *
 * A program qualifies if it is one fused level with a reader whose images are in memory (stk_reader_def.resident). On the GPU, everything must also fit
 * into the pipeline's limit of GPU memory. All values in the slot must be on the GPU, or all on the cores. Each of these values must depend only on the
 * sample's id, so that a table can be made of it, or be the result of one pass over the reader's images, all of whose operators recipes support. Every
 * other program runs through the ordinary chains, with the same results. */
#ifndef STK_EXEC_RESIDENT_H
#define STK_EXEC_RESIDENT_H

#include "exec/exec.h"
#include "kernel/recipe/recipe.h"

enum { STK_RESIDENT_STREAMS = 4, STK_RESIDENT_VIEWS = 4, STK_RESIDENT_PIECES = 2 * STK_RESIDENT_VIEWS + STK_RECIPE_TABLES + 1 };

/* An output whose samples are images of the data set after a recipe. On the GPU one launch makes it for a whole batch. */
struct stk_resident_view {
	struct stk_recipe recipe;
	struct stk_recipe_batch batch; /* the members that all batches share */
	int32_t value;
	size_t scratch; /* number of bytes of scratch memory for one sample; used on the cores */
};

struct stk_resident {
	struct stk_gpu_device *dev;
	/* Batches use the streams in turn, so that their kernels overlap: a kernel spends most of its time waiting for reads of memory and for draws. */
	stk_gpu_stream streams[STK_RESIDENT_STREAMS];
	stk_gpu_kernel kernel;
	struct stk_resident_view views[STK_RESIDENT_VIEWS];
	int32_t n_views, n_tables;
	int32_t tables[STK_RECIPE_TABLES];       /* [table]: index of its value in the program; the kernel of views[0] copies the tables */
	uint8_t *host_tables[STK_RECIPE_TABLES]; /* the tables in host memory; used on the cores */
	stk_gpu_ptr pieces[STK_RESIDENT_PIECES];
	int32_t n_pieces;
	size_t bytes; /* total size of all allocations */
	int64_t samples;
	int64_t *begin_ns; /* [record]: time at which the record's batch was submitted to the GPU */
};

/* resident.c: sets p->parts.resident, for the GPU (dev) or the cores; leaves it NULL if the pipeline cannot keep its data set there. */
STK_MUST_USE enum stk_status stk__resident_create(struct stk_pipeline *p, struct stk_error *err);
void stk__resident_destroy(struct stk_pipeline *p); /* call it after a drain */

/* resident_run.c: computes a chain's result for a sample on the cores. Call without the lock. */
STK_MUST_USE enum stk_status stk__resident_sample(const struct stk_chain_run *run, struct stk_error *err);
/* Makes batches on the GPU: the consumer's thread launches each batch, and polls until it ends. */
extern const struct stk_batch_maker stk__made_resident;

#endif
