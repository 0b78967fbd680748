/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for one batch on the GPU path, taken in pieces and released all at once: pinned host memory from which copies start, or device memory for
 * values between two steps.
 *
 * After the first batches all pieces come from one block: when a batch needed more, the block grows to that size. Batches of a pipeline share that size
 * (`usual`), because allocating pinned memory is slow: a later batch begins with a block that is large enough. No two pieces touch, and pieces of two blocks
 * are further apart than STK_JPEG_GPU_GAP, so pieces that are closer together belong to one allocation.
 *
 * Any threads may take pieces at the same time. Only the owner resets and destroys, while no thread takes a piece. */
#ifndef STK_EXEC_DEVICE_MEMORY_H
#define STK_EXEC_DEVICE_MEMORY_H

#include "gpu/gpu.h"

#include <pthread.h>

struct stk_device_block;

struct stk_device_memory {
	struct stk_gpu_device *dev;
	bool pinned; /* true: pinned host memory; false: device memory */
	pthread_mutex_t lock;
	struct stk_device_block *blocks; /* the newest first; pieces come from it */
	size_t used;                     /* bytes of the newest block */
	size_t taken;                    /* bytes of all pieces since the last reset */
	size_t held;                     /* bytes of all blocks */
	_Atomic size_t *usual;           /* the most bytes that a batch has taken; shared */
};

void stk__device_memory_init(struct stk_device_memory *m, struct stk_gpu_device *dev, bool pinned, _Atomic size_t *usual);
void stk__device_memory_destroy(struct stk_device_memory *m); /* also accepts a zeroed struct */

/* Returns an address of the host or the device, aligned to 256 bytes, with 64 readable bytes after the piece; 0 if memory is short, and err
 * says which kind. May allocate a block, which takes milliseconds; do not call inside stk__gpu_enter. */
uintptr_t stk__device_memory_take(struct stk_device_memory *m, size_t size, struct stk_error *err);

/* Releases all pieces. The GPU must not use them any more. */
void stk__device_memory_reset(struct stk_device_memory *m);

#endif
