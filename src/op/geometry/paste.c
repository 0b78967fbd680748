/* SPDX-License-Identifier: Apache-2.0
 * paste: puts an image on a larger canvas. */
#include "op/nd.h"

struct paste {
	struct stk_floats fill_value;
	float ratio, paste_x, paste_y, min_canvas_size;
	int64_t n_channels;
};

struct pasted {
	struct stk_window window;
	struct stk_desc in;
};

#define CANVAS(member, dflt, low, high, fl, text)                                                                                          \
	{                                                                                                                                  \
		.name = #member, .type = STK_ARG_FLOAT, .flags = STK_PER_SAMPLE | (fl), .offset = offsetof(struct paste, member),          \
		.fallback = dflt, .min = low, .max = high, .shapes = true, .doc = text                                                     \
	}

static const struct stk_arg_def paste_args[] = {
	STK_ARG(struct paste, fill_value, STK_ARG_FLOATS, NULL, (0, 255), STK_REQUIRED | STK_SCALAR_OK,
		"Colour of the canvas, from 0 to 255: one value, or one a channel."),
	CANVAS(ratio, NULL, 1, 0x1p24, STK_REQUIRED, "Extents of the canvas as multiples of the image's, cut to whole pixels; at least 1."),
	CANVAS(min_canvas_size, "0.0", 0, 0x1p24, 0, "Least height and width of the canvas, in pixels."),
	STK_ARG(struct paste, paste_x, STK_ARG_FLOAT, "0.5", (0, 1), STK_PER_SAMPLE,
		"Place of the image: 0 at the left edge of the canvas, 1 at its right."),
	STK_ARG(struct paste, paste_y, STK_ARG_FLOAT, "0.5", (0, 1), STK_PER_SAMPLE,
		"Place of the image: 0 at the top edge of the canvas, 1 at its bottom."),
	STK_ARG(struct paste, n_channels, STK_ARG_INT, "3", (1, 1024), 0, "Number of channels of the image."),
	STK_ARG_END,
};

static enum stk_status check_image(const struct paste *a, const struct stk_desc *in, const struct stk_dims *dims, struct stk_error *err)
{
	int64_t channels = stk__dims_channels(dims, in);
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8)
		return stk__fail(err, STK_UNSUPPORTED, "images must be of uint8 here, not %s; cast them, or use multi_paste",
			stk_dtype_name(in->dtype));
	if (in->ndim >= 0 && (in->ndim != 3 || dims->c != 2 || dims->h != 0))
		return stk__fail(err, STK_SHAPE, "the input must be an image of layout HWC; transpose it");
	if (channels >= 0 && channels != a->n_channels)
		return stk__fail(err, STK_SHAPE, "the image has %lld channels, and n_channels says %lld", (long long)channels,
			(long long)a->n_channels);
	return stk__check_per_channel("fill_value", a->fill_value, a->n_channels, err);
}

static enum stk_status paste_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct paste *a = call->args;
	struct pasted *p = call->state;
	struct stk_desc *out = &call->out[0].desc;
	struct stk_dims dims;
	p->in = *out = call->in[0].desc;
	enum stk_status s = stk__dims_of(&p->in, &dims, err);
	if (s || (s = check_image(a, &p->in, &dims, err)) || p->in.ndim < 0)
		return s;
	p->window = stk__window_full(&p->in);
	const float at[2] = {a->paste_y, a->paste_x};
	/* while the graph is built, the canvas's extents are unknown if these arguments vary */
	bool known = !stk__varies(call, &a->ratio) && !stk__varies(call, &a->min_canvas_size);
	for (int d = 0; d < 2; d++) {
		int64_t size = p->in.shape[d], canvas = size < 0 || !known ? -1 : (int64_t)(a->ratio * (float)size);
		if (canvas >= 0 && (float)canvas < a->min_canvas_size)
			canvas = (int64_t)a->min_canvas_size;
		canvas = canvas >= 0 && canvas < size ? size : canvas;
		p->window.extent[d] = out->shape[d] = canvas;
		p->window.start[d] = stk__building(call) ? 0 : -(int64_t)(at[d] * (float)(canvas - size));
	}
	return STK_OK;
}

static void paste_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct paste *a = call->args;
	const struct pasted *p = call->state;
	stk__window_lower(&p->window, &p->in, a->fill_value, pass);
}

static enum stk_status paste_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct paste *a = call->args;
	const struct pasted *p = call->state;
	return stk__window_copy(call, &p->window, a->fill_value, jobs, err);
}

const struct stk_op_def stk__op_paste = {
	.name = "paste",
	.doc = "Pastes images on larger canvases of one colour.\n\n"
	       "Images are uint8, with layout HWC; so is the output.",
	.inputs = {1, 1},
	.layouts = "HWC",
	.args = paste_args,
	.args_size = sizeof(struct paste),
	.flags = STK_OP_IMAGES,
	.state_size = sizeof(struct pasted),
	.classes = STK_CLASS_WINDOW | STK_CLASS_FILL,
	.infer = paste_infer,
	.lower_jobs = paste_lower_jobs,
	.lower = paste_lower,
};
