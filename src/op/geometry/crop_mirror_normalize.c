/* SPDX-License-Identifier: Apache-2.0
 * crop_mirror_normalize: crops, mirrors, computes scale * (x - mean) / std + shift, and converts to the wanted type and layout, for images, volumes and
 * sequences. */
#include "op/geometry/window_args.h"

#include <stdio.h>
#include <string.h>

struct cmn {
	struct stk_window_args window;
	struct stk_bounds_args bounds;
	int64_t mirror;
	struct stk_floats mean, std;
	float scale, shift;
	int32_t dtype;
	const char *output_layout;
	bool pad_output;
};

struct cmn_state {
	struct stk_window window;
	struct stk_desc in;
	int32_t channels, padded; /* number of channels of the input, and of the output */
};

static const struct stk_arg_def cmn_args[] = {
	STK_ARG_GROUP(struct cmn, window, stk__window_group),
	STK_ARG_GROUP(struct cmn, bounds, stk__bounds_group),
	STK_ARG(struct cmn, mirror, STK_ARG_INT, "0", (0, 1), STK_PER_SAMPLE, "Mirror left and right."),
	STK_ARG(struct cmn, mean, STK_ARG_FLOATS, "[0.0]", STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"Subtracted, one value or one a channel, in the input's units (0..255 for uint8)."),
	STK_ARG(struct cmn, std, STK_ARG_FLOATS, "[1.0]", STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"Divisor, one value or one a channel, in the input's units."),
	STK_ARG(struct cmn, scale, STK_ARG_FLOAT, "1.0", STK_FREE, 0, "Factor that is applied after mean and std; for integer outputs."),
	STK_ARG(struct cmn, shift, STK_ARG_FLOAT, "0.0", STK_FREE, 0, "Added at the end; for unsigned outputs."),
	STK_ARG(struct cmn, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0,
		"float32, float16, bfloat16, uint8 or int8; integers are rounded and saturated."),
	{.name = "output_layout",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct cmn, output_layout),
		.fallback = "\"CHW\"",
		.doc = "Layout of the output, an order of the input's dims in which W follows H and frames and depth stay at their places; "
		       "empty: the input's. CHW and HWC leave frames in front. HWC is the layout for channels_last training, without a "
		       "transposition."},
	STK_ARG(struct cmn, pad_output, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Appends channels up to the next power of two (3 become 4), with the value 0 or the one in fill_values."),
	STK_ARG_END,
};

static int64_t next_power_of_2(int64_t n)
{
	int64_t p = 1;
	while (p < n)
		p *= 2;
	return p;
}

static enum stk_status check_values(const struct cmn *c, const struct cmn_state *s, struct stk_error *err)
{
	enum stk_status e = stk__check_per_channel("mean", c->mean, s->channels, err);
	if (e || (e = stk__check_per_channel("std", c->std, s->channels, err)))
		return e;
	for (int32_t k = 0; k < c->std.count; k++)
		if (c->std.v[k] == 0)
			return stk__fail(err, STK_INVALID, "std of channel %d is 0", k);
	const struct stk_floats *f = &c->bounds.fill_values;
	if (f->count != 1 && f->count != s->channels && f->count != s->padded)
		return stk__fail(
			err, STK_INVALID, "fill_values has %d values for %d channels: give one, or one a channel", f->count, s->padded);
	return STK_OK;
}

/* Computes *factor and *bias of channel k such that scale * (x - mean) / std + shift = *factor * x + *bias. */
static void factors_of(const struct cmn *c, int32_t k, float *factor, float *bias)
{
	double a = (double)c->scale / c->std.v[c->std.count == 1 ? 0 : k];
	*factor = (float)a;
	*bias = (float)(c->shift - c->mean.v[c->mean.count == 1 ? 0 : k] * a);
}

/* Returns the fill value of channel k; 0 by default. Appended channels get fill_values only if the window may reach outside the image, as in DALI. */
static float fill_of(const struct cmn *c, const struct cmn_state *s, int32_t k)
{
	const struct stk_floats *f = &c->bounds.fill_values;
	if (k >= s->channels && stk__bounds(&c->bounds) != STK_BOUNDS_PAD)
		return 0;
	return f->count == 1 ? f->v[0] : k < f->count ? f->v[k] : 0;
}

