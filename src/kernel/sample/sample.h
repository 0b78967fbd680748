/* SPDX-License-Identifier: Apache-2.0
 * Samples images and volumes at computed positions, for warps and displacements. */
#ifndef STK_KERNEL_SAMPLE_H
#define STK_KERNEL_SAMPLE_H

#include "kernel/common/border.h"
#include "kernel/job/job.h"

/* How the source position of an output is computed. Coordinates refer to corners: the first pixel extends from 0 to 1. The centre of output (x, y, z) is
 * (x + .5, y + .5, z + .5); MAPS and WATER use (x, y) instead. Below, factors are the elements of stk_job_sample.m. */
enum stk_sample_map {
	STK_SAMPLE_AFFINE,      /* each coordinate is a row of four factors times (x, y, z, 1) of the centre */
	STK_SAMPLE_PERSPECTIVE, /* three rows of three factors, times (x, y, 1) of the centre; the first two results are divided by the third */
	/* x and y come from two float32 tensors, with values for each frame or one set of values for all frames; to both, factor 0 is added, and
	 * factor 1 times x or y */
	STK_SAMPLE_MAPS,
	/* the source position's distance from the image's centre is the square of the output's distance, divided by half of the longer extent */
	STK_SAMPLE_SPHERE,
	STK_SAMPLE_WATER,  /* waves: amplitude, frequency and phase of x's shift, which depends on y, then of y's shift */
	STK_SAMPLE_JITTER, /* the centre, moved at random by up to factor 0 whole pixels along x and y */
};

/* Outputs are numbered over (frame, z, y, x, channel). If float32 holds the values of the source's type, values are interpolated in float32, otherwise in
 * double. The job's constants are the fill value for each channel, as floats. */
struct stk_job_sample {
	int32_t map, border;
	int32_t interp; /* NN; LINEAR, which reads 4 pixels, or 8 of a volume; or CUBIC, which reads 16 of an image */
	bool volume;
	int32_t size[3];        /* extents of the source along x, y, z */
	int64_t frame, channel; /* distances in bytes between frames, and between channels, of the source */
	int64_t stride[3];      /* distances in bytes between pixels of the source along x, y, z */
	float m[12];
	uint64_t seed;        /* for JITTER: seed of the random distances */
	int64_t map_frame;    /* for MAPS: distance from one frame to the next in the maps, in values */
	const float *maps[2]; /* for MAPS: the maps of x and y */
};
STK_PARAMS_FIT(stk_job_sample);

/* The dimensions of the tensors that are x, y, z and the channels; -1: the tensors lack this dimension. All other dimensions must be further out; they count
 * frames. */
struct stk_sample_dims {
	int32_t axis[3], channel;
};

/* Makes a job that samples. The caller sets map, border, interp, m, seed, maps and map_frame of `s`; the other fields are computed. fill: one value per
 * channel. All extents of the source must be at least 1. */
STK_MUST_USE enum stk_status stk__job_sample(struct stk_jobs *jobs, const struct stk_job_sample *s, const struct stk_sample_dims *dims,
	const float *fill, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
