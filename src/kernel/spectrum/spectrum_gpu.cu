/* SPDX-License-Identifier: Apache-2.0
 * Spectra on the GPU: a thread block computes some frames, from their samples to their bins. Its threads share the butterflies of each stage. */
#include "kernel/job/job_find.cuh"
#include "kernel/spectrum/spectrum_place.h"
#define STK_FFT_VALUE float
#define STK_FFT_PLACE(i) stk__spectrum_gapped((uint32_t)(i))
#include "kernel/fft/fft_steps.h"

#define THREADS STK_SPECTRUM_THREADS

/* The positions of a thread block's frames: the address of each frame's signal, the index of the frame's first element in it, and the address of its bin 0.
 * inside: the address of the frame's first element if its elements are adjacent in memory and lie inside the signal, otherwise NULL. */
struct frame_places {
	const float *src[STK_SPECTRUM_TOGETHER], *inside[STK_SPECTRUM_TOGETHER];
	int64_t from[STK_SPECTRUM_TOGETHER];
	float *dst[STK_SPECTRUM_TOGETHER];
	bool pairs; /* true if the elements of all frames can be loaded two at a time, without regard to the signal's ends */
};

/* The frames of a thread block: `count` frames, beginning with number `at`. In x (and in y, after a stage) the frames are `pitch` complex numbers apart. */
struct block_frames {
	stk_fft_complex *x, *y;
	uint32_t at, count, pitch;
	const frame_places *places;
};

/* A divisor n, and whether it is a power of two, as it mostly is, so that a shift can divide by it. */
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
		if (!odd && inside && 2 * k + 1 < (uint32_t)p.window && (((uintptr_t)inside | (uintptr_t)window) & 7) == 0) {
			stk_fft_complex x = ((const stk_fft_complex *)inside)[k], w = ((const stk_fft_complex *)window)[k];
			*to = {x.re * w.re, x.im * w.im};
		} else if (odd)
			*to = {load_element(job, window, *b.places, f, k), 0};
		else
			*to = {load_element(job, window, *b.places, f, 2 * k), load_element(job, window, *b.places, f, 2 * k + 1)};
	}
	__syncthreads();
}

/* Runs a stage, or two stages of radix 4 as one of radix 16. s: product of the radices of the earlier stages; m: the stage's length divided by its radix;
 * w: its twiddle factors. */
static __device__ __forceinline__ void run_stage(uint32_t radix, uint32_t m, uint32_t s, const float *w, block_frames &b)
{
	uint32_t each = m * s;
	divider by_each = divide_by(each), by_s = divide_by(s);
	for (uint32_t j = threadIdx.x; j < b.count * each; j += THREADS) {
		uint32_t frame = divided(j, by_each), k = j - frame * each, p = divided(k, by_s);
		const stk_fft_complex *x = b.x + frame * b.pitch;
		stk_fft_complex *y = b.y + frame * b.pitch;
		stk_fft_at at = {radix == 16 ? 4 * m : m, s, p, k - p * s, w};
		if (radix == 16)
			stk__fft_radix16(x, y, &at);
		else
			stk__fft_butterfly((int)radix, x, y, &at);
	}
	__syncthreads();
	stk_fft_complex *swapped = b.x;
	b.x = b.y;
	b.y = swapped;
}

/* Runs a stage like run_stage, with constant parameters, so that the compiler does most of the arithmetic on indices. */
template <uint32_t RADIX, uint32_t M, uint32_t S> static __device__ __forceinline__ void run_fixed_stage(const float *w, block_frames &b)
{
	for (uint32_t j = threadIdx.x; j < b.count * (M * S); j += THREADS) {
		uint32_t frame = j / (M * S), k = j % (M * S), p = k / S;
		const stk_fft_complex *x = b.x + frame * b.pitch;
		stk_fft_complex *y = b.y + frame * b.pitch;
		stk_fft_at at = {RADIX == 16 ? 4 * M : M, S, p, k - p * S, w};
		if (RADIX == 16)
			stk__fft_radix16(x, y, &at);
		else
			stk__fft_butterfly((int)RADIX, x, y, &at);
	}
	__syncthreads();
	stk_fft_complex *swapped = b.x;
	b.x = b.y;
	b.y = swapped;
}

