/* SPDX-License-Identifier: Apache-2.0
 * rotate: rotates images, and volumes about an axis. The canvas holds the whole result unless the user chooses its size. */
#include "op/geometry/canvas.h"
#include "op/geometry/warp_args.h"

struct rotate {
	float angle;
	struct stk_floats axis;
	bool keep_size;
	struct stk_warp_args warp;
};

static const struct stk_arg_def rotate_args[] = {
	{.name = "angle",
		.type = STK_ARG_FLOAT,
		.flags = STK_PER_SAMPLE | STK_PER_FRAME | STK_REQUIRED,
		.offset = offsetof(struct rotate, angle),
		.min = -HUGE_VAL,
		.max = HUGE_VAL,
		.shapes = true,
		.doc = "Angle in degrees: counter-clockwise, or for volumes by the right-hand rule about the axis."},
	{.name = "axis",
		.type = STK_ARG_FLOATS,
		.flags = STK_PER_SAMPLE | STK_PER_FRAME,
		.offset = offsetof(struct rotate, axis),
		.min = -HUGE_VAL,
		.max = HUGE_VAL,
		.shapes = true,
		.doc = "Axis of the rotation, (x, y, z), of any length but 0. Volumes need it; for images it is ignored."},
	STK_ARG(struct rotate, keep_size, STK_ARG_BOOL, "false", STK_FREE, 0,
		"The output has the input's extents; false: it holds the whole rotated image."),
	STK_ARG_GROUP(struct rotate, warp, stk__warp_group),
	STK_ARG_END,
};

/* Sets *r to the rotation that maps positions in the output to positions in the input. Fails if a volume has no valid axis. */
static enum stk_status make_rotation(const struct rotate *a, int32_t ndim, struct stk_affine *r, struct stk_error *err)
{
	double angle = stk__canvas_radians(a->angle), axis[3];
	if (ndim == 2) {
		stk__affine_rotate_2d(r, angle);
		return STK_OK;
	}
	if (a->axis.count != 3)
		return stk__fail(
			err, STK_INVALID, a->axis.count < 0 ? "a volume is rotated about an axis: give axis" : "axis takes three values");
	for (int d = 0; d < 3; d++)
		axis[d] = (double)a->axis.v[d];
	if (!(axis[0] != 0 || axis[1] != 0 || axis[2] != 0))
		return stk__fail(err, STK_INVALID, "axis is 0 and has no direction; give one of another length");
	stk__affine_rotate_3d(r, axis, -angle);
	return STK_OK;
}

/* Sets the translation of *r so that it maps the output's centre to the input's. */
static void centre(struct stk_affine *r, const int64_t *in, const int64_t *out)
{
	for (int32_t i = 0; i < r->ndim; i++) {
		r->m[i][r->ndim] = (double)in[i] / 2;
		for (int32_t k = 0; k < r->ndim; k++)
			r->m[i][r->ndim] -= r->m[i][k] * (double)out[k] / 2;
	}
}

static enum stk_status rotate_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct rotate *a = call->args;
	struct stk_desc *desc = &call->out[0].desc;
	struct stk_warp_dims dims;
	struct stk_affine r;
	enum stk_status s = stk__warp_begin(call, &a->warp, &dims, err);
	if (s || !dims.count)
		return s;
	bool open = stk__varies(call, &a->angle) || stk__varies(call, &a->axis) || stk__varies(call, &a->warp.size);
	int64_t in[3], out[3];
	for (int32_t k = 0; k < dims.count; k++) {
		in[k] = call->in[0].desc.shape[dims.of.axis[k]];
		open |= in[k] < 0;
	}
	bool fits = !a->keep_size && a->warp.size.count <= 0;
	if (!open && (s = make_rotation(a, dims.count, &r, err)))
		return s;
	if (!open && fits)
		stk__canvas(&r, in, out);
	for (int32_t k = 0; k < dims.count && call->frame; k++) /* the canvas must hold all frames */
		out[k] = call->frame->shape[dims.of.axis[k]];
	for (int32_t k = 0; k < dims.count && fits; k++)
		desc->shape[dims.of.axis[k]] = open ? -1 : out[k];
	if (open)
		return STK_OK;
	for (int32_t k = 0; k < dims.count; k++)
		out[k] = desc->shape[dims.of.axis[k]];
	centre(&r, in, out);
	return stk__warp_end(call, &a->warp, &dims, &r, err);
}

static unsigned rotate_classify(const void *args, const struct stk_desc *in)
{
	return stk__warp_classify(&((const struct rotate *)args)->warp, in);
}

const struct stk_op_def stk__op_rotate = {
	.name = "rotate",
	.doc = "Rotates images, and volumes about an axis.\n\n"
	       "The output holds the whole rotated image, with its centre in the middle, unless keep_size or size say otherwise. Each "
	       "extent is then even or odd like the input's extent along the nearest axis. Volumes have the layout DHWC, and may have "
	       "leading frames.",
	.inputs = {1, 1},
	.layouts = STK_WARP_LAYOUTS,
	.tolerance = "Positions are float32, and DALI's differ in their last bits: floats and 16-bit integers differ by up to 1e-4 of the "
		     "range, and with NN one pixel in a thousand is a neighbour of DALI's.",
	.args = rotate_args,
	.args_size = sizeof(struct rotate),
	.flags = STK_OP_IMAGES,
	.state_size = sizeof(struct stk_warp_state),
	.classes = STK_CLASS_SAMPLER,
	.classify = rotate_classify,
	.infer = rotate_infer,
	.lower = stk__warp_lower,
	.lower_jobs = stk__warp_lower_jobs,
};
