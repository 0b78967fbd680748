/* SPDX-License-Identifier: Apache-2.0
 * A consumer on a GPU that lets batches go at once, while its streams read them much later: what a pipeline must wait for. */
#ifndef STK_TEST_LATE_READER_H
#define STK_TEST_LATE_READER_H

#include "gpu/gpu.h"
#include "stoker/pipeline.h"
#include "tensor/slot.h"

enum { LATE_BATCHES = 24 };

struct late_reader {
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev; /* entered */
	stk_gpu_stream streams[STK_SLOT_STREAMS];
	stk_gpu_ptr dummy;
	uint8_t *copies[LATE_BATCHES]; /* pinned */
	int64_t sample;
};

/* For batches of up to `batch` samples whose first output takes `sample` bytes each. On device 0, by the driver as it is told to be now. */
void late_open(struct late_reader *l, int64_t sample, int32_t batch);
void late_close(struct late_reader *l);

/* Reads batches of `gpu`, whose first output lies dense; fails unless they are those of `cores`, all of which are kept meanwhile. */
void late_check(struct late_reader *l, struct stk_pipeline *gpu, struct stk_pipeline *cores);

#endif
