/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs passes (kernel/pass/pass.h) over a batch of images of different sizes in device memory: one launch for the filter taps of all resizes, and a few for
 * everything else. The results are the same bytes as those of stk__pass_run, except that NaNs may have other bits.
 *
 * Usage:
 *     for each image: stk__pass_gpu_need(pass, &limits);                    // or limits that suffice for many batches
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

#define STK_PASS_GPU_THREADS 256 /* threads in a thread block */

/* The launches. Most passes read interleaved pixels of uint8 or float32 and never have more than STK_PASS_GPU_CHANNELS channels. Of these, passes without a
 * filter that has weights have launches of their own. So have resizes, if rows are less than 2 GiB apart and filters are not too wide for the shared memory
 * of a thread block. These launches are faster than STK_PASS_GPU_ANY_LAUNCH, which runs all other passes. */
enum stk_pass_gpu_launch {
	STK_PASS_GPU_RESIZE_LAUNCH,
	STK_PASS_GPU_FLOATS_LAUNCH, /* resizes from float32 */
	STK_PASS_GPU_PIXEL_LAUNCH,
	STK_PASS_GPU_WARP_LAUNCH,
	STK_PASS_GPU_TEXEL_LAUNCH, /* warps without steps */
	STK_PASS_GPU_ROWS_LAUNCH,  /* dense pixels of three bytes, four at a time; also writes the hole if the output is floats */
	STK_PASS_GPU_MADE_LAUNCH,  /* images that jobs make inside the launch; the output is floats, including the hole */
	STK_PASS_GPU_ANY_LAUNCH,
	STK_PASS_GPU_HOLES_LAUNCH, /* writes holes over the results of the other launches */
	STK_PASS_GPU_LAUNCHES
};
#define STK_PASS_GPU_CHANNELS 4
/* outputs of a thread block for resizes and in ANY_LAUNCH: number of rows, and maximum number of columns */
#define STK_PASS_GPU_ROWS 8
#define STK_PASS_GPU_COLUMNS 256
#define STK_PASS_GPU_QUADS 1024   /* quads of pixels that a thread block makes in ROWS_LAUNCH and MADE_LAUNCH */
#define STK_PASS_GPU_HOLE 2048    /* pixels of a hole that a thread block writes */
#define STK_PASS_GPU_SHARED 47104 /* bytes of shared memory available for a thread block's intermediate values */

enum { STK_PASS_GPU_PIXEL_COLUMNS = 32, STK_PASS_GPU_PIXEL_ROWS = 64 }; /* outputs of a thread block in launches without filter taps */

/* How launches without filter taps finish a pixel, after the fill if the pass has one: by a single step that has code of its own, or by all steps in order. */
enum stk_pass_gpu_form {
	STK_PASS_GPU_FORM_NONE, /* no step */
	STK_PASS_GPU_FORM_AFFINE,
	STK_PASS_GPU_FORM_MATRIX,
	STK_PASS_GPU_FORM_GRAY,
	STK_PASS_GPU_FORM_STEPS,
};

/* How a resized pixel is finished: by its steps one after the other, or in one of the common cases. */
enum stk_pass_gpu_finish {
	STK_PASS_GPU_STEPS,
	STK_PASS_GPU_BYTES,  /* uint8, no steps */
	STK_PASS_GPU_FLOATS, /* float32, no steps */
	STK_PASS_GPU_AFFINE, /* one affine step, which makes no NaN, to a float type */
};

/* How a pixel is made from the source: without a sampler or by a nearest resize (PLAIN, COPY), by a resize with weights, or by a warp. */
enum stk_pass_gpu_mode {
	STK_PASS_GPU_PLAIN,
	STK_PASS_GPU_RESIZE,
	STK_PASS_GPU_WARP,
	STK_PASS_GPU_COPY, /* like PLAIN, for any type, without steps except the fill: elements are copied unchanged */
};

struct stk_pass_gpu_axis {
	struct stk_filter_axis filter; /* the address of its curve is a device address */
	struct stk_axis_map pre, post;
	int32_t begin, end; /* range of the outputs that come from the source; all others get the fill value */
	int32_t size;       /* number of outputs */
	/* where the taps of the outputs begin in the view's tables: output i has first[i] and weights[t * size + i], counted from here; PLAIN and COPY use only
	 * first, for nearest resizes */
	uint32_t first, weights;
	int32_t bias;
};

struct stk_job_gpu_item; /* kernel/job/job_gpu.h */

