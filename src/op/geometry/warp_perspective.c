/* SPDX-License-Identifier: Apache-2.0
 * experimental.warp_perspective: maps an image by a perspective transform. */
#include "kernel/common/border.h"
#include "kernel/sample/sample.h"
#include "op/geometry/displace.h"
#include "op/geometry/warp_args.h"

#include <string.h>

struct warp_perspective {
	struct stk_floats matrix;
	struct stk_ints matrix_shape;
	struct stk_floats size, fill_value;
	bool inverse_map;
	int32_t interp_type;
	const char *border_mode, *pixel_origin;
};

struct perspective {
	struct stk_warp_dims dims;
	struct stk_job_sample sample;
};

static const struct stk_arg_def warp_perspective_args[] = {
	STK_ARG(struct warp_perspective, matrix, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SHAPED,
		"Three rows of three values, row by row, over (x, y, 1): positions are the first two results divided by the third. Default, "
		"and if empty: the second input, a float32 tensor of shape (3, 3)."),
	{.name = "size",
		.type = STK_ARG_FLOATS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct warp_perspective, size),
		.min = 0,
		.max = 0x1p24,
		.shapes = true,
		.doc = "Height and width of the output in pixels, rounded, or one value for both. Default, and if empty: those of the "
		       "input."},
	STK_ARG(struct warp_perspective, fill_value, STK_ARG_FLOATS, NULL, STK_FREE, STK_SCALAR_OK | STK_NAN,
		"Value outside the image for border_mode constant: one, or one a channel. Default, and if empty: 0."),
	STK_ARG(struct warp_perspective, inverse_map, STK_ARG_BOOL, "true", STK_FREE, 0,
		"The matrix maps positions of the output to those of the input; false: the other way round."),
	STK_ARG(struct warp_perspective, interp_type, STK_ARG_INTERP, "1", (0, STK_INTERP_CUBIC), 0, "NN, LINEAR or CUBIC."),
	{.name = "border_mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct warp_perspective, border_mode),
		.fallback = "\"constant\"",
		.choices = "constant|replicate|reflect|reflect_101|wrap",
		.doc = "Pixels outside the image: fill_value, the nearest pixel of its edge, its mirror image (with the edge's pixels or "
		       "without them), or the image repeated."},
	{.name = "pixel_origin",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct warp_perspective, pixel_origin),
		.fallback = "\"corner\"",
		.choices = "corner|center",
		.doc = "The point of the first pixel that has the coordinates (0, 0): its top left corner, or its centre, as in OpenCV."},
	STK_ARG_END,
};

/* Sets m to the matrix, which is either the argument or input 1, and *known to true. If its values are not known yet, since the graph is being built,
 * leaves m unchanged and sets *known to false. Fails if both or neither are given, or if the matrix has another shape or type. */
static enum stk_status read_matrix(const struct stk_call *call, double m[9], bool *known, struct stk_error *err)
{
	const struct warp_perspective *a = call->args;
	bool given = a->matrix.count > 0, input = call->n_in > 1;
	*known = !stk__varies(call, &a->matrix) && !(input && stk__building(call));
	if (stk__varies(call, &a->matrix))
		return STK_OK;
	if (given == input)
		return stk__fail(err, STK_INVALID,
			given ? "the matrix is given twice, by an input and by matrix: choose one"
			      : "no matrix is given: give matrix, or a second input");
	if (given && a->matrix.count != 9)
		return stk__fail(err, STK_INVALID, "matrix has %d values; it takes three rows of three", a->matrix.count);
	const struct stk_desc *d = input ? &call->in[1].desc : NULL;
	if (d && d->dtype != STK_NO_DTYPE && d->dtype != STK_FLOAT)
		return stk__fail(err, STK_INVALID, "the matrix is of %s; cast it to float32", stk_dtype_name(d->dtype));
	if (d && d->ndim >= 0 && (d->ndim != 2 || (d->shape[0] >= 0 && d->shape[0] != 3) || (d->shape[1] >= 0 && d->shape[1] != 3)))
		return stk__fail(err, STK_SHAPE, "the matrix must have three rows of three; this tensor has %d dims", d->ndim);
	enum stk_status s = given ? stk__check_matrix("matrix", a->matrix_shape, 3, 3, err) : STK_OK;
	if (s)
		return s;
	const float *v = !*known ? NULL : input ? call->in[1].data : a->matrix.v;
	for (int i = 0; v && i < 9; i++)
		m[i] = (double)v[i];
	return STK_OK;
}

static void multiply(const double a[9], const double b[9], double out[9])
{
	double r[9] = {0};
	for (int i = 0; i < 9; i++)
		for (int k = 0; k < 3; k++)
			r[i] += a[i / 3 * 3 + k] * b[3 * k + i % 3];
	memcpy(out, r, sizeof r);
}

