/* SPDX-License-Identifier: Apache-2.0
 *
 * Array jobs: what an operator on tensors of any shape does to one sample, as plain data. The operator has no other implementation. The CPU runs
 * each job as soon as it is made; for the GPU jobs are kept, and those of a batch run together (array_gpu.h). Which of the two happens is known to
 * `jobs` alone.
 *
 * There are few kinds, and each serves many operators: strided copies with conversion and fill (transpositions, slices, paddings, stacks, flips,
 * casts), element-wise arithmetic with broadcasting, normalisation by measured mean and standard deviation, reductions, one-hot vectors, affine maps
 * of points, images and volumes sampled at other positions, filters (kernel/filter/filter.h), pointwise functions (kernel/pointwise/pointwise.h),
 * equalised histograms (kernel/equalize/equalize.h), demosaicing (kernel/debayer/debayer.h), colours and sharpness (kernel/enhance/enhance.h), affine maps of bytes (kernel/transform/transform.h), JPEG compression distortion
 * (kernel/jpeg_distortion/jpeg_distortion.h). Fast loops are chosen by what a job is: its kind, types and strides.
 *
 * Both sides give the same bytes, except that a NaN may be another NaN, and that functions of arithmetic_ops.h which call libm (acos, acosh, asin, asinh,
 * atan, atan2, atanh, cbrt, sinh, tanh; sin and cos from 1e5 on) may differ in a float's last bit.
 *
 * Usage, by an operator's lower_array:
 *     struct stk_copy_dim dims[STK_MAX_DIMS];
 *     stk__copy_dims(dims, ndim, in->shape, order, start, step, out->shape);
 *     return stk__array_copy(jobs, &call->in[0], &call->out[0], dims, ndim, NULL, false, err);
 *
 * A new kind: its struct below and a function that makes it (array.c), its loops (array_run.c and beside it), one output of it for the GPU
 * (array_element.h) and the kernel that calls that (array_gpu.cu). */
#ifndef STK_KERNEL_ARRAY_H
#define STK_KERNEL_ARRAY_H

#include "kernel/array/arithmetic.h"
#include "kernel/common/border.h"
#include "kernel/debayer/debayer.h"
#include "kernel/enhance/enhance.h"
#include "kernel/equalize/equalize.h"
#include "kernel/filter/filter.h"
#include "kernel/jpeg_distortion/jpeg_distortion.h"
#include "kernel/pointwise/pointwise.h"
#include "kernel/transform/transform.h"
#include "stoker/tensor.h"

#include <string.h>

enum stk_array_kind {
	STK_ARRAY_COPY,
	STK_ARRAY_ARITHMETIC,
	STK_ARRAY_NORMALIZE,
	STK_ARRAY_ONE_HOT,
	STK_ARRAY_POINTS,
	STK_ARRAY_SAMPLE,
	STK_ARRAY_RESIZE,
	STK_ARRAY_FILTER,
	STK_ARRAY_POINTWISE,
	STK_ARRAY_EQUALIZE,
	STK_ARRAY_DEBAYER,
	STK_ARRAY_ENHANCE,
	STK_ARRAY_TRANSFORM,
	STK_ARRAY_JPEG_DISTORTION,
	STK_ARRAY_REDUCE,
	STK_ARRAY_KINDS
};

enum { STK_ARRAY_SOURCES = 2 };

/* A dim of the output, outermost first. Outputs begin .. end - 1 have a source, the others are fill. Strides are in bytes; 0 repeats. */
struct stk_array_dim {
	int64_t size, begin, end;
	int64_t dst, src[STK_ARRAY_SOURCES];
};

struct stk_array_copy {
	uint8_t fill[8]; /* an element of the output's type */
	int32_t element; /* bytes to move as they are; 0: converts from the source's type to the output's */
	bool fills;      /* some outputs have no source */
};

/* Operands are converted to the type `meet` and held in `domain`; the result is converted to the output's type (arithmetic_ops.h). */
struct stk_array_arithmetic {
	int32_t op, domain, meet;
	int32_t operands;
	int32_t by_value; /* a comparison of signed with unsigned numbers */
	int32_t divides;  /* whole numbers: division by 0 is an error */
};

/* The dims that are reduced, and those that are kept, whose indices in order number the groups. Strides in elements. The order of sums is fixed. A
 * group's elements are numbered in the order of memory; fewer than STK_ARRAY_SERIAL are added one after the other, more as STK_ARRAY_PARTIAL_SUMS
 * partial sums, element k in sum k % PARTIAL_SUMS, and those pairwise: those PARTIAL_SUMS/2 apart, then PARTIAL_SUMS/4, ... */
