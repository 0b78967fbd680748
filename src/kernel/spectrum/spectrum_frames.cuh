/* SPDX-License-Identifier: Apache-2.0
 * The positions of a thread block's frames, and functions that load frames, for the kernels of spectra. The including file defines THREADS, the number of
 * threads of a block. */
#ifndef STK_KERNEL_SPECTRUM_FRAMES_CUH
#define STK_KERNEL_SPECTRUM_FRAMES_CUH

#include "kernel/job/job_find.cuh"
#include "kernel/spectrum/spectrum_place.h"
#define STK_FFT_VALUE float
#define STK_FFT_PLACE(i) stk__spectrum_gapped((uint32_t)(i))
#include "kernel/fft/fft_steps.h"

/* The positions of a thread block's frames: the address of each frame's signal, the index of the frame's first element in it, and the address of its bin 0.
 * inside: the address of the frame's first element if its elements are adjacent in memory and lie inside the signal, otherwise NULL. */
struct frame_places {
	const float *src[STK_SPECTRUM_TOGETHER], *inside[STK_SPECTRUM_TOGETHER];
	int64_t from[STK_SPECTRUM_TOGETHER];
	float *dst[STK_SPECTRUM_TOGETHER];
	bool pairs; /* true if the elements of all frames can be loaded two at a time, without regard to the signal's ends */
};

/* The `count` frames that a thread block transforms. A stage reads them from x, writes them to y and exchanges x and y; the kernel for 512 elements replaces
 * those in x instead. Frames are `pitch` complex numbers apart. */
struct block_frames {
	stk_fft_complex *x, *y;
	uint32_t count, pitch;
	const frame_places *places;
};

/* A divisor n. If n is a power of two, as in most cases, `divided` shifts by `shift` bits instead of dividing. */
struct divider {
	uint32_t n, shift;
	bool shifts;
};

static __device__ __forceinline__ divider divide_by(uint32_t n)
{
	return {n, (uint32_t)__ffs((int)n) - 1, (n & (n - 1)) == 0};
}

static __device__ __forceinline__ uint32_t divided(uint32_t x, divider d)
{
	return d.shifts ? x >> d.shift : x / d.n;
}

/* Finds the positions of `count` frames from number `at` on. */
static __device__ __forceinline__ void find_places(
	const stk_job &job, const float *window, uint32_t at, uint32_t count, frame_places &places)
{
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &job);
	uint32_t f = threadIdx.x;
	bool single = p.window % 2 || (uintptr_t)window & 7;
	if (f < count) {
		uint32_t line = (at + f) / (uint32_t)p.frames;
		int64_t i = at + f - line * (uint32_t)p.frames;
		places.src[f] = (const float *)job.src[0] + line * p.src_line + i * p.src_frame;
		places.from[f] = p.first + i * p.step;
		bool inside = p.src_element == 1 && places.from[f] >= 0 && places.from[f] + p.window <= p.length;
		places.inside[f] = inside ? places.src[f] + places.from[f] : NULL;
		single = single || !inside || (uintptr_t)places.inside[f] & 7;
		places.dst[f] = (float *)job.dst + line * p.dst_line + i * p.dst_frame;
	}
	if (f < 32) {
		bool any = __any_sync(0xffffffffu, single);
		if (f == 0)
			places.pairs = !any;
	}
	__syncthreads();
}

/* Returns element k of frame f, weighted by the window; 0 past the window. Outside of the signal, uses the element that stk__spectrum_inside returns, or 0. */
static __device__ __forceinline__ float load_element(
	const stk_job &job, const float *window, const frame_places &places, uint32_t f, uint32_t k)
{
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &job);
	if (k >= (uint32_t)p.window)
		return 0;
	const float *inside = places.inside[f];
	if (inside)
		return inside[k] * window[k];
	int64_t i = stk__spectrum_inside(places.from[f] + k, p.length, p.border);
	return (i < 0 ? 0 : places.src[f][i * p.src_element]) * window[k];
}

/* Returns elements 2 * k and 2 * k + 1 of a frame, weighted by the window. inside: the frame's address in frame_places. Both addresses must be multiples
 * of 8. */
static __device__ __forceinline__ stk_fft_complex load_pair(const float *inside, const float *window, uint32_t k)
{
	stk_fft_complex x = ((const stk_fft_complex *)inside)[k], w = ((const stk_fft_complex *)window)[k];
	return {x.re * w.re, x.im * w.im};
}

/* Loads the frames to b.x, as the complex numbers that are transformed. */
static __device__ __forceinline__ void load_frames(const stk_job &job, const float *tables, const block_frames &b)
{
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &job);
	const float *window = tables + p.fft.floats;
	uint32_t n = (uint32_t)p.fft.complex;
	divider by_n = divide_by(n);
	bool odd = p.fft.n % 2;
	for (uint32_t j = threadIdx.x; j < b.count * n; j += THREADS) {
		uint32_t f = divided(j, by_n), k = j - f * n;
		stk_fft_complex *to = &b.x[f * b.pitch + STK_FFT_PLACE(k)];
		const float *inside = b.places->inside[f];
		if (!odd && inside && 2 * k + 1 < (uint32_t)p.window && (((uintptr_t)inside | (uintptr_t)window) & 7) == 0)
			*to = load_pair(inside, window, k);
		else if (odd)
			*to = {load_element(job, window, *b.places, f, k), 0};
		else
			*to = {load_element(job, window, *b.places, f, 2 * k), load_element(job, window, *b.places, f, 2 * k + 1)};
	}
	__syncthreads();
}

/* Number of twiddle factors of a stage of radix 16 and length n. It is two stages of radix 4, of lengths n and n / 4, which have three factors
 * for each butterfly. */
#define TWIDDLES_OF_16(n) (((n) / 4 + (n) / 16) * 3)

#endif
