/* SPDX-License-Identifier: Apache-2.0
 *
 * Equalisation of histograms: of each channel of an image, or adaptively (CLAHE: K. Zuiderveld, "Contrast limited adaptive histogram equalization",
 * Graphics Gems IV, 1994), where an image is cut into tiles, each has a table of its own, and pixels are mixed from those of the four nearest tiles.
 * Tables and rounding are those of OpenCV (equalizeHist, CLAHE), on which DALI's operators run.
 *
 * It takes two phases: a table for each tile, which whoever runs it keeps in work memory, and then the pixels. On the GPU the first is a thread block a
 * table, and the second a thread a value, or a pixel where its lightness alone is equalised. All counts are whole numbers, so that their order does not
 * matter. */
#ifndef STK_KERNEL_EQUALIZE_H
#define STK_KERNEL_EQUALIZE_H

#include "kernel/equalize/lab.h"
#include "kernel/job/job.h"

#include <stdbool.h>

enum { STK_EQUALIZE_BINS = 256 };

/* What a table is made from its counts by, where it is not adaptive. */
enum stk_equalize_table {
	STK_EQUALIZE_OPENCV,
	STK_EQUALIZE_PILLOW,  /* ImageOps.equalize: the largest value need not become 255 */
	STK_EQUALIZE_STRETCH, /* ImageOps.autocontrast: from the least and the largest value to 0 and 255 by a line */
};

/* Plain data. Images of bytes, dense: `outer` planes of height x width pixels of `channels` values. */
struct stk_equalize {
	int64_t outer;
	int32_t width, height, channels;
	int32_t tiles_x, tiles_y; /* 0: not adaptive, a table for each plane and channel */
	int32_t tile_w, tile_h;   /* extents of the tiles, which may reach outside: the image is mirrored there */
	int32_t limit;            /* of the count of a bin; 0: none */
	uint8_t table;            /* enum stk_equalize_table */
	uint8_t lightness;        /* of pixels of 3 channels in RGB, L alone is equalised */
};

struct stk_equalize_data {
	const uint8_t *src;
	uint8_t *dst;
	uint8_t *tables;                  /* stk__equalize_tables() of STK_EQUALIZE_BINS bytes */
	const struct stk_lab_tables *lab; /* with lightness */
};

/* Fills in the tiles' extents. */
void stk__equalize_tiles(struct stk_equalize *e, int32_t tiles_x, int32_t tiles_y, float clip_limit);

/* On the CPU; the caller provides data->tables. */
void stk__equalize_run(const struct stk_equalize *e, const struct stk_equalize_data *data);
/* The same, compiled for AVX2. */
void stk__equalize_run_avx2(const struct stk_equalize *e, const struct stk_equalize_data *data);

/* ---- as jobs ---- */

STK_PARAMS_FIT(stk_equalize);

/* lab: for lightness; NULL without. in and out are of uint8. */
STK_MUST_USE enum stk_status stk__job_equalize(struct stk_jobs *jobs, const struct stk_equalize *e, const struct stk_lab_tables *lab,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
