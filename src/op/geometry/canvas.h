/* SPDX-License-Identifier: Apache-2.0
 * Which canvas a rotated image takes: for rotate, and for the boxes on it. */
#ifndef STK_OP_GEOMETRY_CANVAS_H
#define STK_OP_GEOMETRY_CANVAS_H

#include "op/geometry/affine.h"

/* The smallest canvas that holds the whole image, of extents x, y (and z). rotation: takes the canvas to the image. An extent is even or
 * odd as that of the image's axis nearest to it in direction, so that the centre stays at a pixel's centre or edge. DALI's rule. */
void stk__canvas(const struct stk_affine *rotation, const int64_t *in, int64_t *out);

/* An angle as the rule takes it: at 45 degrees the rounding of its radians to float32 decides. */
static inline double stk__canvas_radians(float degrees)
{
	return (double)(degrees * (float)(3.14159265358979323846 / 180));
}

#endif