static enum stk_status check_dtype(const struct cmn *c, struct stk_error *err)
{
	switch (c->dtype) {
	case STK_FLOAT:
	case STK_FLOAT16:
	case STK_BFLOAT16:
	case STK_UINT8:
	case STK_INT8:
		return STK_OK;
	default:
		return stk__fail(err, STK_UNSUPPORTED,
			"dtype %s is not supported here; valid types are float32, float16, bfloat16, uint8, int8",
			stk_dtype_name((enum stk_dtype)c->dtype));
	}
}

/* Writes the output's layout to `order`: output_layout or, if that is empty, the input's layout. It must contain the input's dims, and C even if the image
 * has no such dim. A leading F is optional. Returns STK_UNSUPPORTED unless W follows H directly, and F and D come before H in the input's order. */
static enum stk_status order_of(
	const struct cmn *c, const struct stk_desc *in, const struct stk_dims *dims, char order[STK_MAX_DIMS + 2], struct stk_error *err)
{
	const char *from = stk__layout_of(in), *layout = c->output_layout, frames[] = "FD";
	size_t leading = strspn(from, "F");
	if (!layout[0])
		layout = from;
	if (layout[0] == 'F' && !strchr(from, 'F'))
		layout++;
	bool short_form = leading && !strchr(layout, 'F');
	snprintf(
		order, STK_MAX_DIMS + 2, "%.*s%s%s", short_form ? (int)leading : 0, from, layout, dims->c < 0 && layout == from ? "C" : "");
	size_t n = strlen(order), wanted_length = (size_t)in->ndim + (dims->c < 0);
	bool same = n == wanted_length;
	for (size_t i = 0; i < n && same; i++)
		same = (strchr(from, order[i]) || order[i] == 'C') && !strchr(order + i + 1, order[i]);
	if (!same)
		return stk__fail(err, STK_INVALID, "output_layout \"%s\" does not have the dims of \"%s\"%s", c->output_layout, from,
			dims->c < 0 ? " and C" : "");
	const char *h = strchr(order, 'H'), *rest = order + strcspn(order, frames);
	size_t together = strspn(from + strcspn(from, frames), frames);
	if (h[1] != 'W' || strchr(h, 'F') || strchr(h, 'D') || strspn(rest, frames) != together ||
		strncmp(rest, from + strcspn(from, frames), together) != 0)
		return stk__fail(
			err, STK_UNSUPPORTED, "output_layout \"%s\" of \"%s\" is not supported here; transpose the output", order, from);
	return STK_OK;
}

static void describe(const struct cmn *c, const struct stk_desc *in, const struct stk_dims *dims, const char *order,
	const struct cmn_state *s, struct stk_desc *out)
{
	*out = (struct stk_desc){.dtype = (enum stk_dtype)c->dtype, .ndim = (int32_t)strlen(order)};
	memcpy(out->layout, order, (size_t)out->ndim);
	for (int32_t k = 0; k < out->ndim; k++)
		out->shape[k] = order[k] == 'C'   ? s->padded
				: order[k] == 'H' ? s->window.extent[dims->h]
				: order[k] == 'W' ? s->window.extent[dims->w]
						  : s->window.extent[stk__layout_find(in, order[k])];
}

static enum stk_status check_depth(const struct cmn_state *s, struct stk_error *err)
{
	int32_t d = stk__window_depth(&s->in), f = stk__layout_find(&s->in, 'F');
	enum stk_status e = stk__window_within(&s->window, &s->in, d, err);
	if (e || d < 0 || s->in.shape[d] < 0 || s->window.extent[d] < 0)
		return e;
	if (f >= 0 && f != d && s->window.extent[d] < s->in.shape[d])
		return stk__fail(
			err, STK_UNSUPPORTED, "a window in the depth of volumes with frames is not supported here; crop them before");
	return STK_OK;
}

