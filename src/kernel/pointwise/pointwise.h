/* SPDX-License-Identifier: Apache-2.0
 *
 * Pointwise functions: each output is made of the one value at its own place, the place itself, and numbers that are drawn for it. They are jobs
 * (kernel/job/job.h) where a pass has no step for them: a lookup table is larger than a pass may be, and a pass neither knows the places of its
 * pixels in the image nor draws.
 *
 * Draws are Philox's (base/philox.h), counted by the place in the tensor: value i of the sample's stream depends on i alone, whichever thread makes it.
 *
 * On the GPU a thread makes one output (pointwise_element.h), or several that share a block of draws (kernel/array/array_gpu_noise.cu); on the CPU loops do the same over rows (pointwise_run.c), with the same functions
 * where that is fast enough. Both give the same bits. */
#ifndef STK_KERNEL_POINTWISE_H
#define STK_KERNEL_POINTWISE_H

#include "base/hd.h"
#include "base/philox.h"
#include "kernel/job/job.h"
#include "stoker/tensor.h"

enum stk_pointwise_op {
	STK_POINTWISE_LOOKUP,       /* a table's entry; of whole numbers */
	STK_POINTWISE_ERASE,        /* fills regions */
	STK_POINTWISE_ERASE_NORMAL, /* fills them with mean + stddev * a draw from the normal distribution */
	STK_POINTWISE_GRID,         /* zeroes squares of a grid */
	STK_POINTWISE_NORMAL,       /* adds mean + stddev * a draw from the normal distribution */
	STK_POINTWISE_SALT,         /* replaces some pixels by one of two values */
	STK_POINTWISE_POISSON       /* factor * a draw from the Poisson distribution of mean x / factor */
};

/* Constants: the entries, elements of the output's type. */
struct stk_pointwise_lookup {
	uint8_t other[8]; /* an element for what has no entry; first, where 8 bytes may be read at once */
	uint32_t entries;
};

/* Constants: n_fills elements of the type in 8 bytes each, then for each region the first index and the one past the last of each dim, as int64. */
struct stk_pointwise_erase {
	int32_t regions, ndim, n_fills;
	int64_t fill_divisor; /* output i is filled with fill i / fill_divisor % n_fills */
	int64_t shape[STK_MAX_DIMS];
	struct stk_random random; /* of ERASE_NORMAL: the sample's stream, at its start */
	float mean, stddev;
};

/* Pixel (x, y) is zeroed where both x * c - y * s - dx and x * s + y * c - dy, less their whole parts, are below ratio. */
struct stk_pointwise_grid {
	int64_t x_divisor, y_divisor; /* output i lies at i / divisor % extent */
	int32_t width, height;
	float c, s, dx, dy, ratio;
};

struct stk_pointwise_noise {
	struct stk_random random; /* the sample's stream, at its start */
	float mean, stddev;       /* POISSON: mean is the factor */
	float prob, salt_share;
	uint8_t salt[8], pepper[8];
	int64_t inner, channels; /* of SALT: outputs whose i / inner / channels and i % inner are equal make one pixel */
};

/* Plain data. */
struct stk_pointwise {
	int32_t op;
	union {
		struct stk_pointwise_lookup lookup;
		struct stk_pointwise_erase erase;
		struct stk_pointwise_grid grid;
		struct stk_pointwise_noise noise;
	};
};

struct stk_pointwise_data {
	const uint8_t *src;
	uint8_t *dst;
	const void *constants;
	int64_t n;                                        /* outputs, and inputs */
	int32_t src_dtype, dst_dtype, src_size, dst_size; /* sizes in bytes; SALT, ERASE and GRID keep the type */
};

/* All of it, on the CPU. */
void stk__pointwise_run(const struct stk_pointwise *p, const struct stk_pointwise_data *data);
/* The same, compiled for AVX2. */
void stk__pointwise_run_avx2(const struct stk_pointwise *p, const struct stk_pointwise_data *data);

/* ---- as jobs ---- */

STK_PARAMS_FIT(stk_pointwise);

/* constants: of `bytes` bytes, as p's function takes them. in has at most UINT32_MAX elements, out as many. */
STK_MUST_USE enum stk_status stk__job_pointwise(struct stk_jobs *jobs, const struct stk_pointwise *p, const void *constants, size_t bytes,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
