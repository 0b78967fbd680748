/* SPDX-License-Identifier: Apache-2.0
 * Spectra of frames of 512 elements on the GPU. Each frame is transformed as 256 complex numbers, by two stages of 16 butterflies of radix 16. A thread runs
 * one butterfly of each stage, with its numbers in registers. Between the stages, the threads of a frame exchange their numbers in shared memory, which has one
 * copy of each frame. */
#define THREADS STK_SPECTRUM_THREADS_512
#include "kernel/spectrum/spectrum_frames.cuh"

static_assert(THREADS == 16 * STK_SPECTRUM_TOGETHER, "each stage of a frame has 16 butterflies");

/* Loads the sixteen numbers of butterfly i of the first stage, weighted by the window: pairs i, i + 16, ... of the frame's elements; 0 past the window.
 * inside: the address of the frame's first element; pairs: number of pairs in the window. */
static __device__ __forceinline__ void load_sixteen(
	const float *inside, const float *window, uint32_t pairs, uint32_t i, stk_fft_complex to[16])
{
	const int32_t left = (int32_t)(pairs - i);
#pragma unroll
	for (int32_t e = 0; e < 16; e++)
		to[e] = 16 * e < left ? load_pair(inside + 2 * i, window + 2 * i, 16 * e) : stk_fft_complex{0, 0};
}

/* Runs the first stage. Adjacent threads have adjacent butterflies of a frame, since they load adjacent elements. The threads of a frame are in one warp, so
 * they need not wait for others. */
static __device__ __forceinline__ void run_first_stage(const stk_job &job, const float *tables, const block_frames &b)
{
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &job);
	const uint32_t f = threadIdx.x / 16, i = threadIdx.x % 16;
	const bool works = f < b.count, pairs = b.places->pairs;
	stk_fft_complex from[16], made[16], *x = b.x + f * b.pitch;
	if (!pairs)
		load_frames(job, tables, b);
	if (works && pairs) {
		load_sixteen(stk__global(b.places->inside[f]), tables + p.fft.floats, (uint32_t)p.window / 2, i, from);
	} else if (works) {
#pragma unroll
		for (uint32_t e = 0; e < 16; e++)
			from[e] = x[17 * e + i];
	}
	if (!pairs)
		__syncwarp(); /* results replace elements, so all threads of the frame must have read theirs */
	if (works) {
		const stk_fft_at at = {64, 1, i, 0, stk__fft_factors(tables, p.fft.twiddles)};
		stk__fft_sixteen(from, &at, made);
#pragma unroll
		for (uint32_t e = 0; e < 16; e++)
			x[17 * i + e] = made[e];
	}
	__syncwarp();
}

/* Sets *to to *from times the factor c - i s. */
static __device__ __forceinline__ void turn_by(stk_fft_complex *to, const stk_fft_complex *from, float c, float s)
{
	const stk_fft_factor w = {c, -s};
	stk__fft_turn(to, from, &w);
}

/* Sets *to to *from times 1 - i, or -1 - i if `left`, times the square root of a half. Gives the bits of stk__fft_turn with two multiplications fewer. */
static __device__ __forceinline__ void turn_by_eighth(stk_fft_complex *to, const stk_fft_complex *from, bool left)
{
	const float root = 0.70710678118654752440f, re = from->re * root, im = from->im * root;
	*to = left ? stk_fft_complex{im - re, -(re + im)} : stk_fft_complex{re + im, im - re};
}

/* Sets *to to *from times exp(-2 pi i k / 16), where k is a product of two numbers up to 3: 0, 1, 2, 3, 4, 6 or 9. Gives the bits of stk__fft_turn, except for
 * the signs of zeros, and unless *from is infinite. */
static __device__ __forceinline__ void turn_by_16th(stk_fft_complex *to, const stk_fft_complex *from, int k)
{
	const float cosine = 0.92387953251128675613f, sine = 0.38268343236508977173f;
	switch (k) {
	case 0:
		*to = *from;
		break;
	case 1:
		turn_by(to, from, cosine, sine);
		break;
	case 3:
		turn_by(to, from, sine, cosine);
		break;
	case 4:
		*to = {from->im, -from->re};
		break;
	case 9:
		turn_by(to, from, -cosine, -sine);
		break;
	default:
		turn_by_eighth(to, from, k == 6);
	}
}

