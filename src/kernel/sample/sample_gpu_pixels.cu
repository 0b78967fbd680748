/* SPDX-License-Identifier: Apache-2.0
 * Samples images on the GPU pixel by pixel (sample_pixels.h), with the arithmetic of sample_one.h. kernel/common/texels.cuh makes most pixels; sample_anywhere
 * makes those that texels.cuh leaves to its caller. */
#include "kernel/common/texels.cuh"
#include "kernel/job/job_find.cuh"
#include "kernel/sample/sample_one.h"
#include "kernel/sample/sample_pixels.h"

#define THREADS STK_JOB_THREADS
#define WARPS (THREADS / STK_TEXEL_WIDTH)

/* An image, its kind of border, and the fill value of each channel. */
struct sampler {
	stk_texel_source image;
	int32_t border;
	float fill[4];
};

template <int C> static __device__ __forceinline__ sampler make_sampler(const stk_job &job, const stk_texel_source &image)
{
	sampler s = {image, STK_PARAMS(stk_job_sample, &job).border, {}};
#pragma unroll
	for (int c = 0; c < C; c++)
		s.fill[c] = ((const float *)job.constants)[c];
	return s;
}

static __device__ __noinline__ int32_t index_outside(int32_t i, int32_t size, int32_t border)
{
	return stk__border_index(i, size, border);
}

static __device__ __forceinline__ int32_t index_of(int32_t i, int32_t size, int32_t border)
{
	return (uint32_t)i < (uint32_t)size ? i : index_outside(i, size, border);
}

/* The pixels from which one output is interpolated: two columns x and two rows y of the source (-1: the fill value), and the weights qx and qy of x[1] and
 * y[1]. */
struct spot {
	int32_t x[2], y[2];
	float qx, qy;
};

/* Returns the spot for an output. position: where the output is sampled, minus 0.5 if LINEAR, so that its integer part is the upper left pixel; NaN is
 * allowed. */
template <bool LINEAR> static __device__ __forceinline__ spot find_spot(const sampler &s, const float position[2])
{
	int32_t at[2];
	float q[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		at[i] = stk__sample_floor(position[i]);
		q[i] = position[i] - (float)at[i];
		q[i] = q[i] >= 0 && q[i] < 1 ? q[i] : 0;
	}
	spot p = {{index_of(at[0], s.image.w, s.border), 0}, {index_of(at[1], s.image.h, s.border), 0}, q[0], q[1]};
	if (LINEAR) {
		p.x[1] = index_of(at[0] + 1, s.image.w, s.border);
		p.y[1] = index_of(at[1] + 1, s.image.h, s.border);
	}
	return p;
}

template <typename T, int C> static __device__ __forceinline__ float value_at(const sampler &s, int32_t x, int32_t y, int c)
{
	return (x | y) < 0 ? s.fill[c] : (float)__ldg((const T *)(const void *)(s.image.pixel + y * s.image.row) + x * C + c);
}

template <typename T, int C> static __device__ __forceinline__ void put_value(stk_texel<T, C> &t, int c, float value)
{
	if constexpr (sizeof(T) == 1)
		t.word |= stk__to_byte(value) << 8 * c;
	else
		t.value[c] = value;
}

/* Returns the pixel sampled at any position, with the arithmetic of stk__sample_float for each channel. */
template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ stk_texel<T, C> sample_anywhere(const sampler &s, const float position[2])
{
	const spot at = find_spot<LINEAR>(s, position);
	stk_texel<T, C> made = {};
#pragma unroll
	for (int c = 0; c < C; c++) {
		float value = value_at<T, C>(s, at.x[0], at.y[0], c);
		if (LINEAR) {
			float px = 1 - at.qx, top = value * px + value_at<T, C>(s, at.x[1], at.y[0], c) * at.qx;
			float bottom = value_at<T, C>(s, at.x[0], at.y[1], c) * px + value_at<T, C>(s, at.x[1], at.y[1], c) * at.qx;
			value = top + (bottom - top) * at.qy;
		}
		put_value(made, c, value);
	}
	return made;
}

/* The distances by which waves shift the rows and columns of a thread block's tile. */
struct waves {
	float row[STK_TEXEL_ROWS], column[STK_TEXEL_SHIFT + STK_TEXEL_WIDTH];
};

