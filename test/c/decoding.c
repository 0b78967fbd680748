/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "decoding.h"

#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

struct stk_decoder *test_decoder(const struct stk_codec_limits *limits)
{
	static struct stk_arena scratch; /* shared by all decoders, which run one after the other */
	struct stk_decoder *d;
	assert_int_equal(stk__decoder_create(limits, stk__cpu_capabilities(), &scratch, &d, NULL), STK_OK);
	return d;
}

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

uint8_t *test_decode(struct stk_decoder *d, struct test_file f, enum stk_image_type type, enum stk_dtype dtype, bool orient,
	const struct stk_rect *window, enum stk_status *status, struct stk_error *err)
{
	return test_decode_scaled(d, f, type, dtype, orient, 1, window, status, err);
}

uint8_t *test_decode_scaled(struct stk_decoder *d, struct test_file f, enum stk_image_type type, enum stk_dtype dtype, bool orient,
	int32_t denom, const struct stk_rect *window, enum stk_status *status, struct stk_error *err)
{
	struct stk_image_info info;
	*status = stk__image_peek(f.data, f.size, NULL, &info, err);
	if (*status)
		return NULL;
	struct stk_rect all = {0, 0, 0, 0};
	stk__image_extent(&info, orient, &all.w, &all.h);
	all.w = stk__image_scaled(all.w, denom);
	all.h = stk__image_scaled(all.h, denom);
	struct stk_rect w = window ? *window : all;
	int channels = stk__image_channels(&info, type);
	size_t size = (size_t)w.w * (size_t)w.h * (size_t)channels * stk_dtype_size(dtype);
	uint8_t *memory = malloc(size + 2 * GUARD);
	assert_non_null(memory);
	memset(memory, GUARD_BYTE, size + 2 * GUARD);
	struct stk_decode rq = {.data = f.data,
		.size = f.size,
		.info = &info,
		.type = type,
		.orient = orient,
		.denom = denom,
		.window = w,
		.dst = stk__image_hwc(memory + GUARD, dtype, w.w, w.h, channels)};
	*status = stk__image_decode(d, &rq, err);
	for (int i = 0; i < GUARD; i++)
		if (memory[i] != GUARD_BYTE || memory[GUARD + size + (size_t)i] != GUARD_BYTE)
			fail_msg("bytes outside the destination were written");
	memmove(memory, memory + GUARD, size);
	if (!*status)
		return memory;
	free(memory);
	return NULL;
}

bool test_window_equal(const uint8_t *got, const uint8_t *want, int width, size_t pixel, struct stk_rect w)
{
	for (int y = 0; y < w.h; y++) {
		const uint8_t *a = got + (size_t)y * (size_t)w.w * pixel,
			      *b = want + ((size_t)(w.y + y) * (size_t)width + (size_t)w.x) * pixel;
		if (memcmp(a, b, (size_t)w.w * pixel) == 0)
			continue;
		size_t i = 0;
		while (a[i] == b[i])
			i++;
		print_error("row %d, column %zu, byte %zu: %d, not %d\n", y, i / pixel, i % pixel, a[i], b[i]);
		return false;
	}
	return true;
}

struct stk_rect test_window(uint64_t *r, int width, int height)
{
	struct stk_rect w;
	w.w = test_random_in(r, 1, width);
	w.h = test_random_in(r, 1, height);
	w.x = test_random_in(r, 0, width - w.w);
	w.y = test_random_in(r, 0, height - w.h);
	return w;
}
