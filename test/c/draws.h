/* SPDX-License-Identifier: Apache-2.0
 * Uniform random numbers from one seed, which failures print. */
#ifndef STK_TEST_DRAWS_H
#define STK_TEST_DRAWS_H

#include <stdint.h>

static uint64_t seed;

static uint32_t next(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

static int32_t between(int32_t low, int32_t high)
{
	return low + (int32_t)(next() % (uint32_t)(high - low + 1));
}

static float uniform(float low, float high)
{
	return low + (high - low) * (float)(next() % 65536) / 65535;
}

#endif