#define STK_ARRAY_PARTIAL_SUMS 256
#define STK_ARRAY_SERIAL 1024
struct stk_array_axis {
	uint32_t size;
	int64_t stride;
};
struct stk_array_groups {
	uint32_t groups, count; /* count: elements of a group */
	int32_t n_kept, n_reduced;
	struct stk_array_axis kept[STK_MAX_DIMS], reduced[STK_MAX_DIMS];
};

/* (x - mean) * factor + shift, in double, where factor is scale / sqrt(variance + epsilon), or 0 where nothing varies. Bytes are measured by exact sums of them
 * and of their squares (stk__array_spread). The job's constants are n_mean means,
 * then n_factor factors: one, or one a group; none: measured. Source 1 is the mean and the factor of each output's group, in the job's work memory. */
struct stk_array_normalize {
	int32_t n_mean, n_factor;
	int64_t ddof;
	double epsilon, scale, shift;
	struct stk_array_groups groups;
};

enum stk_reduction {
	STK_REDUCE_SUM,
	STK_REDUCE_MEAN,
	STK_REDUCE_MEAN_SQUARE,
	STK_REDUCE_RMS,
	STK_REDUCE_VARIANCE, /* about means that are given: source 1, a float or double for all groups or one for each */
	STK_REDUCE_STD_DEV,
	STK_REDUCE_MIN, /* skips NaNs. Of no elements: the type's largest number, for MAX its lowest */
	STK_REDUCE_MAX,
};

/* Reduces each group of elements to one output. Meanwhile values are held in `domain` (arithmetic.h): sums of whole numbers are exact, or wrap
 * around in the output's type if that is whole; sums in double have the order above. */
struct stk_array_reduce {
	int32_t op, domain;
	int32_t mean_step; /* bytes from one group's mean to the next; 0: they share one */
	int64_t ddof;      /* subtracted from the number of elements by VARIANCE and STD_DEV */
	struct stk_array_groups groups;
};

struct stk_array_one_hot {
	uint8_t on[8], off[8];   /* elements of the output's type */
	uint32_t classes, inner; /* output i stands for class i / inner % classes */
};

/* Maps points of `in` components, one after the other, to points of `out` components. The job's constants are floats: `out` rows of `in` factors,
 * then what is added to each row's sum. Sums are float32, in this order. */
enum { STK_POINT_COMPONENTS = 6 };
struct stk_array_points {
	int32_t in, out;
	bool boxes; /* points come in pairs, opposite corners: of each coordinate the lesser goes to the first */
};

/* Where in the source an output samples. Positions are those of corners: the first pixel covers 0 .. 1, and output (x, y, z) stands for (x + .5, y + .5, z + .5). */
enum stk_sample_map {
	STK_SAMPLE_AFFINE,      /* three rows of four factors, of (x, y, z, 1) */
	STK_SAMPLE_PERSPECTIVE, /* three rows of three factors, of (x, y, 1); the first two results divided by the third */
	STK_SAMPLE_MAPS, /* x and y stand in two tensors of float32, for each frame or once for all; factor 0 is added to both, and with factor 1 the output's own place */
	STK_SAMPLE_SPHERE, /* pixels move away from the centre by the square of their distance from it */
	STK_SAMPLE_WATER,  /* waves: amplitude, frequency, phase of x over y, then of y over x, from whole x and y */
	STK_SAMPLE_JITTER, /* each pixel moves by up to factor 0 pixels along x and y, at random */
};

/* Outputs are numbered over (frame, z, y, x, channel). Sources of types that float32 holds are mixed in float32, others in double. The job's
 * constants are the values outside the source, a float for each channel. */
struct stk_array_sample {
	int32_t map, border;
	int32_t interp; /* NN, LINEAR, which mixes 4 pixels, or 8 of a volume, or CUBIC, which mixes 16 of an image */
	bool volume;
	int32_t size[3];        /* of the source along x, y, z */
	int64_t frame, channel; /* from one to the next in the source, bytes */
	int64_t stride[3];      /* along x, y, z */
	float m[12];
	uint64_t seed;        /* of JITTER */
	int64_t map_frame;    /* of MAPS, from one frame to the next, values */
	const float *maps[2]; /* of MAPS: x and y */
};

/* A tensor resampled along up to three of its dims, one after the other, with float32 between them. The job's constants are words of four bytes: for each phase
 * the first source element of each output, an int32, and its weights, floats. Sums go from the first tap to the last. */
enum { STK_RESIZE_PHASES = 3 };
struct stk_resize_phase {
	int64_t outer, inner; /* values before and after the dim, as far as they are resampled by then */
	int32_t in, out, taps;
	uint32_t first, weights; /* where they begin, in words */
};
struct stk_array_resize {
	int32_t phases;
	struct stk_resize_phase phase[STK_RESIZE_PHASES];
};

