/* SPDX-License-Identifier: Apache-2.0 */
#include "sheet.h"

#include "files.h"

#include <errno.h>
#include <spng.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int encode(spng_ctx *png, const uint8_t *pixels, int32_t width, int32_t height)
{
	struct spng_ihdr header = {
		.width = (uint32_t)width, .height = (uint32_t)height, .bit_depth = 8, .color_type = SPNG_COLOR_TYPE_TRUECOLOR};
	int code = spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1);
	if (!code)
		code = spng_set_ihdr(png, &header);
	if (!code)
		code = spng_encode_image(png, pixels, (size_t)width * (size_t)height * 3, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
	return code;
}

bool write_png(const char *path, const uint8_t *pixels, int32_t width, int32_t height, char *text, size_t capacity)
{
	spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
	uint8_t *bytes = NULL;
	size_t size = 0;
	bool written = false;
	int code = png ? encode(png, pixels, width, height) : SPNG_EMEM;
	if (!code)
		bytes = spng_get_png_buffer(png, &size, &code);
	if (bytes) {
		written = write_file(path, bytes, size);
		describe_unwritten(path, errno, text, capacity);
	} else {
		snprintf(text, capacity, "%s: %s", path, spng_strerror(code));
	}
	free(bytes);
	spng_ctx_free(png);
	return written;
}
