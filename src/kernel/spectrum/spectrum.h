/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes spectra of frames of signals. Frames are cut out of a signal and weighted by a window, or they are the lines of a tensor along one dimension.
 * Signals and spectra are float32. */
#ifndef STK_KERNEL_SPECTRUM_H
#define STK_KERNEL_SPECTRUM_H

#include "kernel/fft/fft.h"
#include "kernel/job/job_place.h"

/* The values that a signal is assumed to have before its first and after its last element. */
enum stk_spectrum_border {
	STK_SPECTRUM_ZERO,
	STK_SPECTRUM_REFLECT /* the mirror image, in which the outermost element is not repeated; a signal of one element repeats it */
};

/* The positions of frames. Frame i of line o is cut out of a signal that begins at element o * src_line + i * src_frame of the input, has `length` elements,
 * and whose elements are src_element apart. Element k of the frame is element first + i * step + k of the signal. Bin b of the frame is output o * dst_line
 * + i * dst_frame + b * dst_bin. */
struct stk_spectrum {
	struct stk_fft fft;
	int64_t frames; /* number of frames of each line */
	int64_t length, first, step;
	int64_t src_line, src_frame, src_element;
	int64_t dst_line, dst_frame, dst_bin;
	int32_t window;    /* number of elements that are read at the start of a frame; the frame's other elements are 0 */
	int32_t border;    /* enum stk_spectrum_border */
	int32_t magnitude; /* 1 if outputs are magnitudes, 0 if they are squares of magnitudes */
	int32_t together; /* number of frames that a GPU's thread block transforms at once; 0: none fits into shared memory. Set by stk__job_spectrum */
};
STK_PARAMS_FIT(stk_spectrum);

/* Makes a job that computes spectra. n_frames: number of frames of all lines together. tables: the tables that stk__fft_tables computes, followed by p->window
 * weights of the window, each times stk__fft_scale. */
STK_MUST_USE enum stk_status stk__job_spectrum(struct stk_jobs *jobs, const struct stk_spectrum *p, const float *tables, int64_t n_frames,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

/* Returns the size in bytes of the scratch memory of a job on the CPU. */
size_t stk__spectrum_scratch(const struct stk_spectrum *p);

/* Runs the job on the CPU. job->work is the scratch memory, aligned to 64 bytes. _avx2: the same source, compiled for AVX2. */
void stk__spectrum_run(const struct stk_job *job);
void stk__spectrum_run_avx2(const struct stk_job *job);

/* Runs the job on the CPU together with a job of weighted sums (kernel/bands/bands.h) over its bins, without storing the bins. */
void stk__spectrum_run_bands(const struct stk_job *job, const struct stk_job *bands);
void stk__spectrum_run_bands_avx2(const struct stk_job *job, const struct stk_job *bands);

/* Returns the index of the element whose value stands at position i of a signal, which may be outside of the signal; -1 if the value there is 0. border: enum
 * stk_spectrum_border. */
STK_HD int64_t stk__spectrum_inside(int64_t i, int64_t length, int32_t border)
{
	if (i >= 0 && i < length)
		return i;
	if (border == STK_SPECTRUM_ZERO)
		return -1;
	if (length == 1)
		return 0;
	int64_t period = 2 * (length - 1);
	i = i < 0 ? -i : i;
	i %= period;
	return i < length ? i : period - i;
}

#endif