/* Pointers are valid on the side that runs the job, except `constants`, which lie in host memory until the job has run or is kept. */
struct stk_array_job {
	int32_t kind, ndim;
	int64_t n; /* outputs; at least 1 */
	int32_t dst_dtype, src_dtype[STK_ARRAY_SOURCES];
	uint8_t *dst;
	const uint8_t *src[STK_ARRAY_SOURCES]; /* of output index 0 in all dims */
	const void *constants;
	void *work; /* memory for what the job computes first; whoever runs it provides it */
	uint64_t constant_bytes, work_bytes;
	struct stk_array_dim dim[STK_MAX_DIMS];
	union {
		struct stk_array_copy copy;
		struct stk_array_arithmetic arithmetic;
		struct stk_array_normalize normalize;
		struct stk_array_one_hot one_hot;
		struct stk_array_reduce reduce;
		struct stk_array_points points;
		struct stk_array_sample sample;
		struct stk_array_resize resize;
		struct stk_filter filter; /* source 1: its weights, where they are no constants */
		struct stk_pointwise pointwise;
		struct stk_debayer debayer;
		struct stk_enhance enhance; /* the mean luma of each frame is its work memory */
		struct stk_transform transform;
		struct stk_jpeg_distortion jpeg_distortion;
		struct stk_equalize equalize; /* its tables are the job's work memory, those of L*a*b* its constants */
	};
};

/* Copies the dims that the job has, and not those that it has not. */
static inline void stk__array_job_copy(struct stk_array_job *to, const struct stk_array_job *job)
{
	const size_t behind = offsetof(struct stk_array_job, copy);
	memcpy(to, job, offsetof(struct stk_array_job, dim) + (size_t)job->ndim * sizeof *job->dim);
	memcpy((uint8_t *)to + behind, (const uint8_t *)job + behind, sizeof *job - behind);
}

struct stk_arena;
struct stk_filter_kernels; /* kernel/filter/filter_run.h */
struct stk_array_kernels;  /* kernel/array/array_kernels.h */

/* Where an operator's jobs go. keep: copies a job, with its constants, for the GPU; NULL: each job runs on the CPU before the function that makes it
 * returns, with scratch from the arena. */
struct stk_array_jobs {
	enum stk_status (*keep)(struct stk_array_jobs *jobs, const struct stk_array_job *job, struct stk_error *err);
	struct stk_arena *arena;
	const struct stk_filter_kernels *filters; /* NULL: plain C, here and below */
	const struct stk_array_kernels *kernels;
};

/* ---- making jobs ---- */

/* Each makes the job that writes to `out`; it makes none where `out` has no elements. They fail where memory is short, or where a job that runs at
 * once fails. */

/* One dim of a copy's output, outermost first. Its index i takes index start + step * i of a dim of the source; outside 0 .. limit - 1 the output gets
 * the fill. Which source dim that is, the stride says: a transposition is an order of strides. */
struct stk_copy_dim {
	int64_t size;               /* of the output; may be 0 */
	int64_t start, step, limit; /* step may be negative or 0 (repeats) */
	int64_t dst, src;           /* elements from an index to the next; any sign */
};

/* The usual case: a dense source of `shape`, a dense output. order: which source dim each output dim is, NULL for the same. start and step (by output
 * dim; NULL: 0 and 1), extents of the output in `size`. Fills dims[0 .. ndim - 1]. */
void stk__copy_dims(struct stk_copy_dim *dims, int ndim, const int64_t *shape, const int *order, const int64_t *start, const int64_t *step,
	const int64_t *size);

/* fill: an element of the output's type, or NULL where nothing lies outside. Elements of equal types are moved as they are, unless `convert` (which
 * makes bools 0 or 1). in and out: data and type count, not shapes. */
STK_MUST_USE enum stk_status stk__array_copy(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_copy_dim *dims, int ndim, const void *fill, bool convert, struct stk_error *err);

/* The same where the source is dense: rows of `length` elements, `stride` elements apart in the output, the first at its element `first`. Types are
 * equal. Concatenation along a dim makes one such job for each input. */
struct stk_array_rows {
	int64_t count, length, first, stride;
};
STK_MUST_USE enum stk_status stk__array_copy_rows(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_array_rows *rows, struct stk_error *err);

/* All elements of `in`, in their order, converted to out's type where `convert`. */
STK_MUST_USE enum stk_status stk__array_copy_all(
	struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, bool convert, struct stk_error *err);

/* in: the operands, which are broadcast to out. STK_INVALID: whole numbers are divided by 0; out is not complete then. */
STK_MUST_USE enum stk_status stk__array_arithmetic(struct stk_array_jobs *jobs, const struct stk_array_arithmetic *a,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);
/* Returns that failure; also for jobs on a GPU, which only flag it. */
STK_MUST_USE enum stk_status stk__array_divided_by_zero(struct stk_error *err);

