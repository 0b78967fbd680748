/* SPDX-License-Identifier: Apache-2.0 */
#include "op/filter/spatial.h"

#include "kernel/filter/filter.h"

#include <string.h>

const char stk__filter_dtype_doc[] =
	"Type of the output: float32, or the input's (the default), to which values are rounded and saturated.";

enum stk_status stk__spatial_of(const struct stk_desc *desc, struct stk_spatial *out, struct stk_error *err)
{
	const char *layout = desc->layout;
	*out = (struct stk_spatial){0, desc->ndim};
	if (desc->ndim < 0)
		return STK_OK;
	if (layout[0]) {
		size_t leading = strspn(layout, "FC"), spatial = strcspn(layout + leading, "FC"),
		       trailing = strlen(layout) - leading - spatial;
		*out = (struct stk_spatial){(int32_t)leading, (int32_t)spatial};
		if (trailing > 1 || (trailing && layout[leading + spatial] != 'C') || (trailing && memchr(layout, 'C', leading)))
			return stk__fail(err, STK_SHAPE,
				"layout \"%s\" has frames or channels between spatial dims: transpose it, frames first, channels before or "
				"after the spatial dims",
				layout);
	}
	if (out->count < 1 || out->count > STK_FILTER_AXES)
		return stk__fail(err, STK_SHAPE,
			"the input must have 1 to 3 spatial dims, not %d (layout \"%s\"; without a layout all dims are spatial)",
			out->count, layout);
	return STK_OK;
}

void stk__spatial_filter(const struct stk_desc *in, const struct stk_desc *out, const struct stk_spatial *s, struct stk_filter *f)
{
	memset(f, 0, sizeof *f);
	f->outer = f->channels = f->n_terms = 1;
	for (int32_t d = 0; d < s->first; d++)
		f->outer *= in->shape[d];
	for (int32_t d = s->first + s->count; d < in->ndim; d++)
		f->channels *= (int32_t)in->shape[d];
	for (int a = 0; a < STK_FILTER_AXES; a++) {
		int32_t i = a - STK_FILTER_AXES + s->count;
		f->in[a] = i < 0 ? 1 : (int32_t)in->shape[s->first + i];
		f->out[a] = i < 0 ? 1 : (int32_t)(out ? out : in)->shape[s->first + i];
		for (int t = 0; t < STK_FILTER_TERMS; t++)
			f->window[t][a].size = 1;
	}
}

enum stk_status stk__check_per_axis(const char *name, int32_t count, const struct stk_spatial *s, struct stk_error *err)
{
	if (s->count >= 0 && count != 1 && count != s->count)
		return stk__fail(err, STK_INVALID, "%s has %d values for %d spatial dim%s: give one, or one for each", name, count,
			s->count, s->count == 1 ? "" : "s");
	return STK_OK;
}

enum stk_status stk__filter_dtype(int32_t dtype, enum stk_dtype in, enum stk_dtype *out, struct stk_error *err)
{
	*out = stk__dtype_or(dtype, in);
	if (in != STK_NO_DTYPE && *out != in && *out != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "a filter of %s gives %s or float32, not %s; cast its result", stk_dtype_name(in),
			stk_dtype_name(in), stk_dtype_name(*out));
	return STK_OK;
}
