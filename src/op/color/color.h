/* SPDX-License-Identifier: Apache-2.0
 * What hue, saturation, hsv and color_twist share: a linear map of RGB, made in the space YIQ, where a turn of hue is a rotation about Y and
 * saturation a factor of I and Q. The coefficients are those of DALI. */
#ifndef STK_OP_COLOR_H
#define STK_OP_COLOR_H

#include "op/dims.h"

struct stk_color {
	float hue; /* degrees */
	float saturation;
	float value; /* brightness, a factor */
	float contrast;
};

/* desc of the output; checks for 3 channels and for types that can be computed on. dtype: -1 for the input's. */
enum stk_status stk__color_infer(const struct stk_call *call, int32_t dtype, struct stk_error *err);
/* What hue and saturation do to red, green and blue: nine factors, row by row. */
void stk__color_matrix(const struct stk_color *color, float out[9]);
void stk__color_lower(const struct stk_color *color, int32_t dtype, struct stk_pass *pass);

/* out = a b, row by row; out may be a or b. */
void stk__matrix_multiply(const double a[9], const double b[9], double out[9]);

extern const char stk__color_type_doc[];

#endif
