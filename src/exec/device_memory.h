/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of one batch on its way over the GPU, taken piece by piece and given back all at once: pinned host memory that copies start from, or device
 * memory for what lives between two steps. Pieces come from one block once warm: after a batch that took more, the block grows to what it took.
 * No two pieces touch, and those of two blocks are further apart than STK_JPEG_GPU_GAP: what lies closer together lies in one allocation.
 *
 * Threads: take from any, several at once; reset and destroy by the owner when nobody takes. */
#ifndef STK_EXEC_DEVICE_MEMORY_H
#define STK_EXEC_DEVICE_MEMORY_H

#include "gpu/gpu.h"

#include <pthread.h>

struct stk_device_block;

struct stk_device_memory {
	struct stk_gpu_device *dev;
	bool pinned; /* host memory; else the device's */
	pthread_mutex_t lock;
	struct stk_device_block *blocks; /* the newest first; pieces come from it */
	size_t used;                     /* of the newest block */
	size_t taken;                    /* since the last reset */
	size_t held;                     /* bytes of all blocks */
};

void stk__device_memory_init(struct stk_device_memory *m, struct stk_gpu_device *dev, bool pinned);
void stk__device_memory_destroy(struct stk_device_memory *m); /* also of a zeroed struct */

/* An address of the host or of the device, aligned to 256 bytes; 64 bytes behind the piece may be read. 0: out of memory, err says which.
 * Takes a block now and then, which takes milliseconds; not inside stk__gpu_enter. */
uintptr_t stk__device_memory_take(struct stk_device_memory *m, size_t size, struct stk_error *err);

/* All pieces are given back. The GPU has done with them. */
void stk__device_memory_reset(struct stk_device_memory *m);

#endif
