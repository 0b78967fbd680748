/* SPDX-License-Identifier: Apache-2.0
 * Kernels that test the emulation itself; test_emulated_driver.c runs them. */
#include "kernel/common/cuda.cuh"

#include <stdint.h>

#define FULL 0xffffffffu

/* Runs one warp whose lanes from `lanes` on return at once. `out` has shape [9][32]. */
extern "C" __global__ void checks_warp(uint32_t *out, uint32_t lanes)
{
	uint32_t lane = threadIdx.x, value = 1000 + 7 * lane;
	if (lane >= lanes)
		return;
	out[lane] = __ballot_sync(FULL, lane % 3 == 0);
	out[32 + lane] = __any_sync(FULL, lane == 40);
	out[64 + lane] = __all_sync(FULL, lane < 40);
	out[96 + lane] = __shfl_sync(FULL, value, 5);
	out[128 + lane] = __shfl_up_sync(FULL, value, 2);
	out[160 + lane] = __shfl_down_sync(FULL, value, 1);
	out[192 + lane] = __shfl_xor_sync(FULL, value, 1);
	out[224 + lane] = stk__warp_min(value);
	/* Repeats the exchange, so that some lanes still read one set of values while others write the next set. */
	for (uint32_t i = 0; i < 50; i++)
		value = __shfl_sync(FULL, value, (lane + 1) % lanes) + (__ballot_sync(FULL, lane == i % lanes) >> lane & 1);
	out[256 + lane] = value;
}

/* Each thread adds the value of the thread before it in the block, `rounds` times. */
extern "C" __global__ void checks_block(uint32_t *out, uint32_t rounds)
{
	STK_SHARED_ARRAY(uint32_t, line);
	uint32_t t = threadIdx.x + blockDim.x * threadIdx.y, n = blockDim.x * blockDim.y;
	line[t] = t;
	for (uint32_t i = 0; i < rounds; i++) {
		__syncthreads();
		uint32_t before = line[(t + n - 1) % n];
		__syncthreads();
		line[t] += before;
	}
	out[blockIdx.x * n + t] = line[t] + blockIdx.x;
}

/* Makes lanes of a warp wait at different instructions, which is an error. */
extern "C" __global__ void checks_apart(uint32_t *out)
{
	*out = threadIdx.x % 2 ? __ballot_sync(FULL, 1) : __any_sync(FULL, 1);
}

/* Makes a lane wait for its warp while the rest of the warp waits for the lane's block: a deadlock. */
extern "C" __global__ void checks_stuck(void)
{
	if (threadIdx.x == 0)
		__syncwarp();
	else
		__syncthreads();
}

/* Reads the target of an asynchronous copy. Waits for the copy first only if `patient` is set. */
extern "C" __global__ void checks_copy(const uint32_t *from, uint32_t *out, int patient)
{
	STK_SHARED_ARRAY(uint32_t, words);
	uint32_t *mine = words + 8 * threadIdx.x, at = blockIdx.x * blockDim.x + threadIdx.x;
	stk__copy_ahead16(mine, from + 4 * at);
	stk__copy_commit();
	stk__copy_ahead4(mine + 4, from + 4 * at);
	stk__copy_commit();
	if (patient)
		stk__copy_wait(1);
	out[at] = mine[3];
}

/* Reads with an instruction for global memory from: global memory (0), static (1) or dynamic (2) shared memory, or a variable of the thread (3). */
extern "C" __global__ void checks_global(uint32_t *out, int where)
{
	__shared__ uint32_t fixed;
	STK_SHARED_ARRAY(uint32_t, words);
	uint32_t own = 1;
	fixed = words[0] = 1;
	out[0] = __ldg(where == 0 ? out + 1 : where == 1 ? &fixed : where == 2 ? words : &own);
}
