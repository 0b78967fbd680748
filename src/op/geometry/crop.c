/* SPDX-License-Identifier: Apache-2.0
 * crop: cuts a window out of an image, a volume or a sequence. */
#include "op/geometry/window_args.h"

struct crop {
	struct stk_window_args window;
	struct stk_bounds_args bounds;
	int32_t dtype;
};

struct crop_state {
	struct stk_window window;
	struct stk_desc in;
};

static const struct stk_arg_def crop_args[] = {
	STK_ARG_GROUP(struct crop, window, stk__window_group),
	STK_ARG_GROUP(struct crop, bounds, stk__bounds_group),
	STK_ARG(struct crop, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output, to which values are rounded. Default: the input's."),
	STK_ARG_END,
};

static enum stk_status crop_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct crop *a = call->args;
	struct crop_state *s = call->state;
	s->in = call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	*out = s->in;
	out->dtype = stk__dtype_or(a->dtype, s->in.dtype);
	if (s->in.ndim < 0)
		return STK_OK;
	enum stk_status e = stk__window_of_args(&a->window, &s->in, &s->window, err);
	if (e || (e = stk__window_bound(&s->window, &s->in, stk__bounds(&a->bounds), err)))
		return e;
	if (stk__layout_find(&s->in, 'D') < 0 && (e = stk__window_within(&s->window, &s->in, stk__layout_find(&s->in, 'F'), err)))
		return e;
	for (int32_t d = 0; d < out->ndim; d++)
		out->shape[d] = s->window.extent[d];
	return stk__check_fill(a->bounds.fill_values, out, err);
}

static enum stk_status crop_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct crop *a = call->args;
	const struct crop_state *s = call->state;
	return stk__window_copy(call, &s->window, a->bounds.fill_values, jobs, err);
}

static void crop_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct crop *a = call->args;
	const struct crop_state *s = call->state;
	if (a->dtype >= 0 && a->dtype != pass->dtype)
		stk__pass_cast(pass, (enum stk_dtype)a->dtype);
	stk__window_lower(&s->window, &s->in, a->bounds.fill_values, pass);
	int32_t frames = stk__layout_find(&s->in, 'F');
	pass->first_frame += frames < 0 ? 0 : (int32_t)s->window.start[frames];
}

static unsigned crop_classify(const void *args, const struct stk_desc *in)
{
	const struct crop *a = args;
	return stk__window_classes(stk__bounds(&a->bounds) == STK_BOUNDS_PAD, in, a->dtype);
}

const struct stk_op_def stk__op_crop = {
	.name = "crop",
	.doc = "Crops images, volumes of layout DHWC, and sequences.\n\n"
	       "The window's extent is given in pixels by crop, or by crop_w and crop_h; its position as a fraction of the room that "
	       "the window leaves.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.args = crop_args,
	.args_size = sizeof(struct crop),
	/* without layout, a tensor of 4 dims is a volume, as for DALI's crop; other operators take it for a sequence */
	.flags = STK_OP_IMAGES | STK_OP_VOLUMES,
	.state_size = sizeof(struct crop_state),
	.classes = STK_CLASS_WINDOW | STK_CLASS_FILL | STK_CLASS_POINTWISE,
	.classify = crop_classify,
	.infer = crop_infer,
	.lower_jobs = crop_lower_jobs,
	.lower = crop_lower,
};
