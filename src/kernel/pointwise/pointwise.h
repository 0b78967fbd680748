/* SPDX-License-Identifier: Apache-2.0
 *
 * Pointwise functions: an output may depend on the input at its position, on the position, and on numbers that are drawn for it. They are jobs
 * (kernel/job/job.h), not steps of passes (kernel/pass/pass.h), since a step has no space for a lookup table, does not know the position of its pixel in the
 * image, and draws no random numbers.
 *
 * Random numbers come from Philox (base/philox.h), counted by position in the tensor: the draws of value i depend only on the sample's stream and on i, not
 * on the thread that makes it.
 *
 * On the GPU a thread makes one output at a time (pointwise_element.h), or several: those that share a block of draws (pointwise_gpu_noise.cu), a word of
 * lookups (pointwise_gpu_lookup.cu), or a piece of 16 bytes (pointwise_gpu_mask.cu). On the CPU, pointwise_run.c processes rows, with the functions of
 * pointwise_element.h where these are fast enough. CPU and GPU give the same bits. */
#ifndef STK_KERNEL_POINTWISE_H
#define STK_KERNEL_POINTWISE_H

#include "base/hd.h"
#include "base/philox.h"
#include "kernel/job/job.h"
#include "stoker/tensor.h"

enum stk_pointwise_op {
	STK_POINTWISE_LOOKUP,       /* an entry of a table; the input is its index */
	STK_POINTWISE_ERASE,        /* fills regions */
	STK_POINTWISE_ERASE_NORMAL, /* fills regions with mean + stddev * (a draw from the normal distribution) */
	STK_POINTWISE_GRID,         /* zeroes squares of a grid */
	STK_POINTWISE_NORMAL,       /* adds mean + stddev * (a draw from the normal distribution) */
	STK_POINTWISE_SALT,         /* replaces some pixels by one of two values */
	STK_POINTWISE_POISSON       /* factor * (a draw from the Poisson distribution with mean x / factor) */
};

/* Parameters of LOOKUP. The job's constants are the entries, which are elements of the output's type. */
struct stk_pointwise_lookup {
	uint8_t other[8]; /* output for inputs without an entry; the first member, so that 8 bytes can be read at once */
	uint32_t entries;
};

/* Parameters of ERASE and ERASE_NORMAL. The job's constants are n_fills elements of the output's type, each padded to 8 bytes; then, for each region and
 * dimension, the region's first index and its last index + 1, as int64. */
struct stk_pointwise_erase {
	int32_t regions, ndim, n_fills;
	int64_t fill_divisor; /* output i is filled with fill i / fill_divisor % n_fills */
	int64_t shape[STK_MAX_DIMS];
	struct stk_random random; /* for ERASE_NORMAL: the sample's stream of random numbers, at its start */
	float mean, stddev;
};

/* Parameters of GRID. Pixel (x, y) becomes 0 if the fractional parts of x * c - y * s - dx and x * s + y * c - dy are both below ratio. */
struct stk_pointwise_grid {
	int64_t x_divisor, y_divisor; /* output i is at x = i / x_divisor % width, y = i / y_divisor % height */
	int32_t width, height;
	float c, s, dx, dy, ratio;
};

struct stk_pointwise_noise {
	struct stk_random random; /* the sample's stream of random numbers, at its start */
	float mean, stddev;       /* for POISSON, mean is the factor */
	/* for SALT: the probability that a pixel is replaced, the share of replaced pixels that become salt, and both values, of the output's type */
	float prob, salt_share;
	uint8_t salt[8], pepper[8];
	int64_t inner, channels; /* for SALT: outputs i with the same i / inner / channels and the same i % inner are one pixel */
};

/* The function and its parameters: plain data. */
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
	int64_t n;                                        /* number of outputs, and of inputs */
	int32_t src_dtype, dst_dtype, src_size, dst_size; /* sizes of elements in bytes; SALT, ERASE, ERASE_NORMAL and GRID keep the type */
};

/* Runs the whole function on the CPU. */
void stk__pointwise_run(const struct stk_pointwise *p, const struct stk_pointwise_data *data);
void stk__pointwise_run_avx2(const struct stk_pointwise *p, const struct stk_pointwise_data *data);

STK_PARAMS_FIT(stk_pointwise);

/* Makes a pointwise job. constants: `bytes` bytes, in the layout of the function's parameters. `in` must have at most UINT32_MAX elements; `out` has the same
 * number. */
STK_MUST_USE enum stk_status stk__job_pointwise(struct stk_jobs *jobs, const struct stk_pointwise *p, const void *constants, size_t bytes,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
