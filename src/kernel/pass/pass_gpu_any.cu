/* SPDX-License-Identifier: Apache-2.0
 * Passes on the GPU (pass_gpu.h) that the faster kernels do not support, such as those with other types than uint8 and float32, or with planes; and the
 * holes of all passes. This code is general rather than fast, and its results have the same bits as those of the faster kernels. */
#include "kernel/convert/convert_one.h"
#include "kernel/pass/pass_gpu.cuh"

#define ROWS STK_PASS_GPU_ROWS
#define CHANNELS STK_PASS_MAX_CHANNELS
#define ANY_TYPE -1

/* Returns the value at `from` as float. TYPE: the value's type if it is known at compile time; with ANY_TYPE, dtype is the type. */
template <int TYPE> static __device__ __forceinline__ float load(const uint8_t *from, int32_t dtype)
{
	switch (TYPE == ANY_TYPE ? dtype : TYPE) {
	case STK_UINT8:
		return (float)*from;
	case STK_BOOL:
		return *from != 0;
	case STK_INT8:
		return (float)*(const int8_t *)from;
	case STK_UINT16:
		return (float)*(const uint16_t *)from;
	case STK_INT16:
		return (float)*(const int16_t *)from;
	case STK_INT32:
		return (float)*(const int32_t *)from;
	case STK_FLOAT16:
		return stk__half_to_float(*(const uint16_t *)from);
	case STK_BFLOAT16:
		return stk__bfloat_to_float(*(const uint16_t *)from);
	default:
		return *(const float *)from;
	}
}

static __device__ __forceinline__ const uint8_t *pixel(const stk_pass_gpu_item &it, int32_t x, int32_t y)
{
	return (const uint8_t *)it.src + (y - it.y0) * it.src_row + (x - it.x0) * it.src_pixel;
}

static __device__ __forceinline__ uint8_t *output(const stk_pass_gpu_item &it, int32_t x, int32_t y)
{
	return (uint8_t *)it.dst + y * it.dst_row + x * it.dst_pixel;
}

static __device__ __forceinline__ bool is_valid(const stk_pass_gpu_axis &a, int32_t k)
{
	return k >= a.begin && k < a.end;
}

/* ---- pointwise steps ---- */

static __device__ void run_step(const stk_step &step, float *p, int32_t channels, bool valid)
{
	switch (step.kind) {
	case STK_STEP_FILL:
		for (int32_t c = 0; c < channels && !valid; c++)
			p[c] = step.value[c];
		return;
	case STK_STEP_AFFINE:
		for (int32_t c = 0; c < step.channels; c++)
			p[c] = p[c] * step.scale[c] + step.bias[c];
		break;
	case STK_STEP_MATRIX: {
		float a = p[0], b = p[1], d = p[2];
		for (int32_t c = 0; c < 3; c++)
			p[c] = step.m[3 * c] * a + step.m[3 * c + 1] * b + step.m[3 * c + 2] * d + step.b[c];
		break;
	}
	case STK_STEP_GRAY:
		p[0] = step.scale[0] * p[0] + step.scale[1] * p[1] + step.scale[2] * p[2];
		break;
	case STK_STEP_CHANNELS:
		for (int32_t c = channels; c < step.channels; c++)
			p[c] = step.value[c];
		break;
	case STK_STEP_CLAMP:
		for (int32_t c = 0; c < step.channels; c++) {
			float y = p[c] > step.value[0] ? p[c] : step.value[0];
			p[c] = y < step.value[1] ? y : step.value[1];
		}
		break;
	}
	for (int32_t c = 0; c < step.channels; c++)
		p[c] = round_to(p[c], step.dtype);
}

/* Runs the steps over pixel p and stores it at output (x, y). valid: true if the pixel comes from the source; otherwise the fill step sets it. */
static __device__ __noinline__ void finish(
	const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, float *p, bool valid, int32_t x, int32_t y)
{
	int32_t channels = it.in_c;
	for (uint32_t i = 0; i < it.n_steps; i++) {
		const stk_step &step = v.steps[it.step0 + i];
		run_step(step, p, channels, valid);
		valid = valid || step.kind == STK_STEP_FILL;
		channels = step.channels;
	}
	uint8_t *to = output(it, x, y);
	for (int32_t c = 0; c < channels; c++)
		store(to + c * it.dst_channel, p[c], it.dtype);
}

