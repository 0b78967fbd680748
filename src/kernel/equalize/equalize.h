/* SPDX-License-Identifier: Apache-2.0
 *
 * Equalisation of histograms, for each channel of an image or adaptively (CLAHE: K. Zuiderveld, "Contrast limited adaptive histogram equalization",
 * Graphics Gems IV, 1994). Adaptive equalisation cuts an image into tiles, makes a table for each tile, and mixes each pixel from the results of the four
 * nearest tiles. Tables and rounding are those of OpenCV (equalizeHist, CLAHE), which DALI's operators use, or of Pillow (enum stk_equalize_table).
 *
 * There are two phases: first the tables (one for each tile, or for each plane and channel) in work memory, then the pixels. On the GPU, images of one or
 * three channels without tiles run in the launches of kernel/image/image.h. For others, the first phase has a thread block per table, and in the second a
 * thread makes one value at a time, or one pixel if only its lightness is equalised (equalize_gpu.cu). Counts are integers, so they do not depend on the
 * order in which threads count. */
#ifndef STK_KERNEL_EQUALIZE_H
#define STK_KERNEL_EQUALIZE_H

#include "kernel/equalize/lab.h"
#include "kernel/job/job.h"

#include <stdbool.h>

enum { STK_EQUALIZE_BINS = 256 };

/* The rule that makes a table from counts of values, for equalisation that is not adaptive. */
enum stk_equalize_table {
	STK_EQUALIZE_OPENCV,
	STK_EQUALIZE_PILLOW,  /* ImageOps.equalize: the largest value does not have to become 255 */
	STK_EQUALIZE_STRETCH, /* ImageOps.autocontrast: maps the range from the smallest to the largest value linearly to 0 .. 255 */
};

/* The parameters. Images are dense and have bytes: `outer` planes of height x width pixels with `channels` values. */
struct stk_equalize {
	int64_t outer;
	int32_t width, height, channels;
	int32_t tiles_x, tiles_y; /* 0: not adaptive, one table for each plane and channel */
	int32_t tile_w, tile_h;   /* size of a tile in pixels; the last tiles may reach beyond the image, which is mirrored there */
	int32_t limit;            /* maximum count of a bin; 0: no maximum */
	uint8_t table;            /* enum stk_equalize_table */
	uint8_t lightness;        /* equalises only the lightness L of RGB pixels */
};

struct stk_equalize_data {
	const uint8_t *src;
	uint8_t *dst;
	uint8_t *tables;                  /* stk__equalize_tables (equalize_element.h) tables of STK_EQUALIZE_BINS bytes */
	const struct stk_lab_tables *lab; /* tables for L*a*b*, used only with `lightness` */
};

/* Sets the numbers of tiles, their extents, and the limit of counts. e->width and e->height must be set. clip_limit: maximum count of a bin, as a multiple
 * of the mean count of a tile's bins; 0 or less: no maximum. */
void stk__equalize_tiles(struct stk_equalize *e, int32_t tiles_x, int32_t tiles_y, float clip_limit);

/* Equalises all planes on the CPU. The caller provides the memory data->tables. */
void stk__equalize_run(const struct stk_equalize *e, const struct stk_equalize_data *data);
void stk__equalize_run_avx2(const struct stk_equalize *e, const struct stk_equalize_data *data);

STK_PARAMS_FIT(stk_equalize);

/* Makes a job that equalises. lab: tables for conversions to and from L*a*b*, if only lightness is equalised; otherwise NULL. in and out must be uint8. */
STK_MUST_USE enum stk_status stk__job_equalize(struct stk_jobs *jobs, const struct stk_equalize *e, const struct stk_lab_tables *lab,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
