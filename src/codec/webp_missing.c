/* SPDX-License-Identifier: Apache-2.0
 * Replaces webp.c if libwebp's headers were not found: the files are recognised, and their error says what is missing. */
#include "codec/codec_impl.h"

#include <string.h>

static bool webp_probe(const uint8_t *data, size_t size)
{
	return size >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0;
}

static enum stk_status webp_peek(
	struct stk_decoder *decoder, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err)
{
	(void)decoder;
	(void)data;
	(void)size;
	(void)info;
	return stk__fail(err, STK_UNSUPPORTED,
		"a WebP: this build of stoker was made without libwebp; install its headers (Debian's libwebp-dev) and build again");
}

static const char *const endings[] = {"webp", NULL};

const struct stk_codec stk__codec_webp = {"webp", "WebP", endings, false, webp_probe, webp_peek, NULL};
