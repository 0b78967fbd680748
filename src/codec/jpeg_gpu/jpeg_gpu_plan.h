/* SPDX-License-Identifier: Apache-2.0
 *
 * Lays out a batch of JPEG files for the parallel decoder (kernel/jpeg_gpu/jpeg_gpu.h): its bitstreams, tables and windows, and the address of each array.
 *
 * Usage:
 *     stk__jpeg_gpu_plan_create(&limits, memory, &plan, err);
 *     stk__jpeg_gpu_plan_begin(plan, &limits);                  // or lower limits, which suffice for this batch
 *     for each file
 *         if (!stk__jpeg_gpu_plan_add(plan, &file, &slot)) decode it on the CPU;
 *     stk__jpeg_gpu_plan_end(plan);
 *     stk__jpeg_gpu_plan_view(plan, base_of_tables, base_of_work, raw, &view);
 *
 * Unless the batch is full, whether a file is accepted depends only on the file and the limits. */
#ifndef STK_CODEC_JPEG_GPU_PLAN_H
#define STK_CODEC_JPEG_GPU_PLAN_H

#include "codec/jpeg_header.h"
#include "kernel/jpeg_gpu/jpeg_gpu.h"

struct stk_jpeg_gpu_plan_limits {
	uint32_t images;
	uint32_t bytes;  /* sum over the files of the larger of the file's size and 1 KiB for each bitstream but one */
	uint32_t blocks; /* number of blocks of 8x8 samples, as stk__jpeg_gpu_plan_need counts them */
	uint32_t scans;  /* number of scans of progressive files */
	uint32_t tables; /* number of entries of the table sets of baseline files, counted as if each file had its own set */
	size_t raw;      /* size of view.raw in bytes if it is part of the results (coefficients later overwrite it); otherwise 0 */
};

/* Returns sum + more, limited to UINT32_MAX, a need for which no memory is large enough. */
static inline uint32_t stk__jpeg_gpu_add_up(uint32_t sum, uint64_t more)
{
	return sum + more < UINT32_MAX ? (uint32_t)(sum + more) : UINT32_MAX;
}

struct stk_jpeg_gpu_file {
	const uint8_t *data;
	size_t size;
	const struct stk_jpeg_header *header;
	struct stk_rect window;   /* as stored in the file; inside the image, not empty */
	uint32_t raw;             /* offset of the file's first byte in view.raw */
	enum stk_image_type type; /* RGB, BGR, GRAY or YCBCR */
	int32_t max_scans;        /* limit for a progressive file (STOKER_MAX_JPEG_SCANS); 0: STK_JPEG_GPU_MAX_SCANS */
};

/* Adds what a file needs to the limits of its batch. The number of blocks is that of the MCUs that the window needs, or more, if the window's pixels or the
 * DC coefficients of the rows above it take more memory. For progressive files it is that of all rows of MCUs down to the window's last one. Returns false
 * if the CPU must decode the file whatever the limits are: it is not supported (see stk__jpeg_scan_plan and, for progressive files,
 * stk__jpeg_gpu_script_plan), the GPU does not make pixels of its type, or its tables are huge. A pure function of the header, the window, the type, and the
 * end of the file; for progressive files also of their scans, which takes 10 us per 100 KB. */
bool stk__jpeg_gpu_plan_need(const struct stk_jpeg_gpu_file *file, struct stk_jpeg_gpu_plan_limits *sum);

/* Sizes in bytes of the view's two pieces of memory: the tables, which the host writes and uploads, and the results, which the phases write. Both are
 * aligned to 256 bytes. */
struct stk_jpeg_gpu_plan_sizes {
	size_t tables, work;
	size_t pixels; /* size in bytes of view.rgb, which is part of `work` */
};
struct stk_jpeg_gpu_plan_sizes stk__jpeg_gpu_plan_sizes(const struct stk_jpeg_gpu_plan_limits *limits);

struct stk_jpeg_gpu_plan;

/* Creates a plan for batches up to these limits. tables: memory of sizes.tables bytes, which the plan writes and the caller owns. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_plan_create(
	const struct stk_jpeg_gpu_plan_limits *limits, void *tables, struct stk_jpeg_gpu_plan **out, struct stk_error *err);
void stk__jpeg_gpu_plan_destroy(struct stk_jpeg_gpu_plan *plan);

/* Begins a batch. limits: those of this batch, which must not exceed the plan's. They determine the size of its results (stk__jpeg_gpu_plan_sizes). */
void stk__jpeg_gpu_plan_begin(struct stk_jpeg_gpu_plan *plan, const struct stk_jpeg_gpu_plan_limits *limits);

/* Adds the file as image *index of the batch. Returns false if the batch is full, or if the CPU must decode the file: for a reason that
 * stk__jpeg_gpu_plan_need gives, or because restart markers are out of order or restart intervals are tiny. */
bool stk__jpeg_gpu_plan_add(struct stk_jpeg_gpu_plan *plan, const struct stk_jpeg_gpu_file *file, uint32_t *index);

/* Finishes the tables; no more files can be added. Returns how many bytes of the tables are in use. */
size_t stk__jpeg_gpu_plan_end(struct stk_jpeg_gpu_plan *plan);

/* Makes the view of the finished plan. tables, work: device addresses of the tables and of the results. raw: address of the files' bytes, or 0 if they are
 * part of the results (limits.raw). Only the tables and the files must be written before the phases run. The tables begin with view.flags: one uint32_t for
 * each image, which is 0 if the image was decoded without a fault. */
void stk__jpeg_gpu_plan_view(
	const struct stk_jpeg_gpu_plan *plan, uint64_t tables, uint64_t work, uint64_t raw, struct stk_jpeg_gpu_view *view);

/* Returns where the window of image `index` is: its pixels begin at offset *at of view.rgb, and rows are *pitch bytes apart. */
void stk__jpeg_gpu_plan_window(const struct stk_jpeg_gpu_plan *plan, uint32_t index, uint64_t *at, uint32_t *pitch);

#endif