static enum stk_status cmn_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct cmn *c = call->args;
	struct cmn_state *s = call->state;
	struct stk_dims dims;
	s->in = call->in[0].desc;
	enum stk_status e = check_dtype(c, err);
	if (e || (e = stk__dims_of(&s->in, &dims, err)))
		return e;
	if (!dims.known) {
		call->out[0].desc = (struct stk_desc){.dtype = (enum stk_dtype)c->dtype, .ndim = -1};
		return STK_OK;
	}
	if ((e = stk__window_of_args(&c->window, &s->in, &s->window, err)) ||
		(e = stk__window_bound(&s->window, &s->in, stk__bounds(&c->bounds), err)))
		return e;
	int64_t channels = stk__dims_channels(&dims, &s->in);
	if (channels > STK_PASS_MAX_EXTENT)
		return stk__fail(
			err, STK_LIMIT, "an image of %lld channels; it may have up to %d", (long long)channels, STK_PASS_MAX_EXTENT);
	s->channels = s->padded = (int32_t)channels;
	if (s->channels >= 0) {
		s->padded = c->pad_output ? (int32_t)next_power_of_2(s->channels) : s->channels;
		if ((e = check_values(c, s, err)))
			return e;
	}
	char order[STK_MAX_DIMS + 2];
	if ((e = check_depth(s, err)) || (e = order_of(c, &s->in, &dims, order, err)))
		return e;
	describe(c, &s->in, &dims, order, s, &call->out[0].desc);
	return STK_OK;
}

static void cmn_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct cmn *c = call->args;
	const struct cmn_state *s = call->state;
	bool last = pass->plane + pass->c == s->channels; /* padded channels follow the input's last plane */
	float a[STK_PASS_MAX_CHANNELS], b[STK_PASS_MAX_CHANNELS], fill[STK_PASS_MAX_CHANNELS];
	for (int32_t k = 0; k < STK_PASS_MAX_CHANNELS && pass->plane + k < s->padded; k++) {
		fill[k] = fill_of(c, s, pass->plane + k);
		if (k < pass->c)
			factors_of(c, pass->plane + k, &a[k], &b[k]);
	}
	stk__pass_affine(pass, a, b, (enum stk_dtype)c->dtype);
	/* Fill values are not normalised, so the window is cut after the arithmetic. The pixels inside are the same in either order. */
	stk__window_fill(&s->window, &s->in, fill, pass);
	int32_t depth = stk__window_depth(&s->in);
	pass->first_frame += depth < 0 ? 0 : (int32_t)s->window.start[depth];
	stk__pass_mirror(pass, c->mirror, false);
	if (s->padded > s->channels && last)
		stk__pass_channels(pass, s->padded - pass->plane, fill);
}

static unsigned cmn_classify(const void *args, const struct stk_desc *in)
{
	const struct cmn *c = args;
	unsigned classes = STK_CLASS_WINDOW | STK_CLASS_POINTWISE;
	(void)in;
	return stk__bounds(&c->bounds) == STK_BOUNDS_PAD ? classes | STK_CLASS_FILL : classes;
}

const struct stk_op_def stk__op_crop_mirror_normalize = {
	.name = "crop_mirror_normalize",
	.doc = "Crops, mirrors and normalises images, and volumes slice by slice.\n\n"
	       "Outputs scale * (x - mean) / std + shift over the window, mirrored if asked. It usually ends a training pipeline: one "
	       "pass makes the type and\n"
	       "layout that the model takes. The arithmetic is one multiplication and one addition in float32 a value; the factors are "
	       "computed in double.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW DHWC CDHW DHW CFHW FDHWC CFDHW",
	.args = cmn_args,
	.args_size = sizeof(struct cmn),
	.flags = STK_OP_IMAGES,
	.state_size = sizeof(struct cmn_state),
	.classes = STK_CLASS_WINDOW | STK_CLASS_POINTWISE | STK_CLASS_FILL,
	.steps = 2,
	.classify = cmn_classify,
	.infer = cmn_infer,
	.lower = cmn_lower,
};
