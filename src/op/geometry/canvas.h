/* SPDX-License-Identifier: Apache-2.0
 * Computes the canvas of a rotated image, for rotate and for bbox_rotate. */
#ifndef STK_OP_GEOMETRY_CANVAS_H
#define STK_OP_GEOMETRY_CANVAS_H

#include "op/geometry/affine.h"

/* Computes the smallest canvas that holds the whole image, of extents x, y (and z). rotation: maps the canvas to the image. An extent of the canvas is even
 * or odd like that of the image's axis nearest to it in direction, so that the centre stays at a pixel's centre or edge. This is DALI's rule. */
void stk__canvas(const struct stk_affine *rotation, const int64_t *in, int64_t *out);

/* Converts degrees to radians, rounded to float32 as in DALI: at 45 degrees this rounding decides which axis is nearest. */
static inline double stk__canvas_radians(float degrees)
{
	return (double)(degrees * (float)(3.14159265358979323846 / 180));
}

#endif
