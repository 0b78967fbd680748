/* SPDX-License-Identifier: Apache-2.0
 * debayer: reconstructs colour images from a sensor with a Bayer filter. */
#include "kernel/debayer/debayer.h"
#include "op/dims.h"

#include <string.h>

struct debayer {
	struct stk_ints blue_position;
	const char *algorithm;
};

static const struct stk_arg_def debayer_args[] = {
	STK_ARG(struct debayer, blue_position, STK_ARG_INTS, NULL, (0, 1), STK_REQUIRED | STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"Row and column of the blue pixel, 0 or 1 each, in the tile of 2x2 pixels that begins in the second row and column of the "
		"image (as OpenCV names patterns): (0, 0) is BG, (0, 1) GB, (1, 0) GR and (1, 1) RG."),
	{.name = "algorithm",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct debayer, algorithm),
		.fallback = "\"bilinear_ocv\"",
		.choices = "bilinear_ocv|edgeaware_ocv|gray_ocv",
		.doc = "bilinear_ocv: the mean of the nearest pixels of a colour. edgeaware_ocv: green along the direction that changes "
		       "less. gray_ocv: the luma of bilinear_ocv, one channel. The same on the CPU and the GPU; DALI's vng_ocv and, on a GPU, "
		       "default_npp are not supported."},
	STK_ARG_END,
};

static bool gray(const struct debayer *a)
{
	return strcmp(a->algorithm, "gray_ocv") == 0;
}

/* Returns the row (i is 0) or the column (i is 1) in the argument blue_position. */
static int64_t position(const struct debayer *a, int i)
{
	return a->blue_position.v[a->blue_position.count == 1 ? 0 : i];
}

static enum stk_status check_position(const struct debayer *a, struct stk_error *err)
{
	if (a->blue_position.count != 1 && a->blue_position.count != 2)
		return stk__fail(err, STK_INVALID, "blue_position takes a row and a column, not %d values", a->blue_position.count);
	for (int i = 0; i < 2; i++)
		if (position(a, i) < 0 || position(a, i) > 1)
			return stk__fail(err, STK_INVALID,
				"blue_position must be a row and a column of a tile of 2x2 pixels, 0 or 1 each, not %lld",
				(long long)position(a, i));
	return STK_OK;
}

static enum stk_status debayer_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct debayer *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	struct stk_dims dims;
	*out = *in;
	enum stk_status s = stk__varies(call, &a->blue_position) ? STK_OK : check_position(a, err);
	if (s || (s = stk__dims_of(in, &dims, err)) || !dims.known)
		return s;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8 && in->dtype != STK_UINT16)
		return stk__fail(err, STK_UNSUPPORTED, "debayer takes images of uint8 and uint16, not of %s", stk_dtype_name(in->dtype));
	if (dims.w != dims.h + 1 || (dims.c >= 0 && (dims.c != in->ndim - 1 || (in->shape[dims.c] >= 0 && in->shape[dims.c] != 1))))
		return stk__fail(err, STK_SHAPE, "the input must be an image of one channel (HW, or HWC with 1 channel; also with frames)");
	for (int32_t d = dims.h; d <= dims.w; d++)
		if (in->shape[d] > 0 && in->shape[d] % 2)
			return stk__fail(
				err, STK_SHAPE, "height and width must be even, not %lld: crop the image", (long long)in->shape[d]);
	out->ndim = dims.w + 2;
	out->shape[dims.w + 1] = gray(a) ? 1 : 3;
	if (in->layout[0] && dims.c < 0)
		strcat(out->layout, "C");
	return STK_OK;
}

static enum stk_status debayer_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct debayer *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_dims dims;
	enum stk_status s = check_position(a, err);
	if (s || (s = stk__dims_of(in, &dims, err)))
		return s;
	struct stk_debayer b = {.width = (int32_t)in->shape[dims.w],
		.height = (int32_t)in->shape[dims.h],
		.method = gray(a)                                      ? STK_DEBAYER_GRAY
			  : strcmp(a->algorithm, "edgeaware_ocv") == 0 ? STK_DEBAYER_EDGES
								       : STK_DEBAYER_BILINEAR,
		.blue_y = (int32_t)position(a, 0),
		.blue_x = (int32_t)position(a, 1),
		.wide = in->dtype == STK_UINT16};
	return stk__job_debayer(jobs, &b, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_debayer = {
	.name = "debayer",
	.alias = "experimental.debayer",
	.doc = "Makes RGB images from the raw images of a sensor with a Bayer filter.\n\n"
	       "Images are of uint8 or uint16, with one channel; outputs have three (HWC), or one with gray_ocv. The missing colours "
	       "of a pixel are the mean of its neighbours; the outermost pixels repeat the ones next to them. Results are those of "
	       "OpenCV.",
	.inputs = {1, 1},
	.layouts = "HW HWC FHW FHWC",
	.args = debayer_args,
	.args_size = sizeof(struct debayer),
	.flags = STK_OP_IMAGES,
	.infer = debayer_infer,
	.lower_jobs = debayer_lower_jobs,
};
