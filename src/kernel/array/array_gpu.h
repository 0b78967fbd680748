/* SPDX-License-Identifier: Apache-2.0
 *
 * Array jobs (kernel/array/array.h) of a batch on the GPU: one launch for each kind of job that there is. Jobs of a batch do not read what others of it write.
 * Flat jobs that go on where the one before them ends, as those of samples that lie behind each other, are one job on the GPU.
 *
 * Usage:
 *     stk__array_gpu_create(&limits, pinned, device_tables, device_work, &batch, err);
 *     stk__array_gpu_begin(batch);
 *     for each job
 *         if (!stk__array_gpu_add(batch, job, &index)) run it on the CPU;
 *     bytes = stk__array_gpu_end(batch);
 *     upload the bytes at `pinned`; stk__array_gpu_launch(dev, &kernels, batch, stream, err);
 *     download the first 4 * stk__array_gpu_flags(batch) bytes of device_tables: number `index` of them is not 0 where that job divides whole numbers by 0,
 *     and failed */
#ifndef STK_KERNEL_ARRAY_GPU_H
#define STK_KERNEL_ARRAY_GPU_H

#include "gpu/gpu.h"
#include "kernel/array/array.h"
#include "kernel/array/array_flat.h"
#include "kernel/filter/filter_tile.h"

#define STK_ARRAY_GPU_THREADS 256
#define STK_ARRAY_GPU_PIECES 1024  /* of 16 bytes, of a thread block over a flat job */
#define STK_ARRAY_GPU_GROUPS 2048  /* short ones, of a thread block */
#define STK_ARRAY_GPU_KEYS 8192    /* of a thread block that looks up bytes */
#define STK_ARRAY_GPU_OUTPUTS 4096 /* of a thread block: finding its job takes as long as some outputs */

/* One for each kind of job, one that measures for normalisations, two more phases of filters, those of tiled ones and two of words, one that samples images pixel by pixel, one that makes the tables of equalisations, three for jobs over images of bytes
 * (array_image.h), which measure and make pixels, one that makes the pixels of JPEG distortion, one that looks up bytes, two for noise, and two that reduce bytes. */
enum {
	STK_ARRAY_GPU_MEASURE = STK_ARRAY_KINDS,
	STK_ARRAY_GPU_FILTER_1,
	STK_ARRAY_GPU_FILTER_2,
	STK_ARRAY_GPU_FILTER_TILES, /* one for each tiling of filters */
	STK_ARRAY_GPU_FILTER_LAST = STK_ARRAY_GPU_FILTER_TILES + STK_FILTER_TILINGS - 1,
	STK_ARRAY_GPU_FILTER_WORDS,    /* filter_words.h: weighted sums */
	STK_ARRAY_GPU_FILTER_EXTREMES, /* and extremes */
	STK_ARRAY_GPU_SAMPLE_PIXELS,
	STK_ARRAY_GPU_RESIZE_1,
	STK_ARRAY_GPU_RESIZE_2,
	STK_ARRAY_GPU_TABLES,
	STK_ARRAY_GPU_IMAGE_MEASURE,
	STK_ARRAY_GPU_IMAGE,
	STK_ARRAY_GPU_IMAGE_MIX,
	STK_ARRAY_GPU_JPEG_PIXELS,
	STK_ARRAY_GPU_LOOKUP,
	STK_ARRAY_GPU_NOISE,
	STK_ARRAY_GPU_POISSON,
	STK_ARRAY_GPU_FLAT_COPY,
	STK_ARRAY_GPU_FLAT_CONVERT,
	STK_ARRAY_GPU_FLAT_NORMALIZE,
	STK_ARRAY_GPU_FLAT_ARITHMETIC, /* of whole numbers */
	STK_ARRAY_GPU_FLAT_REALS,      /* of floats */
	STK_ARRAY_GPU_FLAT_MASK,
	STK_ARRAY_GPU_BYTE_COLUMNS, /* array_bytes.h */
	STK_ARRAY_GPU_BYTE_ROWS,
	STK_ARRAY_GPU_LAUNCHES
};

struct stk_array_gpu_item {
	struct stk_array_job job; /* all addresses are the device's */
	struct stk_array_flat flat;
	uint32_t block0[STK_ARRAY_GPU_LAUNCHES]; /* thread blocks of the items before it */
};

struct stk_array_gpu_view {
	const struct stk_array_gpu_item *items;
	uint32_t *flags; /* an item each */
	uint32_t n_items;
	uint32_t each; /* thread blocks of each item, where all have as many; else 0 */
	int32_t launch;
};

/* What a batch may hold. To size one, add up what its jobs need. */
struct stk_array_gpu_limits {
	uint32_t jobs;
	uint64_t constants, work; /* bytes */
};
void stk__array_gpu_need(const struct stk_array_job *job, struct stk_array_gpu_limits *sum);

struct stk_array_gpu_sizes {
	size_t tables, work; /* bytes, 256-byte aligned */
};
struct stk_array_gpu_sizes stk__array_gpu_sizes(const struct stk_array_gpu_limits *limits);

struct stk_array_gpu_kernels {
	stk_gpu_kernel of[STK_ARRAY_GPU_LAUNCHES];
};
STK_MUST_USE enum stk_status stk__array_gpu_kernels_load(
	struct stk_gpu_device *dev, struct stk_array_gpu_kernels *kernels, struct stk_error *err);

struct stk_array_gpu;
/* tables: the host's copy, sizes.tables bytes, kept by the caller; device_tables and device_work: where it and the results will lie. */
STK_MUST_USE enum stk_status stk__array_gpu_create(const struct stk_array_gpu_limits *limits, void *tables, stk_gpu_ptr device_tables,
	stk_gpu_ptr device_work, struct stk_array_gpu **out, struct stk_error *err);
void stk__array_gpu_destroy(struct stk_array_gpu *batch);

void stk__array_gpu_begin(struct stk_array_gpu *batch);

/* Copies the job and its constants. It has at most STK_ARRAY_MOST outputs. False: the batch is full. *index: the number of its flag; nullable. */
bool stk__array_gpu_add(struct stk_array_gpu *batch, const struct stk_array_job *job, uint32_t *index);

/* True for a job whose pixels thread blocks can make for a pass over its output (kernel/pass/pass_gpu.h), so that nobody stores them: of one image of three
 * bytes a pixel. */
bool stk__array_gpu_makes(const struct stk_array_job *job, int32_t width, int32_t height);

/* Adds such a job, of which only what it measures is launched here. *maker: what the pass is told; an address of the device. */
bool stk__array_gpu_add_maker(struct stk_array_gpu *batch, const struct stk_array_job *job, const struct stk_array_gpu_item **maker);

/* Bytes of tables to upload. */
size_t stk__array_gpu_end(struct stk_array_gpu *batch);

/* How many flags there are to look at: one a job, or none where no job can fail. */
uint32_t stk__array_gpu_flags(const struct stk_array_gpu *batch);

/* Inside stk__gpu_enter, after the upload. */
STK_MUST_USE enum stk_status stk__array_gpu_launch(struct stk_gpu_device *dev, const struct stk_array_gpu_kernels *kernels,
	const struct stk_array_gpu *batch, stk_gpu_stream stream, struct stk_error *err);

#endif
