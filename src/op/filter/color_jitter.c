/* SPDX-License-Identifier: Apache-2.0
 * color_jitter and adjust_sharpness: colours and sharpness as Pillow changes them. */
#include "kernel/copy/copy.h"
#include "kernel/enhance/enhance.h"
#include "op/dims.h"

struct color_jitter {
	float brightness, contrast, saturation, hue;
	struct stk_floats order;
};

struct adjust_sharpness {
	float factor;
};

#define FACTORS (0, 0x1p24)
static const struct stk_arg_def color_jitter_args[] = {
	STK_ARG(struct color_jitter, brightness, STK_ARG_FLOAT, "1.0", FACTORS, STK_PER_SAMPLE, "Factor of all values."),
	STK_ARG(struct color_jitter, contrast, STK_ARG_FLOAT, "1.0", FACTORS, STK_PER_SAMPLE,
		"Factor of the values' distance from the mean luma of the image, which is rounded to a whole number."),
	STK_ARG(struct color_jitter, saturation, STK_ARG_FLOAT, "1.0", FACTORS, STK_PER_SAMPLE,
		"Factor of the values' distance from the luma of their pixel."),
	STK_ARG(struct color_jitter, hue, STK_ARG_FLOAT, "0.0", (-0.5, 0.5), STK_PER_SAMPLE,
		"Rotation of the hue in HSV, as a fraction of the circle."),
	STK_ARG(struct color_jitter, order, STK_ARG_FLOATS, "[0.0, 1.0, 2.0, 3.0]", STK_FREE, STK_PER_SAMPLE,
		"A number for each of the four, in the order above: the change with the smallest number is made first. Four draws from a "
		"range make a random order."),
	STK_ARG_END,
};

static const struct stk_arg_def adjust_sharpness_args[] = {
	STK_ARG(struct adjust_sharpness, factor, STK_ARG_FLOAT, NULL, FACTORS, STK_PER_SAMPLE | STK_REQUIRED,
		"0 gives the smoothed image, 1 the image itself, more than 1 a sharper one."),
	STK_ARG_END,
};

static enum stk_status bytes(const struct stk_call *call, const char *what, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	call->out[0].desc = *in;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8)
		return stk__fail(
			err, STK_UNSUPPORTED, "%s can only be changed in uint8 images, not in %s", what, stk_dtype_name(in->dtype));
	return STK_OK;
}

static enum stk_status color_jitter_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct color_jitter *a = call->args;
	struct stk_dims dims;
	int64_t channels;
	enum stk_status s = bytes(call, "the colour", err);
	if (s || (s = stk__dims_of_pixels(&call->in[0].desc, &dims, &channels, err)))
		return s;
	if (!stk__varies(call, &a->order) && a->order.count != 4)
		return stk__fail(err, STK_INVALID,
			"order takes a number for each of brightness, contrast, saturation and hue, which are 4, not %d", a->order.count);
	return STK_OK;
}

static void set_extents(const struct stk_desc *in, const struct stk_dims *dims, struct stk_enhance *e)
{
	struct stk_rows rows = stk__rows_of(dims, in);
	e->frames = rows.frames;
	e->height = rows.height;
	e->width = rows.width;
	e->channels = (int32_t)rows.channels;
}

static enum stk_status color_jitter_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct color_jitter *a = call->args;
	const float factors[] = {a->brightness, a->contrast, a->saturation};
	struct stk_enhance e = {0};
	struct stk_dims dims;
	enum stk_status s = stk__dims_of(&call->in[0].desc, &dims, err);
	if (s)
		return s;
	set_extents(&call->in[0].desc, &dims, &e);
	for (int32_t kind = 0; kind < STK_ENHANCE_STEPS; kind++) {
		bool hue = kind == STK_ENHANCE_HUE;
		if (hue ? a->hue == 0 || e.channels == 1 : factors[kind] == 1)
			continue;
		int32_t at = e.n++;
		for (; at > 0 && a->order.v[kind] < a->order.v[e.step[at - 1].kind]; at--)
			e.step[at] = e.step[at - 1];
		e.step[at] = (struct stk_enhance_step){kind, (int32_t)((double)a->hue * 255) & 255, hue ? 1 : factors[kind]};
	}
	return stk__job_enhance(jobs, &e, &call->in[0], &call->out[0], err);
}

static enum stk_status adjust_sharpness_infer(const struct stk_call *call, struct stk_error *err)
{
	struct stk_dims dims;
	enum stk_status s = bytes(call, "the sharpness", err);
	return s ? s : stk__dims_of_rows(&call->in[0].desc, &dims, err);
}

static enum stk_status adjust_sharpness_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct adjust_sharpness *a = call->args;
	struct stk_enhance e = {.n = 1, .step = {{.kind = STK_ENHANCE_SHARPNESS, .factor = a->factor}}};
	struct stk_dims dims;
	if (a->factor == 1)
		return stk__job_copy_all(jobs, &call->in[0], &call->out[0], false, err);
	enum stk_status s = stk__dims_of(&call->in[0].desc, &dims, err);
	if (s)
		return s;
	set_extents(&call->in[0].desc, &dims, &e);
	return stk__job_enhance(jobs, &e, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_color_jitter = {
	.name = "color_jitter",
	.doc = "Changes brightness, contrast, saturation and hue, in an order that may differ from sample to sample.\n\n"
	       "Images are of uint8, with 1 or 3 channels (RGB); grey ones have neither saturation nor hue. Results are those of "
	       "Pillow's ImageEnhance and of torchvision's functions on PIL images: each step cuts its values to whole numbers, and "
	       "contrast is about the mean luma after the earlier steps. Arguments that change nothing cost nothing.",
	.inputs = {1, 1},
	.layouts = "HW HWC FHW FHWC",
	.args = color_jitter_args,
	.args_size = sizeof(struct color_jitter),
	.flags = STK_OP_IMAGES,
	.infer = color_jitter_infer,
	.lower_jobs = color_jitter_lower_jobs,
};

const struct stk_op_def stk__op_adjust_sharpness = {
	.name = "adjust_sharpness",
	.doc = "Mixes images with smoothed versions of themselves.\n\n"
	       "Images are of uint8. A smoothed pixel is the weighted mean of the 3 x 3 pixels around it, in which it counts five "
	       "times itself; the outermost pixels do not change. Results are those of Pillow's ImageEnhance.Sharpness and "
	       "torchvision's adjust_sharpness on PIL images.",
	.inputs = {1, 1},
	.layouts = "HW HWC CHW FHW FHWC FCHW",
	.args = adjust_sharpness_args,
	.args_size = sizeof(struct adjust_sharpness),
	.flags = STK_OP_IMAGES,
	.infer = adjust_sharpness_infer,
	.lower_jobs = adjust_sharpness_lower_jobs,
};
