/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for one batch of a pipeline that uses a GPU, allocated in pieces and released all at once: pinned host memory from which copies are made, or
 * device memory for values between two steps.
 *
 * After the first batches all pieces come from one block: if a batch has needed more, a block of that size plus a quarter replaces it. The batches of a
 * pipeline share this size (`largest_batch`), since allocating pinned memory is slow; so later batches begin with a block that is large enough. Pieces do
 * not touch, and pieces of two blocks are further apart than STK_JPEG_GPU_GAP, so pieces that are closer together belong to one allocation. Several threads
 * may take pieces at the same time. Only the owner resets and destroys the memory, while no thread takes a piece. */
#ifndef STK_EXEC_DEVICE_MEMORY_H
#define STK_EXEC_DEVICE_MEMORY_H

#include "gpu/gpu.h"

#include <pthread.h>

struct stk_device_block;

struct stk_device_memory {
	struct stk_gpu_device *dev;
	bool pinned; /* true: pinned host memory; false: device memory */
	pthread_mutex_t lock;
	struct stk_device_block *blocks; /* blocks, the newest first; pieces are taken from the newest */
	size_t used;                     /* number of bytes in use in the newest block */
	size_t taken_bytes;              /* total size of all pieces since the last reset */
	size_t total_bytes;
	_Atomic size_t *largest_batch; /* the most bytes that a batch has taken, plus a quarter; shared by the pipeline's batches */
};

void stk__device_memory_init(struct stk_device_memory *m, struct stk_gpu_device *dev, bool pinned, _Atomic size_t *largest_batch);
void stk__device_memory_destroy(struct stk_device_memory *m); /* may be called on a zeroed struct */

/* Returns an address on the host or on the device, aligned to 256 bytes; 64 bytes after the piece are readable. Returns 0 and fills err if no memory can be
 * allocated. May allocate a block, which takes milliseconds. Do not call it inside stk__gpu_enter. */
uintptr_t stk__device_memory_take(struct stk_device_memory *m, size_t size, struct stk_error *err);

/* Releases all pieces. The GPU must not use them any more. */
void stk__device_memory_reset(struct stk_device_memory *m);

#endif
