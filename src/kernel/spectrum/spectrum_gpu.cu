/* SPDX-License-Identifier: Apache-2.0
 * Spectra on the GPU: a thread block computes some frames, from their samples to their bins. Its threads share the butterflies of each stage. */
#define THREADS STK_SPECTRUM_THREADS
#include "kernel/spectrum/spectrum_frames.cuh"

/* Runs a stage, or two stages of radix 4 as one of radix 16. s: product of the radices of the earlier stages; m: the stage's length divided by its radix;
 * w: its twiddle factors. */
static __device__ __forceinline__ void run_stage(uint32_t radix, uint32_t m, uint32_t s, const stk_fft_factor *w, block_frames &b)
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
template <uint32_t RADIX, uint32_t M, uint32_t S>
static __device__ __forceinline__ void run_fixed_stage(const stk_fft_factor *w, block_frames &b)
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

/* Runs all stages of transforms of 256 or 512 complex numbers (such as for nfft 512 and 1024). w: the twiddle factors. */
static __device__ __forceinline__ void run_stages_of_256(const stk_fft_factor *w, block_frames &b)
{
	run_fixed_stage<16, 16, 1>(w, b);
	run_fixed_stage<16, 1, 16>(w + TWIDDLES_OF_16(256), b);
}

static __device__ __forceinline__ void run_stages_of_512(const stk_fft_factor *w, block_frames &b)
{
	run_fixed_stage<16, 32, 1>(w, b);
	run_fixed_stage<16, 2, 16>(w + TWIDDLES_OF_16(512), b);
	run_fixed_stage<2, 1, 256>(w + TWIDDLES_OF_16(512) + TWIDDLES_OF_16(32), b);
}

/* Runs all stages. Exchanges b.x and b.y after a stage, so that the result is in b.x. */
static __device__ __forceinline__ void run_stages(const stk_fft &f, const float *tables, block_frames &b)
{
	uint32_t length = (uint32_t)f.padded, s = 1;
	const stk_fft_factor *w = stk__fft_factors(tables, f.twiddles);
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
			w += (length / radix) * (radix - 1);
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
		block_frames b = {room, room + together * pitch, min(together, frames - at), pitch, &places};
		find_places(it.job, tables + p.fft.floats, at, b.count, places);
		load_frames(it.job, tables, b);
		transform(p.fft, tables, b);
		store_bins(it.job, tables, b);
	}
}