/* n: everything but the groups, which follow from in and the bits of `reduced`, one a dim. given: n_mean means and n_factor factors. in has at most
 * STK_ARRAY_MOST elements. */
#define STK_ARRAY_MOST INT32_MAX
STK_MUST_USE enum stk_status stk__array_normalize(struct stk_array_jobs *jobs, const struct stk_array_normalize *n, const double *given,
	const struct stk_tensor *in, const struct stk_tensor *out, uint32_t reduced, struct stk_error *err);

/* out: an element for each group, dense; groups follow from in and the bits of `reduced`, one a dim. mean: NULL, or of one element or as many as there are
 * groups. in has at most STK_ARRAY_MOST elements. */
STK_MUST_USE enum stk_status stk__array_reduce(struct stk_array_jobs *jobs, enum stk_reduction op, int64_t ddof,
	const struct stk_tensor *in, const struct stk_tensor *mean, const struct stk_tensor *out, uint32_t reduced, struct stk_error *err);

/* in's dims before `axis` stay before the classes' dim, the others come after it. */
STK_MUST_USE enum stk_status stk__array_one_hot(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	int32_t axis, float on, float off, struct stk_error *err);

/* Points p of in become M p + T, rounded to out's type. A point is `in` elements of `in`, which follow each other, and `out` of `out`.
 * matrix: M, row by row, then T. */
STK_MUST_USE enum stk_status stk__array_points(struct stk_array_jobs *jobs, const struct stk_array_points *p, const float *matrix,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

/* dims: of the tensors along x, y, z (-1: no such dim) and that of the channels (-1: none); the dims that are left lead, and number frames. Of `s`
 * given are map, border, interp, m, seed, maps and map_frame; the rest follows. fill: one value a channel. No extent of the source is 0. */
struct stk_sample_dims {
	int32_t axis[3], channel;
};
STK_MUST_USE enum stk_status stk__array_sample(struct stk_array_jobs *jobs, const struct stk_array_sample *s,
	const struct stk_sample_dims *dims, const float *fill, const struct stk_tensor *in, const struct stk_tensor *out,
	struct stk_error *err);

/* f: all of it, but that `outer` is 0 where in has no elements. weights: n_weights of a separable filter; NULL: in[1] holds those of a dense sum. */
STK_MUST_USE enum stk_status stk__array_filter(struct stk_array_jobs *jobs, const struct stk_filter *f, const float *weights,
	int32_t n_weights, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

/* constants: of `bytes` bytes, as p's function takes them. in has at most UINT32_MAX elements, out as many. */
STK_MUST_USE enum stk_status stk__array_pointwise(struct stk_array_jobs *jobs, const struct stk_pointwise *p, const void *constants,
	size_t bytes, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

/* lab: for lightness; NULL without. in and out are of uint8. */
STK_MUST_USE enum stk_status stk__array_equalize(struct stk_array_jobs *jobs, const struct stk_equalize *e,
	const struct stk_lab_tables *lab, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

/* Of all frames of in. */
STK_MUST_USE enum stk_status stk__array_debayer(struct stk_array_jobs *jobs, const struct stk_debayer *b, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);
/* in and out are of uint8. */
STK_MUST_USE enum stk_status stk__array_enhance(struct stk_array_jobs *jobs, const struct stk_enhance *e, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);
/* in and out are of uint8. */
STK_MUST_USE enum stk_status stk__array_transform(struct stk_array_jobs *jobs, const struct stk_transform *t, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);
STK_MUST_USE enum stk_status stk__array_jpeg_distortion(struct stk_array_jobs *jobs, const struct stk_jpeg_distortion *j,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

/* Resamples dims[0 .. n - 1], n from 1 to STK_RESIZE_PHASES, in the order in which the tensor shrinks most. axes: of each, whose in_size and outputs are the
 * extents of in and out. in's type is one that float32 holds. */
struct stk_filter_axis;
STK_MUST_USE enum stk_status stk__array_resize(struct stk_array_jobs *jobs, const struct stk_filter_axis *axes, const int32_t *dims,
	int32_t n, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

/* Bytes as they are, between places that do not overlap; as several jobs where they are more than one may have. */
STK_MUST_USE enum stk_status stk__array_copy_bytes(
	struct stk_array_jobs *jobs, const void *from, void *to, int64_t bytes, struct stk_error *err);

/* ---- measures ---- */

/* reduced: a bit for each dim that is. Of at most STK_ARRAY_MOST elements. */
void stk__array_groups(struct stk_array_groups *g, const struct stk_desc *desc, uint32_t reduced);

/* Adds to each group's sum its values, or with `about` the squares of their distances from about[group]. Any thread. */
void stk__array_sums(const struct stk_array_groups *g, const struct stk_tensor *in, const double *about, double *sums);

#endif