/* Inverts m in place, by its cofactors. STK_INVALID: m has no inverse. */
static enum stk_status invert(double m[9], struct stk_error *err)
{
	double r[9];
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++) {
			int a = (k + 1) % 3, b = (k + 2) % 3, c = (i + 1) % 3, d = (i + 2) % 3;
			r[3 * i + k] = m[3 * a + c] * m[3 * b + d] - m[3 * a + d] * m[3 * b + c];
		}
	double det = m[0] * r[0] + m[1] * r[3] + m[2] * r[6];
	if (!(fabs(det) > 0))
		return stk__fail(err, STK_INVALID, "the matrix maps the image to a line: it has no inverse");
	for (int i = 0; i < 9; i++)
		m[i] = r[i] / det;
	return STK_OK;
}

/* Converts a map between positions counted from the centre of the first pixel to one between positions counted from that pixel's top left corner. */
static void to_corners(double m[9])
{
	static const double back[9] = {1, 0, -0.5, 0, 1, -0.5, 0, 0, 1}, forth[9] = {1, 0, 0.5, 0, 1, 0.5, 0, 0, 1};
	multiply(m, back, m);
	multiply(forth, m, m);
}

static int32_t border_of(const char *name)
{
	if (name[0] == 'c')
		return STK_BORDER_FILL;
	if (name[0] == 'w')
		return STK_BORDER_WRAP;
	return name[2] == 'p' ? STK_BORDER_CLAMP : name[7] ? STK_BORDER_REFLECT_101 : STK_BORDER_REFLECT;
}

static enum stk_status check_image(const struct stk_call *call, const struct stk_warp_dims *dims, struct stk_error *err)
{
	const struct warp_perspective *a = call->args;
	const struct stk_desc *in = &call->in[0].desc, *out = &call->out[0].desc;
	enum stk_status type = stk__check_sampled(in->dtype, a->interp_type, err);
	if (type)
		return type;
	if (!dims->count)
		return STK_OK;
	if (dims->count == 3)
		return stk__fail(err, STK_SHAPE, "volumes have no perspective; use warp_affine");
	int64_t channels = dims->of.channel < 0 ? 1 : in->shape[dims->of.channel];
	if (channels >= 0 && a->fill_value.count > 0) {
		enum stk_status s = stk__check_per_channel("fill_value", a->fill_value, channels, err);
		if (s)
			return s;
	}
	for (int k = 0; k < 2 && !stk__building(call); k++)
		if (in->shape[dims->of.axis[k]] == 0 && stk_desc_elements(out) > 0)
			return stk__fail(err, STK_SHAPE, "there is nothing to warp: the image has no pixels");
	return STK_OK;
}

static enum stk_status warp_perspective_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct warp_perspective *a = call->args;
	struct perspective *p = call->state;
	struct stk_desc *out = &call->out[0].desc;
	double m[9] = {0};
	bool known;
	*out = call->in[0].desc;
	enum stk_status s = stk__warp_dims(&call->in[0].desc, &p->dims, err);
	if (s)
		return s;
	if (a->size.count > 2)
		return stk__fail(err, STK_INVALID, "size has %d values; it takes (height, width) or one for both", a->size.count);
	for (int k = 0; k < 2 && a->size.count > 0 && p->dims.count; k++)
		out->shape[p->dims.of.axis[k]] = (int64_t)roundf(a->size.v[k ? 0 : a->size.count - 1]);
	if ((s = check_image(call, &p->dims, err)) || (s = read_matrix(call, m, &known, err)) || !known)
		return s;
	if (!a->inverse_map && (s = invert(m, err)))
		return s;
	if (a->pixel_origin[1] == 'e')
		to_corners(m);
	p->sample = (struct stk_job_sample){.map = STK_SAMPLE_PERSPECTIVE, .interp = a->interp_type, .border = border_of(a->border_mode)};
	for (int i = 0; i < 9; i++)
		p->sample.m[i] = (float)m[i];
	return stk__check_map(p->sample.m, 9, err);
}

static enum stk_status warp_perspective_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct warp_perspective *a = call->args;
	const struct perspective *p = call->state;
	int64_t channels = p->dims.of.channel < 0 ? 1 : call->in[0].desc.shape[p->dims.of.channel];
	float *fill = stk__channel_values(call, a->fill_value, channels);
	if (!fill)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	return stk__job_sample(jobs, &p->sample, &p->dims.of, fill, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_warp_perspective = {
	.name = "experimental.warp_perspective",
	.doc = "Maps images by a perspective matrix.\n\n"
	       "Images are uint8, uint16, int16 or float32 with layout HWC, CHW or HW, with leading frames or without; so is the "
	       "output.",
	.inputs = {1, 2},
	.host_inputs = 2,
	.frame_inputs = 2,
	.tolerance = "DALI's positions are multiples of 1/32 of a pixel on the CPU; here they are float32.",
	.args = warp_perspective_args,
	.args_size = sizeof(struct warp_perspective),
	.flags = STK_OP_IMAGES,
	.state_size = sizeof(struct perspective),
	.infer = warp_perspective_infer,
	.lower_jobs = warp_perspective_lower_jobs,
};