/* Computes the waves like stk__sample_water. All threads must call this. */
static __device__ __forceinline__ void make_waves(const float *m, const stk_texel_tile &tile, waves &w)
{
	int32_t i = (int32_t)threadIdx.x, column = i - STK_TEXEL_ROWS;
	if (column < 0)
		w.row[i] = m[0] * (float)stk__math_sin((double)(m[1] * (float)(tile.y0 + i) + m[2]));
	else if (column < STK_TEXEL_SHIFT + STK_TEXEL_WIDTH)
		w.column[column] = m[3] * (float)stk__math_cos((double)(m[4] * (float)(tile.x0 - STK_TEXEL_SHIFT + column) + m[5]));
	__syncthreads();
}

/* Computes positions like stk__sample_sphere, with one division for all pixels. The product with the reciprocal is corrected by its remainder, which gives
 * the correctly rounded quotient: the reciprocal is correctly rounded, `reach` has fewer than 24 bits, and no value is close to an underflow
 * (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). */
template <int N>
static __device__ __forceinline__ void find_on_sphere(
	const stk_job_sample &s, const int32_t (&x)[N], const int32_t (&y)[N], float (&at)[N][3])
{
	float reach = (float)(max(s.size[0], s.size[1]) / 2), once = reach > 0 ? 1 / reach : 0;
	float mid_x = (float)s.size[0] * 0.5f, mid_y = (float)s.size[1] * 0.5f;
#pragma unroll
	for (int k = 0; k < N; k++) {
		float dx = (float)x[k] + 0.5f - mid_x, dy = (float)y[k] + 0.5f - mid_y;
		float distance = sqrtf(dx * dx + dy * dy), far = distance * once;
		far = __fmaf_rn(__fmaf_rn(-far, reach, distance), once, far);
		at[k][0] = mid_x + far * dx;
		at[k][1] = mid_y + far * dy;
	}
}

/* Sets `at` to the source positions of N output pixels (x, y). */
template <int N>
static __device__ __forceinline__ void find_positions(const stk_job_sample &s, const stk_texel_tile &tile, const waves &w,
	const int32_t (&x)[N], const int32_t (&y)[N], uint32_t frame, float (&at)[N][3])
{
	switch (s.map) {
	case STK_SAMPLE_AFFINE:
#pragma unroll
		for (int k = 0; k < N; k++)
			stk__sample_affine(s.m, (float)x[k] + 0.5f, (float)y[k] + 0.5f, 0.5f, at[k]);
		break;
	case STK_SAMPLE_PERSPECTIVE:
#pragma unroll
		for (int k = 0; k < N; k++)
			stk__sample_perspective(s.m, (float)x[k] + 0.5f, (float)y[k] + 0.5f, at[k]);
		break;
	case STK_SAMPLE_MAPS:
#pragma unroll
		for (int k = 0; k < N; k++) {
			int64_t number = frame * s.map_frame + (int64_t)y[k] * tile.width + x[k];
			at[k][0] = s.maps[0][number] + s.m[0] + s.m[1] * (float)x[k];
			at[k][1] = s.maps[1][number] + s.m[0] + s.m[1] * (float)y[k];
		}
		break;
	case STK_SAMPLE_SPHERE:
		find_on_sphere(s, x, y, at);
		break;
	case STK_SAMPLE_WATER:
#pragma unroll
		for (int k = 0; k < N; k++) {
			at[k][0] = (float)x[k] + w.row[y[k] - tile.y0];
			at[k][1] = (float)y[k] + w.column[x[k] - tile.x0 + STK_TEXEL_SHIFT];
		}
		break;
	default:
#pragma unroll
		for (int k = 0; k < N; k++)
			stk__sample_jitter(&s, x[k], y[k], (uint64_t)y[k] * (uint64_t)tile.width + (uint64_t)x[k], at[k]);
	}
}

/* Returns the pixel for positions entirely outside of the image. Sets `fills` to true if the border is a fill value and all such positions give exactly this
 * pixel: without interpolation, with fill values of 0 (not -0), or for bytes with integer fill values. */
