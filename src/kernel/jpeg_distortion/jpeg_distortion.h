/* SPDX-License-Identifier: Apache-2.0
 *
 * Distorts an image like JPEG compression of a given quality, without writing a file: halves the resolution of the colours, transforms blocks with the
 * cosine transform, rounds coefficients to multiples of the quantisation tables, and converts all of it back. Entropy coding is lossless, so the pixels are
 * those that libjpeg-turbo decodes from its own files with default settings (4:2:0, the accurate transforms, smooth upsampling). The formulas below are
 * libjpeg-turbo's, in integers (jccolor.c, jcsample.c, jfdctint.c, jcdctmgr.c, jidctint.c, jdsample.c, jdcolor.c, jcparam.c).
 *
 * There are three phases: the image becomes samples of three planes in work memory, blocks of the planes are distorted in place, and pixels are made
 * from the planes. The GPU makes and distorts samples in one launch, and makes pixels in another (jpeg_distortion_tile.h). */
#ifndef STK_KERNEL_JPEG_DISTORTION_H
#define STK_KERNEL_JPEG_DISTORTION_H

#include "base/hd.h"
#include "kernel/job/job.h"

#include <stdint.h>

enum { STK_JPEG_DISTORTION_PHASES = 3 };

/* The parameters. The image is dense: frames of height x width pixels of RGB. In work memory the planes of a frame follow each other: luma with `wide[0]` x
 * `high[0]` samples, then Cb and Cr with `wide[1]` x `high[1]` samples each. */
struct stk_jpeg_distortion {
	int64_t frames;
	int32_t width, height;
	int32_t wide[2], high[2]; /* extents of the planes of luma and of chroma: multiples of 8 */
	uint8_t quant[2][64];     /* quantisation tables of luma and of chroma, in natural order */
};

/* Computes all fields from the image's extents and the quality, which is clamped to 1 .. 100. */
void stk__jpeg_distortion_init(struct stk_jpeg_distortion *j, int64_t frames, int32_t width, int32_t height, int64_t quality);

/* Runs all phases on the CPU, frame by frame. work: stk__jpeg_distortion_scratch (jpeg_distortion_element.h) bytes, aligned to 2. */
void stk__jpeg_distortion_run(const struct stk_jpeg_distortion *j, const uint8_t *src, uint8_t *dst, uint8_t *work);
void stk__jpeg_distortion_run_avx2(const struct stk_jpeg_distortion *j, const uint8_t *src, uint8_t *dst, uint8_t *work);

STK_PARAMS_FIT(stk_jpeg_distortion);

STK_MUST_USE enum stk_status stk__job_jpeg_distortion(struct stk_jobs *jobs, const struct stk_jpeg_distortion *j,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
