/* SPDX-License-Identifier: Apache-2.0
 *
 * Lays out a batch of JPEG files for the parallel decoder (kernel/jpeg_gpu/jpeg_gpu.h): which bitstreams, tables and windows there are, and where everything lies.
 *
 * Usage:
 *     stk__jpeg_gpu_plan_create(&limits, memory, &plan, err);
 *     stk__jpeg_gpu_plan_begin(plan, &limits);                  // or less: what this batch's files take
 *     for each file
 *         if (!stk__jpeg_gpu_plan_add(plan, &file, &slot)) decode it on the CPU;
 *     stk__jpeg_gpu_plan_end(plan);
 *     stk__jpeg_gpu_plan_view(plan, base_of_tables, base_of_work, raw, &view);
 *
 * Unless the batch is full, whether a file is taken depends on the file and the limits alone. */
#ifndef STK_CODEC_JPEG_GPU_PLAN_H
#define STK_CODEC_JPEG_GPU_PLAN_H

#include "codec/jpeg_header.h"
#include "kernel/jpeg_gpu/jpeg_gpu.h"

/* What a batch may hold. */
struct stk_jpeg_gpu_plan_limits {
	uint32_t images;
	uint32_t bytes;  /* of entropy-coded data */
	uint32_t blocks; /* of 8x8 samples: as stk__jpeg_gpu_plan_need counts them */
	uint32_t scans;  /* of progressive files */
	uint32_t tables; /* of baseline files: entries of the sets, as if none were shared */
	size_t raw; /* bytes of view.raw, if they lie among the results, where coefficients later take their place; 0: they lie elsewhere */
};

/* Sums of limits saturate at UINT32_MAX, for which no memory suffices. */
static inline uint32_t stk__jpeg_gpu_add_up(uint32_t sum, uint64_t more)
{
	return sum + more < UINT32_MAX ? (uint32_t)(sum + more) : UINT32_MAX;
}

struct stk_jpeg_gpu_file {
	const uint8_t *data;
	size_t size;
	const struct stk_jpeg_header *header;
	struct stk_rect window;   /* as stored; not empty, inside the image */
	uint32_t raw;             /* where the file's first byte lies in view.raw */
	enum stk_image_type type; /* RGB, BGR, GRAY or YCBCR */
	int32_t max_scans;        /* that a progressive file may have (STOKER_MAX_JPEG_SCANS); 0: any number */
};

/* What a file adds to the limits of its batch. Blocks are those from the first MCU row to the last one that the window needs, or more where the pixels
 * are many or the window lies deep in the image; those of progressive files are as wide as the image. False: the CPU has to decode it whatever the limits are (jpeg_header.h's rules, its types;
 * jpeg_gpu_script.h's of progressive files; huge tables). A pure function of the header, the window, the type, and where the file ends; of progressive files also of
 * their scans, which takes 10 us for 100 KB. */
bool stk__jpeg_gpu_plan_need(const struct stk_jpeg_gpu_file *file, struct stk_jpeg_gpu_plan_limits *sum);

/* Sizes of the two blocks of memory of a view: tables, which the host writes (and uploads), and results, which the phases write.
 * Both want 256-byte alignment. */
struct stk_jpeg_gpu_plan_sizes {
	size_t tables, work;
	size_t pixels; /* of rgb, within work */
};
struct stk_jpeg_gpu_plan_sizes stk__jpeg_gpu_plan_sizes(const struct stk_jpeg_gpu_plan_limits *limits);

struct stk_jpeg_gpu_plan;

/* Room for batches of up to these limits. tables: sizes.tables bytes that the plan writes to and the caller keeps. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_plan_create(
	const struct stk_jpeg_gpu_plan_limits *limits, void *tables, struct stk_jpeg_gpu_plan **out, struct stk_error *err);
void stk__jpeg_gpu_plan_destroy(struct stk_jpeg_gpu_plan *plan);

/* limits: of this batch, none above the plan's own. Its results take what stk__jpeg_gpu_plan_sizes says of them. */
void stk__jpeg_gpu_plan_begin(struct stk_jpeg_gpu_plan *plan, const struct stk_jpeg_gpu_plan_limits *limits);

/* Takes the file as image *index of the batch. False: the CPU has to decode it (jpeg_header.h's rules, restart markers out of order, tiny restart
 * intervals, huge tables), or the batch is full. */
bool stk__jpeg_gpu_plan_add(struct stk_jpeg_gpu_plan *plan, const struct stk_jpeg_gpu_file *file, uint32_t *index);

/* Finishes the tables: no more files can be added. Returns the bytes of tables in use. */
size_t stk__jpeg_gpu_plan_end(struct stk_jpeg_gpu_plan *plan);

/* The view of the finished plan with its tables at `tables`, results at `work` (addresses of whichever memory decodes) and the files' bytes at
 * `raw`, or, where that is 0, among the results (limits.raw). Only the tables and the files need to be written beforehand. The first bytes of the
 * tables are view.flags, one uint32_t an image, 0 if it came out right. */
void stk__jpeg_gpu_plan_view(
	const struct stk_jpeg_gpu_plan *plan, uint64_t tables, uint64_t work, uint64_t raw, struct stk_jpeg_gpu_view *view);

/* Where the window of image `index` ends up: pixels from offset `at` of view.rgb, `pitch` bytes a row. */
void stk__jpeg_gpu_plan_window(const struct stk_jpeg_gpu_plan *plan, uint32_t index, uint64_t *at, uint32_t *pitch);

#endif
