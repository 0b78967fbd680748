/* SPDX-License-Identifier: Apache-2.0
 * Paints masks of pixels from COCO's polygons and run lengths. Vertices of polygons are rounded to float32, as in DALI. The masks are equal to those that
 * pycocotools makes from the rounded vertices. From the decimals in the file, pycocotools may set a few other pixels on the outlines. */
#ifndef STK_FORMAT_COCO_MASK_H
#define STK_FORMAT_COCO_MASK_H

#include "base/cancel.h"
#include "base/memory.h"
#include "format/coco.h"

/* Paints the image's objects into `mask`, which has height rows of width pixels: 0 outside of objects and, where objects overlap, the largest label, as in
 * DALI. STK_CORRUPT: runs that do not fit the image, or a vertex far outside it. STK_LIMIT: outlines or objects that cross the image so often that painting
 * would take minutes. STK_CANCELLED: `cancel`, which may be NULL, has ended the work; the mask is unfinished. Uses scratch memory of the arena, which the
 * caller releases. */
STK_MUST_USE enum stk_status stk__coco_paint(const struct stk_coco *c, const struct stk_coco_image *image, struct stk_arena *scratch,
	const struct stk_cancel *cancel, int32_t *mask, struct stk_error *err);

#endif
