/* SPDX-License-Identifier: Apache-2.0 */
#include "op/filter/morphology.h"

#include "kernel/common/border.h"
#include "kernel/filter/filter.h"

#include <string.h>

enum { MOST = 1 << 16 }; /* maximum extent of a window */

const struct stk_arg_def stk__morphology_args[] = {
	STK_ARG(struct stk_morphology, mask_size, STK_ARG_INTS, "[3, 3]", (1, MOST), STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"Width and height of the window in pixels; one value stands for both."),
	STK_ARG(struct stk_morphology, anchor, STK_ARG_INTS, "[-1, -1]", (-1, MOST), STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"The pixel of the window, x and y, that lies over the output's pixel. -1: the middle, rounded down."),
	STK_ARG(struct stk_morphology, iterations, STK_ARG_INT, "1", (1, MOST), 0,
		"Number of repetitions: each further one adds the window's extents less 1 to the window."),
	{.name = "border_mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_morphology, border_mode),
		.fallback = "\"constant\"",
		.choices = "constant|replicate|reflect|reflect_101|wrap",
		.doc = "Pixels outside the image: ignored, its outermost pixels (aaa|abcdef|fff), its mirror image with (cba|abcdef|fed) or "
		       "without them (dcb|abcdef|edc), or its other side (def|abcdef|abc)."},
	STK_ARG_END,
};

enum stk_status stk__planar_image(const struct stk_desc *in, struct stk_spatial *out, struct stk_error *err)
{
	struct stk_dims dims;
	enum stk_status s = stk__dims_of_rows(in, &dims, err);
	if (s == STK_OK && in->dtype != STK_NO_DTYPE && !stk__dtype_in_float(in->dtype))
		s = stk__fail(err, STK_UNSUPPORTED,
			"values must be of a type that float32 holds exactly (up to 16 bits, or float32), not "
			"%s",
			stk_dtype_name(in->dtype));
	if (s == STK_OK && dims.known && dims.w != dims.h + 1)
		s = stk__fail(err, STK_SHAPE, "in the layout \"%s\" W does not follow H directly; use transpose", in->layout);
	*out = (struct stk_spatial){dims.h, dims.known ? 2 : -1};
	return s;
}

/* Sets *out to the window along x (i is 0) or y (i is 1) that has the effect of all iterations. Fails if size or anchor is invalid, or the window too large. */
static enum stk_status window_of(const struct stk_morphology *a, int i, struct stk_filter_window *out, struct stk_error *err)
{
	int64_t size = stk__planar_size(a->mask_size, i), anchor = stk__planar_size(a->anchor, i);
	anchor = anchor == -1 ? size / 2 : anchor;
	if (size < 1 || anchor < 0 || anchor >= size)
		return stk__fail(err, STK_INVALID, "anchor %lld must lie in the window, whose %s is %lld", (long long)anchor,
			i ? "height" : "width", (long long)size);
	if ((size - 1) * a->iterations >= MOST)
		return stk__fail(err, STK_LIMIT, "%lld iterations make a window of more than %d pixels", (long long)a->iterations, MOST);
	*out = (struct stk_filter_window){
		.size = (int32_t)((size - 1) * a->iterations) + 1, .first = -(int32_t)(anchor * a->iterations), .weights = 0};
	return STK_OK;
}

enum stk_status stk__morphology_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_morphology *a = call->args;
	struct stk_spatial dims;
	struct stk_filter_window window;
	call->out[0].desc = call->in[0].desc;
	enum stk_status s = stk__planar_image(&call->in[0].desc, &dims, err);
	if (s || stk__varies(call, &a->mask_size) || stk__varies(call, &a->anchor))
		return s;
	if (a->mask_size.count < 1 || a->mask_size.count > 2 || a->anchor.count < 1 || a->anchor.count > 2)
		return stk__fail(err, STK_INVALID, "mask_size and anchor take a value for the width and one for the height, not %d and %d",
			a->mask_size.count, a->anchor.count);
	s = window_of(a, 0, &window, err);
	return s ? s : window_of(a, 1, &window, err);
}

static int border_of(const char *name)
{
	static const char *const names[] = {[STK_BORDER_FILL] = "constant",
		[STK_BORDER_CLAMP] = "replicate",
		[STK_BORDER_REFLECT] = "reflect",
		[STK_BORDER_REFLECT_101] = "reflect_101",
		[STK_BORDER_WRAP] = "wrap"};
	int k = 0;
	while (strcmp(names[k], name) != 0)
		k++;
	return k;
}

enum stk_status stk__morphology_lower(
	const struct stk_call *call, enum stk_filter_reduction reduction, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_morphology *a = call->args;
	struct stk_spatial dims;
	struct stk_filter f;
	enum stk_status s = stk__planar_image(&call->in[0].desc, &dims, err);
	if (s)
		return s;
	stk__spatial_filter(&call->in[0].desc, NULL, &dims, &f);
	f.reduction = (uint8_t)reduction;
	f.border = (uint8_t)border_of(a->border_mode);
	f.last = 1;
	f.fill = reduction == STK_FILTER_LEAST ? INFINITY : -INFINITY;
	if ((s = window_of(a, 0, &f.window[0][2], err)) || (s = window_of(a, 1, &f.window[0][1], err)))
		return s;
	return stk__job_filter(jobs, &f, NULL, 0, &call->in[0], &call->out[0], err);
}
