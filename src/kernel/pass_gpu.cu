/* SPDX-License-Identifier: Apache-2.0
 * Passes on the GPU (pass_gpu.h): the taps of all, and those from interleaved uint8 of few channels, which are most. The arithmetic of filter.c,
 * resample.c, warp.c and rows.c, pixel by pixel. */
#include "kernel/pass_gpu.cuh"

#define ROWS STK_PASS_GPU_ROWS
#define CHANNELS STK_PASS_GPU_CHANNELS

/* ---- taps ---- */

/* As stk__filter_quantize_narrow and _wide, in place: floats become int32. */
static __device__ void quantize(float *weights, ptrdiff_t stride, int32_t n, bool narrow)
{
	int32_t *fixed = (int32_t *)weights, largest = 0, most = 0, rest = narrow ? 65536 : 1 << STK_FILTER_WIDE_SHIFT;
	for (int32_t k = 0; k < n; k++) {
		float weight = weights[k * stride];
		int32_t w = narrow ? (int32_t)(weight * 65536.0f + 0.5f) : (int16_t)stk__taps_floor(weight * (float)(1 << STK_FILTER_WIDE_SHIFT) + 0.5f);
		bool larger = narrow ? w > most : k == 0 || w > most;
		rest -= w;
		largest = larger ? k : largest;
		most = larger ? w : most;
		fixed[k * stride] = narrow && w > 65535 ? 65535 : w;
	}
	fixed[largest * stride] = narrow ? stk__taps_clamp(most + rest, 0, 65535) : (int16_t)(most + rest);
}

/* As stk__filter_nearest: rows add positions up. */
static __device__ int32_t nearest(const stk_filter_axis &a, bool summed, int32_t output)
{
	if (!summed)
		return stk__taps_first(&a, output);
	float at = a.start + 0.5f * a.scale;
	for (int32_t k = 0; k < output; k++)
		at += a.scale;
	return stk__taps_clamp(stk__taps_floor(at), 0, a.in_size - 1);
}

/* Two thread blocks an image: one an axis. */
extern "C" __global__ void __launch_bounds__(THREADS) pass_taps(const __grid_constant__ stk_pass_gpu_view v)
{
	const stk_pass_gpu_item &it = v.items[blockIdx.x / 2];
	const stk_pass_gpu_axis &axis = it.axis[blockIdx.x % 2];
	bool plain = it.mode == STK_PASS_GPU_PLAIN || it.mode == STK_PASS_GPU_COPY;
	if (it.mode == STK_PASS_GPU_WARP || (plain && !axis.filter.n))
		return;
	for (int32_t i = axis.begin + threadIdx.x; i < axis.end; i += THREADS) {
		int32_t output = map(axis.post, i), first;
		if (plain) {
			first = nearest(axis.filter, blockIdx.x % 2 == 1, output);
		} else {
			float *weights = v.weights + axis.weights + i;
			first = stk__taps_make(&axis.filter, output, weights, axis.size);
			if (it.kind != STK_RESAMPLE_FLOAT)
				quantize(weights, axis.size, axis.filter.n, it.kind == STK_NARROW);
		}
		v.first[axis.first + i] = map(axis.pre, first);
	}
}

/* ---- pointwise steps and the store ---- */

/* The two common ways (enum stk_pass_gpu_finish), with what they need in registers: the compiler cannot know that no store changes it. */
struct ending {
	int32_t finish, dtype, channels;
	float scale[CHANNELS], bias[CHANNELS];
	uint8_t *dst;
	int64_t row, pixel, channel;
};

static __device__ __forceinline__ ending make_ending(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it)
{
	ending e = {it.finish, it.dtype, it.in_c, {}, {}, (uint8_t *)it.dst, it.dst_row, it.dst_pixel, it.dst_channel};
	if (e.finish == STK_PASS_GPU_AFFINE)
#pragma unroll
		for (int c = 0; c < CHANNELS; c++) {
			e.scale[c] = v.steps[it.step0].scale[c];
			e.bias[c] = v.steps[it.step0].bias[c];
		}
	return e;
}

/* True: the pixel is done. C: channels at most. */
template <int C> static __device__ __forceinline__ bool finish_soon(const ending &e, const float p[CHANNELS], int32_t x, int32_t y)
{
	if (e.finish == STK_PASS_GPU_STEPS)
		return false;
	uint8_t *to = e.dst + y * e.row + x * e.pixel;
#pragma unroll
	for (int c = 0; c < C; c++, to += e.channel) {
		if (c >= e.channels)
			break;
		float value = p[c] * e.scale[c] + e.bias[c];
		if (e.finish == STK_PASS_GPU_BYTES)
			*to = (uint8_t)(int32_t)p[c];
		else if (e.dtype == STK_FLOAT16)
			*(uint16_t *)to = to_half(value);
		else if (e.dtype == STK_BFLOAT16)
			*(uint16_t *)to = stk__float_to_bfloat(value);
		else
			*(float *)to = value;
	}
	return true;
}

