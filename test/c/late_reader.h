/* SPDX-License-Identifier: Apache-2.0
 * A consumer on a GPU that releases each batch at once, while its streams read the batch much later. A pipeline must not overwrite a batch before these
 * streams have read it. */
#ifndef STK_TEST_LATE_READER_H
#define STK_TEST_LATE_READER_H

#include "gpu/gpu.h"
#include "stoker/pipeline.h"
#include "tensor/slot.h"

enum { LATE_BATCHES = 24 };

struct late_reader {
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev; /* the device, whose context is current */
	stk_gpu_stream streams[STK_SLOT_STREAMS];
	stk_gpu_ptr dummy;
	uint8_t *copies[LATE_BATCHES]; /* copies of the batches, in pinned memory */
	int64_t sample;
};

/* Prepares for batches of up to `batch` samples, each of `sample` bytes in the first output. Uses device 0, with the driver's current options. */
void late_open(struct late_reader *l, int64_t sample, int32_t batch);
void late_close(struct late_reader *l);

/* Reads the batches of `gpu`, whose first output must be contiguous. Fails unless they equal the batches of `cores`, none of which is released during the
 * test. */
void late_check(struct late_reader *l, struct stk_pipeline *gpu, struct stk_pipeline *cores);

#endif
