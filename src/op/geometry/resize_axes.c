/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/resize_axes.h"

#include "kernel/copy/copy.h"
#include "kernel/resize/resize.h"

#include <string.h>

bool stk__resize_is_image(const struct stk_desc *in)
{
	const char *layout = stk__layout_of(in);
	size_t n = strlen(layout);
	for (const char *p = STK_RESIZE_IMAGES; *p; p += strcspn(p, " "), p += *p == ' ')
		if (strcspn(p, " ") == n && memcmp(p, layout, n) == 0)
			return true;
	return false;
}

int32_t stk__resize_dims(const struct stk_desc *in, int32_t dims[3])
{
	int32_t n = 0;
	for (int i = 0; i < 3; i++) {
		int32_t d = stk__layout_find(in, "DHW"[i]);
		if (d >= 0)
			dims[n++] = d;
	}
	return n;
}

enum stk_status stk__resize_axes_type(enum stk_dtype dtype, struct stk_error *err)
{
	if (dtype != STK_NO_DTYPE && !stk__dtype_in_float(dtype))
		return stk__fail(
			err, STK_UNSUPPORTED, "tensors of %s cannot be resized; cast them to float32 first", stk_dtype_name(dtype));
	return STK_OK;
}

enum stk_status stk__resize_axes(const struct stk_extents *x, const int32_t *dims, const struct stk_resize *filters,
	struct stk_resize_axes *out, struct stk_error *err)
{
	out->n = 0;
	for (int32_t d = 0; d < x->n; d++)
		if (x->out[d] == 0) /* the output is empty, so there is nothing to compute */
			return STK_OK;
	for (int32_t d = 0; d < x->n; d++) {
		if (x->out[d] == x->in[d] && x->begin[d] == 0 && x->end[d] == (float)x->in[d])
			continue;
		if (x->in[d] > STK_PASS_MAX_EXTENT)
			return stk__fail(err, STK_LIMIT, "a dim has the extent %lld; only dims of up to %d can be resized",
				(long long)x->in[d], STK_PASS_MAX_EXTENT);
		if (out->n == STK_RESIZE_PHASES)
			return stk__fail(err, STK_UNSUPPORTED,
				"more than %d dims change their extent or have a region: resize some of them first, and then the others",
				STK_RESIZE_PHASES);
		float extent = fabsf(x->end[d] - x->begin[d]);
		uint8_t filter = (float)x->out[d] < extent ? filters->min_filter : filters->mag_filter;
		out->dims[out->n] = dims[d];
		out->axis[out->n++] = stk__filter_axis(
			(enum stk_interp)filter, filters->antialias, filters->drop, (int32_t)x->in[d], x->out[d], x->begin[d], x->end[d]);
	}
	return STK_OK;
}

enum stk_status stk__resize_axes_run(
	const struct stk_call *call, const struct stk_resize_axes *r, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_tensor *in = &call->in[0], *out = &call->out[0];
	if (stk_desc_elements(&out->desc) == 0)
		return STK_OK;
	if (r->n == 0)
		return stk__job_copy_all(jobs, in, out, in->desc.dtype != out->desc.dtype, err);
	return stk__job_resize(jobs, r->axis, r->dims, r->n, in, out, err);
}
