/* SPDX-License-Identifier: Apache-2.0
 * CUDA kernels as plain C: the threads of a block are fibers of one thread, which yield where they wait for each other. One block runs at a time, so
 * static variables serve as shared memory. Slow and exact: for testing the logic of kernels where there is no GPU. */
#ifndef STK_TEST_CUDA_EMULATE_H
#define STK_TEST_CUDA_EMULATE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define STK_CUDA_EMULATE
#define STK_KERNEL static
#define STK_DEVICE static inline
#define STK_SHARED_ARRAY(type, name) type *name = emulated.dynamic
#define STK_FULL 0xffffffffu
#define __shared__ static
#define __launch_bounds__(n)

struct emulated_dim {
	unsigned x, y, z;
};

extern struct emulated {
	struct emulated_dim thread, block, block_dim, grid_dim;
	void *dynamic;
} emulated;

#define threadIdx emulated.thread
#define blockIdx emulated.block
#define blockDim emulated.block_dim
#define gridDim emulated.grid_dim

/* Wait for all threads of the block, or of the warp, that have not returned. */
void emulate_syncthreads(void);
/* Every lane gives a value; out[32] has all of them (0 for lanes that returned). */
void emulate_exchange(uint64_t mine, uint64_t out[32]);

#define __syncthreads() emulate_syncthreads()

static inline unsigned stk__warp_min(unsigned v)
{
	uint64_t all[32];
	emulate_exchange((uint64_t)v + 1, all); /* + 1: 0 stands for a lane that returned */
	unsigned least = v;
	for (int i = 0; i < 32; i++)
		least = all[i] && all[i] - 1 < least ? (unsigned)(all[i] - 1) : least;
	return least;
}

static inline unsigned __ballot_sync(unsigned mask, int set)
{
	uint64_t all[32];
	unsigned bits = 0;
	(void)mask;
	emulate_exchange(set != 0, all);
	for (int i = 0; i < 32; i++)
		bits |= (unsigned)all[i] << i;
	return bits;
}

static inline int __shfl_sync(unsigned mask, int v, int lane)
{
	uint64_t all[32];
	(void)mask;
	emulate_exchange((uint32_t)v, all);
	return (int)(uint32_t)all[lane];
}

static inline int __popc(unsigned v)
{
	return __builtin_popcount(v);
}

static inline int __ffs(int v)
{
	return __builtin_ffs(v);
}

static inline long long __double_as_longlong(double v)
{
	long long u;
	memcpy(&u, &v, sizeof u);
	return u;
}

static inline double __longlong_as_double(long long u)
{
	double v;
	memcpy(&v, &u, sizeof v);
	return v;
}

#define stk__copy_ahead(to, from) (*(float *)(to) = *(const float *)(from))
#define stk__copy_commit() ((void)0)
#define stk__copy_wait(n) ((void)0)
#define atomicAdd(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define atomicMax(p, v)                                                                                                                    \
	do {                                                                                                                               \
		if (*(p) < (v))                                                                                                            \
			*(p) = (v);                                                                                                        \
	} while (0)

#endif