/* ---- one pixel at a time: passes without a sampler, warps, and copies ---- */

static __device__ __forceinline__ void sample_plain(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x, int32_t y, float *p)
{
	const uint8_t *from = pixel(it, position(v, it.axis[0], x), position(v, it.axis[1], y));
	for (int32_t c = 0; c < it.in_c; c++)
		p[c] = load<ANY_TYPE>(from + c * it.src_channel, it.in_dtype);
}

/* Returns channel c of pixel (x, y) of the sampler's input: the source after windows and mirrors. Outside of the input, returns the warp's fill value or the
 * nearest pixel at the edge. */
static __device__ __forceinline__ float warp_value(const stk_pass_gpu_item &it, int32_t x, int32_t y, int32_t c)
{
	int32_t ix = stk__warp_clamp(x, it.mid_w), iy = stk__warp_clamp(y, it.mid_h);
	if (!it.warp.clamp && (ix != x || iy != y))
		return it.warp.fill;
	return load<ANY_TYPE>(pixel(it, map(it.axis[0].pre, ix), map(it.axis[1].pre, iy)) + c * it.src_channel, it.in_dtype);
}

static __device__ __forceinline__ void sample_warp(const stk_pass_gpu_item &it, int32_t x, int32_t y, float *p)
{
	stk_warp_row row = {};
	row.linear = it.warp.interp != STK_INTERP_NN;
	row.first = map(it.axis[0].post, x);
	row.y = map(it.axis[1].post, y);
	for (int i = 0; i < 6; i++)
		row.m[i] = it.warp.m[i];
	stk_warp_position at = stk__warp_position(&row, 0);
	for (int32_t c = 0; c < it.in_c; c++) {
		float value = warp_value(it, at.x, at.y, c);
		if (row.linear)
			value = stk__warp_mix(value, warp_value(it, at.x + 1, at.y, c), warp_value(it, at.x, at.y + 1, c),
				warp_value(it, at.x + 1, at.y + 1, c), at.qx, at.qy);
		p[c] = round_to(value, it.sampled);
	}
}

static __device__ __forceinline__ void move(uint8_t *to, const uint8_t *from, int32_t dtype)
{
	switch (dtype) {
	case STK_UINT8:
	case STK_INT8:
	case STK_BOOL:
		*to = *from;
		break;
	case STK_UINT16:
	case STK_INT16:
	case STK_FLOAT16:
	case STK_BFLOAT16:
		*(uint16_t *)to = *(const uint16_t *)from;
		break;
	case STK_UINT32:
	case STK_INT32:
	case STK_FLOAT:
		*(uint32_t *)to = *(const uint32_t *)from;
		break;
	default:
		*(uint64_t *)to = *(const uint64_t *)from;
	}
}

static __device__ void copy_pixel(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, bool valid, int32_t x, int32_t y)
{
	uint8_t *to = output(it, x, y);
	const uint8_t *from = valid ? pixel(it, position(v, it.axis[0], x), position(v, it.axis[1], y)) : NULL;
	for (int32_t c = 0; c < it.in_c; c++)
		if (valid)
			move(to + c * it.dst_channel, from + c * it.src_channel, it.dtype);
		else
			stk__store_double(to + c * it.dst_channel, it.dtype, (double)v.steps[it.step0].value[c]);
}

/* ---- resizes ---- */

#define CHUNK 4096 /* maximum number of intermediate values in shared memory at a time */

/* A chunk of a row of intermediate values: columns [begin, end) of the source, with in_c values each. */
struct chunk {
	int32_t begin, end;
};

union intermediate {
	int32_t i;
	float f;
};

/* The shared memory of a thread block. values: results of resize_row. */
struct workspace {
	intermediate row[CHUNK];
	float values[THREADS];
};

