/* SPDX-License-Identifier: Apache-2.0
 * random_crop: cuts a window of fixed extent at a random position. */
#include "op/nd.h"

struct random_crop {
	struct stk_ints size, padding;
	struct stk_floats fill_values;
	const char *smaller;
	int64_t seed;
};

struct random_crop_state {
	struct stk_window window;
	struct stk_desc in;
};

static const struct stk_arg_def random_crop_args[] = {
	STK_ARG(struct random_crop, size, STK_ARG_INTS, NULL, (1, 0x1p24), STK_REQUIRED | STK_SCALAR_OK,
		"Height and width of the window, or one value for both."),
	STK_ARG(struct random_crop, padding, STK_ARG_INTS, "[0, 0, 0, 0]", (0, 0x1p24), STK_SCALAR_OK,
		"Pixels by which the window may reach outside of the image: left, top, right and bottom, or one value for all."),
	STK_ARG(struct random_crop, fill_values, STK_ARG_FLOATS, "[0.0]", STK_FREE, STK_SCALAR_OK | STK_INFINITE | STK_NAN,
		"Values outside the image, one or one a channel."),
	{.name = "smaller",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct random_crop, smaller),
		.fallback = "\"fill\"",
		.choices = "fill|error",
		.doc = "Decides whether an image that is smaller than the window, even with its padding, is filled up or fails."},
	STK_ARG(struct random_crop, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_END,
};

/* How far the window may reach outside of the image, along x and y. */
struct margins {
	int64_t before[2], after[2];
};

static struct margins margins_of(const struct random_crop *a)
{
	const int64_t *v = a->padding.v;
	if (a->padding.count == 1)
		return (struct margins){{v[0], v[0]}, {v[0], v[0]}};
	return (struct margins){{v[0], v[1]}, {v[2], v[3]}};
}

/* Returns how many positions a window of `extent` pixels can have along an axis of n pixels with its margins. A window that does not fit has one position, at
 * the start. */
static uint32_t position_count(const struct margins *m, int axis, int64_t n, int64_t extent)
{
	int64_t positions = m->before[axis] + n + m->after[axis] - extent + 1;
	return positions > 1 ? (uint32_t)positions : 1;
}

static enum stk_status check_room(const struct random_crop *a, const struct margins *m, int64_t h, int64_t w, struct stk_error *err)
{
	int64_t height = a->size.v[0], width = a->size.v[a->size.count - 1];
	int64_t rows = m->before[1] + h + m->after[1], columns = m->before[0] + w + m->after[0];
	if (a->smaller[0] == 'f' || (height <= rows && width <= columns))
		return STK_OK;
	return stk__fail(err, STK_SHAPE,
		"the window of %lld x %lld does not fit into an image of %lld x %lld with its padding; smaller=\"fill\" (pad_if_needed=True of "
		"transforms.RandomCrop) would fill it up, and a resize before the crop makes room",
		(long long)width, (long long)height, (long long)columns, (long long)rows);
}

static enum stk_status random_crop_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct random_crop *a = call->args;
	struct random_crop_state *s = call->state;
	struct stk_dims dims;
	if (a->size.count != 1 && a->size.count != 2)
		return stk__fail(err, STK_INVALID, "size has %d values; it takes (height, width) or one for both", a->size.count);
	if (a->padding.count != 1 && a->padding.count != 4)
		return stk__fail(
			err, STK_INVALID, "padding has %d values; it takes left, top, right and bottom, or one for all", a->padding.count);
	s->in = call->in[0].desc;
	call->out[0].desc = s->in;
	enum stk_status e = stk__dims_of(&s->in, &dims, err);
	if (e || !dims.known)
		return e;
	int64_t channels = stk__dims_channels(&dims, &s->in);
	if (a->fill_values.count != 1 && channels >= 0 && (e = stk__check_per_channel("fill_values", a->fill_values, channels, err)))
		return e;
	s->window = stk__window_full(&s->in);
	call->out[0].desc.shape[dims.h] = s->window.extent[dims.h] = a->size.v[0];
	call->out[0].desc.shape[dims.w] = s->window.extent[dims.w] = a->size.v[a->size.count - 1];
	if (stk__building(call))
		return STK_OK;
	const struct margins m = margins_of(a);
	if ((e = check_room(a, &m, s->in.shape[dims.h], s->in.shape[dims.w], err)))
		return e;
	const int32_t dim[2] = {dims.w, dims.h};
	struct stk_random random = call->random;
	for (int axis = 1; axis >= 0; axis--) { /* y is drawn first, as random_crop_recipe states too */
		int32_t d = dim[axis];
		s->window.start[d] =
			stk__random_below(&random, position_count(&m, axis, s->in.shape[d], s->window.extent[d])) - m.before[axis];
	}
	return STK_OK;
}

static void random_crop_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct random_crop *a = call->args;
	const struct random_crop_state *s = call->state;
	stk__window_lower(&s->window, &s->in, a->fill_values, pass);
}

static bool random_crop_recipe(const struct stk_call *call, struct stk_recipe *r)
{
	const struct random_crop *a = call->args;
	const struct random_crop_state *s = call->state;
	const struct margins m = margins_of(a);
	struct stk_dims dims;
	if (stk__dims_of(&s->in, &dims, NULL))
		return false;
	const int64_t w = s->window.extent[dims.w], h = s->window.extent[dims.h];
	const struct stk_recipe_window window = {.key = call->random.key,
		.w = (int32_t)w,
		.h = (int32_t)h,
		.before = {(int32_t)m.before[0], (int32_t)m.before[1]},
		.positions = {position_count(&m, 0, s->in.shape[dims.w], w), position_count(&m, 1, s->in.shape[dims.h], h)},
		.draw = {1, 0}};
	float fill[STK_PASS_MAX_CHANNELS];
	if (stk__per_channel("fill_values", a->fill_values, r->pass.c, fill, NULL))
		return false;
	return stk__recipe_window(r, &window, fill);
}

const struct stk_op_def stk__op_random_crop = {
	.name = "random_crop",
	.doc = "Crops a window of fixed extent at a random place.\n\n"
	       "All positions at which the window lies inside the image and its padding have the same chance. The part outside the image "
	       "is filled, even if\n"
	       "the window is larger than image and padding.",
	.inputs = {1, 1},
	.layouts = "HWC HW FHWC",
	.args = random_crop_args,
	.args_size = sizeof(struct random_crop),
	.state_size = sizeof(struct random_crop_state),
	.flags = STK_OP_IMAGES | STK_OP_RANDOM,
	.classes = STK_CLASS_WINDOW | STK_CLASS_FILL,
	.infer = random_crop_infer,
	.lower = random_crop_lower,
	.recipe = random_crop_recipe,
};
