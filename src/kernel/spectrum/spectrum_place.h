/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GPU divides a job of spectra among thread blocks. A block transforms `together` frames at once in shared memory. Frames that are too long for it
 * are transformed one by one in the job's work memory, by at most STK_SPECTRUM_SPILLING thread blocks. */
#ifndef STK_KERNEL_SPECTRUM_PLACE_H
#define STK_KERNEL_SPECTRUM_PLACE_H

#include "kernel/spectrum/spectrum.h"

enum {
	STK_SPECTRUM_THREADS = 128,      /* threads in a thread block */
	STK_SPECTRUM_THREADS_512 = 256,  /* threads in a thread block of the kernel for frames of 512 elements */
	STK_SPECTRUM_TOGETHER = 16,      /* maximum number of frames that a thread block transforms together */
	STK_SPECTRUM_SHARED = 44 * 1024, /* bytes for frames in shared memory, of which every launch may use 48 KiB */
	STK_SPECTRUM_SPILLING = 256      /* maximum number of thread blocks of a job whose frames do not fit in shared memory */
};

/* Returns the index in memory of complex number i of a frame. After every 16 numbers there is a gap of one, so that threads that access every 16th number use
 * different banks. */
STK_HD uint32_t stk__spectrum_gapped(uint32_t i)
{
	return i + (i >> 4);
}

/* Returns the distance between frames in memory, in complex numbers. It is odd, so that threads that access the same element of frames use different banks. */
STK_HD int64_t stk__spectrum_pitch(const struct stk_fft *f)
{
	return stk__spectrum_gapped((uint32_t)f->padded) | 1;
}

/* Returns whether frames of this length have a kernel of their own, whose threads keep most numbers in registers. */
STK_HD int32_t stk__spectrum_is_512(const struct stk_fft *f)
{
	return f->n == 512;
}

/* Returns the size in bytes of a frame in a thread block's memory. There are two copies of each frame, since a stage cannot replace its input by its output;
 * only the kernel for 512 elements can do this and needs one copy. */
STK_HD int64_t stk__spectrum_frame_bytes(const struct stk_fft *f)
{
	return (stk__spectrum_is_512(f) ? 1 : 2) * 2 * (int64_t)sizeof(float) * stk__spectrum_pitch(f);
}

/* Returns the size in bytes of the memory that a thread block needs for its frames. */
STK_HD int64_t stk__spectrum_room(const struct stk_spectrum *p)
{
	return stk__spectrum_frame_bytes(&p->fft) * (p->together ? p->together : 1);
}

/* Returns the number of frames that a thread block transforms together: the largest power of two that fits into shared memory, at most STK_SPECTRUM_TOGETHER,
 * or 0 if not even one frame fits. */
STK_HD int32_t stk__spectrum_together(const struct stk_fft *f)
{
	int64_t each = stk__spectrum_frame_bytes(f);
	int32_t n = STK_SPECTRUM_TOGETHER;
	while (n && n * each > STK_SPECTRUM_SHARED)
		n /= 2;
	return n;
}

STK_HD uint32_t stk__spectrum_blocks(const struct stk_spectrum *p, int64_t frames)
{
	if (p->together)
		return (uint32_t)((frames + p->together - 1) / p->together);
	return (uint32_t)(frames < STK_SPECTRUM_SPILLING ? frames : STK_SPECTRUM_SPILLING);
}

static inline uint64_t stk__spectrum_work_bytes(const struct stk_spectrum *p, int64_t frames)
{
	return p->together ? 0 : (uint64_t)stk__spectrum_room(p) * stk__spectrum_blocks(p, frames);
}

#endif
