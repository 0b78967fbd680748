/* SPDX-License-Identifier: Apache-2.0
 * Shared by hue, saturation, hsv and color_twist: a linear map of RGB, computed in the space YIQ, where a change of hue is a rotation about Y and saturation
 * is a factor of I and Q. The coefficients are those of DALI. */
#ifndef STK_OP_COLOR_H
#define STK_OP_COLOR_H

#include "op/dims.h"

struct stk_color {
	float hue; /* rotation of the hue in degrees */
	float saturation;
	float value; /* factor of the brightness */
	float contrast;
};

/* Sets the output's desc to the input's, with type dtype unless that is -1. Returns an error if the image does not have 3 channels, or if pixels cannot
 * have its type or the output's. */
enum stk_status stk__color_infer(const struct stk_call *call, int32_t dtype, struct stk_error *err);
/* Computes the 3 x 3 matrix, row by row, that changes hue and saturation of (red, green, blue). */
void stk__color_matrix(const struct stk_color *color, float out[9]);
void stk__color_lower(const struct stk_color *color, int32_t dtype, struct stk_pass *pass);

/* Multiplies 3 x 3 matrices, which are stored row by row: out = a b. out may be a or b. */
void stk__matrix_multiply(const double a[9], const double b[9], double out[9]);

extern const char stk__color_type_doc[];

#endif