/* Returns the sum over a column's taps. from: address of the value in the first tap's row; tap: distance in bytes from one tap's row to the next. */
template <int KIND, int TYPE>
static __device__ __forceinline__ intermediate sum_column(
	const stk_pass_gpu_axis &a, const float *weights, const uint8_t *from, int64_t tap, int32_t dtype)
{
	const int32_t *fixed = (const int32_t *)weights;
	intermediate sum;
	if (KIND == STK_RESAMPLE_FLOAT)
		sum.f = 0;
	else
		sum.i = KIND == STK_NARROW ? a.bias : 1 << (STK_FILTER_WIDE_SHIFT - STK_WIDE_BITS - 1);
	for (int32_t t = 0; t < a.filter.n; t++, from += tap) {
		if (KIND == STK_NARROW)
			sum.i += (int32_t)((uint32_t)*from * (uint32_t)weights[(int64_t)t * a.size] >> 8);
		else if (KIND == STK_WIDE)
			sum.i += (int32_t)*from * fixed[(int64_t)t * a.size];
		else
			sum.f += weights[(int64_t)t * a.size] * load<TYPE>(from, dtype);
	}
	if (KIND == STK_WIDE)
		sum.i = stk__taps_clamp(sum.i >> (STK_FILTER_WIDE_SHIFT - STK_WIDE_BITS), -32768, 32767);
	return sum;
}

/* Computes the vertical half of a resize: the intermediate values of a chunk of columns for output row y. The threads of the block share them. */
template <int KIND, int TYPE>
static __device__ __forceinline__ void vertical(
	const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t y, chunk k, intermediate *to)
{
	const stk_pass_gpu_axis &a = it.axis[1];
	int32_t row = v.first[a.first + y];
	for (int32_t i = threadIdx.x; i < (k.end - k.begin) * it.in_c; i += THREADS) {
		int32_t column = i / it.in_c, c = i - column * it.in_c;
		const uint8_t *from = pixel(it, k.begin + column, row) + c * it.src_channel;
		to[i] = sum_column<KIND, TYPE>(a, v.weights + a.weights + y, from, a.pre.step * it.src_row, it.in_dtype);
	}
}

/* The sum over the taps of one output value, to which each chunk adds the taps that it contains. */
struct horizontal {
	int32_t first, t, sum; /* position of tap 0; index of the next tap; the sum so far (in `total` if weights are floats) */
	float total;
};

template <int KIND>
static __device__ __forceinline__ void add_chunk(
	const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x, int32_t c, chunk k, const intermediate *from, horizontal &h)
{
	const stk_pass_gpu_axis &a = it.axis[0];
	const float *weights = v.weights + a.weights + x;
	const int32_t *fixed = (const int32_t *)weights;
	for (; h.t < a.filter.n; h.t++) {
		int32_t column = h.first + h.t * a.pre.step;
		if (column < k.begin || column >= k.end)
			return;
		intermediate value = from[(column - k.begin) * it.in_c + c];
		if (KIND == STK_NARROW)
			h.sum += (int32_t)((uint32_t)value.i * (uint32_t)weights[(int64_t)h.t * a.size] >> 16);
		else if (KIND == STK_WIDE)
			h.sum += value.i * fixed[(int64_t)h.t * a.size];
		else
			h.total += weights[(int64_t)h.t * a.size] * value.f;
	}
}

template <int KIND> static __device__ __forceinline__ float finish_sum(const stk_pass_gpu_item &it, const horizontal &h)
{
	if (KIND == STK_NARROW)
		return (float)(uint8_t)(((uint32_t)h.sum + 127 + ((uint32_t)h.sum >> 8 & 1)) >> 8);
	if (KIND == STK_WIDE)
		return (float)stk__taps_clamp(h.sum >> (STK_FILTER_WIDE_SHIFT + STK_WIDE_BITS), 0, 255);
	return round_to(h.total, it.sampled);
}

/* Computes outputs [from, to) of row y, in_c values each, and stores them in w.values. A thread computes at most one value. Chunks follow the order of the
 * taps, so that a thread adds its taps from the first to the last. */
template <int KIND, int TYPE>
static __device__ void resize_row(
	const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t y, int32_t from, int32_t to, workspace &w)
{
	const stk_pass_gpu_axis &a = it.axis[0];
	int32_t one = v.first[a.first + from], other = v.first[a.first + to - 1], step = a.pre.step, reach = a.filter.n - 1;
	int32_t low = min(one, other) - (step < 0 ? reach : 0), high = max(one, other) + (step > 0 ? reach : 0) + 1, most = CHUNK / it.in_c;
	int32_t x = from + threadIdx.x / it.in_c, c = threadIdx.x % it.in_c;
	bool mine = x < to;
	horizontal h = {
		mine ? v.first[a.first + x] : 0, 0, KIND == STK_NARROW ? a.bias : 1 << (STK_FILTER_WIDE_SHIFT + STK_WIDE_BITS - 1), 0};
	for (int32_t done = 0; done < high - low; done += most) {
		int32_t width = min(most, high - low - done), begin = step > 0 ? low + done : high - done - width;
		chunk k = {begin, begin + width};
		vertical<KIND, TYPE>(v, it, y, k, w.row);
		__syncthreads();
		if (mine)
			add_chunk<KIND>(v, it, x, c, k, w.row, h);
		__syncthreads();
	}
	if (mine)
		w.values[threadIdx.x] = finish_sum<KIND>(it, h);
}

