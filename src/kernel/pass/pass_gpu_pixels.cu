/* SPDX-License-Identifier: Apache-2.0
 * Passes on the GPU (pass_gpu.h) without filter taps, from interleaved uint8 or float32 with at most 4 channels: windows, mirrors, nearest resizes, warps, and
 * the steps after them. A thread makes one pixel in each of a few rows. The common ways to finish a pixel have code of their own, and RGB bytes are stored in
 * words. */
#include "kernel/common/pixels.cuh"
#include "kernel/pass/pass_gpu_warp.cuh"

#define WIDTH STK_PASS_GPU_PIXEL_COLUMNS
#define HEIGHT STK_PASS_GPU_PIXEL_ROWS

/* ---- finishing pixels ---- */

/* The parameters for finishing a pixel (enum stk_pass_gpu_form). */
struct ending {
	int32_t form, dtype, channels; /* channels: number of channels of the output */
	bool fills, packed;            /* packed: interleaved RGB of bytes */
	const float *fill;             /* values of the fill step; seldom needed, so they stay in memory */
	float factor[9], bias[CHANNELS];
	int64_t pixel, channel;
};

static __device__ __forceinline__ ending make_ending(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it)
{
	ending e = {};
	const stk_step *step = &v.steps[it.step0];
	e.form = it.form;
	e.dtype = it.dtype;
	e.channels = it.form == STK_PASS_GPU_FORM_GRAY ? 1 : it.in_c;
	e.fills = it.fills;
	e.pixel = it.dst_pixel;
	e.channel = it.dst_channel;
	e.packed = e.dtype == STK_UINT8 && e.channels == 3 && e.pixel == 3 && e.channel == 1;
	e.fill = step->value;
	step += e.fills;
	if (e.form == STK_PASS_GPU_FORM_MATRIX) {
#pragma unroll
		for (int i = 0; i < 9; i++)
			e.factor[i] = step->m[i];
#pragma unroll
		for (int c = 0; c < 3; c++)
			e.bias[c] = step->b[c];
	} else if (e.form != STK_PASS_GPU_FORM_NONE && e.form != STK_PASS_GPU_FORM_STEPS) {
#pragma unroll
		for (int c = 0; c < CHANNELS; c++) {
			e.factor[c] = step->scale[c];
			e.bias[c] = step->bias[c];
		}
	}
	return e;
}

static __device__ __forceinline__ void transform(const ending &e, float p[CHANNELS])
{
	if (e.form == STK_PASS_GPU_FORM_AFFINE) {
#pragma unroll
		for (int c = 0; c < CHANNELS; c++)
			p[c] = p[c] * e.factor[c] + e.bias[c];
	} else if (e.form == STK_PASS_GPU_FORM_MATRIX) {
		float a = p[0], b = p[1], d = p[2];
#pragma unroll
		for (int c = 0; c < 3; c++)
			p[c] = e.factor[3 * c] * a + e.factor[3 * c + 1] * b + e.factor[3 * c + 2] * d + e.bias[c];
	} else if (e.form == STK_PASS_GPU_FORM_GRAY) {
		p[0] = e.factor[0] * p[0] + e.factor[1] * p[1] + e.factor[2] * p[2];
	}
}

/* Rounds and stores the pixels of a warp. The first n lanes have pixels inside the image. to: address of the first pixel. */
static __device__ __forceinline__ void store_pixels(const ending &e, uint8_t *to, const float p[CHANNELS], int32_t n)
{
	int32_t lane = (int32_t)(threadIdx.x % 32);
	if (e.packed) {
		stk__store_rgb(to, stk__to_byte(p[0]) | stk__to_byte(p[1]) << 8 | stk__to_byte(p[2]) << 16, n);
		return;
	}
	if (lane >= n)
		return;
	to += lane * e.pixel;
#pragma unroll
	for (int c = 0; c < CHANNELS; c++, to += e.channel) {
		if (c >= e.channels)
			break;
		if (e.dtype == STK_UINT8)
			*to = (uint8_t)stk__to_byte(p[c]);
		else if (e.dtype == STK_FLOAT16)
			*(uint16_t *)(void *)to = stk__half_bits(p[c]);
		else if (e.dtype == STK_BFLOAT16)
			*(uint16_t *)(void *)to = stk__bfloat_bits(p[c]);
		else
			*(float *)(void *)to = p[c];
	}
}

