/* SPDX-License-Identifier: Apache-2.0
 * Computes the canvas of a rotated image, for rotate and for bbox_rotate. */
#ifndef STK_OP_GEOMETRY_CANVAS_H
#define STK_OP_GEOMETRY_CANVAS_H

#include "op/geometry/affine.h"

/* Sets out[] to the extents x, y (and z) of the smallest canvas that contains the whole rotated image of extents in[]. rotation: maps the canvas to the
 * image. As in DALI, each extent of the canvas is odd or even like the extent of that axis of the image which is nearest in direction. So the image's
 * centre stays at a pixel's centre or edge. */
void stk__canvas(const struct stk_affine *rotation, const int64_t *in, int64_t *out);

/* Returns degrees converted to radians, rounded to float32 as in DALI: at 45 degrees this rounding decides which axis is nearest. */
static inline double stk__canvas_radians(float degrees)
{
	return (double)(degrees * (float)(3.14159265358979323846 / 180));
}

#endif
