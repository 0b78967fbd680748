/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target of the image decoders: reads the header, then decodes the whole image and a window with our decoders and with libjpeg-turbo, which must agree.
 * libFuzzer calls it; without libFuzzer, replay.c runs it over files. */
#include "base/cpu.h"
#include "codec/codec.h"
#include "fuzz.h"
#include "fuzz_images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PIXELS = 1 << 20 };

static const struct stk_codec_limits strict = {.max_pixels = MAX_PIXELS, .max_scans = 20},
				     lenient = {.max_pixels = MAX_PIXELS, .max_scans = 20, .lenient = true};

/* Indexed by [lenient][libjpeg-turbo]. The first input creates them; they are never freed. */
static struct stk_decoder *decoders[2][2];
static struct stk_arena scratch; /* shared by all decoders */

static void make_decoders(void)
{
	for (int turbo = 0; turbo < 2; turbo++) {
		setenv("STOKER_JPEG", turbo ? "libjpeg-turbo" : "stoker", 1);
		for (int l = 0; l < 2; l++)
			if (stk__decoder_create(l ? &lenient : &strict, stk__cpu_capabilities(), &scratch, &decoders[l][turbo], NULL))
				abort();
	}
	unsetenv("STOKER_JPEG");
}

static void complain(const char *what, const struct stk_decode *rq, const struct stk_error *a, const struct stk_error *b)
{
	fprintf(stderr, "%s: type %d, 1/%d, window %d %d %d %d; ours \"%s\", libjpeg-turbo's \"%s\"\n", what, rq->type, rq->denom,
		rq->window.x, rq->window.y, rq->window.w, rq->window.h, a->message, b->message);
	abort();
}

static void decode_both(struct stk_decode rq, bool is_lenient, bool whole)
{
	struct stk_error err[2] = {{0}, {0}};
	enum stk_status status[2];
	uint8_t *pixels[2];
	int channels = stk__image_channels(rq.info, rq.type);
	enum stk_dtype dtype = rq.window.w & 1 ? rq.info->dtype : STK_UINT8;
	size_t size = (size_t)rq.window.w * (size_t)rq.window.h * (size_t)channels * stk_dtype_size(dtype);
	for (int turbo = 0; turbo < 2; turbo++) {
		pixels[turbo] = calloc(1, size); /* has exactly the image's size, so that sanitizers detect a write outside of it */
		if (!pixels[turbo])
			abort();
		rq.dst = stk__image_hwc(pixels[turbo], dtype, rq.window.w, rq.window.h, channels);
		scratch.peak = 0;
		status[turbo] = stk__image_decode(decoders[is_lenient][turbo], &rq, &err[turbo]);
		if (scratch.peak > stk__image_memory(&rq) + rq.info->optional_memory)
			complain("it takes more memory than its header tells", &rq, &err[0], &err[1]);
	}
	/* Our decoder reads the scans of a progressive image down to the window's last row, libjpeg-turbo down to the image's last row. So libjpeg-turbo
	 * may find more damage. */
	bool unseen = rq.info->progressive && !whole && !status[0] && status[1];
	if (status[0] != status[1] && !unseen)
		complain("the verdicts differ", &rq, &err[0], &err[1]);
	if (FUZZ_COMPARES_PIXELS && !status[0] && !unseen && memcmp(pixels[0], pixels[1], size))
		complain("the pixels differ", &rq, &err[0], &err[1]);
	free(pixels[0]);
	free(pixels[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_image_info info;
	if (!decoders[0][0])
		make_decoders();
	uint8_t *copy = calloc(1, size + FUZZ_SLACK);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (stk__image_peek(copy, size, &strict, &info, NULL) == STK_OK) {
		struct stk_decode rq = {
			.data = copy, .size = size, .info = &info, .type = (enum stk_image_type)(size % 5), .orient = size & 1};
		int32_t width, height;
		uint32_t hash = fuzz_hash(data, size);
		rq.denom = strcmp(info.format, "jpeg") == 0 ? 1 << (hash >> 20) % 4 : 1;
		stk__image_extent(&info, rq.orient, &width, &height);
		width = stk__image_scaled(width, rq.denom);
		height = stk__image_scaled(height, rq.denom);
		for (int l = 0; l < 2; l++) {
			rq.window = (struct stk_rect){0, 0, width, height};
			decode_both(rq, l, true);
			rq.window = fuzz_window(hash, width, height);
			decode_both(rq, l, false);
		}
	}
	free(copy);
	return 0;
}
