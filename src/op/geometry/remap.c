/* SPDX-License-Identifier: Apache-2.0
 * experimental.remap: reads each output pixel at the position in the image that two maps contain. */
#include "kernel/common/border.h"
#include "kernel/sample/sample.h"
#include "op/geometry/displace.h"

#include <string.h>

struct remap {
	int32_t interp;
	const char *pixel_origin;
	bool relative;
	struct stk_floats fill_value;
};

static const struct stk_arg_def remap_args[] = {
	STK_ARG(struct remap, interp, STK_ARG_INTERP, "1", (0, STK_INTERP_CUBIC), 0, "NN, LINEAR or CUBIC."),
	{.name = "pixel_origin",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct remap, pixel_origin),
		.fallback = "\"corner\"",
		.choices = "corner|center",
		.doc = "The point of the first pixel that has the coordinates (0, 0): its top left corner, or its centre, as in OpenCV."},
	STK_ARG(struct remap, relative, STK_ARG_BOOL, "false", STK_FREE, 0,
		"The maps hold the distance of each output pixel from its source, and pixel_origin has no effect."),
	STK_ARG(struct remap, fill_value, STK_ARG_FLOATS, "[0.0]", STK_FREE, STK_SCALAR_OK | STK_NAN,
		"Value outside the image: one, or one a channel."),
	STK_ARG_END,
};

/* h: the dim of a map's height, which the dim of its width follows; frames: 1 if the map has frames, else 0. */
struct map_dims {
	int32_t h, frames;
};

static enum stk_status read_map(const struct stk_desc *d, char which, struct map_dims *out, struct stk_error *err)
{
	if (d->dtype != STK_NO_DTYPE && d->dtype != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "map%c must be float32, not %s; cast it", which, stk_dtype_name(d->dtype));
	if (d->ndim < 0)
		return STK_OK;
	out->frames = d->layout[0] == 'F' || d->ndim == 4;
	out->h = out->frames;
	int32_t planes = d->ndim - out->frames;
	if ((planes != 2 && planes != 3) || (planes == 3 && d->shape[d->ndim - 1] >= 0 && d->shape[d->ndim - 1] != 1))
		return stk__fail(
			err, STK_SHAPE, "map%c must have one value a pixel, with layout HW or HWC, with leading frames or without", which);
	return STK_OK;
}

static enum stk_status check_image(const struct stk_desc *in, int32_t interp, struct stk_error *err)
{
	enum stk_status s = stk__check_sampled(in->dtype, interp, err);
	if (s)
		return s;
	const char *layout = stk__layout_of(in);
	if (in->ndim >= 0 && strcmp(layout, "HWC") != 0 && strcmp(layout, "FHWC") != 0 && strcmp(layout, "HW") != 0)
		return stk__fail(err, STK_SHAPE,
			"the input must be an image of layout HW, HWC or FHWC, not a tensor of %d dims%s%s%s; transpose it", in->ndim,
			in->layout[0] ? " and layout \"" : "", in->layout, in->layout[0] ? "\"" : "");
	return STK_OK;
}

/* Returns the dim of the image's height. Sets *channels to the image's number of channels. */
static int32_t height_of(const struct stk_desc *in, int64_t *channels)
{
	*channels = in->ndim == 2 ? 1 : in->shape[in->ndim - 1];
	return in->ndim == 4;
}

static enum stk_status remap_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc, *map = &call->in[1].desc, *other = &call->in[2].desc;
	struct stk_desc *out = &call->out[0].desc;
	const struct remap *a = call->args;
	struct map_dims x = {0}, y = {0};
	int64_t channels;
	*out = *in;
	enum stk_status s = check_image(in, a->interp, err);
	if (s || (s = read_map(map, 'x', &x, err)) || (s = read_map(other, 'y', &y, err)) || in->ndim < 0)
		return s;
	int32_t h = height_of(in, &channels);
	if (channels >= 0 && (s = stk__check_per_channel("fill_value", a->fill_value, channels, err)))
		return s;
	out->shape[h] = map->ndim < 0 ? -1 : map->shape[x.h];
	out->shape[h + 1] = map->ndim < 0 ? -1 : map->shape[x.h + 1];
	if (map->ndim < 0 || other->ndim < 0)
		return STK_OK;
	bool same = x.frames == y.frames;
	for (int32_t d = 0; same && d < x.h + 2; d++)
		same = map->shape[d] == other->shape[d] || map->shape[d] < 0 || other->shape[d] < 0;
	if (!same)
		return stk__fail(err, STK_SHAPE, "mapx and mapy must have the same shape");
	if (x.frames && (h == 0 || (map->shape[0] >= 0 && in->shape[0] >= 0 && map->shape[0] != in->shape[0])))
		return stk__fail(err, STK_SHAPE, "the maps have %lld frames, and the image %lld: give a map for each frame, or one for all",
			(long long)map->shape[0], h ? (long long)in->shape[0] : 1LL);
	for (int32_t d = h; d < h + 2 && !stk__building(call); d++)
		if (in->shape[d] == 0 && stk_desc_elements(out) > 0)
			return stk__fail(err, STK_SHAPE, "the image has no pixels");
	return STK_OK;
}

static enum stk_status remap_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct remap *a = call->args;
	const struct stk_desc *in = &call->in[0].desc, *map = &call->in[1].desc, *out = &call->out[0].desc;
	int64_t channels;
	int32_t h = height_of(in, &channels);
	struct map_dims x = {0};
	enum stk_status status = read_map(map, 'x', &x, err);
	if (status)
		return status;
	struct stk_job_sample s = {.map = STK_SAMPLE_MAPS,
		.border = STK_BORDER_FILL,
		.interp = a->interp,
		.m = {a->relative || a->pixel_origin[1] == 'e' ? 0.5f : 0, a->relative},
		.map_frame = x.frames ? out->shape[h] * out->shape[h + 1] : 0,
		.maps = {call->in[1].data, call->in[2].data}};
	float *fill = stk__channel_values(call, a->fill_value, channels);
	if (!fill)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	return stk__job_sample(
		jobs, &s, &(struct stk_sample_dims){{h + 1, h, -1}, in->ndim == 2 ? -1 : h + 2}, fill, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_remap = {
	.name = "experimental.remap",
	.doc = "Takes each output pixel from the place in the image that two maps give.\n\n"
	       "The output has the extents of mapx and mapy, the second and third input: float32, one value a pixel, with layout HW or "
	       "HWC. Its pixel (x, y) is the image's at (mapx(x, y), mapy(x, y)), in pixels; places outside the image give fill_value. "
	       "Images have the layout HW, HWC or FHWC and are uint8, uint16, int16 or float32, with NN of any type. A sequence takes "
	       "maps for each frame, with a leading dim, or one pair for all.",
	.inputs = {3, 3},
	.args = remap_args,
	.args_size = sizeof(struct remap),
	.flags = STK_OP_IMAGES,
	.infer = remap_infer,
	.lower_jobs = remap_lower_jobs,
};
