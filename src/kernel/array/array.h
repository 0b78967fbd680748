/* SPDX-License-Identifier: Apache-2.0
 *
 * Array jobs: what operators on tensors of any shape do to one sample, as plain data that the cores (array.c) and the GPU (array_gpu.h) run alike.
 * Strided copies with conversion and fill (copies, transpositions, reshapes, slices, paddings, stacks, flips, casts), element-wise arithmetic with
 * broadcasting, normalisation by measured mean and standard deviation, one-hot vectors.
 *
 * Both give the same bytes, except that a NaN may be another NaN, and that functions of arithmetic_ops.h which call libm (acos, acosh, asin, asinh, atan,
 * atan2, atanh, cbrt, sinh, tanh; sin and cos from 1e5 on) may differ in a float's last bit.
 *
 * Usage, by an operator's lower_array:
 *     stk__copy_nd_dense(dims, ndim, 1, in->shape, order, start, step, out->shape);      // strides in elements
 *     stk__array_copy(jobs, &call->in[0], &call->out[0], dims, ndim, NULL, false);
 * and then, on either side:
 *     stk__array_run(job, scratch)        or        stk__array_gpu_add(batch, job) */
#ifndef STK_KERNEL_ARRAY_H
#define STK_KERNEL_ARRAY_H

#include "kernel/array/arithmetic.h"
#include "kernel/array/copy_nd.h"
#include "stoker/tensor.h"

enum stk_array_kind { STK_ARRAY_COPY, STK_ARRAY_ARITHMETIC, STK_ARRAY_NORMALIZE, STK_ARRAY_ONE_HOT };

/* A dim of the output, outermost first. Outputs begin .. end - 1 have a source, the others are fill. Strides are in bytes; 0 repeats. */
struct stk_array_dim {
	uint32_t size, begin, end;
	int64_t dst, src[2];
};

struct stk_array_copy {
	uint8_t fill[8]; /* an element of the output's type */
	int32_t element; /* bytes to move as they are; 0: converts from the source's type to the output's */
};

/* Operands are taken to `meet`, held in `domain`; the result becomes the output's type (kernel/array/arithmetic_ops.h). */
struct stk_array_arithmetic {
	int32_t op, domain, meet;
	int32_t operands;
	int32_t by_value; /* a comparison of signed with unsigned numbers */
	int32_t divides;  /* of whole numbers: by 0 is an error */
};

/* The dims over which a measure goes (reduced), and the others, which number the groups in their order (kept). Strides in elements. */
struct stk_array_axis {
	uint32_t size;
	int64_t stride;
};
/* (x - mean) * factor + shift, in double, where factor is scale / sqrt(variance + epsilon), or 0 where nothing varies. mean and factor: one, or one a
 * group; NULL: measured.
 * The order of sums is fixed. A group's elements are numbered in the order of memory; fewer than STK_ARRAY_SERIAL are added one after the other, more
 * as STK_ARRAY_LANES partial sums, element k in sum k % LANES, and those pairwise: those LANES/2 apart, then LANES/4, ... */
#define STK_ARRAY_LANES 256
#define STK_ARRAY_SERIAL 1024
struct stk_array_normalize {
	const double *mean, *factor;
	int32_t n_mean, n_factor;
	uint32_t groups, count; /* count: elements of a group */
	int32_t n_kept, n_reduced;
	struct stk_array_axis kept[STK_MAX_DIMS], reduced[STK_MAX_DIMS];
	int64_t ddof;
	double epsilon, scale, shift;
	double *stats; /* mean and factor of each group; whoever runs the job gives the memory */
};

struct stk_array_one_hot {
	uint8_t on[8], off[8];   /* elements of the output's type */
	uint32_t classes, inner; /* output i stands for class i / inner % classes */
};

/* Addresses are those of the side that runs it, except for given means and factors: on the host. */
struct stk_array_job {
	int32_t kind, ndim;
	uint32_t n; /* outputs; 0: nothing to do */
	int32_t dst_dtype, src_dtype[2];
	uint8_t *dst;
	const uint8_t *src[2]; /* of output index 0 in all dims */
	struct stk_array_dim dim[STK_MAX_DIMS];
	union {
		struct stk_array_copy copy;
		struct stk_array_arithmetic arithmetic;
		struct stk_array_normalize normalize;
		struct stk_array_one_hot one_hot;
	};
};

/* Where operators put their jobs; `v` has room for as many as one may make. */
#define STK_ARRAY_MOST_JOBS 64
struct stk_array_jobs {
	struct stk_array_job *v;
	int32_t count;
};

/* ---- making jobs ---- */

/* Each appends a job that writes to out, which has at most STK_ARRAY_MOST elements (asserted). */
#define STK_ARRAY_MOST INT32_MAX

/* dims as stk__copy_nd takes them, but for strides, which are in elements. fill: an element of the output's type, or NULL where nothing lies outside.
 * Elements of equal types are moved as they are, unless `convert` (which makes bools 0 or 1). */
void stk__array_copy(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_copy_dim *dims, int ndim, const void *fill, bool convert);

/* The same elements in the same order, converted to out's type where `convert`. */
void stk__array_plain(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, bool convert);

/* in: the operands, which are broadcast to out. */
void stk__array_arithmetic(
	struct stk_array_jobs *jobs, const struct stk_array_arithmetic *a, const struct stk_tensor *in, const struct stk_tensor *out);

/* n: everything but groups, count, kept and reduced, which follow from in and the bits of `reduced`, one a dim. */
void stk__array_normalize(struct stk_array_jobs *jobs, const struct stk_array_normalize *n, const struct stk_tensor *in,
	const struct stk_tensor *out, uint32_t reduced);

/* in's dims before `axis` stay before the classes' dim, the others behind it. */
void stk__array_one_hot(
	struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, int32_t axis, float on, float off);

/* ---- running them ---- */

/* Bytes of scratch that a run takes; 0 for most. */
size_t stk__array_scratch(const struct stk_array_job *job);

/* False: whole numbers are divided by 0; the output is not complete then. scratch: aligned to 8. */
bool stk__array_run(const struct stk_array_job *job, void *scratch);

/* Of a NORMALIZE job: adds to each group's sum its values, or with `about` the squares of their distances from about[group]. Any thread. */
void stk__array_sums(const struct stk_array_job *job, const double *about, double *sums);

#endif
