/* SPDX-License-Identifier: Apache-2.0 */
#include "op/dims.h"

#include <string.h>

const char *stk__layout_of(const struct stk_desc *desc)
{
	static const char *const by_ndim[] = {"", "", "HW", "HWC", "FHWC", "FDHWC"};
	if (desc->layout[0])
		return desc->layout;
	return desc->ndim >= 0 && desc->ndim <= 5 ? by_ndim[desc->ndim] : "";
}

void stk__layout_name(const struct stk_op_def *def, struct stk_desc *desc)
{
	if ((def->flags & STK_OP_IMAGES) && !desc->layout[0])
		strcpy(desc->layout, (def->flags & STK_OP_VOLUMES) && desc->ndim == 4 ? "DHWC" : stk__layout_of(desc));
}

int32_t stk__layout_find(const struct stk_desc *desc, char name)
{
	const char *layout = stk__layout_of(desc), *at = name ? strchr(layout, name) : NULL;
	return at ? (int32_t)(at - layout) : -1;
}

const char *stk__decode_first(const struct stk_desc *desc)
{
	return desc->ndim == 1 && desc->dtype == STK_UINT8 ? "; the bytes of a file are decoded first, by decoders.image" : "";
}

enum stk_status stk__dims_of(const struct stk_desc *desc, struct stk_dims *out, struct stk_error *err)
{
	*out = (struct stk_dims){-1, -1, -1, desc->ndim >= 0};
	if (!out->known)
		return STK_OK;
	out->h = stk__layout_find(desc, 'H');
	out->w = stk__layout_find(desc, 'W');
	out->c = stk__layout_find(desc, 'C');
	if (out->h >= 0 && out->w >= 0 && (int32_t)strlen(stk__layout_of(desc)) == desc->ndim)
		return STK_OK;
	if (desc->layout[0])
		return stk__fail(err, STK_SHAPE,
			"the input must be an image (HWC, CHW or HW, with leading frames), not a tensor of layout \"%s\"", desc->layout);
	return stk__fail(err, STK_SHAPE,
		"the input must be an image (HWC, CHW or HW, with leading frames), not a tensor of %d dim%s without layout%s", desc->ndim,
		desc->ndim == 1 ? "" : "s", stk__decode_first(desc));
}

enum stk_status stk__dims_of_rows(const struct stk_desc *desc, struct stk_dims *out, struct stk_error *err)
{
	enum stk_status s = stk__dims_of(desc, out, err);
	if (!s && out->known && out->w != out->h + 1)
		return stk__fail(err, STK_SHAPE,
			"the width must follow the height, as in HWC and CHW, not as in \"%s\"; transpose the image", desc->layout);
	return s;
}

/* Returns the product of extents begin .. end - 1, or INT32_MAX if it is larger; -1 if one of them is not known. */
static int64_t product(const struct stk_desc *desc, int32_t begin, int32_t end)
{
	int64_t n = 1;
	for (int32_t d = begin; d < end && n >= 0; d++)
		n = desc->shape[d] < 0 ? -1 : n && desc->shape[d] > INT32_MAX / n ? INT32_MAX : n * desc->shape[d];
	return n;
}

struct stk_rows stk__rows_of(const struct stk_dims *d, const struct stk_desc *desc)
{
	if (!d->known)
		return (struct stk_rows){.frames = -1, .channels = -1, .height = -1, .width = -1};
	return (struct stk_rows){.frames = product(desc, 0, d->h),
		.channels = product(desc, d->w + 1, desc->ndim),
		.height = (int32_t)desc->shape[d->h],
		.width = (int32_t)desc->shape[d->w]};
}

enum stk_status stk__dims_of_pixels(const struct stk_desc *desc, struct stk_dims *out, int64_t *channels, struct stk_error *err)
{
	enum stk_status s = stk__dims_of_rows(desc, out, err);
	if (s)
		return s;
	if (out->known && out->c >= 0 && out->c != out->w + 1)
		return stk__fail(err, STK_SHAPE,
			"the channels of a pixel must lie together, as in HWC, not as in \"%s\"; transpose the image",
			stk__layout_of(desc));
	*channels = stk__rows_of(out, desc).channels;
	if (*channels >= 0 && *channels != 1 && *channels != 3)
		return stk__fail(err, STK_SHAPE, "images have 1 or 3 channels here, not %lld", (long long)*channels);
	return STK_OK;
}

enum stk_status stk__check_per_channel(const char *name, struct stk_floats values, int64_t n, struct stk_error *err)
{
	if (values.count != 1 && values.count != n)
		return stk__fail(err, STK_INVALID, "%s has %d values for %lld channels: give one, or one a channel", name, values.count,
			(long long)n);
	return STK_OK;
}

enum stk_status stk__per_channel(const char *name, struct stk_floats values, int64_t n, float *out, struct stk_error *err)
{
	if (n > STK_PASS_MAX_CHANNELS)
		return stk__fail(err, STK_UNSUPPORTED, "images of %lld channels are not supported here; the most is %d", (long long)n,
			STK_PASS_MAX_CHANNELS);
	enum stk_status s = stk__check_per_channel(name, values, n, err);
	if (s)
		return s;
	for (int64_t c = 0; c < n; c++)
		out[c] = values.v[values.count == 1 ? 0 : c];
	return STK_OK;
}

enum stk_status stk__check_matrix(const char *name, struct stk_ints shape, int64_t rows, int64_t columns, struct stk_error *err)
{
	if (shape.count < 2 || (shape.count == 2 && shape.v[1] == columns && (rows < 0 || shape.v[0] == rows)))
		return STK_OK;
	if (shape.count > 2)
		return stk__fail(err, STK_SHAPE, "%s must be a matrix, and this tensor has %d dims", name, shape.count);
	if (rows < 0)
		return stk__fail(err, STK_SHAPE, "%s is a tensor of %lld x %lld values; it takes rows of %lld", name, (long long)shape.v[0],
			(long long)shape.v[1], (long long)columns);
	return stk__fail(err, STK_SHAPE, "%s is a tensor of %lld x %lld values; it takes %lld x %lld", name, (long long)shape.v[0],
		(long long)shape.v[1], (long long)rows, (long long)columns);
}

bool stk__dtype_whole(enum stk_dtype dtype)
{
	return dtype != STK_FLOAT16 && dtype != STK_BFLOAT16 && dtype != STK_FLOAT && dtype != STK_FLOAT64;
}