template <int KIND, int TYPE>
static __device__ void resize(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x0, int32_t y0, workspace &w)
{
	int32_t x1 = min(x0 + it.columns, it.axis[0].size), from = max(x0, it.axis[0].begin), to = min(x1, it.axis[0].end),
		x = x0 + threadIdx.x;
	for (int32_t y = y0; y < min(y0 + ROWS, it.axis[1].size); y++) {
		bool valid = is_valid(it.axis[1], y) && from < to;
		if (valid)
			resize_row<KIND, TYPE>(v, it, y, from, to, w);
		__syncthreads();
		if (x < x1) {
			float p[CHANNELS];
			valid = valid && is_valid(it.axis[0], x);
			for (int32_t c = 0; c < it.in_c && valid; c++)
				p[c] = w.values[(x - from) * it.in_c + c];
			finish(v, it, p, valid, x, y);
		}
		__syncthreads();
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) pass_run_any(const __grid_constant__ stk_pass_gpu_view v)
{
	__shared__ workspace w;
	const stk_pass_gpu_item &it = find_item(v);
	uint32_t block = blockIdx.x - it.block0[v.launch], across = (uint32_t)(it.axis[0].size + it.columns - 1) / it.columns;
	int32_t x0 = block % across * it.columns, y0 = block / across * ROWS;
	if (it.mode == STK_PASS_GPU_RESIZE) {
		if (it.kind == STK_NARROW)
			resize<STK_NARROW, STK_UINT8>(v, it, x0, y0, w);
		else if (it.kind == STK_WIDE)
			resize<STK_WIDE, STK_UINT8>(v, it, x0, y0, w);
		else if (it.in_dtype == STK_FLOAT)
			resize<STK_RESAMPLE_FLOAT, STK_FLOAT>(v, it, x0, y0, w);
		else
			resize<STK_RESAMPLE_FLOAT, ANY_TYPE>(v, it, x0, y0, w);
		return;
	}
	int32_t x = x0 + threadIdx.x;
	if (x >= it.axis[0].size)
		return;
	for (int32_t y = y0; y < min(y0 + ROWS, it.axis[1].size); y++) {
		bool valid = is_valid(it.axis[0], x) && is_valid(it.axis[1], y);
		float p[CHANNELS];
		if (it.mode == STK_PASS_GPU_COPY) {
			copy_pixel(v, it, valid, x, y);
			continue;
		}
		if (valid && it.mode == STK_PASS_GPU_WARP)
			sample_warp(it, x, y, p);
		else if (valid)
			sample_plain(v, it, x, y, p);
		finish(v, it, p, valid, x, y);
	}
}

/* Writes the holes of passes whose other outputs were made by earlier launches. */
extern "C" __global__ void __launch_bounds__(THREADS) pass_holes(const __grid_constant__ stk_pass_gpu_view v)
{
	const stk_pass_gpu_item &it = find_item(v);
	const stk_rect at = it.hole.at;
	uint32_t first = (blockIdx.x - it.block0[v.launch]) * STK_PASS_GPU_HOLE,
		 end = min(first + STK_PASS_GPU_HOLE, (uint32_t)at.w * (uint32_t)at.h);
	const int64_t row = it.dst_row, pixel = it.dst_pixel, channel = it.dst_channel;
	const int32_t channels = it.out_c, dtype = it.dtype;
	for (uint32_t i = first + threadIdx.x; i < end; i += THREADS) {
		uint32_t y = i / (uint32_t)at.w, x = i - y * (uint32_t)at.w;
		uint8_t *to = (uint8_t *)it.dst + (at.y + (int64_t)y) * row + (at.x + (int64_t)x) * pixel;
		for (int32_t c = 0; c < channels; c++, to += channel)
			store(to, it.hole.value[c], dtype);
	}
}
