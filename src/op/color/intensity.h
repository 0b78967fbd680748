/* SPDX-License-Identifier: Apache-2.0
 * Shared by brightness, contrast, brightness_contrast and color_twist:
 *     out = shift * range + brightness * (center + contrast * (x - center))
 * range: largest value of the output's type (255 for uint8, 1 for floats). center: by default the middle of the input type's range (128; 0.5). */
#ifndef STK_OP_INTENSITY_H
#define STK_OP_INTENSITY_H

#include "op/dims.h"

struct stk_intensity {
	float brightness, shift, contrast;
	float center; /* value that contrast leaves unchanged; NAN: the default of the input's type */
};

/* Sets the output's desc to the input's, with type dtype unless that is -1. Fails if the input is not an image, or if pixels cannot have its type or the
 * output's. */
enum stk_status stk__intensity_infer(const struct stk_call *call, int32_t dtype, struct stk_error *err);
void stk__intensity_lower(const struct stk_intensity *i, int32_t dtype, struct stk_pass *pass);

/* Returns the default of stk_intensity.center: 0.5 for floats, (largest value + 1) / 2 for integers. */
double stk__intensity_center(enum stk_dtype in);
/* Returns the largest value of a pixel of this type, which is 1 for floats, or 0 if pixels may not have this type. */
double stk__intensity_range(enum stk_dtype out);

extern const char stk__intensity_dtype_doc[];

#endif
