/* SPDX-License-Identifier: Apache-2.0
 *
 * The distortion of an image by JPEG compression at some quality, without a file in between: colours at half the size, blocks through the cosine
 * transform, coefficients rounded to multiples of the quantisation tables, and all of it back. Since entropy coding loses nothing, the pixels are
 * those that libjpeg-turbo decodes from what it encodes, with its default settings (4:2:0, the accurate transforms, smooth upsampling): the formulas
 * below are its own, in whole numbers (jccolor.c, jcsample.c, jfdctint.c, jcdctmgr.c, jidctint.c, jdsample.c, jdcolor.c, jcparam.c).
 *
 * Three phases, each over what the one before it left in work memory: samples of the three planes, their blocks in place, then pixels. The GPU
 * makes samples and distorts them in one launch, pixels in another (jpeg_distortion_tile.h). */
#ifndef STK_KERNEL_JPEG_DISTORTION_H
#define STK_KERNEL_JPEG_DISTORTION_H

#include "base/hd.h"
#include "kernel/job/job.h"

#include <stdint.h>

enum { STK_JPEG_DISTORTION_PHASES = 3 };

/* Plain data. Frames of height x width pixels of RGB, dense. The planes of a frame lie one after the other: luma of `wide` x `high` samples, whole
 * blocks, then two of chroma. */
struct stk_jpeg_distortion {
	int64_t frames;
	int32_t width, height;
	int32_t wide[2], high[2]; /* of luma and of chroma: multiples of 8 */
	uint8_t quant[2][64];     /* in natural order */
};

/* Fills in what follows from the image's extents and the quality, which is clamped to 1 .. 100. */
void stk__jpeg_distortion_init(struct stk_jpeg_distortion *j, int64_t frames, int32_t width, int32_t height, int64_t quality);

/* All phases on the CPU, frame by frame. work: stk__jpeg_distortion_scratch bytes, aligned to 2. */
void stk__jpeg_distortion_run(const struct stk_jpeg_distortion *j, const uint8_t *src, uint8_t *dst, uint8_t *work);
/* The same, compiled for AVX2. */
void stk__jpeg_distortion_run_avx2(const struct stk_jpeg_distortion *j, const uint8_t *src, uint8_t *dst, uint8_t *work);

/* ---- as jobs ---- */

STK_PARAMS_FIT(stk_jpeg_distortion);

STK_MUST_USE enum stk_status stk__job_jpeg_distortion(struct stk_jobs *jobs, const struct stk_jpeg_distortion *j,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
