/* SPDX-License-Identifier: Apache-2.0
 * Runs kernels on the host. The blocks of a grid run one after the other; the threads of a block are fibers of the calling thread, and a thread that waits
 * for others lets them run. Therefore a block's shared memory may be static variables, and every run is the same. Every other block runs its threads from
 * last to first, which exposes most missing barriers.
 *
 * Some behaviour that a GPU leaves undefined is an error here, if it is cheap to detect: threads of a warp that wait at different instructions, a barrier
 * that some threads never reach. Only one launch may run in the process at a time; the caller must hold a lock. */
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

/* The built-in variables that a kernel reads. */
struct emulated {
	struct emulated_dim thread, block, block_dim, grid_dim;
	void *shared; /* dynamic shared memory */
};
extern struct emulated emulated;

/* A kernel that kernels.py generates from a .cu file. A launch stores its arguments in a struct that is generated for this kernel. */
struct emulated_kernel {
	const char *module, *name;
	size_t arguments; /* bytes of the struct that holds the arguments */
	void (*pack)(void *to, void *const params[]);
	void (*run)(const void *packed);
};

/* Runs the kernel. Returns NULL, or a static text that describes the error. */
const char *emulated_launch(
	const struct emulated_kernel *kernel, const void *packed, struct emulated_dim grid, struct emulated_dim block, size_t shared);

/* ---- called by kernels ---- */

/* Waits for all threads of the block that have not returned. */
void emulated_sync_block(void);

/* Publishes the lane's value `mine` and waits until all lanes of the warp that have not returned do so. `what` names the instruction and must be the same
 * for all. Returns the values of the 32 lanes, 0 for a lane that has returned; they are valid until this lane's next call. */
const uint64_t *emulated_exchange(const char *what, uint64_t mine);

/* Exchanges one bit of each lane, which is 1 if `set` is not 0, and waits like emulated_exchange. Returns the bits of all lanes; lane 0 has the lowest
 * bit. */
unsigned emulated_vote(const char *what, int set);

/* Implement asynchronous copies to shared memory (kernel/common/cuda.cuh). emulated_copy_commit ends a group of copies, and emulated_copy_wait waits until
 * at most `groups` of the ended groups are incomplete. Blocks with an odd blockIdx.x copy as late as is allowed, so that a kernel that does not wait reads
 * old data; the others copy at once. */
void emulated_copy(void *to, const void *from, unsigned size);
void emulated_copy_commit(void);
void emulated_copy_wait(unsigned groups);

/* Makes the launch fail if the address is in shared memory, or belongs to a variable or parameter of the thread. A GPU reports an invalid address space in
 * this case. `what` names the instruction. */
void emulated_global(const char *what, const void *address);

/* Makes the launch fail because the kernel did something that is wrong, or that the emulation does not support. */
void emulated_refuse(const char *why);

#ifdef __cplusplus
}
#endif

#endif
