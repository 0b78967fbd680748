/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes (kernel/pass/pass.h) over a ragged batch of images in device memory: one launch for the taps of all resizes, a few for everything else. The
 * same bytes as stk__pass_run (but for NaNs, which may be others).
 *
 * Usage:
 *     for each image: stk__pass_gpu_need(pass, &limits);                    // or limits that will do for many batches
 *     stk__pass_gpu_create(&limits, pinned, &batch, err);
 *     stk__pass_gpu_begin(batch, &limits, device_tables, device_work);
 *     for each image
 *         if (!stk__pass_gpu_add(batch, pass, source, x0, y0, dst)) run it on the CPU;
 *     bytes = stk__pass_gpu_end(batch);
 *     upload the bytes at `pinned`; stk__pass_gpu_launch(dev, &kernels, batch, stream, err); */
#ifndef STK_KERNEL_PASS_GPU_H
#define STK_KERNEL_PASS_GPU_H

#include "gpu/gpu.h"
#include "kernel/pass/pass.h"
#include "kernel/resample/filter.h"

#define STK_PASS_GPU_THREADS 256 /* of a thread block */

/* Most passes read interleaved pixels of uint8 or float32, at most STK_PASS_GPU_CHANNELS channels at any step. Those that mix no taps have a launch of their own, and
 * so have resizes of either type if rows lie less than 2 GiB apart and filters are not too wide for a block's shared memory. These are faster than the one for
 * all others. */
enum stk_pass_gpu_launch {
	STK_PASS_GPU_RESIZE_LAUNCH,
	STK_PASS_GPU_FLOATS_LAUNCH, /* resizes of float32 */
	STK_PASS_GPU_PIXEL_LAUNCH,
	STK_PASS_GPU_WARP_LAUNCH,
	STK_PASS_GPU_TEXEL_LAUNCH, /* warps alone, without steps */
	STK_PASS_GPU_ROWS_LAUNCH,  /* of dense pixels of three bytes, four at a time; floats with their hole */
	STK_PASS_GPU_MADE_LAUNCH,  /* of images that jobs make on the way, to floats, with their hole */
	STK_PASS_GPU_ANY_LAUNCH,
	STK_PASS_GPU_HOLES_LAUNCH, /* writes holes over what the others have stored */
	STK_PASS_GPU_LAUNCHES
};
#define STK_PASS_GPU_CHANNELS 4
#define STK_PASS_GPU_ROWS 8 /* outputs of a thread block: rows, and at most so many columns */
#define STK_PASS_GPU_COLUMNS 256
#define STK_PASS_GPU_QUADS 1024   /* of pixels, that a thread block makes of rows */
#define STK_PASS_GPU_HOLE 2048    /* pixels of a hole that a thread block writes */
#define STK_PASS_GPU_SHARED 47104 /* bytes of shared memory that a block's rows of intermediate columns may take */

enum { STK_PASS_GPU_PIXEL_COLUMNS = 32, STK_PASS_GPU_PIXEL_ROWS = 64 }; /* outputs of a thread block that mixes no taps */

/* How such a thread block finishes a pixel behind the fill, if there is one: by a step that is spelled out, or by its steps one after the other. */
enum stk_pass_gpu_form {
	STK_PASS_GPU_FORM_NONE, /* no step */
	STK_PASS_GPU_FORM_AFFINE,
	STK_PASS_GPU_FORM_MATRIX,
	STK_PASS_GPU_FORM_GRAY,
	STK_PASS_GPU_FORM_STEPS,
};

/* How a resized pixel is finished: by its steps one after the other, or one of the common ways. */
enum stk_pass_gpu_finish {
	STK_PASS_GPU_STEPS,
	STK_PASS_GPU_BYTES,  /* uint8, no steps */
	STK_PASS_GPU_FLOATS, /* float32, no steps */
	STK_PASS_GPU_AFFINE, /* one affine step, to a float type, that makes no NaN */
};

enum stk_pass_gpu_mode {
	STK_PASS_GPU_PLAIN,
	STK_PASS_GPU_RESIZE,
	STK_PASS_GPU_WARP,
	STK_PASS_GPU_COPY, /* PLAIN, of any type, without steps but the fill: elements are moved as they are */
};

struct stk_pass_gpu_axis {
	struct stk_filter_axis filter; /* its curve in device memory */
	struct stk_axis_map pre, post;
	int32_t begin, end;      /* outputs that come from the source; the others are fill */
	int32_t size;            /* outputs */
	uint32_t first, weights; /* where the taps of output i lie: first[i], weights[t * size + i]; for PLAIN, first alone */
	int32_t bias;
};

struct stk_job_gpu_item; /* kernel/job/job_gpu.h */