/* Number of floats in the twiddle factors of a stage of radix 16 and length n. It is two stages of radix 4, of lengths n and n / 4, which have three complex
 * factors for each butterfly. */
#define TWIDDLES_OF_16(n) (2 * ((n) / 4 + (n) / 16) * 3)

/* Runs all stages of transforms of 256 or 512 complex numbers (such as for nfft 512 and 1024). w: the twiddle factors. */
static __device__ __forceinline__ void run_stages_of_256(const float *w, block_frames &b)
{
	run_fixed_stage<16, 16, 1>(w, b);
	run_fixed_stage<16, 1, 16>(w + TWIDDLES_OF_16(256), b);
}

static __device__ __forceinline__ void run_stages_of_512(const float *w, block_frames &b)
{
	run_fixed_stage<16, 32, 1>(w, b);
	run_fixed_stage<16, 2, 16>(w + TWIDDLES_OF_16(512), b);
	run_fixed_stage<2, 1, 256>(w + TWIDDLES_OF_16(512) + TWIDDLES_OF_16(32), b);
}

/* Runs all stages. Exchanges b.x and b.y after a stage, so that the result is in b.x. */
static __device__ __forceinline__ void run_stages(const stk_fft &f, const float *tables, block_frames &b)
{
	uint32_t length = (uint32_t)f.padded, s = 1;
	const float *w = tables + f.twiddles;
	if (length == 256 || length == 512) {
		if (length == 256)
			run_stages_of_256(w, b);
		else
			run_stages_of_512(w, b);
		return;
	}
	for (int32_t i = 0; i < f.stages; i++) {
		uint32_t radix = f.radix[i];
		if (radix == 4 && i + 1 < f.stages && f.radix[i + 1] == 4) {
			run_stage(16, length / 16, s, w, b);
			w += TWIDDLES_OF_16(length);
			radix = 16;
			i++;
		} else {
			run_stage(radix, length / radix, s, w, b);
			w += 2 * (length / radix) * (radix - 1);
		}
		s *= radix;
		length /= radix;
	}
}

static __device__ __forceinline__ void transform(const stk_fft &f, const float *tables, block_frames &b)
{
	uint32_t n = (uint32_t)f.complex, padded = (uint32_t)f.padded;
	if (n == padded) {
		run_stages(f, tables, b);
		return;
	}
	for (uint32_t j = threadIdx.x; j < b.count * padded; j += THREADS) {
		uint32_t frame = j / padded, k = j - frame * padded;
		if (k < n)
			stk__fft_chirp(&f, tables, b.x + frame * b.pitch, k);
		else
			b.x[frame * b.pitch + STK_FFT_PLACE(k)] = {0, 0};
	}
	__syncthreads();
	run_stages(f, tables, b);
	for (uint32_t j = threadIdx.x; j < b.count * padded; j += THREADS)
		stk__fft_convolve(&f, tables, b.x + j / padded * b.pitch, j % padded);
	__syncthreads();
	run_stages(f, tables, b);
	for (uint32_t j = threadIdx.x; j < b.count * n; j += THREADS)
		stk__fft_unchirp(&f, tables, b.x + j / n * b.pitch, j % n);
	__syncthreads();
}