struct pixel_value {
	float channel[CHANNELS];
};

/* Runs the steps over a pixel that is valid, or waits for the fill, and stores it at output (x, y). */
static __device__ __noinline__ void finish(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, pixel_value value, bool valid, int32_t x, int32_t y)
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
		if (step.kind == STK_STEP_FILL) { /* of values that are rounded */
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

/* ---- samplers ---- */

static __device__ __forceinline__ const uint8_t *pixel(const stk_pass_gpu_item &it, int32_t x, int32_t y)
{
	return (const uint8_t *)it.src + (int64_t)(y - it.y0) * it.src_row + (int64_t)(x - it.x0) * it.in_c;
}

static __device__ __forceinline__ void sample_plain(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x, int32_t y, float p[CHANNELS])
{
	const uint8_t *from = pixel(it, position(v, it.axis[0], x), position(v, it.axis[1], y));
#pragma unroll
	for (int c = 0; c < CHANNELS; c++)
		p[c] = c < it.in_c ? (float)from[c] : 0;
}

/* As warp.c's pixel_at. (x, y) counts in the sampler's source, behind windows and mirrors. */
static __device__ __forceinline__ void warp_pixel(const stk_pass_gpu_item &it, int32_t x, int32_t y, float p[CHANNELS])
{
	int32_t ix = stk__warp_clamp(x, it.mid_w), iy = stk__warp_clamp(y, it.mid_h);
	bool outside = !it.warp.clamp && (ix != x || iy != y);
	const uint8_t *from = outside ? NULL : pixel(it, map(it.axis[0].pre, ix), map(it.axis[1].pre, iy));
#pragma unroll
	for (int c = 0; c < CHANNELS; c++)
		p[c] = outside ? it.warp.fill : c < it.in_c ? (float)from[c] : 0;
}

static __device__ __forceinline__ void sample_warp(const stk_pass_gpu_item &it, int32_t x, int32_t y, float p[CHANNELS])
{
	stk_warp_row row = {};
	row.linear = it.warp.interp != STK_INTERP_NN;
	row.first = map(it.axis[0].post, x);
	row.y = map(it.axis[1].post, y);
#pragma unroll
	for (int i = 0; i < 6; i++)
		row.m[i] = it.warp.m[i];
	stk_warp_position at = stk__warp_position(&row, 0);
	warp_pixel(it, at.x, at.y, p);
	if (row.linear) {
		float right[CHANNELS], below[CHANNELS], diagonal[CHANNELS];
		warp_pixel(it, at.x + 1, at.y, right);
		warp_pixel(it, at.x, at.y + 1, below);
		warp_pixel(it, at.x + 1, at.y + 1, diagonal);
#pragma unroll
		for (int c = 0; c < CHANNELS; c++)
			p[c] = stk__warp_mix(p[c], right[c], below[c], diagonal[c], at.qx, at.qy);
	}
#pragma unroll
	for (int c = 0; c < CHANNELS; c++)
		p[c] = round_to(p[c], it.sampled);
}

/* What the outputs [x0, x1) of a row read of the source: bytes [begin, end) of a row of the source view. */
struct reach {
	int32_t column, begin, end;
};

static __device__ __forceinline__ reach find_reach(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x0, int32_t x1)
{
	const stk_pass_gpu_axis &a = it.axis[0];
	int32_t one = v.first[a.first + x0], other = v.first[a.first + x1 - 1], low = min(one, other), high = max(one, other);
	if (a.pre.step > 0)
		high += a.filter.n - 1;
	else
		low -= a.filter.n - 1;
	reach r = {low, (low - it.x0) * it.in_c, (high + 1 - it.x0) * it.in_c};
	return r;
}

/* Where a thread block's rows of intermediate values lie: value of byte b of the source rows at [row * pitch + b - origin]. */
struct strip {
	int32_t origin, pitch;
	bool words; /* the source's rows are read in aligned words */
};

static __device__ __forceinline__ strip lay_out(const stk_pass_gpu_item &it, const reach &r)
{
	strip s;
	s.words = (it.src_row & 3) == 0;
	s.origin = r.begin - (s.words ? (int32_t)((it.src + r.begin) & 3) : 0);
	s.pitch = (r.end - s.origin + 3) & ~3;
	return s;
}

static __device__ __forceinline__ uint32_t load_word(const uint8_t *from, bool words, int32_t bytes)
{
	if (words)
		return *(const uint32_t *)from;
	uint32_t word = 0;
#pragma unroll
	for (int i = 0; i < 4; i++)
		word |= i < bytes ? (uint32_t)from[i] << 8 * i : 0;
	return word;
}

/* Four sums of products, of a kind's own: for NARROW two a register, since each stays below 2^16. */
template <int KIND> struct sums {
	uint32_t narrow[2];
	int32_t wide[4];
	float real[4];

	__device__ __forceinline__ void start(int32_t bias)
	{
		narrow[0] = narrow[1] = (uint32_t)bias * 0x10001u;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			wide[i] = 1 << (STK_FILTER_WIDE_SHIFT - STK_WIDE_BITS - 1);
			real[i] = 0;
		}
	}

	__device__ __forceinline__ void add(uint32_t word, int32_t weight)
	{
		const uint32_t mask = 0x00ff00ffu;
		if constexpr (KIND == STK_NARROW) {
			/* x * w >> 8 = x * high + (x * low >> 8), exactly, for the two bytes of a pair at once. */
			uint32_t even = word & mask, odd = word >> 8 & mask, high = (uint32_t)weight >> 8, low = (uint32_t)weight & 255;
			narrow[0] += even * high + (even * low >> 8 & mask);
			narrow[1] += odd * high + (odd * low >> 8 & mask);
		} else {
#pragma unroll
			for (int i = 0; i < 4; i++) {
				uint32_t byte = word >> 8 * i & 255;
				if (KIND == STK_WIDE)
					wide[i] += (int32_t)byte * weight;
				else
					real[i] += __int_as_float(weight) * (float)byte;
			}
		}
	}

	__device__ __forceinline__ void store(void *to) const
	{
		if (KIND == STK_NARROW)
			*(uint2 *)to = make_uint2(__byte_perm(narrow[0], narrow[1], 0x5410), __byte_perm(narrow[0], narrow[1], 0x7632));
		else if (KIND == STK_WIDE)
			*(short4 *)to = make_short4(cut(0), cut(1), cut(2), cut(3));
		else
			*(float4 *)to = make_float4(real[0], real[1], real[2], real[3]);
	}

	__device__ __forceinline__ short cut(int i) const
	{
		return (short)stk__taps_clamp(wide[i] >> (STK_FILTER_WIDE_SHIFT - STK_WIDE_BITS), -32768, 32767);
	}
};

