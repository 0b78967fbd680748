/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/inspect.h"

#include "base/error.h"
#include "codec/codec.h"
#include "codec/foreign.h"

#include <string.h>

enum stk_status stk_image_inspect(const void *data, size_t bytes, struct stk_image_header *out, struct stk_error *err)
{
	const struct stk_codec_limits limits = {0};
	struct stk_image_info info;
	if (!data || !out || out->size < sizeof(*out))
		return stk__fail(err, STK_INVALID, "stk_image_inspect needs data, and a header whose size is set");
	info.codec = NULL;
	enum stk_status status = stk__image_peek(data, bytes, &limits, &info, err);
	out->partial = status == STK_CORRUPT && info.codec;
	if (status != STK_OK)
		return status;
	*out = (struct stk_image_header){.size = out->size,
		.format = info.format,
		.width = info.width,
		.height = info.height,
		.channels = info.channels,
		.bits = info.bits,
		.orientation = info.orientation,
		.progressive = info.progressive,
		.partial = info.partial};
	return STK_OK;
}

const char *stk_image_glob(size_t i)
{
	for (size_t k = 0; k < STK_IMAGE_GLOBS; k++) {
		if (stk_image_named(stk__image_globs[k]) && i-- == 0)
			return stk__image_globs[k];
	}
	return NULL;
}

const char *stk_video_glob(size_t i)
{
	return i < STK_VIDEO_GLOBS ? stk__video_globs[i] : NULL;
}

bool stk_image_named(const char *name)
{
	if (!name)
		return false;
	const char *dot = strrchr(name, '.');
	return dot && stk__image_ending(dot + 1, false);
}
