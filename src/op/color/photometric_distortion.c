/* SPDX-License-Identifier: Apache-2.0
 * photometric_distortion: changes the colours of images by the values that photometric_augmentation has drawn. */
#include "op/color/color.h"
#include "op/color/photometric.h"

#include <string.h>

struct photometric_distortion {
	bool bgr;
};

struct distortion {
	float v[STK_PHOTOMETRIC_VALUES];
};

static const struct stk_arg_def photometric_distortion_args[] = {
	STK_ARG(struct photometric_distortion, bgr, STK_ARG_BOOL, "false", STK_FREE, 0, "Channels are blue, green and red."),
	STK_ARG_END,
};

static enum stk_status photometric_distortion_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc, *values = &call->in[1].desc;
	struct distortion *d = call->state;
	enum stk_status s = stk__color_infer(call, -1, err);
	if (s)
		return s;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8 && in->dtype != STK_FLOAT)
		return stk__fail(
			err, STK_UNSUPPORTED, "images must be uint8, or float32 between 0 and 1, not %s", stk_dtype_name(in->dtype));
	if ((values->dtype != STK_NO_DTYPE && values->dtype != STK_FLOAT) ||
		(values->ndim >= 0 && (values->ndim != 1 || (values->shape[0] >= 0 && values->shape[0] != STK_PHOTOMETRIC_VALUES))))
		return stk__fail(err, STK_SHAPE, "the second input must be a vector of %d float32, as photometric_augmentation draws it",
			STK_PHOTOMETRIC_VALUES);
	if (call->in[1].data)
		memcpy(d->v, call->in[1].data, sizeof d->v);
	return STK_OK;
}

static void scale(struct stk_pass *pass, float factor, float bias, enum stk_dtype dtype)
{
	const float scales[3] = {factor, factor, factor}, biases[3] = {bias, bias, bias};
	stk__pass_affine(pass, scales, biases, dtype);
}

static void swap_channels(const float m[9], float out[9])
{
	for (int r = 0; r < 3; r++)
		for (int c = 0; c < 3; c++)
			out[3 * r + c] = m[3 * (2 - r) + 2 - c];
}

static void turn_colors(struct stk_pass *pass, const struct stk_color *color, bool bgr)
{
	static const float none[3] = {0};
	float m[9], swapped[9];
	stk__color_matrix(color, m);
	swap_channels(m, swapped);
	stk__pass_matrix(pass, bgr ? swapped : m, none, STK_FLOAT);
}

static void reorder(struct stk_pass *pass, float order)
{
	static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 1, 0}, {2, 0, 1}, {1, 2, 0}};
	static const float none[3] = {0};
	float m[9] = {0};
	for (int c = 0; c < 3; c++)
		m[3 * c + orders[order >= 0 && order < 6 ? (int)order : 0][c]] = 1;
	stk__pass_matrix(pass, m, none, STK_FLOAT);
}

static void change_contrast(struct stk_pass *pass, const struct distortion *d, uint32_t applied, bool first)
{
	if (!(applied & STK_PHOTOMETRIC_HAS_CONTRAST) || first != (d->v[STK_PHOTOMETRIC_CONTRAST_FIRST] != 0))
		return;
	scale(pass, d->v[STK_PHOTOMETRIC_CONTRAST], 0, STK_FLOAT);
	stk__pass_clamp(pass, 0, 1);
}

/* Adds the steps. They compute in float32, where 1 is the largest value of a pixel. */
static void photometric_distortion_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct distortion *d = call->state;
	bool bytes = pass->dtype == STK_UINT8, bgr = ((const struct photometric_distortion *)call->args)->bgr;
	float unit = bytes ? 1.0f / 255 : 1;
	float bits = d->v[STK_PHOTOMETRIC_APPLIED];
	uint32_t applied = bits >= 0 && bits < 32 ? (uint32_t)bits : 0;
	if (bytes && !applied)
		return;
	if (bytes)
		scale(pass, unit, 0, STK_FLOAT);
	if (applied & STK_PHOTOMETRIC_HAS_BRIGHTNESS) {
		scale(pass, 1, d->v[STK_PHOTOMETRIC_BRIGHTNESS] * unit, STK_FLOAT);
		stk__pass_clamp(pass, 0, 1);
	}
	change_contrast(pass, d, applied, true);
	if (applied & STK_PHOTOMETRIC_HAS_SATURATION)
		turn_colors(pass, &(struct stk_color){0, d->v[STK_PHOTOMETRIC_SATURATION], 1, 1}, bgr);
	if (applied & STK_PHOTOMETRIC_HAS_HUE)
		turn_colors(pass, &(struct stk_color){d->v[STK_PHOTOMETRIC_HUE], 1, 1, 1}, bgr);
	change_contrast(pass, d, applied, false);
	if (applied & STK_PHOTOMETRIC_HAS_ORDER)
		reorder(pass, d->v[STK_PHOTOMETRIC_ORDER]);
	if (bytes)
		scale(pass, 255, 0, STK_UINT8);
	else
		stk__pass_clamp(pass, 0, 1);
}

const struct stk_op_def stk__op_photometric_distortion = {
	.name = "photometric_distortion",
	.doc = "Changes the colours of images by values that photometric_augmentation has drawn.\n\n"
	       "Images are uint8, or float32 between 0 and 1, and are computed on in float32 between 0 and 1: first brightness is "
	       "added, then contrast, saturation and hue are applied, and contrast last if the draw says so; after brightness and "
	       "contrast, and at the end, values are cut to that range. Hue and saturation are those of the operators of these names.",
	.inputs = {2, 2},
	.host_inputs = 2,
	.layouts = "HWC FHWC DHWC",
	.args = photometric_distortion_args,
	.args_size = sizeof(struct photometric_distortion),
	.state_size = sizeof(struct distortion),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_POINTWISE | STK_CLASS_MIXES,
	.steps = 9,
	.infer = photometric_distortion_infer,
	.lower = photometric_distortion_lower,
};