/* The vertical half: a warp makes one output row of intermediate values, two words of the source's bytes a lane at a time. */
template <int KIND, typename T>
static __device__ __forceinline__ void vertical(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t y, const reach &r, const strip &s, T *to)
{
	const stk_pass_gpu_axis &a = it.axis[1];
	const int32_t *weights = (const int32_t *)v.weights + a.weights + y;
	int32_t n = a.filter.n, size = a.size;
	int64_t tap = a.pre.step * it.src_row;
	const uint8_t *row = (const uint8_t *)it.src + (int64_t)(v.first[a.first + y] - it.y0) * it.src_row;
	for (int32_t b = s.origin + 4 * (threadIdx.x % 32); b < r.end; b += 256) {
		bool two = b + 128 < r.end;
		const uint8_t *from = row + b;
		sums<KIND> one, other;
		one.start(a.bias);
		other.start(a.bias);
		for (int32_t t = 0; t < n; t++, from += tap) {
			int32_t weight = weights[(int64_t)t * size];
			one.add(load_word(from, s.words, r.end - b), weight);
			if (two)
				other.add(load_word(from + 128, s.words, r.end - b - 128), weight);
		}
		one.store(to + b - s.origin);
		if (two)
			other.store(to + b + 128 - s.origin);
	}
}

#define TOGETHER 4 /* rows that a thread makes at a time */

/* The horizontal half: an output column x out of rows of intermediate values that are `pitch` apart, TOGETHER of them. */
template <int KIND, typename T, int C>
static __device__ __forceinline__ void horizontal(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x, const reach &r, const strip &s,
	const T *from, float p[TOGETHER][CHANNELS])
{
	const stk_pass_gpu_axis &a = it.axis[0];
	const int32_t *weights = (const int32_t *)v.weights + a.weights + x;
	const int shift = STK_FILTER_WIDE_SHIFT + STK_WIDE_BITS;
	int32_t n = a.filter.n, size = a.size, step = a.pre.step * it.in_c, sum[TOGETHER][C];
	float total[TOGETHER][C];
	from += (v.first[a.first + x] - r.column) * it.in_c + r.begin - s.origin;
#pragma unroll
	for (int i = 0; i < TOGETHER * C; i++) {
		sum[i / C][i % C] = KIND == STK_NARROW ? a.bias : 1 << (shift - 1);
		total[i / C][i % C] = 0;
	}
	for (int32_t t = 0; t < n; t++, from += step) {
		int32_t weight = weights[(int64_t)t * size];
#pragma unroll
		for (int i = 0; i < TOGETHER; i++)
#pragma unroll
			for (int c = 0; c < C; c++) {
				T value = from[i * s.pitch + c];
				if (KIND == STK_NARROW)
					sum[i][c] += (int32_t)((uint32_t)value * (uint32_t)weight >> 16);
				else if (KIND == STK_WIDE)
					sum[i][c] += (int32_t)value * weight;
				else
					total[i][c] += __int_as_float(weight) * (float)value;
			}
	}
#pragma unroll
	for (int i = 0; i < TOGETHER; i++)
#pragma unroll
		for (int c = 0; c < C; c++) {
			uint32_t u = (uint32_t)sum[i][c];
			p[i][c] = KIND == STK_NARROW ? (float)(uint8_t)((u + 127 + (u >> 8 & 1)) >> 8)
				: KIND == STK_WIDE ? (float)stk__taps_clamp(sum[i][c] >> shift, 0, 255)
						   : round_to(total[i][c], it.sampled);
		}
}

