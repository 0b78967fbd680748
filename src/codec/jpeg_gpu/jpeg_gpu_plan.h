/* SPDX-License-Identifier: Apache-2.0
 *
 * Lays out a batch of JPEG files for the parallel decoder (kernel/jpeg_gpu/jpeg_gpu.h): its bitstreams, tables and windows, and the place of each array.
 *
 * Usage:
 *     stk__jpeg_gpu_plan_create(&limits, memory, &plan, err);
 *     stk__jpeg_gpu_plan_begin(plan, &limits);                  // or less: what this batch's files take
 *     for each file
 *         if (!stk__jpeg_gpu_plan_add(plan, &file, &slot)) decode it on the CPU;
 *     stk__jpeg_gpu_plan_end(plan);
 *     stk__jpeg_gpu_plan_view(plan, base_of_tables, base_of_work, raw, &view);
 *
 * Unless the batch is full, whether a file is taken depends only on the file and the limits. */
#ifndef STK_CODEC_JPEG_GPU_PLAN_H
#define STK_CODEC_JPEG_GPU_PLAN_H

#include "codec/jpeg_header.h"
#include "kernel/jpeg_gpu/jpeg_gpu.h"

/* Limits of a batch. */
struct stk_jpeg_gpu_plan_limits {
	uint32_t images;
	uint32_t bytes;  /* bytes of entropy-coded data */
	uint32_t blocks; /* blocks of 8x8 samples, as stk__jpeg_gpu_plan_need counts them */
	uint32_t scans;  /* scans of progressive files */
	uint32_t tables; /* entries of the table sets of baseline files, as if no files shared a set */
	size_t raw; /* bytes of view.raw if the results contain it (coefficients later overwrite it); 0: the caller gives another address */
};

/* Adds with saturation at UINT32_MAX, for which no memory is large enough. */
static inline uint32_t stk__jpeg_gpu_add_up(uint32_t sum, uint64_t more)
{
	return sum + more < UINT32_MAX ? (uint32_t)(sum + more) : UINT32_MAX;
}

struct stk_jpeg_gpu_file {
	const uint8_t *data;
	size_t size;
	const struct stk_jpeg_header *header;
	struct stk_rect window;   /* as stored; not empty, inside the image */
	uint32_t raw;             /* offset of the file's first byte in view.raw */
	enum stk_image_type type; /* RGB, BGR, GRAY or YCBCR */
	int32_t max_scans;        /* limit for a progressive file (STOKER_MAX_JPEG_SCANS); 0: no limit */
};

/* Adds a file to the limits of its batch. Counts blocks from the first MCU row to the last one that the window needs, or more if there are many pixels or
 * the window lies deep in the image; progressive files count the whole width. Returns false if the CPU has to decode the file whatever the limits are
 * (jpeg_header.h's rules and types; jpeg_gpu_script.h's for progressive files; huge tables). A pure function of the header, the window, the type, and the
 * end of the file; for progressive files also of their scans, which takes 10 us for 100 KB. */
bool stk__jpeg_gpu_plan_need(const struct stk_jpeg_gpu_file *file, struct stk_jpeg_gpu_plan_limits *sum);

/* Sizes of a view's two blocks of memory: tables, which the host writes (and uploads), and results, which the phases write. Both need 256-byte alignment. */
struct stk_jpeg_gpu_plan_sizes {
	size_t tables, work;
	size_t pixels; /* bytes of view.rgb, which are part of `work` */
};
struct stk_jpeg_gpu_plan_sizes stk__jpeg_gpu_plan_sizes(const struct stk_jpeg_gpu_plan_limits *limits);

struct stk_jpeg_gpu_plan;

/* Makes a plan for batches of up to these limits. tables: sizes.tables bytes that the plan writes to and the caller owns. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_plan_create(
	const struct stk_jpeg_gpu_plan_limits *limits, void *tables, struct stk_jpeg_gpu_plan **out, struct stk_error *err);
void stk__jpeg_gpu_plan_destroy(struct stk_jpeg_gpu_plan *plan);

/* Begins a batch. limits: this batch's, none above the plan's own; they determine the size of its results (stk__jpeg_gpu_plan_sizes). */
void stk__jpeg_gpu_plan_begin(struct stk_jpeg_gpu_plan *plan, const struct stk_jpeg_gpu_plan_limits *limits);

/* Adds the file as image *index of the batch. Returns false if the CPU has to decode it (jpeg_header.h's rules, restart markers out of order, tiny restart
 * intervals, huge tables), or if the batch is full. */
bool stk__jpeg_gpu_plan_add(struct stk_jpeg_gpu_plan *plan, const struct stk_jpeg_gpu_file *file, uint32_t *index);

/* Finishes the tables: no more files can be added. Returns the bytes of tables in use. */
size_t stk__jpeg_gpu_plan_end(struct stk_jpeg_gpu_plan *plan);

/* Makes the view of the finished plan, with its tables at `tables` and results at `work` (addresses in the memory of the device that decodes) and the files'
 * bytes at `raw` or, if that is 0, among the results (limits.raw). Only the tables and the files must be written beforehand. The first bytes of the tables
 * are view.flags, one uint32_t an image, 0 if it was decoded without fault. */
void stk__jpeg_gpu_plan_view(
	const struct stk_jpeg_gpu_plan *plan, uint64_t tables, uint64_t work, uint64_t raw, struct stk_jpeg_gpu_view *view);

/* Finds the window of image `index`: its pixels begin at offset `at` of view.rgb and have `pitch` bytes a row. */
void stk__jpeg_gpu_plan_window(const struct stk_jpeg_gpu_plan *plan, uint32_t index, uint64_t *at, uint32_t *pitch);

#endif
