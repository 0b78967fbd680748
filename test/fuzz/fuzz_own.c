/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target of the decoders that call no other library: JPEG (baseline and progressive), BMP and PNM. MemorySanitizer can therefore track every byte: it
 * reports a branch or a pixel that depends on uninitialised memory. */
#include "base/cpu.h"
#include "codec/codec_impl.h"
#include "codec/jpeg_fast.h"
#include "codec/jpeg_header.h"
#include "codec/jpeg_progressive.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#if defined __has_feature
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#endif
#endif

enum { SLACK = 64, MAX_PIXELS = 1 << 20, MAX_SCANS = 20 };

static struct stk_arena scratch;
static struct stk_decoder decoder = {.limits = {.max_pixels = MAX_PIXELS, .max_scans = MAX_SCANS}, .scratch = &scratch};
static struct stk_jpeg_kernels kernels;
static struct stk_jpeg_fast *fast; /* created by the first input, never freed */

static enum stk_status decode_jpeg(const struct stk_decode *rq)
{
	struct stk_jpeg_header h;
	size_t end;
	if (stk__jpeg_header_parse(rq->data, rq->size, &h, NULL))
		return STK_CORRUPT;
	if (h.process == STK_JPEG_PROGRESSIVE)
		return stk__jpeg_progressive_decode(&kernels, &h, MAX_SCANS, rq, &scratch);
	return stk__jpeg_find_eoi(rq->data, rq->size, &h, &end) ? stk__jpeg_fast_decode(fast, &h, end, rq, &scratch) : STK_CORRUPT;
}

/* MemorySanitizer stops the program here if a pixel was not written, or depends on uninitialised memory. */
static void look_at(const uint8_t *pixels, size_t size)
{
#if defined __has_feature
#if __has_feature(memory_sanitizer)
	__msan_check_mem_is_initialized(pixels, size);
#endif
#endif
	static volatile uint8_t seen;
	for (size_t i = 0; i < size; i++)
		seen ^= pixels[i];
}

static void decode(const struct stk_codec *codec, struct stk_decode rq)
{
	int32_t channels = stk__image_channels(rq.info, rq.type);
	enum stk_dtype dtype = rq.info->bits == 16 ? STK_UINT16 : STK_UINT8;
	size_t size = (size_t)rq.window.w * (size_t)rq.window.h * (size_t)channels * stk_dtype_size(dtype);
	uint8_t *pixels = malloc(size); /* not initialised, so that MemorySanitizer notices pixels that are not written */
	if (!pixels)
		abort();
	struct stk_arena_mark mark = stk__arena_mark(&scratch);
	rq.dst = stk__image_hwc(pixels, dtype, rq.window.w, rq.window.h, channels);
	if ((codec == &stk__codec_jpeg ? decode_jpeg(&rq) : codec->decode(&decoder, &rq, NULL)) == STK_OK)
		look_at(pixels, size);
	stk__arena_release(&scratch, mark);
	free(pixels);
}

/* Decodes the whole image, and a window that depends on the input's size. */
static void decode_windows(const struct stk_codec *codec, const uint8_t *data, size_t size, const struct stk_image_info *info)
{
	struct stk_decode rq = {.data = data, .size = size, .info = info, .type = (enum stk_image_type)(size % 5), .denom = 1};
	int32_t x = (int32_t)(size % (size_t)info->width), y = (int32_t)(size / 3 % (size_t)info->height);
	rq.window = (struct stk_rect){0, 0, info->width, info->height};
	decode(codec, rq);
	rq.window = (struct stk_rect){x, y, 1 + (info->width - x) / 2, 1 + (info->height - y) / 2};
	rq.window.w = rq.window.w > info->width - x ? info->width - x : rq.window.w;
	rq.window.h = rq.window.h > info->height - y ? info->height - y : rq.window.h;
	decode(codec, rq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct stk_codec *const codecs[] = {&stk__codec_jpeg, &stk__codec_bmp, &stk__codec_pnm};
	if (!fast) {
		decoder.cpu = stk__cpu_capabilities();
		stk__jpeg_kernels_init(&kernels, decoder.cpu);
		fast = stk__jpeg_fast_create(&kernels);
		if (!fast)
			abort();
	}
	uint8_t *copy = calloc(1, size + SLACK);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
		struct stk_image_info info = {.codec = codecs[i], .format = codecs[i]->format};
		if (codecs[i]->probe(copy, size) && codecs[i]->peek(NULL, copy, size, &info, NULL) == STK_OK && info.width > 0 &&
			info.height > 0 && (int64_t)info.width * info.height <= MAX_PIXELS)
			decode_windows(codecs[i], copy, size, &info);
	}
	free(copy);
	return 0;
}
