/* SPDX-License-Identifier: Apache-2.0
 * Images sampled on the GPU a pixel a thread (array_sample_pixels.h): the arithmetic of array_sample.h. */
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/array/array_sample.h"
#include "kernel/array/array_sample_pixels.h"
#include "kernel/common/pixels.cuh"

#define THREADS STK_ARRAY_GPU_THREADS
#define WIDTH STK_SAMPLE_TILE_WIDTH
#define HEIGHT STK_SAMPLE_TILE_HEIGHT
#define WARPS (THREADS / WIDTH)

/* An image, with what the compiler cannot know to be the same for all pixels. */
struct sampler {
	const uint8_t *src; /* of the frame */
	int64_t row;
	int32_t w, h, border;
	float fill[4];
};

static __device__ __noinline__ int32_t index_outside(int32_t i, int32_t size, int32_t border)
{
	return stk__border_index(i, size, border);
}

static __device__ __forceinline__ int32_t index_of(int32_t i, int32_t size, int32_t border)
{
	return (uint32_t)i < (uint32_t)size ? i : index_outside(i, size, border);
}

/* The pixels that one is mixed of: columns and rows of the source, -1 for the fill, and how far it lies towards the second ones. */
struct spot {
	int32_t x[2], y[2];
	float qx, qy;
};

template <bool LINEAR> static __device__ __forceinline__ spot find_spot(const sampler &s, const float position[2])
{
	int32_t at[2];
	float q[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		float x = position[i] - (LINEAR ? 0.5f : 0);
		at[i] = stk__sample_floor(x);
		q[i] = x - (float)at[i];
		q[i] = q[i] >= 0 && q[i] < 1 ? q[i] : 0;
	}
	spot p = {{index_of(at[0], s.w, s.border), 0}, {index_of(at[1], s.h, s.border), 0}, q[0], q[1]};
	if (LINEAR) {
		p.x[1] = index_of(at[0] + 1, s.w, s.border);
		p.y[1] = index_of(at[1] + 1, s.h, s.border);
	}
	return p;
}

template <int C> struct pixel {
	float value[C];
};

/* A pixel as it lies in the source: it is looked at when all that a thread asks for at a time are on their way. */
template <typename T, int C> struct loaded {
	T value[C];
	bool inside;
};

template <typename T, int C> static __device__ __forceinline__ loaded<T, C> load_pixel(const sampler &s, int32_t x, int32_t y)
{
	loaded<T, C> p;
	p.inside = (x | y) >= 0;
	const T *from = (const T *)(const void *)(s.src + (int64_t)y * s.row) + x * C;
#pragma unroll
	for (int c = 0; c < C; c++)
		p.value[c] = p.inside ? __ldg(from + c) : (T)0;
	return p;
}

template <typename T, int C> static __device__ __forceinline__ float value_of(const sampler &s, const loaded<T, C> &p, int c)
{
	return p.inside ? (float)p.value[c] : s.fill[c];
}

/* The pixels of a spot, from left to right, and those of the row below; of the nearest alone the first. */
template <typename T, int C> struct corners {
	loaded<T, C> of[4];
};

template <typename T, int C, bool LINEAR> static __device__ __forceinline__ corners<T, C> load_corners(const sampler &s, const spot &at)
{
	corners<T, C> p;
#pragma unroll
	for (int i = 0; i < (LINEAR ? 4 : 1); i++)
		p.of[i] = load_pixel<T, C>(s, at.x[i % 2], at.y[i / 2]);
	return p;
}

/* stk__sample_float, for all channels. */
template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ pixel<C> mix(const sampler &s, const spot &at, const corners<T, C> &from)
{
	pixel<C> p;
#pragma unroll
	for (int c = 0; c < C; c++) {
		p.value[c] = value_of(s, from.of[0], c);
		if (!LINEAR)
			continue;
		float px = 1 - at.qx, top = p.value[c] * px + value_of(s, from.of[1], c) * at.qx;
		float bottom = value_of(s, from.of[2], c) * px + value_of(s, from.of[3], c) * at.qx;
		p.value[c] = top + (bottom - top) * at.qy;
	}
	return p;
}

/* Where an output pixel samples, but for waves, which follow from its row and its column alone. */
static __device__ __forceinline__ void find_position(
	const stk_array_sample &s, int32_t x, int32_t y, uint32_t frame, uint64_t number, float at[3])
{
	float fx = (float)x + 0.5f, fy = (float)y + 0.5f;
	switch (s.map) {
	case STK_SAMPLE_AFFINE:
		stk__sample_affine(s.m, fx, fy, 0.5f, at);
		break;
	case STK_SAMPLE_PERSPECTIVE:
		stk__sample_perspective(s.m, fx, fy, at);
		break;
	case STK_SAMPLE_MAPS:
		at[0] = s.maps[0][frame * s.map_frame + (int64_t)number] + s.m[0] + s.m[1] * (float)x;
		at[1] = s.maps[1][frame * s.map_frame + (int64_t)number] + s.m[0] + s.m[1] * (float)y;
		break;
	case STK_SAMPLE_SPHERE:
		stk__sample_sphere(&s, x, y, at);
		break;
	default:
		stk__sample_jitter(&s, x, y, number, at);
	}
}