template <typename T, int C, bool LINEAR> static __device__ __forceinline__ stk_texel<T, C> make_fill(const stk_job &job, bool &fills)
{
	const float *fill = (const float *)job.constants;
	stk_texel<T, C> t = {};
	fills = STK_PARAMS(stk_job_sample, &job).border == STK_BORDER_FILL;
#pragma unroll
	for (int c = 0; c < C; c++) {
		put_value(t, c, fill[c]);
		fills = fills && (!LINEAR || __float_as_uint(fill[c]) == 0 || (sizeof(T) == 1 && fill[c] == (float)stk__to_byte(fill[c])));
	}
	return t;
}

/* Makes the outputs of a thread block's tile. ROWS: number of rows that a warp makes at a time. */
template <typename T, int C, bool LINEAR, int ROWS>
static __device__ __forceinline__ void sample_tile(const stk_job &job, const stk_texel_tile &tile, const waves &w, uint32_t frame)
{
	const stk_job_sample &s = STK_PARAMS(stk_job_sample, &job);
	bool fills;
	const stk_texel<T, C> fill = make_fill<T, C, LINEAR>(job, fills);
	const bool clamps = s.border == STK_BORDER_CLAMP && s.size[0] > 1;
	stk_texel_source from = {job.src[0] + frame * s.frame, (int32_t)s.stride[1], s.size[0], s.size[1], 0, s.size[0], fills, clamps};
	auto place = [&](const auto &x, const auto &y, auto &at) {
		constexpr int n = sizeof at / sizeof *at;
		float found[n][3];
		find_positions<n>(s, tile, w, x, y, frame, found);
#pragma unroll
		for (int k = 0; k < n; k++) {
			at[k][0] = LINEAR ? found[k][0] - 0.5f : found[k][0];
			at[k][1] = LINEAR ? found[k][1] - 0.5f : found[k][1];
		}
	};
	auto border = [&](const float at[2]) { return sample_anywhere<T, C, LINEAR>(make_sampler<C>(job, from), at); };
#pragma unroll 1
	for (int32_t y = tile.y0 + ROWS * (int32_t)(threadIdx.x / STK_TEXEL_WIDTH); y < tile.y1; y += ROWS * WARPS)
		stk__texel_rows<T, C, LINEAR, ROWS>(from, tile, fill, y, place, border);
}

template <typename T, int C>
static __device__ __forceinline__ void sample_tile_of(const stk_job &job, const stk_texel_tile &tile, const waves &w, uint32_t frame)
{
	constexpr bool rgb = sizeof(T) == 1 && C == 3;
	if (STK_PARAMS(stk_job_sample, &job).interp == STK_INTERP_NN)
		sample_tile<T, C, false, rgb ? 4 : 2>(job, tile, w, frame);
	else
		sample_tile<T, C, true, rgb ? 4 : 2>(job, tile, w, frame);
}

template <typename T>
static __device__ __forceinline__ void sample_any_tile(const stk_job &job, const stk_texel_tile &tile, const waves &w, uint32_t frame)
{
	if (job.dim[4].size == 3)
		sample_tile_of<T, 3>(job, tile, w, frame);
	else if (job.dim[4].size == 1)
		sample_tile_of<T, 1>(job, tile, w, frame);
	else
		sample_tile_of<T, 4>(job, tile, w, frame);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) job_sample_pixels(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ waves shared;
	__shared__ float4 turn[THREADS];
	const stk_job_gpu_item &it = share_item(v);
	const stk_job &job = it.job;
	uint32_t tiles = stk__job_sample_tiles(&job), block = blockIdx.x - it.block0[v.launch], frame = block / tiles;
	const stk_texel_tile tile = stk__texel_tile_of(job.dst + frame * job.dim[0].dst, job.dim[2].dst, (int32_t)job.dim[3].size,
		(int32_t)job.dim[2].size, stk__job_sample_aligned(&job), block - frame * tiles, (float *)turn);
	if (STK_PARAMS(stk_job_sample, &job).map == STK_SAMPLE_WATER)
		make_waves(STK_PARAMS(stk_job_sample, &job).m, tile, shared);
	if (job.dst_dtype == STK_UINT8)
		sample_any_tile<uint8_t>(job, tile, shared, frame);
	else
		sample_any_tile<float>(job, tile, shared, frame);
}
