/* SPDX-License-Identifier: Apache-2.0
 * color_space_conversion: converts between RGB, BGR, GRAY and YCbCr (ITU-R BT.601, studio range). */
#include "op/color/color.h"

struct csc {
	int32_t image_type, output_type;
};

static const struct stk_arg_def csc_args[] = {
	STK_ARG(struct csc, image_type, STK_ARG_IMAGE_TYPE, NULL, (0, 3), STK_REQUIRED,
		"Colour space of the input: RGB, BGR, GRAY or "
		"YCbCr."),
	STK_ARG(struct csc, output_type, STK_ARG_IMAGE_TYPE, NULL, (0, 3), STK_REQUIRED, "What to make of it."),
	STK_ARG_END,
};

static enum stk_status csc_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct csc *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	struct stk_dims dims;
	enum stk_status s = stk__dims_of(in, &dims, err);
	if (s)
		return s;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8)
		return stk__fail(err, STK_UNSUPPORTED, "only the colour space of uint8 images can be converted, not of %s",
			stk_dtype_name(in->dtype));
	if (a->image_type > STK_YCBCR || a->output_type > STK_YCBCR)
		return stk__fail(err, STK_INVALID, "ANY_DATA is not a colour space; give RGB, BGR, GRAY or YCbCr");
	*out = *in;
	if (!dims.known)
		return STK_OK;
	int64_t channels = stk__dims_channels(&dims, in), want = a->image_type == STK_GRAY ? 1 : 3;
	if (channels >= 0 && channels != want)
		return stk__fail(err, STK_SHAPE, "the image must have %lld channel%s, not %lld", (long long)want, want == 1 ? "" : "s",
			(long long)channels);
	if (dims.c >= 0)
		out->shape[dims.c] = a->output_type == STK_GRAY ? 1 : 3;
	return STK_OK;
}

/* An affine map of colours, x -> m x + b, from RGB to another colour space or from another space to RGB. */
struct space {
	double m[9], b[3];
};

static const double red = .299, green = .587, blue = .114;

static struct space from_rgb(int32_t type)
{
	const double luma = 219. / 255, chroma = 224. / 255;
	switch (type) {
	case STK_BGR:
		return (struct space){{0, 0, 1, 0, 1, 0, 1, 0, 0}, {0, 0, 0}};
	case STK_GRAY:
		return (struct space){{red, green, blue, 0, 0, 0, 0, 0, 0}, {0, 0, 0}};
	case STK_YCBCR: {
		double cb = chroma / (2 * (1 - blue)), cr = chroma / (2 * (1 - red));
		return (struct space){{luma * red, luma * green, luma * blue, -cb * red, -cb * green, cb * (1 - blue), cr * (1 - red),
					      -cr * green, -cr * blue},
			{16, 128, 128}};
	}
	default:
		return (struct space){{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};
	}
}

static struct space to_rgb(int32_t type)
{
	const double luma = 255. / 219, chroma = 255. / 224;
	switch (type) {
	case STK_GRAY:
		return (struct space){{1, 0, 0, 1, 0, 0, 1, 0, 0}, {0, 0, 0}};
	case STK_YCBCR: {
		double r = 2 * (1 - red) * chroma, b = 2 * (1 - blue) * chroma, gr = r * red / green, gb = b * blue / green;
		return (struct space){{luma, 0, r, luma, -gb, -gr, luma, b, 0},
			{-16 * luma - 128 * r, -16 * luma + 128 * (gb + gr), -16 * luma - 128 * b}};
	}
	default:
		return from_rgb(type);
	}
}

static void csc_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct csc *a = call->args;
	if (a->image_type == a->output_type)
		return;
	/* Scales luma to the full range. A conversion by way of RGB would saturate strong colours, and so change their gray. */
	if (a->image_type == STK_YCBCR && a->output_type == STK_GRAY) {
		static const float luma_only[3] = {1, 0, 0};
		float scale = (float)(255. / 219), bias = (float)(-16 * 255. / 219);
		stk__pass_gray(pass, luma_only, STK_UINT8);
		stk__pass_affine(pass, &scale, &bias, STK_UINT8);
		return;
	}
	struct space in = to_rgb(a->image_type), out = from_rgb(a->output_type);
	double m[9];
	stk__matrix_multiply(out.m, in.m, m);
	float rows[9], bias[3];
	for (int k = 0; k < 9; k++)
		rows[k] = (float)m[k];
	for (int k = 0; k < 3; k++)
		bias[k] = (float)(out.m[3 * k] * in.b[0] + out.m[3 * k + 1] * in.b[1] + out.m[3 * k + 2] * in.b[2] + out.b[k]);
	if (a->output_type == STK_GRAY) {
		stk__pass_gray(pass, rows, STK_UINT8);
		return;
	}
	if (a->image_type == STK_GRAY) {
		static const float none[3] = {0, 0, 0};
		stk__pass_channels(pass, 3, none);
	}
	stk__pass_matrix(pass, rows, bias, STK_UINT8);
}

const struct stk_op_def stk__op_color_space_conversion = {
	.name = "color_space_conversion",
	.doc = "Converts images between RGB, BGR, GRAY and YCbCr.\n\n"
	       "YCbCr is ITU-R BT.601 in studio range (Y from 16 to 235), as in DALI; gray is its luma in full range.",
	.inputs = {1, 1},
	.layouts = "HWC FHWC DHWC FDHWC",
	.args = csc_args,
	.args_size = sizeof(struct csc),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_POINTWISE | STK_CLASS_MIXES,
	.steps = 2,
	.infer = csc_infer,
	.lower = csc_lower,
};
