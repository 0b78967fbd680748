/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/warp_args.h"

#include "kernel/common/border.h"
#include "kernel/convert/convert.h"
#include "kernel/sample/sample.h"

#include <string.h>

const struct stk_arg_def stk__warp_group[] = {
	{.name = "size",
		.type = STK_ARG_FLOATS,
		.flags = STK_PER_SAMPLE,
		.offset = offsetof(struct stk_warp_args, size),
		.min = 0,
		.max = 0x1p24,
		.shapes = true,
		.doc = "Extents of the output in pixels, rounded: (height, width), or (depth, height, width) for volumes. Default, and if "
		       "empty: see above."},
	STK_ARG(struct stk_warp_args, fill_value, STK_ARG_FLOAT, NULL, STK_FREE, 0,
		"Value outside the image, in the type of its pixels. Default: the nearest pixel of its edge."),
	STK_ARG(struct stk_warp_args, interp_type, STK_ARG_INTERP, "1", (0, 1), 0, "NN or LINEAR."),
	STK_ARG(struct stk_warp_args, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output: float32, or the input's (the default); for inputs of float32 any type, to which values are rounded."),
	STK_ARG_END,
};

enum stk_status stk__warp_dims(const struct stk_desc *desc, struct stk_warp_dims *out, struct stk_error *err)
{
	struct stk_dims dims;
	enum stk_status s = stk__dims_of(desc, &dims, err);
	int32_t depth = stk__layout_find(desc, 'D');
	*out = (struct stk_warp_dims){!dims.known ? 0 : depth < 0 ? 2 : 3, {{dims.w, dims.h, depth}, dims.c}};
	if (s || !dims.known)
		return s;
	int32_t first = dims.w < dims.h ? dims.w : dims.h, used = out->count + (dims.c >= 0);
	first = depth >= 0 && depth < first ? depth : first;
	first = dims.c >= 0 && dims.c < first ? dims.c : first;
	if (desc->ndim - first != used)
		return stk__fail(err, STK_SHAPE, "frames must come first in an image, as in FHWC and FCHW, not as in \"%s\"; transpose it",
			desc->layout);
	return STK_OK;
}

static enum stk_status output_type(const struct stk_warp_args *a, enum stk_dtype in, enum stk_dtype *out, struct stk_error *err)
{
	*out = stk__dtype_or(a->dtype, in);
	if (in != STK_NO_DTYPE && *out != in && *out != STK_FLOAT && in != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "a warp of %s gives %s or float32, not %s; cast its result", stk_dtype_name(in),
			stk_dtype_name(in), stk_dtype_name(*out));
	return STK_OK;
}

enum stk_status stk__warp_begin(
	const struct stk_call *call, const struct stk_warp_args *a, struct stk_warp_dims *dims, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	*out = *in;
	enum stk_status s = output_type(a, in->dtype, &out->dtype, err);
	if (s || (s = stk__warp_dims(in, dims, err)) || !dims->count || a->size.count <= 0)
		return s;
	if (a->size.count != dims->count)
		return stk__fail(err, STK_INVALID, "size has %d values; it takes %s", a->size.count,
			dims->count == 2 ? "(height, width)" : "(depth, height, width)");
	for (int32_t k = 0; k < dims->count; k++)
		out->shape[dims->of.axis[k]] = (int64_t)roundf(a->size.v[dims->count - 1 - k]);
	return STK_OK;
}

/* Returns the fill value rounded to the type of the input, since interpolation mixes it with the input's pixels as if it were one of them. */
static float fill_in(float value, enum stk_dtype dtype)
{
	uint64_t pixel;
	stk__convert(&pixel, dtype, &value, STK_FLOAT, 1);
	stk__convert(&value, STK_FLOAT, &pixel, dtype, 1);
	return value;
}

static enum stk_status check_extents(
	const struct stk_call *call, const struct stk_warp_args *a, const struct stk_warp_dims *dims, struct stk_error *err)
{
	static const char *const names[] = {"wide", "high", "deep"};
	bool empty = false;
	for (int32_t k = 0; k < dims->count; k++)
		empty |= call->out[0].desc.shape[dims->of.axis[k]] == 0;
	for (int32_t k = dims->count - 1; k >= 0; k--) {
		int64_t in = call->in[0].desc.shape[dims->of.axis[k]], out = call->out[0].desc.shape[dims->of.axis[k]];
		if (in == 0 && !empty)
			return stk__fail(err, STK_SHAPE,
				"there is nothing to warp: the image is 0 pixels %s, and the output %lld; an empty image may only keep its extents: "
				"leave out size, or give keep_size=True to rotate",
				names[k], (long long)out);
		if (out == 0 && (in != 0 || a->size.count > 0))
			return stk__fail(
				err, STK_SHAPE, "there is nothing to warp: the output is 0 pixels %s; size must be at least 1", names[k]);
		if (in > STK_PASS_MAX_EXTENT || out > STK_PASS_MAX_EXTENT)
			return stk__fail(err, STK_LIMIT, "the image has more than %d pixels along one side", STK_PASS_MAX_EXTENT);
	}
	return STK_OK;
}

enum stk_status stk__check_map(const float *m, int32_t count, struct stk_error *err)
{
	for (int32_t i = 0; i < count; i++)
		if (!isfinite(m[i]))
			return stk__fail(err, STK_INVALID,
				"the matrix, as a map from output to image, holds %g; it must hold finite float32 numbers", (double)m[i]);
	return STK_OK;
}

enum stk_status stk__warp_end(const struct stk_call *call, const struct stk_warp_args *a, const struct stk_warp_dims *dims,
	const struct stk_affine *map, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc, *out = &call->out[0].desc;
	struct stk_warp_state *w = call->state;
	enum stk_status s = check_extents(call, a, dims, err);
	if (s)
		return s;
	bool nearest = a->interp_type == STK_INTERP_NN, clamp = !stk__float_given(a->fill_value);
	w->dims = *dims;
	w->fill = clamp ? 0 : nearest ? a->fill_value : fill_in(a->fill_value, in->dtype);
	w->warp = (struct stk_warp){.interp = (uint8_t)a->interp_type, .clamp = clamp, .dtype = (uint8_t)out->dtype, .fill = w->fill};
	w->sample = (struct stk_job_sample){
		.map = STK_SAMPLE_AFFINE, .interp = a->interp_type, .border = clamp ? STK_BORDER_CLAMP : STK_BORDER_FILL};
	for (int32_t i = 0; i < dims->count; i++) {
		for (int32_t k = 0; k < dims->count; k++)
			w->sample.m[4 * i + k] = (float)map->m[i][k];
		w->sample.m[4 * i + 3] = (float)map->m[i][dims->count];
	}
	s = stk__check_map(w->sample.m, 12, err);
	if (s || dims->count == 3)
		return s;
	w->warp.out_w = (int32_t)out->shape[dims->of.axis[0]];
	w->warp.out_h = (int32_t)out->shape[dims->of.axis[1]];
	for (int32_t i = 0; i < 6; i++)
		w->warp.m[i] = (float)map->m[i / 3][i % 3];
	return STK_OK;
}

/* Returns the class of a sampler, or STK_CLASS_NEVER if a pass cannot handle the type of the input or of the output. An input of unknown type is assumed to
 * have a type that passes can handle; samples for which this turns out to be wrong are processed without a pass, by stk__warp_lower_jobs. */
unsigned stk__warp_classify(const struct stk_warp_args *a, const struct stk_desc *in)
{
	if (a->dtype >= 0 && !stk__dtype_in_float((enum stk_dtype)a->dtype))
		return STK_CLASS_NEVER;
	if (in && in->dtype != STK_NO_DTYPE && !stk__dtype_in_float(in->dtype))
		return STK_CLASS_NEVER;
	return STK_CLASS_SAMPLER;
}

void stk__warp_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct stk_warp_state *w = call->state;
	stk__pass_warp(pass, &w->warp);
}

enum stk_status stk__warp_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_warp_state *w = call->state;
	int64_t channels = w->dims.of.channel < 0 ? 1 : call->in[0].desc.shape[w->dims.of.channel];
	float *fill = stk__arena_take(call->tools->arena, (size_t)channels * sizeof *fill + 1);
	if (!fill)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	for (int64_t c = 0; c < channels; c++)
		fill[c] = w->fill;
	return stk__job_sample(jobs, &w->sample, &w->dims.of, fill, &call->in[0], &call->out[0], err);
}
