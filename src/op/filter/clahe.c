/* SPDX-License-Identifier: Apache-2.0
 * clahe: contrast limited adaptive histogram equalization. */
#include "kernel/equalize/equalize.h"
#include "op/dims.h"

struct clahe {
	int64_t tiles_x, tiles_y, bins;
	float clip_limit;
	bool luma_only;
};

static const struct stk_arg_def clahe_args[] = {
	STK_ARG(struct clahe, tiles_x, STK_ARG_INT, NULL, (1, 1 << 16), STK_REQUIRED, "Number of tiles along the width, for example 8."),
	STK_ARG(struct clahe, tiles_y, STK_ARG_INT, NULL, (1, 1 << 16), STK_REQUIRED, "Number of tiles along the height."),
	STK_ARG(struct clahe, clip_limit, STK_ARG_FLOAT, NULL, STK_FREE, STK_REQUIRED,
		"The largest count of a value in a tile, in units of the mean count, tile_area / 256, for example 1.5 to 4; the higher, the "
		"more contrast and noise. 0 or less: no limit."),
	STK_ARG(struct clahe, luma_only, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Equalises only the lightness (L of L*a*b*) of images in RGB, so that colours stay; false: equalises each channel."),
	STK_ARG(struct clahe, bins, STK_ARG_INT, "256", (1, 1 << 16), STK_ACCEPTED,
		"Accepted and ignored: histograms have a bin for each of the 256 values, as on DALI's CPU."),
	STK_ARG_END,
};

static enum stk_status clahe_setup(const void *args, void **shared, struct stk_error *err)
{
	(void)args;
	struct stk_lab_tables *t = stk__alloc(sizeof *t);
	if (!t)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the tables of L*a*b*");
	stk__lab_tables_init(t);
	*shared = t;
	return STK_OK;
}

static enum stk_status clahe_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	call->out[0].desc = *in;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8)
		return stk__fail(err, STK_UNSUPPORTED, "clahe is for uint8 images, not for %s", stk_dtype_name(in->dtype));
	if (in->ndim < 0)
		return STK_OK;
	if (in->ndim != 3 || stk__layout_find(in, 'C') != 2)
		return stk__fail(
			err, STK_SHAPE, "clahe takes images of layout HWC, not tensors of %d dims (layout \"%s\")", in->ndim, in->layout);
	if (in->shape[2] >= 0 && in->shape[2] != 1 && in->shape[2] != 3)
		return stk__fail(err, STK_SHAPE, "the image must have 1 channel, or 3 in RGB, not %lld", (long long)in->shape[2]);
	return STK_OK;
}

static enum stk_status clahe_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct clahe *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_equalize e = {
		.outer = 1, .height = (int32_t)in->shape[0], .width = (int32_t)in->shape[1], .channels = (int32_t)in->shape[2]};
	e.lightness = a->luma_only && e.channels == 3;
	stk__equalize_tiles(&e, (int32_t)a->tiles_x, (int32_t)a->tiles_y, a->clip_limit);
	return stk__job_equalize(jobs, &e, e.lightness ? call->shared : NULL, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_clahe = {
	.name = "clahe",
	.doc = "Equalises the histograms of an image's tiles (CLAHE), which raises the contrast of parts that have little.\n\n"
	       "Images are of uint8, HWC, with one channel or three in RGB. Each tile has a histogram, whose counts are limited so "
	       "that noise is not raised; each pixel is interpolated between the tables of the four nearest tiles. Results are those "
	       "of OpenCV.",
	.inputs = {1, 1},
	.layouts = "HWC",
	.args = clahe_args,
	.args_size = sizeof(struct clahe),
	.flags = STK_OP_IMAGES,
	.setup = clahe_setup,
	.teardown = stk__free,
	.infer = clahe_infer,
	.lower_jobs = clahe_lower_jobs,
};
