/* SPDX-License-Identifier: Apache-2.0
 * Runs the steps of a pass over a pixel of at most CHANNELS channels, one after the other, for the kernels of pass_gpu.cu and pass_gpu_pixels.cu. */
#ifndef STK_KERNEL_PASS_GPU_STEPS_CUH
#define STK_KERNEL_PASS_GPU_STEPS_CUH

#include "kernel/pass/pass_gpu.cuh"

#define CHANNELS STK_PASS_GPU_CHANNELS

struct pixel_value {
	float channel[CHANNELS];
};

/* Runs the steps over a pixel and stores it at output (x, y). valid: true if the pixel comes from the source; otherwise the fill step sets it. */
static __device__ __noinline__ void finish(
	const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, pixel_value value, bool valid, int32_t x, int32_t y)
{
	float *p = value.channel;
	int32_t channels = it.in_c;
	for (uint32_t i = 0; i < it.n_steps; i++) {
		const stk_step &step = v.steps[it.step0 + i];
		if (step.kind == STK_STEP_MATRIX) {
			float a = p[0], b = p[1], d = p[2];
#pragma unroll
			for (int c = 0; c < 3; c++)
				p[c] = step.m[3 * c] * a + step.m[3 * c + 1] * b + step.m[3 * c + 2] * d + step.b[c];
		} else if (step.kind == STK_STEP_GRAY) {
			p[0] = step.scale[0] * p[0] + step.scale[1] * p[1] + step.scale[2] * p[2];
		} else {
#pragma unroll
			for (int c = 0; c < CHANNELS; c++)
				p[c] = step_one(step, p[c], c, channels, valid);
		}
		if (step.kind == STK_STEP_FILL) { /* fill values have been rounded already */
			valid = true;
			continue;
		}
		channels = step.channels;
#pragma unroll
		for (int c = 0; c < CHANNELS; c++)
			if (c < channels)
				p[c] = round_to(p[c], step.dtype);
	}
	uint8_t *to = (uint8_t *)it.dst + y * it.dst_row + x * it.dst_pixel;
#pragma unroll
	for (int c = 0; c < CHANNELS; c++)
		if (c < channels)
			store(to + c * it.dst_channel, p[c], it.dtype);
}

static __device__ __forceinline__ pixel_value hold(const float p[CHANNELS])
{
	pixel_value value;
#pragma unroll
	for (int c = 0; c < CHANNELS; c++)
		value.channel[c] = p[c];
	return value;
}

#endif
