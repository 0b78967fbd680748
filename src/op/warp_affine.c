/* SPDX-License-Identifier: Apache-2.0
 * warp_affine: rotation, scale, shear and shift of an image by a matrix. */
#include "kernel/convert/convert.h"
#include "op/dims.h"

#include <string.h>

struct warp_affine {
	struct stk_floats matrix, size;
	bool inverse_map;
	float fill_value;
	int32_t interp_type, dtype;
};

static const struct stk_arg_def warp_affine_args[] = {
	STK_ARG(struct warp_affine, matrix, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE,
		"Two rows of three values, row by row, over (x, y, 1) in pixels from the top left corner. Default: the second input."),
	STK_ARG(struct warp_affine, inverse_map, STK_ARG_BOOL, "true", STK_FREE, 0,
		"The matrix takes positions of the output to those of the input; false: the other way round."),
	{.name = "size",
		.type = STK_ARG_FLOATS,
		.flags = STK_PER_SAMPLE,
		.offset = offsetof(struct warp_affine, size),
		.min = 0,
		.max = 0x1p24,
		.shapes = true,
		.doc = "Height and width of the output, rounded. Default: those of the input."},
	STK_ARG(struct warp_affine, fill_value, STK_ARG_FLOAT, NULL, STK_FREE, 0,
		"Value outside the image, in the type of its pixels. Default: the nearest pixel of its edge."),
	STK_ARG(struct warp_affine, interp_type, STK_ARG_INTERP, "1", (0, 1), 0, "NN or LINEAR."),
	STK_ARG(struct warp_affine, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output: float32, or the input's (the default)."),
	STK_ARG_END,
};

static enum stk_status read_matrix(const struct stk_call *call, float m[6], struct stk_error *err)
{
	const struct warp_affine *a = call->args;
	bool given = a->matrix.count > 0, input = call->n_in > 1;
	static const float identity[6] = {1, 0, 0, 0, 1, 0};
	memcpy(m, identity, sizeof identity);
	if (stk__varies(call, &a->matrix))
		return STK_OK;
	if (given == input)
		return stk__fail(err, STK_INVALID,
			given ? "the matrix is given twice, by an input and by matrix: choose one"
			      : "no matrix is given: give matrix, or a second input");
	if (given && a->matrix.count != 6)
		return stk__fail(err, STK_INVALID, "matrix has %d values; it takes two rows of three", a->matrix.count);
	if (given)
		memcpy(m, a->matrix.v, 6 * sizeof *m);
	if (!input || stk__building(call))
		return STK_OK;
	const struct stk_tensor *t = &call->in[1];
	if (stk_desc_elements(&t->desc) != 6)
		return stk__fail(
			err, STK_SHAPE, "the matrix has %lld values; it takes two rows of three", (long long)stk_desc_elements(&t->desc));
	stk__convert(m, STK_FLOAT, t->data, t->desc.dtype, 6);
	return STK_OK;
}

static enum stk_status invert(float m[6], struct stk_error *err)
{
	double a = m[0], b = m[1], c = m[2], d = m[3], e = m[4], f = m[5], det = a * e - b * d;
	if (!(fabs(det) > 0))
		return stk__fail(err, STK_INVALID, "the matrix maps the image to a line: it has no inverse");
	const double inverse[6] = {e / det, -b / det, (b * f - c * e) / det, -d / det, a / det, (c * d - a * f) / det};
	for (int i = 0; i < 6; i++)
		m[i] = (float)inverse[i];
	return STK_OK;
}

static enum stk_status output_type(const struct warp_affine *a, enum stk_dtype in, enum stk_dtype *out, struct stk_error *err)
{
	*out = stk__dtype_or(a->dtype, in);
	if (in != STK_NO_DTYPE && *out != in && *out != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "a warp of %s gives %s or float32, not %s; cast what it gives", stk_dtype_name(in),
			stk_dtype_name(in), stk_dtype_name(*out));
	return STK_OK;
}

/* If pixels are mixed, the fill is a pixel like those inside: of the input's type. */
static float fill_in(float value, enum stk_dtype dtype)
{
	uint64_t pixel;
	stk__convert(&pixel, dtype, &value, STK_FLOAT, 1);
	stk__convert(&value, STK_FLOAT, &pixel, dtype, 1);
	return value;
}

static enum stk_status warp_affine_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct warp_affine *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_warp *w = call->state;
	struct stk_desc *out = &call->out[0].desc;
	struct stk_dims dims;
	*out = *in;
	enum stk_status s = output_type(a, in->dtype, &out->dtype, err);
	if (s || (s = stk__dims_of(in, &dims, err)) || (s = read_matrix(call, w->m, err)) || (!a->inverse_map && (s = invert(w->m, err))))
		return s;
	if (a->size.count > 0 && a->size.count != 2)
		return stk__fail(err, STK_INVALID, "size has %d values; it takes (height, width)", a->size.count);
	if (!dims.known)
		return STK_OK;
	if (a->size.count == 2) {
		out->shape[dims.h] = (int64_t)roundf(a->size.v[0]);
		out->shape[dims.w] = (int64_t)roundf(a->size.v[1]);
	}
	for (int i = 0; i < 2; i++) {
		int32_t d = i ? dims.w : dims.h;
		if (in->shape[d] == 0 || out->shape[d] == 0)
			return stk__fail(err, STK_SHAPE, "there is nothing to warp: the image is %lld pixels %s, the output %lld",
				(long long)in->shape[d], i ? "wide" : "high", (long long)out->shape[d]);
	}
	w->out_w = (int32_t)out->shape[dims.w];
	w->out_h = (int32_t)out->shape[dims.h];
	w->interp = (uint8_t)a->interp_type;
	w->clamp = !stk__float_given(a->fill_value);
	w->fill = w->clamp ? 0 : a->interp_type == STK_INTERP_NN ? a->fill_value : fill_in(a->fill_value, in->dtype);
	w->dtype = (uint8_t)out->dtype;
	return STK_OK;
}

static void warp_affine_lower(const struct stk_call *call, struct stk_pass *pass)
{
	stk__pass_warp(pass, call->state);
}

const struct stk_op_def stk__op_warp_affine = {
	.name = "warp_affine",
	.doc = "Maps images by a matrix: rotations, scales, shears, shifts.\n\n"
	       "Positions are in pixels from the top left corner of the image, so that the first pixel's centre is (0.5, 0.5).",
	.inputs = {1, 2},
	.host_inputs = 2,
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.tolerance = "Positions are float32, and DALI's differ in their last bits: floats and 16-bit integers by up to 1e-4 of the range, "
		     "and with NN a pixel in a thousand is its neighbour.",
	.args = warp_affine_args,
	.args_size = sizeof(struct warp_affine),
	.flags = STK_OP_IMAGES,
	.state_size = sizeof(struct stk_warp),
	.classes = STK_CLASS_SAMPLER,
	.infer = warp_affine_infer,
	.lower = warp_affine_lower,
};