/* One image's pass. All pointers are device addresses. */
struct stk_pass_gpu_item {
	struct stk_pass_gpu_axis axis[2];
	uint64_t src; /* pixel (x0, y0) of the source */
	uint64_t dst;
	int64_t src_row, src_pixel, src_channel, dst_row, dst_pixel, dst_channel; /* bytes */
	int32_t x0, y0, src_w, in_c, in_dtype;                                    /* src_w: columns from x0 on */
	int32_t mode, kind, finish;                                               /* kind: enum stk_resample_kind */
	int32_t form, fills;                    /* fills: the first step is a fill, and comes before the form */
	int32_t sampled;                        /* type that a sampler's result rounds to */
	int32_t dtype;                          /* of the output */
	int32_t columns;                        /* outputs of a thread block */
	uint32_t across;                        /* thread blocks side by side; in the launch of rows, quads */
	uint32_t block0[STK_PASS_GPU_LAUNCHES]; /* thread blocks of the items before it */
	uint32_t step0, n_steps;
	int32_t mid_w, mid_h;
	struct stk_warp warp;
	int32_t out_c;
	struct stk_hole hole;                 /* empty: none */
	const struct stk_job_gpu_item *maker; /* of the source's pixels; NULL: they lie at src */
};

struct stk_pass_gpu_view {
	const struct stk_pass_gpu_item *items;
	const struct stk_step *steps;
	int32_t *first;
	float *weights; /* floats; of NARROW whole ones, of WIDE int32 in the same places */
	uint32_t n_items;
	uint32_t each; /* thread blocks of each item, where all have as many; else 0 */
	int32_t launch;
};

struct stk_pass_gpu_limits {
	uint32_t images;
	uint32_t taps; /* over all images: outputs along x times taps, and the same along y */
};

/* Adds what a pass needs to the limits of the batch that it will be in. */
void stk__pass_gpu_need(const struct stk_pass *p, struct stk_pass_gpu_limits *sum);

struct stk_pass_gpu_sizes {
	size_t tables, work; /* bytes, 256-byte aligned */
};
struct stk_pass_gpu_sizes stk__pass_gpu_sizes(const struct stk_pass_gpu_limits *limits);

struct stk_pass_gpu_kernels {
	stk_gpu_kernel taps, run[STK_PASS_GPU_LAUNCHES];
};
STK_MUST_USE enum stk_status stk__pass_gpu_kernels_load(
	struct stk_gpu_device *dev, struct stk_pass_gpu_kernels *kernels, struct stk_error *err);

struct stk_pass_gpu;
/* Room for batches of up to these limits. tables: the host's copy, sizes.tables bytes, kept by the caller. */
STK_MUST_USE enum stk_status stk__pass_gpu_create(
	const struct stk_pass_gpu_limits *limits, void *tables, struct stk_pass_gpu **out, struct stk_error *err);
void stk__pass_gpu_destroy(struct stk_pass_gpu *batch);

/* limits: of this batch, none above those it was made with. device_tables and device_work: where tables and results will lie, as many bytes as
 * stk__pass_gpu_sizes says of them. */
void stk__pass_gpu_begin(
	struct stk_pass_gpu *batch, const struct stk_pass_gpu_limits *limits, stk_gpu_ptr device_tables, stk_gpu_ptr device_work);

/* True if a pass can run on the GPU: whatever can run on the CPU can. */
bool stk__pass_gpu_supports(const struct stk_pass *p);

/* src: at least stk__pass_source(p), its first pixel being (x0, y0) of the whole source. Any strides on both sides, in device memory.
 * False: not supported, or the batch is full: its limits are less than what stk__pass_gpu_need adds up to. */
bool stk__pass_gpu_add(struct stk_pass_gpu *batch, const struct stk_pass *p, const struct stk_image *src, int32_t x0, int32_t y0,
	const struct stk_image *dst);

/* True if a pass may run over an image that a job makes (stk__job_gpu_makes) as thread blocks of the pass come to it: of three bytes a pixel, shown whole
 * and unmirrored, as floats. src: where the job would have written it. */
bool stk__pass_gpu_takes_made(const struct stk_pass *p, const struct stk_image *src, const struct stk_image *dst);

/* Adds such a pass. maker: from stk__job_gpu_add_maker. What the job measures has been launched before the pass is. */
bool stk__pass_gpu_add_made(struct stk_pass_gpu *batch, const struct stk_pass *p, const struct stk_image *src,
	const struct stk_job_gpu_item *maker, const struct stk_image *dst);

/* Bytes of tables to upload. */
size_t stk__pass_gpu_end(struct stk_pass_gpu *batch);

/* Inside stk__gpu_enter, after the upload. */
STK_MUST_USE enum stk_status stk__pass_gpu_launch(struct stk_gpu_device *dev, const struct stk_pass_gpu_kernels *kernels,
	const struct stk_pass_gpu *batch, stk_gpu_stream stream, struct stk_error *err);

#endif
