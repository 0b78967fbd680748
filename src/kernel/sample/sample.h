/* SPDX-License-Identifier: Apache-2.0
 * Samples images and volumes at other positions: warps, displacements. */
#ifndef STK_KERNEL_SAMPLE_H
#define STK_KERNEL_SAMPLE_H

#include "kernel/common/border.h"
#include "kernel/job/job.h"

/* The source position that an output is sampled at. Coordinates refer to corners: the first pixel covers 0 .. 1, and output (x, y, z) has the position (x +
 * .5, y + .5, z + .5). */
enum stk_sample_map {
	STK_SAMPLE_AFFINE,      /* three rows of four factors for (x, y, z, 1) */
	STK_SAMPLE_PERSPECTIVE, /* three rows of three factors for (x, y, 1); the first two results are divided by the third */
	/* x and y come from two tensors of float32, for each frame or once for all; factor 0 is added to both, and if factor 1 is set, the output's own
	 * position too */
	STK_SAMPLE_MAPS,
	/* pixels move away from the centre by the square of their distance from it */
	STK_SAMPLE_SPHERE,
	STK_SAMPLE_WATER,  /* waves: amplitude, frequency, phase of x over y, then of y over x, for integer x and y */
	STK_SAMPLE_JITTER, /* each pixel moves by up to factor 0 pixels along x and y, at random */
};

/* Outputs are numbered over (frame, z, y, x, channel). Sources of types that float32 holds are mixed in float32, others in double. The job's constants are
 * the values outside of the source, one float for each channel. */
struct stk_job_sample {
	int32_t map, border;
	int32_t interp; /* NN; LINEAR, which mixes 4 pixels, or 8 of a volume; or CUBIC, which mixes 16 of an image */
	bool volume;
	int32_t size[3];        /* extents of the source along x, y, z */
	int64_t frame, channel; /* distances in the source, in bytes */
	int64_t stride[3];      /* along x, y, z */
	float m[12];
	uint64_t seed;        /* for JITTER */
	int64_t map_frame;    /* for MAPS: distance from one frame to the next, in values */
	const float *maps[2]; /* for MAPS: x and y */
};
STK_PARAMS_FIT(stk_job_sample);

/* Makes the job. dims: dimensions of the tensors along x, y, z (-1: absent) and of the channels (-1: absent); the remaining dimensions come first, and
 * number the frames. The caller sets map, border, interp, m, seed, maps and map_frame of `s`; the other fields are computed. fill: one value per channel. No
 * extent of the source is 0. */
struct stk_sample_dims {
	int32_t axis[3], channel;
};
STK_MUST_USE enum stk_status stk__job_sample(struct stk_jobs *jobs, const struct stk_job_sample *s, const struct stk_sample_dims *dims,
	const float *fill, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
