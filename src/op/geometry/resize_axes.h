/* SPDX-License-Identifier: Apache-2.0
 * Resampling along any dims of a tensor: resize uses it for volumes, tensor_resize for all tensors. */
#ifndef STK_OP_GEOMETRY_RESIZE_AXES_H
#define STK_OP_GEOMETRY_RESIZE_AXES_H

#include "kernel/resample/filter.h"
#include "kernel/resize/resize.h"
#include "op/geometry/resize_args.h"

/* The dims whose extents change, with their filters. infer stores this in call->state. */
struct stk_resize_axes {
	int32_t n, dims[STK_RESIZE_PHASES];
	struct stk_filter_axis axis[STK_RESIZE_PHASES];
};

/* The layouts of images, which passes take. */
#define STK_RESIZE_IMAGES "HWC CHW HW FHWC FCHW FHW"
bool stk__resize_is_image(const struct stk_desc *in);

/* Finds the dims of an image or volume that are resized, outermost first: D, H and W. Returns their number. */
int32_t stk__resize_dims(const struct stk_desc *in, int32_t dims[3]);

/* Lists the dims that change in *out, with their filters; none if the output is empty. x: extents of dims[0 .. x->n - 1] of a tensor, all known.
 * STK_UNSUPPORTED if more than STK_RESIZE_PHASES of them change; STK_LIMIT if an extent is above STK_PASS_MAX_EXTENT. */
enum stk_status stk__resize_axes(const struct stk_extents *x, const int32_t *dims, const struct stk_resize *filters,
	struct stk_resize_axes *out, struct stk_error *err);

/* Returns STK_UNSUPPORTED for types that are not resampled here. */
enum stk_status stk__resize_axes_type(enum stk_dtype dtype, struct stk_error *err);

enum stk_status stk__resize_axes_run(
	const struct stk_call *call, const struct stk_resize_axes *r, struct stk_jobs *jobs, struct stk_error *err);

#endif