/* ---- tiles ---- */

/* Makes the tile whose first output is (x0, y0). T: type of the source; C: maximum number of its channels; WARPS: the pass has a warp; N: number of
 * rows that a thread makes at a time, to wait for memory less often. */
template <typename T, int C, bool WARPS, int N>
static __device__ __forceinline__ void make_tile(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x0, int32_t y0)
{
	const stk_pass_gpu_axis &ax = it.axis[0], &ay = it.axis[1];
	int32_t x = min(x0 + (int32_t)(threadIdx.x % WIDTH), ax.size - 1), columns = min(ax.size - x0, WIDTH),
		y1 = min(y0 + HEIGHT, ay.size);
	bool across = x >= ax.begin && x < ax.end;
	int32_t top = ay.begin, bottom = ay.end, first = WARPS ? ay.post.first : map(ay.pre, ay.post.first),
		step = WARPS ? ay.post.step : ay.pre.step * ay.post.step;
	bool table = !WARPS && ay.filter.n;
	/* Fields of the item are copied to registers, since the compiler must assume that stores change the originals. */
	const uint8_t *column = WARPS ? NULL : source_pixel<T>(it, across ? position(v, ax, x) : it.x0, 0);
	const int64_t src_row = it.src_row;
	const int32_t channels = it.in_c;
	warp_source warp = {};
	if (WARPS) {
		warp = make_warp_source<T>(it);
		warp.row.first = map(ax.post, x);
	}
	ending e = make_ending(v, it);
	uint8_t *to = (uint8_t *)it.dst + x0 * it.dst_pixel;
	int64_t row = it.dst_row;
#pragma unroll 1
	for (int32_t y = y0 + N * (int32_t)(threadIdx.x / WIDTH); y < y1; y += N * (THREADS / WIDTH)) {
		float p[N][CHANNELS] = {};
		bool valid[N];
#pragma unroll
		for (int i = 0; i < N; i++) {
			int32_t k = min(y + i, y1 - 1);
			valid[i] = across && k >= top && k < bottom;
			if (valid[i] && WARPS) {
				float at[2];
				warp.row.y = first + step * k;
				stk__warp_place(&warp.row, 0, at);
				sample_warp<T, C>(warp, at, p[i]);
			} else if (valid[i]) {
				const T *from =
					(const T *)(const void *)(column + (table ? position(v, ay, k) : first + step * k) * src_row);
#pragma unroll
				for (int c = 0; c < C; c++)
					p[i][c] = c < channels ? (float)__ldg(from + c) : 0;
			}
		}
#pragma unroll
		for (int i = 0; i < N; i++) {
			if (y + i >= y1)
				break;
			if (e.form == STK_PASS_GPU_FORM_STEPS) {
				if (x0 + (int32_t)(threadIdx.x % WIDTH) < ax.size)
					finish(v, it, hold(p[i]), valid[i], x, y + i);
				continue;
			}
			if (e.fills && !valid[i])
#pragma unroll
				for (int c = 0; c < C; c++)
					p[i][c] = __ldg(e.fill + c);
			transform(e, p[i]);
			store_pixels(e, to + (y + i) * row, p[i], columns);
		}
	}
}

template <bool WARPS, int N> static __device__ __forceinline__ void make_any_tile(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it)
{
	uint32_t block = blockIdx.x - it.block0[v.launch], down = block / it.across;
	int32_t x0 = (int32_t)(block - down * it.across) * WIDTH, y0 = (int32_t)down * HEIGHT;
	if (it.in_dtype == STK_FLOAT)
		make_tile<float, 4, WARPS, N>(v, it, x0, y0);
	else if (it.in_c <= 3)
		make_tile<uint8_t, 3, WARPS, N>(v, it, x0, y0);
	else
		make_tile<uint8_t, 4, WARPS, N>(v, it, x0, y0);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) pass_run_pixels(const __grid_constant__ stk_pass_gpu_view v)
{
	__shared__ stk_pass_gpu_item item;
	share_item(v, item);
	make_any_tile<false, 4>(v, item);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) pass_run_warps(const __grid_constant__ stk_pass_gpu_view v)
{
	__shared__ stk_pass_gpu_item item;
	share_item(v, item);
	make_any_tile<true, 1>(v, item);
}
