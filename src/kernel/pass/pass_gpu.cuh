/* SPDX-License-Identifier: Apache-2.0
 * Functions that the kernels of passes (pass_gpu.h) share: the thread block's item, positions in the source, rounding, stores. */
#ifndef STK_KERNEL_PASS_GPU_CUH
#define STK_KERNEL_PASS_GPU_CUH

#include "kernel/common/cuda.cuh"
#include "kernel/common/find.cuh"
#include "kernel/convert/half.h"
#include "kernel/pass/pass_gpu.h"
#include "kernel/resample/filter_taps.h"
#include "kernel/resample/resample.h"
#include "kernel/warp/warp_position.h"

#define THREADS STK_PASS_GPU_THREADS

/* Returns the thread block's item: the last one whose first block is not after this block. Items of other launches have no blocks in this one. All threads
 * of a warp must call this. */
static __device__ __forceinline__ const stk_pass_gpu_item &find_item(const stk_pass_gpu_view &v)
{
	uint32_t lane = threadIdx.x % 32,
		 found = v.each ? blockIdx.x / v.each : stk__find_warp(&v.items->block0[v.launch], sizeof *v.items, v.n_items, blockIdx.x);
	/* Hides from the compiler that the whole warp has the same item. Otherwise the compiler would keep the item's address in uniform registers, and each
	 * load would first have to copy it to others. */
	return v.items[stk__keep(found + lane) - lane];
}

/* Copies the thread block's item to shared memory, so that threads wait for it only once. All threads must call this. */
static __device__ __forceinline__ void share_item(const stk_pass_gpu_view &v, stk_pass_gpu_item &to)
{
	const uint32_t *from = (const uint32_t *)(const void *)&find_item(v);
	for (uint32_t i = threadIdx.x; i < sizeof to / 4; i += THREADS)
		((uint32_t *)(void *)&to)[i] = from[i];
	__syncthreads();
}

static __device__ __forceinline__ int32_t map(const stk_axis_map &m, int32_t k)
{
	return m.first + m.step * k;
}

/* Returns the position along an axis of the source pixel that becomes output k or, in a resize with weights, of the first pixel that output k is made of. */
static __device__ __forceinline__ int32_t position(const stk_pass_gpu_view &v, const stk_pass_gpu_axis &a, int32_t k)
{
	return a.filter.n ? v.first[a.first + k] : map(a.pre, map(a.post, k));
}

/* Returns x converted to float16, with the same bits as stk__float_to_half. The GPU's instruction gives other bits only for NaN. */
static __device__ __forceinline__ uint16_t to_half(float x)
{
	return x == x ? stk__half_bits(x) : stk__float_to_half(x);
}

static __device__ __forceinline__ float round_integer(float x, float low, float high)
{
	x = x == x ? x : 0;
	x = x > low ? x : low;
	x = x < high ? x : high;
	float whole = (float)(int32_t)x, part = x - whole;
	whole = part >= 0.5f ? whole + 1 : whole;
	return part <= -0.5f ? whole - 1 : whole;
}

static __device__ __forceinline__ float round_to(float x, int32_t dtype)
{
	switch (dtype) {
	case STK_UINT8:
		return round_integer(x, 0, 255);
	case STK_INT8:
		return round_integer(x, -128, 127);
	case STK_UINT16:
		return round_integer(x, 0, 65535);
	case STK_INT16:
		return round_integer(x, -32768, 32767);
	case STK_INT32:
		x = x == x ? x : 0;
		x = x > -0x1p31f ? x : -0x1p31f;
		x = x < 0x1p31f ? x : 0x1p31f;
		return x > -0x1p23f && x < 0x1p23f ? round_integer(x, -0x1p23f, 0x1p23f) : x;
	case STK_BOOL:
		return x >= 0.5f || x <= -0.5f;
	case STK_FLOAT16:
		return stk__half_to_float(to_half(x));
	case STK_BFLOAT16:
		return stk__bfloat_to_float(stk__float_to_bfloat(x));
	default:
		return x;
	}
}

static __device__ __forceinline__ void store(uint8_t *to, float x, int32_t dtype)
{
	switch (dtype) {
	case STK_UINT8:
	case STK_INT8:
	case STK_BOOL:
		*to = (uint8_t)(int32_t)x;
		break;
	case STK_UINT16:
	case STK_INT16:
		*(uint16_t *)to = (uint16_t)(int32_t)x;
		break;
	case STK_INT32:
		*(int32_t *)to = x < 0x1p31f ? (int32_t)x : INT32_MAX;
		break;
	case STK_FLOAT16:
		*(uint16_t *)to = to_half(x);
		break;
	case STK_BFLOAT16:
		*(uint16_t *)to = stk__float_to_bfloat(x);
		break;
	default:
		*(float *)to = x;
	}
}

/* Applies a step, which must not mix channels, to value x of channel c. Returns the result before rounding. channels: number of channels before the step;
 * valid: whether the value comes from the source, not from a fill. */
static __device__ __forceinline__ float step_one(const stk_step &step, float x, int c, int32_t channels, bool valid)
{
	switch (step.kind) {
	case STK_STEP_FILL:
		return valid || c >= channels ? x : step.value[c];
	case STK_STEP_AFFINE:
		return x * step.scale[c] + step.bias[c];
	case STK_STEP_CHANNELS:
		return c >= channels ? step.value[c] : x;
	case STK_STEP_CLAMP: {
		float y = x > step.value[0] ? x : step.value[0];
		return y < step.value[1] ? y : step.value[1];
	}
	default:
		return x;
	}
}

#endif