/* Computes the bins and stores them. Adjacent threads store adjacent outputs. */
static __device__ __forceinline__ void store_bins(const stk_job &job, const float *tables, const block_frames &b)
{
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &job);
	uint32_t pairs = (uint32_t)stk__fft_pairs(&p.fft);
	bool by_bin = p.dst_bin == 1;
	divider by = divide_by(by_bin ? pairs : b.count);
	for (uint32_t j = threadIdx.x; j < b.count * pairs; j += THREADS) {
		uint32_t outer = divided(j, by), inner = j - outer * by.n, f = by_bin ? outer : inner, k = by_bin ? inner : outer;
		float *to = b.places->dst[f], first, second = 0;
		int32_t partner = stk__fft_partner(&p.fft, (int32_t)k);
		stk__fft_powers(&p.fft, tables, b.x + f * b.pitch, (int32_t)k, &first, &second);
		to[k * p.dst_bin] = p.magnitude ? sqrtf(first) : first;
		if (partner >= 0)
			to[partner * p.dst_bin] = p.magnitude ? sqrtf(second) : second;
	}
	__syncthreads();
}

/* ---- frames of 512 elements ----
 * Each frame is transformed as 256 complex numbers, by two stages of radix 16. A thread keeps the numbers of a butterfly in registers. Between the stages, they
 * are exchanged in shared memory, which has each frame once. */

/* Runs the first stage, in which adjacent threads have adjacent butterflies of a frame, since they load adjacent elements. */
static __device__ __forceinline__ void run_first_stage(const stk_job &job, const float *tables, const block_frames &b)
{
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &job);
	const float *window = tables + p.fft.floats;
	bool pairs = b.places->pairs;
	uint32_t end = b.count * 16;
	if (!pairs)
		load_frames(job, tables, b);
	for (uint32_t first = 0; first < end; first += THREADS) {
		uint32_t j = first + threadIdx.x, f = j / 16, i = j % 16;
		stk_fft_complex from[16], made[16], *x = b.x + f * b.pitch;
		if (pairs && j < end) {
			const stk_fft_complex *inside = (const stk_fft_complex *)b.places->inside[f];
#pragma unroll
			for (uint32_t e = 0; e < 16; e++) {
				uint32_t k = i + 16 * e;
				from[e] = {0, 0};
				if (2 * k < (uint32_t)p.window) {
					stk_fft_complex v = inside[k], w = ((const stk_fft_complex *)window)[k];
					from[e] = {v.re * w.re, v.im * w.im};
				}
			}
		} else if (j < end) {
#pragma unroll
			for (uint32_t e = 0; e < 16; e++)
				from[e] = x[STK_FFT_PLACE(i + 16 * e)];
		}
		if (!pairs)
			__syncthreads(); /* the results replace the elements */
		if (j < end) {
			stk_fft_at at = {64, 1, i, 0, tables + p.fft.twiddles};
			stk__fft_sixteen(from, &at, made);
#pragma unroll
			for (uint32_t e = 0; e < 16; e++)
				x[STK_FFT_PLACE(16 * i + e)] = made[e];
		}
	}
	__syncthreads();
}

/* Runs butterfly q of the second stage: sets made[e] to number q + 16 * e of the transform's result. */
static __device__ __forceinline__ void run_second_stage(const float *w, const stk_fft_complex *x, uint32_t q, stk_fft_complex made[16])
{
	stk_fft_complex from[16];
	stk_fft_at at = {4, 16, 0, q, w + TWIDDLES_OF_16(256)};
#pragma unroll
	for (uint32_t e = 0; e < 16; e++)
		from[e] = x[17 * e + q]; /* STK_FFT_PLACE(q + 16 * e) */
	stk__fft_sixteen(from, &at, made);
}

/* Stores a bin and its partner. */
static __device__ __forceinline__ void put_bins(const stk_spectrum &p, float *to, int64_t pitch, uint32_t k, float first, float second)
{
	to[k * pitch] = p.magnitude ? sqrtf(first) : first;
	if (k != 128)
		to[(256 - k) * pitch] = p.magnitude ? sqrtf(second) : second;
}

/* Runs the second stage and computes the bins. A thread has butterflies q and 16 - q, whose results are partners, or 0 and 8, which are their own partners.
 * Adjacent threads have adjacent frames, since their bins are mostly adjacent in memory. Bins that are adjacent in a frame go through shared memory. */
