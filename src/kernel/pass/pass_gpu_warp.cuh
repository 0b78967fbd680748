/* SPDX-License-Identifier: Apache-2.0
 * Computes pixels of a warped image at any position, from interleaved uint8 or float32 with at most 4 channels, with the arithmetic of warp.c.
 * pass_gpu_pixels.cu and pass_gpu_warps.cu use it. */
#ifndef STK_KERNEL_PASS_GPU_WARP_CUH
#define STK_KERNEL_PASS_GPU_WARP_CUH

#include "kernel/common/pixels.cuh"
#include "kernel/pass/pass_gpu_steps.cuh"

/* The parameters of a warp. They are copied from the item to registers, since the compiler must assume that stores change the originals. */
struct warp_source {
	const uint8_t *pixel; /* address of pixel (0, 0) of the sampler's input */
	int64_t pitch;
	int32_t step_x, channels; /* distance in elements to the next pixel of a row; number of channels */
	int32_t w, h, sampled;
	bool clamp;
	float fill;
	stk_warp_row row; /* parameters for one output; the caller sets first and y */
};

template <typename T> static __device__ __forceinline__ const uint8_t *source_pixel(const stk_pass_gpu_item &it, int32_t x, int32_t y)
{
	return (const uint8_t *)it.src + (int64_t)(y - it.y0) * it.src_row + (int64_t)(x - it.x0) * it.in_c * (int64_t)sizeof(T);
}

/* Returns the parameters for one row of the warped image; the caller sets first and y. */
static __device__ __forceinline__ stk_warp_row warp_row(const stk_pass_gpu_item &it, bool linear)
{
	stk_warp_row w = {};
	w.linear = linear;
#pragma unroll
	for (int i = 0; i < 6; i++)
		w.m[i] = it.warp.m[i];
	return w;
}

template <typename T> static __device__ __forceinline__ warp_source make_warp_source(const stk_pass_gpu_item &it)
{
	const stk_axis_map &column = it.axis[0].pre, &row = it.axis[1].pre;
	warp_source s = {};
	s.pixel = source_pixel<T>(it, column.first, row.first);
	s.pitch = row.step * it.src_row;
	s.step_x = column.step * it.in_c;
	s.channels = it.in_c;
	s.w = it.mid_w;
	s.h = it.mid_h;
	s.sampled = it.sampled;
	s.clamp = it.warp.clamp;
	s.fill = it.warp.fill;
	s.row = warp_row(it, it.warp.interp != STK_INTERP_NN);
	return s;
}

/* Sets p to the channels of pixel (x, y) of the sampler's input; outside of it, to the fill value or to the nearest pixel at the edge, as in warp.c. */
template <typename T, int C>
static __device__ __forceinline__ void warp_pixel(const warp_source &s, int32_t x, int32_t y, float p[CHANNELS])
{
	int32_t ix = stk__warp_clamp(x, s.w), iy = stk__warp_clamp(y, s.h);
	bool outside = !s.clamp && (ix != x || iy != y);
	const T *from = (const T *)(const void *)(s.pixel + iy * s.pitch) + ix * s.step_x;
#pragma unroll
	for (int c = 0; c < C; c++)
		p[c] = outside ? s.fill : c < s.channels ? (float)__ldg(from + c) : 0;
}

/* Sets p to the channels at position `at` (from stk__warp_place): of the nearest pixel, or interpolated; rounded to type s.sampled. */
template <typename T, int C> static __device__ __forceinline__ void sample_warp(const warp_source &s, const float at[2], float p[CHANNELS])
{
	stk_warp_position upper = stk__warp_split(at);
	warp_pixel<T, C>(s, upper.x, upper.y, p);
	if (s.row.linear) {
		float right[CHANNELS], below[CHANNELS], diagonal[CHANNELS];
		warp_pixel<T, C>(s, upper.x + 1, upper.y, right);
		warp_pixel<T, C>(s, upper.x, upper.y + 1, below);
		warp_pixel<T, C>(s, upper.x + 1, upper.y + 1, diagonal);
#pragma unroll
		for (int c = 0; c < C; c++)
			p[c] = stk__warp_mix(p[c], right[c], below[c], diagonal[c], upper.qx, upper.qy);
	}
#pragma unroll
	for (int c = 0; c < C; c++)
		p[c] = s.sampled == STK_FLOAT ? p[c] : s.sampled == STK_UINT8 ? (float)stk__to_byte(p[c]) : round_to(p[c], s.sampled);
}

#endif