/* C: channels of the source at most, so that three cost no more than three. */
template <int KIND, typename T, int C> static __device__ void resize(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x0, int32_t y0, T *shared)
{
	const stk_pass_gpu_axis &ax = it.axis[0], &ay = it.axis[1];
	int32_t x1 = min(x0 + it.columns, ax.size), y1 = min(y0 + ROWS, ay.size);
	int32_t from = max(x0, ax.begin), to = min(x1, ax.end), top = max(y0, ay.begin), bottom = min(y1, ay.end);
	bool any = from < to && top < bottom;
	reach r = {};
	if (any)
		r = find_reach(v, it, from, to);
	strip s = lay_out(it, r);
	int32_t warp = threadIdx.x / 32;
	if (any && y0 + warp >= top && y0 + warp < bottom)
		vertical<KIND, T>(v, it, y0 + warp, r, s, shared + warp * s.pitch);
	__syncthreads();
	ending e = make_ending(v, it);
	/* Threads side by side make columns side by side; where the block is narrow, groups of them take rows in turns. */
	int32_t wide = (x1 - x0 + 31) & ~31, group = threadIdx.x / wide, groups = THREADS / wide, x = x0 + threadIdx.x % wide;
	if (x >= x1 || group >= groups)
		return;
	for (int32_t y = y0 + TOGETHER * group; y < y1; y += TOGETHER * groups) {
		float p[TOGETHER][CHANNELS] = {};
		bool inside = x >= from && x < to && y < bottom && y + TOGETHER > top;
		if (inside)
			horizontal<KIND, T, C>(v, it, x, r, s, shared + (y - y0) * s.pitch, p);
#pragma unroll
		for (int i = 0; i < TOGETHER; i++)
			if (y + i < y1 && !finish_soon<C>(e, p[i], x, y + i))
				finish(v, it, hold(p[i]), inside && y + i >= top && y + i < bottom, x, y + i);
	}
}

template <int KIND, typename T> static __device__ __forceinline__ void resize_any(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x0, int32_t y0, T *shared)
{
	if (it.in_c <= 3)
		resize<KIND, T, 3>(v, it, x0, y0, shared);
	else
		resize<KIND, T, 4>(v, it, x0, y0, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) pass_run(const __grid_constant__ stk_pass_gpu_view v)
{
	STK_SHARED_ARRAY(uint8_t, shared);
	const stk_pass_gpu_item &it = find_item(v);
	uint32_t block = blockIdx.x - it.block0[v.launch], across = (uint32_t)(it.axis[0].size + it.columns - 1) / it.columns;
	int32_t x0 = block % across * it.columns, y0 = block / across * ROWS;
	if (it.mode == STK_PASS_GPU_RESIZE) {
		if (it.kind == STK_NARROW)
			resize_any<STK_NARROW, uint16_t>(v, it, x0, y0, (uint16_t *)shared);
		else if (it.kind == STK_WIDE)
			resize_any<STK_WIDE, int16_t>(v, it, x0, y0, (int16_t *)shared);
		else
			resize_any<STK_RESAMPLE_FLOAT, float>(v, it, x0, y0, (float *)shared);
		return;
	}
	int32_t x = x0 + threadIdx.x;
	if (x >= it.axis[0].size)
		return;
	ending e = make_ending(v, it);
	for (int32_t y = y0; y < min(y0 + ROWS, it.axis[1].size); y++) {
		bool valid = x >= it.axis[0].begin && x < it.axis[0].end && y >= it.axis[1].begin && y < it.axis[1].end;
		float p[CHANNELS] = {};
		if (valid && it.mode == STK_PASS_GPU_WARP)
			sample_warp(it, x, y, p);
		else if (valid)
			sample_plain(v, it, x, y, p);
		if (!finish_soon<CHANNELS>(e, p, x, y))
			finish(v, it, hold(p), valid, x, y);
	}
}