static __device__ __forceinline__ void finish_frames_of_512(const stk_job &job, const float *tables, const block_frames &b)
{
	enum { PITCH = 258 /* of a frame's bins in shared memory; threads of adjacent frames and butterflies use different banks */ };
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &job);
	uint32_t f = threadIdx.x % STK_SPECTRUM_TOGETHER, q = threadIdx.x / STK_SPECTRUM_TOGETHER, other = q ? 16 - q : 8;
	bool by_bin = p.dst_bin == 1, works = f < b.count;
	float *bins = (float *)(void *)b.x, *to = works ? by_bin ? bins + f * PITCH : b.places->dst[f] : NULL;
	int64_t pitch = by_bin ? 1 : p.dst_bin;
	stk_fft_complex z[16], y[16];
	if (works) {
		run_second_stage(tables + p.fft.twiddles, b.x + f * b.pitch, q, z);
		run_second_stage(tables + p.fft.twiddles, b.x + f * b.pitch, other, y);
	}
	if (by_bin)
		__syncthreads(); /* the bins replace the numbers */
	if (works) {
		float first, second;
#pragma unroll
		for (uint32_t e = 0; e < 8; e++) {
			const stk_fft_complex partner = q ? y[15 - e] : z[(16 - e) % 16];
			stk__fft_power_pair(&p.fft, tables, (int32_t)(q + 16 * e), &z[e], &partner, &first, &second);
			put_bins(p, to, pitch, q + 16 * e, first, second);
		}
#pragma unroll
		for (uint32_t e = 0; e < 8; e++) {
			const stk_fft_complex partner = q ? z[15 - e] : y[15 - e];
			stk__fft_power_pair(&p.fft, tables, (int32_t)(other + 16 * e), &y[e], &partner, &first, &second);
			put_bins(p, to, pitch, other + 16 * e, first, second);
		}
		if (q == 0) {
			stk__fft_power_pair(&p.fft, tables, 128, &z[8], &z[8], &first, &second);
			put_bins(p, to, pitch, 128, first, second);
		}
	}
	__syncthreads();
	for (uint32_t j = threadIdx.x; by_bin && j < b.count * 257; j += THREADS)
		b.places->dst[j / 257][j % 257] = bins[j / 257 * PITCH + j % 257];
	if (by_bin)
		__syncthreads(); /* the next frames replace the places and the bins */
}

static __device__ __forceinline__ void make_frames_of_512(const stk_job &job, const float *tables, const block_frames &b)
{
	static_assert(THREADS == 8 * STK_SPECTRUM_TOGETHER, "each thread has two butterflies of the second stage");
	run_first_stage(job, tables, b);
	finish_frames_of_512(job, tables, b);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) job_spectrum(const __grid_constant__ stk_job_gpu_view v)
{
	STK_SHARED_ARRAY(stk_fft_complex, shared);
	__shared__ frame_places places;
	const stk_job_gpu_item &it = share_item(v);
	const stk_spectrum &p = STK_PARAMS(stk_spectrum, &it.job);
	const float *tables = (const float *)it.job.constants;
	uint32_t block = blockIdx.x - it.block0[v.launch], pitch = (uint32_t)stk__spectrum_pitch(&p.fft);
	uint32_t together = p.together ? (uint32_t)p.together : 1, frames = (uint32_t)it.job.n;
	uint32_t blocks = stk__spectrum_blocks(&p, frames);
	for (uint32_t at = block * together; at < frames; at += blocks * together) {
		stk_fft_complex *room = p.together ? shared : (stk_fft_complex *)it.job.work + (uint64_t)block * 2 * pitch;
		block_frames b = {room, room + together * pitch, at, min(together, frames - at), pitch, &places};
		find_places(it.job, tables + p.fft.floats, at, b.count, places);
		if (stk__spectrum_is_512(&p.fft)) {
			make_frames_of_512(it.job, tables, b);
			continue;
		}
		load_frames(it.job, tables, b);
		transform(p.fft, tables, b);
		store_bins(it.job, tables, b);
	}
}
