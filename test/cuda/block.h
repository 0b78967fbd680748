/* SPDX-License-Identifier: Apache-2.0
 * Runs kernels on the host: the blocks of a grid one after the other, the threads of a block as fibers of the calling thread, which let each other run
 * where they wait for each other. So a block's shared memory may be static variables, and a run is the same every time. Every other block's threads come
 * last to first, which shows where a barrier is missing.
 *
 * What a GPU leaves undefined is an error here where it is cheap to see: threads of a warp that wait at different places, a barrier that some never
 * reach. One launch at a time in the process: the caller locks. */
#ifndef STK_TEST_CUDA_BLOCK_H
#define STK_TEST_CUDA_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_dim {
	unsigned x, y, z;
};

/* What a kernel sees of itself. */
struct emulated {
	struct emulated_dim thread, block, block_dim, grid_dim;
	void *shared; /* dynamic shared memory */
};
extern struct emulated emulated;

/* A kernel as kernels.py makes it from a .cu file. Arguments travel packed, in a struct of the kernel's own. */
struct emulated_kernel {
	const char *module, *name;
	size_t arguments; /* bytes of them, packed */
	void (*pack)(void *to, void *const params[]);
	void (*run)(const void *packed);
};

/* Returns NULL, or what went wrong, a static text. */
const char *emulated_launch(
	const struct emulated_kernel *kernel, const void *packed, struct emulated_dim grid, struct emulated_dim block, size_t shared);

/* ---- called by kernels ---- */

/* Waits for all threads of the block that have not returned. */
void emulated_sync_block(void);

/* Waits for all lanes of the warp that have not returned; `what` says at which instruction, and must be the same for all. Each gives a value.
 * Returns those of the 32 lanes (0: it has returned), good until the lane's next call. */
const uint64_t *emulated_exchange(const char *what, uint64_t mine);

/* The same for a bit a lane. */
unsigned emulated_vote(const char *what, int set);

/* Asynchronous copies to shared memory (kernel/common/cuda.cuh). Those of odd blocks are done as late, those of even ones as early as they may be. */
void emulated_copy(void *to, const void *from, unsigned size);
void emulated_copy_commit(void);
void emulated_copy_wait(unsigned groups);

/* The launch fails if the address is not one of global memory, as a GPU answers with an invalid address space: it is shared memory, or a variable or
 * parameter of the thread. `what` is the instruction. */
void emulated_global(const char *what, const void *address);

/* The launch fails for what a kernel does that is wrong, or that the emulation has not. */
void emulated_refuse(const char *why);

#ifdef __cplusplus
}
#endif

#endif
