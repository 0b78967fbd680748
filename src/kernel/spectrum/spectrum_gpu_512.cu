/* SPDX-License-Identifier: Apache-2.0
 * Spectra of frames of 512 elements on the GPU. Each frame is transformed as 256 complex numbers, by two stages of 16 butterflies of radix 16. A thread runs
 * two butterflies of each stage, with their numbers in registers. Only between the stages do the threads of a frame exchange numbers, in shared memory, which
 * has one copy of each frame: a bin needs numbers k and 256 - k of the result, and a thread's two butterflies of the second stage make both. */
#define THREADS STK_SPECTRUM_THREADS_512
#include "kernel/spectrum/spectrum_frames.cuh"

/* Number of threads that work on a frame at the same time in the first stage, and distance between the two frames of a thread. */
#define LANES 16
#define APART (STK_SPECTRUM_TOGETHER / 2)
static_assert(THREADS == LANES * APART, "a thread runs a butterfly of the first stage for two frames");
static_assert(THREADS == STK_SPECTRUM_TOGETHER * 8, "a thread runs two of a frame's 16 butterflies of the second stage");

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

/* Runs butterfly i of the first stage and stores its results. x: the frame. */
static __device__ __forceinline__ void run_first_butterfly(
	const stk_fft_complex from[16], const stk_fft_factor *twiddles, uint32_t i, stk_fft_complex *x)
{
	const stk_fft_at at = {64, 1, i, 0, twiddles};
	stk_fft_complex made[16];
	stk__fft_sixteen(from, &at, made);
#pragma unroll
	for (uint32_t e = 0; e < 16; e++)
		x[17 * i + e] = made[e];
}

/* Runs the first stage. Adjacent threads have adjacent butterflies of a frame, since they load adjacent elements. A thread has the same butterfly of two
 * frames, so that it loads the window and the twiddle factors once. */
static __device__ __forceinline__ void run_first_stage(const stk_job &job, const float *tables, const block_frames &b)
{
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &job);
	const stk_fft_factor *twiddles = stk__fft_factors(tables, p.fft.twiddles);
	const uint32_t i = threadIdx.x % LANES, f = threadIdx.x / LANES, other = f + APART;
	stk_fft_complex first[16], second[16], *x = b.x + f * b.pitch, *y = x + APART * b.pitch;
	if (!b.places->pairs) {
		load_frames(job, tables, b);
#pragma unroll
		for (uint32_t e = 0; e < 16; e++) {
			first[e] = x[17 * e + i];
			second[e] = y[17 * e + i];
		}
		__syncthreads(); /* results replace elements, so all threads of the frame must have read theirs */
	} else {
		/* A frame that does not exist repeats one that does, and its results are not used. */
		const float *window = tables + p.fft.floats;
		const uint32_t pairs = (uint32_t)p.window / 2, last = b.count - 1;
		load_sixteen(stk__global(b.places->inside[min(f, last)]), window, pairs, i, first);
		load_sixteen(stk__global(b.places->inside[min(other, last)]), window, pairs, i, second);
	}
	run_first_butterfly(first, twiddles, i, x);
	run_first_butterfly(second, twiddles, i, y);
	__syncthreads();
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

/* Runs butterfly q of the second stage. Result e is number q + 16 * e of the transform. x: the frame. */
static __device__ __forceinline__ void run_second_butterfly(const stk_fft_complex *x, uint32_t q, stk_fft_complex made[16])
{
	stk_fft_complex from[16];
#pragma unroll
	for (uint32_t e = 0; e < 16; e++)
		from[e] = x[17 * e + q];
	transform_sixteen(from, made);
}

/* Returns a or b. It selects values, not addresses, so that both stay in registers. */
static __device__ __forceinline__ stk_fft_complex select(bool first, const stk_fft_complex &a, const stk_fft_complex &b)
{
	return {first ? a.re : b.re, first ? a.im : b.im};
}

/* Computes and stores the two bins that are made of numbers z and other. up, down: their addresses. */
template <bool MAGNITUDE>
static __device__ __forceinline__ void store_pair(
	const stk_fft_complex &z, const stk_fft_complex &other, const stk_fft_factor *w, float *up, float *down)
{
	float first, second;
	stk__fft_power_pair(&z, &other, w, &first, &second);
	*up = MAGNITUDE ? sqrtf(first) : first;
	*down = MAGNITUDE ? sqrtf(second) : second;
}

/* Runs butterflies `low` and `high` of the second stage of frame f, and stores the bins that are made of their results. Bin k and bin 256 - k are made of
 * numbers k and 256 - k. With low from 1 to 7 and high = 16 - low, each of the two numbers is a result of another butterfly. With low = 0 and high = 8, both
 * are results of the same butterfly. */
template <bool MAGNITUDE>
static __device__ __forceinline__ void make_bins(
	const stk_spectrum &p, const float *tables, const block_frames &b, uint32_t f, uint32_t low)
{
	const bool own = low == 0;
	const uint32_t high = own ? 8 : 16 - low;
	const stk_fft_complex *x = b.x + f * b.pitch;
	const stk_fft_factor *halves = stk__fft_factors(tables, p.fft.halves);
	const int64_t bin = p.dst_bin, step = 16 * bin;
	float *dst = stk__global(b.places->dst[f]);
	float *low_up = dst + low * bin, *low_down = dst + (256 - low) * bin, *high_up = dst + high * bin,
	      *high_down = dst + (256 - high) * bin;
	stk_fft_complex a[16], c[16];
	run_second_butterfly(x, low, a);
	run_second_butterfly(x, high, c);
#pragma unroll
	for (uint32_t e = 0; e < 8; e++, low_up += step, low_down -= step, high_up += step, high_down -= step) {
		store_pair<MAGNITUDE>(a[e], select(own, a[(16 - e) % 16], c[15 - e]), halves + low + 16 * e, low_up, low_down);
		store_pair<MAGNITUDE>(c[e], select(own, c[15 - e], a[15 - e]), halves + high + 16 * e, high_up, high_down);
	}
	if (own)
		store_pair<MAGNITUDE>(a[8], a[8], halves + 128, low_up, low_down);
}

/* Runs the second stage and stores all bins, so that adjacent threads store adjacent outputs. */
static __device__ __forceinline__ void run_second_stage(const stk_spectrum &p, const float *tables, const block_frames &b)
{
	/* If bins are adjacent, eight threads have a frame. Frames f and f + 8 are in turns, because their numbers are in different banks. */
	const uint32_t eighth = threadIdx.x / 8;
	const bool by_bin = p.dst_bin == 1;
	const uint32_t f = by_bin ? eighth / 2 + eighth % 2 * 8 : threadIdx.x % 16, low = by_bin ? threadIdx.x % 8 : threadIdx.x / 16;
	if (f >= b.count)
		return;
	if (p.magnitude)
		make_bins<true>(p, tables, b, f, low);
	else
		make_bins<false>(p, tables, b, f, low);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) job_spectrum_512(const __grid_constant__ stk_job_gpu_view v)
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
	run_second_stage(p, tables, b);
}
