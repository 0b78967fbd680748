/* SPDX-License-Identifier: Apache-2.0 */
#include "op/color/color.h"

#include "base/math.h"
#include "op/color/intensity.h"

#include <string.h>

const char stk__color_type_doc[] =
	"Accepted and ignored: channels are read as red, green and blue, as in DALI; convert BGR with color_space_conversion.";

/* The matrix from RGB to NTSC's YIQ, rounded to three places as in DALI. */
static const double to_yiq[9] = {.299, .587, .114, .596, -.274, -.321, .211, -.523, .311};

static void invert(const double m[9], double out[9])
{
	double det = 0;
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++) {
			int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
			out[3 * j + i] = m[3 * i1 + j1] * m[3 * i2 + j2] - m[3 * i1 + j2] * m[3 * i2 + j1];
		}
	for (int k = 0; k < 3; k++)
		det += m[k] * out[3 * k];
	for (int k = 0; k < 9; k++)
		out[k] /= det;
}

void stk__matrix_multiply(const double a[9], const double b[9], double out[9])
{
	double r[9];
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
			r[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
	memcpy(out, r, sizeof r);
}

enum stk_status stk__color_infer(const struct stk_call *call, int32_t dtype, struct stk_error *err)
{
	struct stk_dims dims;
	enum stk_status s = stk__intensity_infer(call, dtype, err);
	if (s || (s = stk__dims_of(&call->in[0].desc, &dims, err)))
		return s;
	int64_t channels = stk__dims_channels(&dims, &call->in[0].desc);
	if (channels >= 0 && channels != 3)
		return stk__fail(err, STK_SHAPE, "the image must have 3 channels, not %lld", (long long)channels);
	return STK_OK;
}

static void color_matrix(const struct stk_color *color, double m[9])
{
	double angle = (double)color->hue * (3.14159265358979323846 / 180), c = stk__cos(angle), s = stk__sin(angle),
	       sat = color->saturation;
	const double hue_rotation[9] = {1, 0, 0, 0, c * sat, s * sat, 0, -s * sat, c * sat};
	double from_yiq[9];
	invert(to_yiq, from_yiq);
	stk__matrix_multiply(hue_rotation, to_yiq, m);
	stk__matrix_multiply(from_yiq, m, m);
}

void stk__color_matrix(const struct stk_color *color, float out[9])
{
	double m[9];
	color_matrix(color, m);
	for (int k = 0; k < 9; k++)
		out[k] = (float)m[k];
}

void stk__color_lower(const struct stk_color *color, int32_t dtype, struct stk_pass *pass)
{
	double m[9];
	color_matrix(color, m);
	enum stk_dtype in = (enum stk_dtype)pass->dtype;
	double factor = (double)color->value * color->contrast;
	double bias = color->value * (1 - (double)color->contrast) * stk__intensity_center(in);
	float rows[9], b[3] = {(float)bias, (float)bias, (float)bias};
	for (int k = 0; k < 9; k++)
		rows[k] = (float)(factor * m[k]);
	stk__pass_matrix(pass, rows, b, stk__dtype_or(dtype, in));
}