/* Stores the pixels of a warp's lanes, of which n lie in the image; `to` is the first one's place. */
template <typename T, int C> static __device__ __forceinline__ void store_pixels(const pixel<C> &p, uint8_t *to, int32_t n)
{
	int32_t lane = (int32_t)(threadIdx.x % 32);
	if constexpr (sizeof(T) == 1 && C == 3) {
		stk__store_rgb(to, stk__to_byte(p.value[0]) | stk__to_byte(p.value[1]) << 8 | stk__to_byte(p.value[2]) << 16, n);
	} else if (lane < n) {
		T *out = (T *)(void *)to + lane * C;
#pragma unroll
		for (int c = 0; c < C; c++)
			out[c] = sizeof(T) == 1 ? (T)stk__to_byte(p.value[c]) : (T)p.value[c];
	}
}

/* Where a warp's pixels of several rows go: `rows` of them lie in the image, `pitch` bytes apart. */
struct places {
	uint8_t *to;
	int64_t pitch;
	int32_t rows, n;
};

/* Makes the pixels of ROWS rows. */
template <typename T, int C, bool LINEAR, int ROWS>
static __device__ __forceinline__ void make_pixels(const sampler &s, const spot (&at)[ROWS], const places &p)
{
	corners<T, C> from[ROWS];
#pragma unroll
	for (int k = 0; k < ROWS; k++)
		from[k] = load_corners<T, C, LINEAR>(s, at[k]);
#pragma unroll
	for (int k = 0; k < ROWS; k++)
		if (k < p.rows)
			store_pixels<T, C>(mix<T, C, LINEAR>(s, at[k], from[k]), p.to + k * p.pitch, p.n);
}

template <typename T, bool LINEAR, int ROWS>
static __device__ __forceinline__ void make_pixels_of(const sampler &s, const spot (&at)[ROWS], const places &p, int32_t channels)
{
	if (channels == 3)
		make_pixels<T, 3, LINEAR>(s, at, p);
	else if (channels == 1)
		make_pixels<T, 1, LINEAR>(s, at, p);
	else
		make_pixels<T, 4, LINEAR>(s, at, p);
}

/* Of a thread block: the waves of a water's rows. */
struct waves {
	float row[HEIGHT];
};

/* ROWS: that a thread makes at a time, so that it waits for memory less often. */
template <bool LINEAR, int ROWS>
static __device__ __forceinline__ void sample_tile(const stk_array_job &job, uint32_t frame, int32_t x0, int32_t y0, waves &shared)
{
	const stk_array_sample s = job.sample; /* in registers: the compiler cannot know that no store changes it */
	int32_t width = (int32_t)job.dim[3].size, height = (int32_t)job.dim[2].size, channels = (int32_t)job.dim[4].size;
	int32_t x = x0 + (int32_t)(threadIdx.x % WIDTH), warp = (int32_t)(threadIdx.x / WIDTH), y1 = min(y0 + HEIGHT, height);
	bool water = s.map == STK_SAMPLE_WATER;
	float column = 0;
	if (water) { /* stk__sample_water */
		if (threadIdx.x < HEIGHT)
			shared.row[threadIdx.x] =
				s.m[0] * (float)stk__math_sin((double)(s.m[1] * (float)(y0 + (int32_t)threadIdx.x) + s.m[2]));
		column = s.m[3] * (float)stk__math_cos((double)(s.m[4] * (float)x + s.m[5]));
		__syncthreads();
	}
	sampler from = {job.src[0] + frame * s.frame, s.stride[1], s.size[0], s.size[1], s.border, {}};
#pragma unroll
	for (int c = 0; c < 4; c++)
		from.fill[c] = c < channels ? ((const float *)job.constants)[c] : 0;
	int64_t pitch = job.dim[2].dst;
	uint8_t *to = job.dst + frame * job.dim[0].dst + x0 * job.dim[3].dst;
	bool bytes = job.dst_dtype == STK_UINT8;
#pragma unroll 1
	for (int32_t y = y0 + ROWS * warp; y < y1; y += ROWS * WARPS) {
		spot p[ROWS];
#pragma unroll
		for (int k = 0; k < ROWS; k++) {
			int32_t row = min(y + k, y1 - 1);
			float at[3];
			if (water) {
				at[0] = (float)x + shared.row[row - y0];
				at[1] = (float)row + column;
			} else {
				int32_t inside = min(x, width - 1);
				find_position(s, inside, row, frame, (uint64_t)row * (uint64_t)width + (uint64_t)inside, at);
			}
			p[k] = find_spot<LINEAR>(from, at);
		}
		places rows = {to + y * pitch, pitch, y1 - y, width - x0};
		if (bytes)
			make_pixels_of<uint8_t, LINEAR>(from, p, rows, channels);
		else
			make_pixels_of<float, LINEAR>(from, p, rows, channels);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) array_sample_pixels(const __grid_constant__ stk_array_gpu_view v)
{
	__shared__ waves shared;
	const stk_array_gpu_item &it = share_item(v);
	const stk_array_job &job = it.job;
	uint32_t across, down, block = blockIdx.x - it.block0[v.launch];
	stk__array_sample_tiles(&job, &across, &down);
	uint32_t row = block / across, frame = row / down;
	int32_t x0 = (int32_t)(block - row * across) * WIDTH, y0 = (int32_t)(row - frame * down) * HEIGHT;
	if (job.sample.interp == STK_INTERP_NN)
		sample_tile<false, 2>(job, frame, x0, y0, shared);
	else
		sample_tile<true, 1>(job, frame, x0, y0, shared);
}
