/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

extern "C" __global__ void selftest_fill(uint32_t *out, uint32_t count, uint32_t seed)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		out[i] = i * 2654435761u + seed;
}