/* Transforms sixteen numbers. Does the same as stk__fft_sixteen in the last stages of a transform, whose twiddle factors are constants. */
static __device__ __forceinline__ void transform_sixteen(const stk_fft_complex from[16], stk_fft_complex made[16])
{
	stk_fft_complex between[4][4], four[4];
#pragma unroll
	for (int j = 0; j < 4; j++) {
		stk__fft_four(&from[j], &from[j + 4], &from[j + 8], &from[j + 12], four);
#pragma unroll
		for (int k = 0; k < 4; k++)
			turn_by_16th(&between[k][j], &four[k], j * k);
	}
#pragma unroll
	for (int k = 0; k < 4; k++) {
		stk__fft_four(&between[k][0], &between[k][1], &between[k][2], &between[k][3], four);
#pragma unroll
		for (int l = 0; l < 4; l++)
			made[k + 4 * l] = four[l];
	}
}

/* Runs the second stage. Each butterfly's results replace its elements, so that the transform's result is in b.x; number 256 there repeats number 0, for the
 * bins. */
static __device__ __forceinline__ void run_second_stage(const block_frames &b)
{
	const uint32_t f = threadIdx.x / 16, q = threadIdx.x % 16;
	if (f < b.count) {
		stk_fft_complex from[16], made[16], *x = b.x + f * b.pitch + q;
#pragma unroll
		for (uint32_t e = 0; e < 16; e++)
			from[e] = x[17 * e];
		transform_sixteen(from, made);
#pragma unroll
		for (uint32_t e = 0; e < 16; e++)
			x[17 * e] = made[e];
		if (q == 0)
			x[STK_FFT_PLACE(256)] = made[0];
	}
	__syncthreads();
}

/* Computes and stores bins k, k + 16, ... up to 128 of frame f and, for each of them, bin 256 minus its number, which is made of the same two complex
 * numbers. */
template <bool MAGNITUDE>
static __device__ __forceinline__ void store_bins_of(
	const stk_spectrum &p, const float *tables, const block_frames &b, uint32_t f, uint32_t k)
{
	const stk_fft_complex *x = b.x + f * b.pitch + k, *partners = b.x + f * b.pitch + STK_FFT_PLACE(256 - k);
	const stk_fft_factor *w = stk__fft_factors(tables, p.fft.halves) + k;
	const int64_t bin = p.dst_bin, step = 16 * bin;
	float *dst = stk__global(b.places->dst[f]), *up = dst + k * bin, *down = dst + (256 - k) * bin, first, second;
#pragma unroll
	for (uint32_t e = 0; e < 8; e++, up += step, down -= step) {
		stk__fft_power_pair(&x[17 * e], partners - 17 * e, w + 16 * e, &first, &second);
		*up = MAGNITUDE ? sqrtf(first) : first;
		*down = MAGNITUDE ? sqrtf(second) : second;
	}
	if (k == 0) {
		stk__fft_power_pair(&x[17 * 8], &x[17 * 8], w + 128, &first, &second);
		*up = MAGNITUDE ? sqrtf(first) : first;
	}
}

/* Computes and stores all bins. The 16 threads of a group store adjacent outputs at a time. */
static __device__ __forceinline__ void store_bins(const stk_spectrum &p, const float *tables, const block_frames &b)
{
	const bool by_bin = p.dst_bin == 1;
	const uint32_t outer = threadIdx.x / 16, inner = threadIdx.x % 16, f = by_bin ? outer : inner, k = by_bin ? inner : outer;
	if (f >= b.count)
		return;
	if (p.magnitude)
		store_bins_of<true>(p, tables, b, f, k);
	else
		store_bins_of<false>(p, tables, b, f, k);
}

/* With five thread blocks, a multiprocessor idles less while threads wait for memory than with four. With six, threads would lack registers. */
extern "C" __global__ void __launch_bounds__(THREADS, 5) job_spectrum_512(const __grid_constant__ stk_job_gpu_view v)
{
	STK_SHARED_ARRAY(stk_fft_complex, shared);
	__shared__ frame_places places;
	const stk_job_gpu_item &it = share_item(v);
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &it.job);
	const float *tables = stk__global((const float *)it.job.constants);
	uint32_t at = (blockIdx.x - it.block0[v.launch]) * STK_SPECTRUM_TOGETHER, frames = (uint32_t)it.job.n;
	block_frames b = {shared, NULL, min((uint32_t)STK_SPECTRUM_TOGETHER, frames - at), (uint32_t)stk__spectrum_pitch(&p.fft), &places};
	find_places(it.job, tables + p.fft.floats, at, b.count, places);
	run_first_stage(it.job, tables, b);
	run_second_stage(b);
	store_bins(p, tables, b);
}