/* The pass of one image. All pointers are device addresses. */
struct stk_pass_gpu_item {
	struct stk_pass_gpu_axis axis[2];
	uint64_t src; /* address of pixel (x0, y0) of the source */
	uint64_t dst;
	int64_t src_row, src_pixel, src_channel, dst_row, dst_pixel, dst_channel; /* distances in bytes */
	int32_t x0, y0, src_w, in_c, in_dtype;                                    /* src_w: number of columns from x0 on */
	int32_t mode, kind, finish;                                               /* kind: enum stk_resample_kind */
	int32_t form, fills; /* fills: 1 if the first step is a fill, which is applied before `form` */
	int32_t sampled;     /* type to which the sampler's result is rounded */
	int32_t dtype;       /* type of the output */
	int32_t columns;     /* number of outputs per row of a thread block */
	uint32_t across;     /* number of thread blocks side by side; in ROWS_LAUNCH and MADE_LAUNCH, number of quads in a row */
	uint32_t block0[STK_PASS_GPU_LAUNCHES]; /* for each launch: number of thread blocks of the items before this one */
	uint32_t step0, n_steps;
	int32_t mid_w, mid_h;
	struct stk_warp warp;
	int32_t out_c;
	struct stk_hole hole;                 /* empty if the pass has no hole */
	const struct stk_job_gpu_item *maker; /* the job that makes the source's pixels; NULL: the pixels are at src */
};

struct stk_pass_gpu_view {
	const struct stk_pass_gpu_item *items;
	const struct stk_step *steps;
	int32_t *first;
	float *weights; /* floats, which are integers for kind NARROW; for kind WIDE, the memory holds int32 instead */
	uint32_t n_items;
	uint32_t each;  /* number of thread blocks of an item in this launch, if it is the same for all items; otherwise 0 */
	int32_t launch; /* enum stk_pass_gpu_launch */
};

struct stk_pass_gpu_limits {
	uint32_t images;
	uint32_t taps; /* total over all images: number of outputs along x times number of taps, plus the same along y */
};

/* Adds to *sum the image and the filter taps that the pass needs. */
void stk__pass_gpu_need(const struct stk_pass *p, struct stk_pass_gpu_limits *sum);

struct stk_pass_gpu_sizes {
	size_t tables, work; /* sizes in bytes of the tables and of the memory for taps, multiples of 256 */
};
struct stk_pass_gpu_sizes stk__pass_gpu_sizes(const struct stk_pass_gpu_limits *limits);

struct stk_pass_gpu_kernels {
	stk_gpu_kernel taps, run[STK_PASS_GPU_LAUNCHES];
};
STK_MUST_USE enum stk_status stk__pass_gpu_kernels_load(
	struct stk_gpu_device *dev, struct stk_pass_gpu_kernels *kernels, struct stk_error *err);

struct stk_pass_gpu;
/* Allocates the memory for batches up to these limits. tables: host memory of sizes.tables bytes in which the batch prepares its tables; the caller owns it,
 * and it must outlive the batch. */
STK_MUST_USE enum stk_status stk__pass_gpu_create(
	const struct stk_pass_gpu_limits *limits, void *tables, struct stk_pass_gpu **out, struct stk_error *err);
void stk__pass_gpu_destroy(struct stk_pass_gpu *batch);

/* Begins a batch. limits: limits of this batch, at most those of stk__pass_gpu_create. device_tables and device_work: device memory for the tables and for the
 * taps of filters, of the sizes from stk__pass_gpu_sizes. */
void stk__pass_gpu_begin(
	struct stk_pass_gpu *batch, const struct stk_pass_gpu_limits *limits, stk_gpu_ptr device_tables, stk_gpu_ptr device_work);

/* Returns whether a pass can run on the GPU, which is the case for all passes that can run on the CPU. */
bool stk__pass_gpu_supports(const struct stk_pass *p);

/* Adds a pass. src: contains at least stk__pass_source(p); its first pixel is pixel (x0, y0) of the whole source. src and dst are in device memory and may
 * have any strides. Returns false if the pass is not supported, or if the batch is full because its limits are less than the sum of stk__pass_gpu_need. */
bool stk__pass_gpu_add(struct stk_pass_gpu *batch, const struct stk_pass *p, const struct stk_image *src, int32_t x0, int32_t y0,
	const struct stk_image *dst);

/* Returns whether the pass can run on an image that a job makes (stk__image_makes) in the pass's own thread blocks. The image must have three bytes per
 * pixel, and the pass must use it as a whole, not mirrored, and make floats. src: describes the image that the job would otherwise store. */
bool stk__pass_gpu_takes_made(const struct stk_pass *p, const struct stk_image *src, const struct stk_image *dst);

/* Adds a pass for which stk__pass_gpu_takes_made is true. maker: from stk__job_gpu_add_maker. The job's measurements must be launched before the pass. Returns
 * false as stk__pass_gpu_add does. */
bool stk__pass_gpu_add_made(struct stk_pass_gpu *batch, const struct stk_pass *p, const struct stk_image *src,
	const struct stk_job_gpu_item *maker, const struct stk_image *dst);

/* Ends the batch. Returns the number of bytes of tables to upload. */
size_t stk__pass_gpu_end(struct stk_pass_gpu *batch);

/* Launches the batch. Call inside stk__gpu_enter, after the upload. */
STK_MUST_USE enum stk_status stk__pass_gpu_launch(struct stk_gpu_device *dev, const struct stk_pass_gpu_kernels *kernels,
	const struct stk_pass_gpu *batch, stk_gpu_stream stream, struct stk_error *err);

#endif
