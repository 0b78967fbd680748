/* SPDX-License-Identifier: Apache-2.0
 * roi_random_crop: draws the position of a window of fixed shape that contains as much of a region as possible. */
#include "op/dims.h"

struct roi_random_crop {
	struct stk_ints crop_shape, in_shape, roi_start, roi_end, roi_shape;
	int64_t seed;
};

#define EXTENTS(member, low, fl, text)                                                                                                     \
	{                                                                                                                                  \
		.name = #member, .type = STK_ARG_INTS, .flags = STK_PER_SAMPLE | STK_SCALAR_OK | (fl),                                     \
		.offset = offsetof(struct roi_random_crop, member), .min = low, .max = 0x1p40, .shapes = (fl) != 0, .doc = text            \
	}

static const struct stk_arg_def roi_random_crop_args[] = {
	EXTENTS(crop_shape, 0, STK_REQUIRED, "Shape of the window: an extent for each dim."),
	EXTENTS(roi_start, -0x1p40, STK_REQUIRED, "Start of the region, one value a dim, or one for all."),
	EXTENTS(roi_end, -0x1p40, 0, "End of the region, one value a dim, or one for all; or give roi_shape."),
	EXTENTS(roi_shape, 0, 0, "Shape of the region, one value a dim, or one for all; or give roi_end."),
	EXTENTS(in_shape, 0, 0,
		"Shape of the tensor, inside which the region must lie and the window stays. Default: the shape of the input, or no limit."),
	STK_ARG(struct roi_random_crop, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_END,
};

static int64_t value(struct stk_ints v, int32_t d)
{
	return v.v[v.count == 1 ? 0 : d];
}

static enum stk_status check_count(const char *name, struct stk_ints v, int32_t n, struct stk_error *err)
{
	if (v.count >= 0 && v.count != 1 && v.count != n)
		return stk__fail(err, STK_INVALID, "%s has %d values and crop_shape %d: give one a dim", name, v.count, n);
	return STK_OK;
}

static enum stk_status check_args(const struct stk_call *call, struct stk_error *err)
{
	const struct roi_random_crop *a = call->args;
	bool end = a->roi_end.count >= 0 || stk__varies(call, &a->roi_end),
	     shape = a->roi_shape.count >= 0 || stk__varies(call, &a->roi_shape);
	if (end == shape)
		return stk__fail(err, STK_INVALID, "the region takes roi_end or roi_shape: give one of them");
	if (call->n_in && (a->in_shape.count >= 0 || stk__varies(call, &a->in_shape)))
		return stk__fail(err, STK_INVALID, "the shape is given twice, by an input and by in_shape: choose one");
	return STK_OK;
}

static enum stk_status roi_random_crop_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct roi_random_crop *a = call->args;
	int32_t n = a->crop_shape.count;
	enum stk_status s = check_args(call, err);
	call->out[0].desc = (struct stk_desc){STK_INT64, 1, {stk__varies(call, &a->crop_shape) ? -1 : n}, ""};
	if (s || (stk__building(call) && call->n_varying))
		return s;
	if (n < 1 || n > STK_MAX_DIMS)
		return stk__fail(err, STK_INVALID, "crop_shape has %d values; it takes one a dim, up to %d", n, STK_MAX_DIMS);
	if ((s = check_count("roi_start", a->roi_start, n, err)) || (s = check_count("roi_end", a->roi_end, n, err)) ||
		(s = check_count("roi_shape", a->roi_shape, n, err)) || (s = check_count("in_shape", a->in_shape, n, err)))
		return s;
	if (call->n_in && call->in[0].desc.ndim >= 0 && call->in[0].desc.ndim < n)
		return stk__fail(err, STK_SHAPE, "crop_shape has %d values, and the input %d dims", n, call->in[0].desc.ndim);
	return STK_OK;
}

static enum stk_status roi_random_crop_run(const struct stk_call *call, struct stk_error *err)
{
	const struct roi_random_crop *a = call->args;
	struct stk_random r = call->random;
	int64_t *out = call->out[0].data;
	for (int32_t d = 0; d < a->crop_shape.count; d++) {
		int64_t crop = a->crop_shape.v[d], start = value(a->roi_start, d);
		int64_t end = a->roi_end.count >= 0 ? value(a->roi_end, d) : start + value(a->roi_shape, d);
		int64_t low = end - start < crop ? end - crop : start, high = end - start < crop ? start : end - crop;
		bool bounded = call->n_in || a->in_shape.count >= 0;
		int64_t in = call->n_in ? call->in[0].desc.shape[d] : bounded ? value(a->in_shape, d) : 0;
		if (end < start)
			return stk__fail(err, STK_INVALID, "the region begins at %lld of dim %d and ends earlier, at %lld",
				(long long)start, d, (long long)end);
		if (bounded && (start < 0 || end > in || crop > in))
			return stk__fail(err, STK_SHAPE,
				"the region %lld .. %lld and a window of %lld must lie inside dim %d of the input, which is %lld long",
				(long long)start, (long long)end, (long long)crop, d, (long long)in);
		low = bounded && low < 0 ? 0 : low;
		high = bounded && high > in - crop ? in - crop : high;
		uint64_t among = (uint64_t)(high - low) + 1;
		out[d] = low + (int64_t)(among <= UINT32_MAX ? stk__random_below(&r, (uint32_t)among)
							     : (uint64_t)(stk__random_double(&r) * (double)among));
	}
	return STK_OK;
}

const struct stk_op_def stk__op_roi_random_crop = {
	.name = "roi_random_crop",
	.doc = "Draws the place of a window that contains as much of a region of interest as possible.\n\n"
	       "A window that is smaller than the region lies inside it; a larger one contains it. If the shape of the tensor is "
	       "given, the window also lies inside the tensor. The output is the window's start, int64, one value a dim, for slice.",
	.inputs = {0, 1},
	.args = roi_random_crop_args,
	.args_size = sizeof(struct roi_random_crop),
	.flags = STK_OP_RANDOM | STK_OP_DESCRIBES,
	.infer = roi_random_crop_infer,
	.run_cpu = roi_random_crop_run,
};
