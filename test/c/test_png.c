/* SPDX-License-Identifier: Apache-2.0
 * Tests of PNG: pixels of all kinds of files equal libspng's 16-bit RGBA, conversions agree with a computation in floating point, and damaged files and files
 * that would take too much memory are refused. */
#include "test.h"

#include "decoding.h"
#include "hostile_files.h"

#include <stdlib.h>
#include <string.h>

static void test_png_windows_equal_libspng(void **state)
{
	(void)state;
	static const int kinds[][2] = {
		{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1}, {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
	static const int channels[] = {1, 0, 3, 3, 2, 0, 4};
	uint64_t r = test_seed();
	struct stk_decoder *d = test_decoder(NULL);
	for (int n = 0; n < 150; n++) {
		const int *kind = kinds[n % 15];
		struct test_png p = {.width = test_random_in(&r, 1, 70),
			.height = test_random_in(&r, 1, 50),
			.color = kind[0],
			.bits = kind[1],
			.interlaced = test_random(&r) & 1,
			.transparency = test_random(&r) & 1,
			.seed = test_random(&r)};
		struct test_file f = test_png_make(&p);
		uint8_t *want = test_png_reference(f, &p);
		enum stk_dtype dtype = p.bits == 16 ? STK_UINT16 : STK_UINT8;
		for (int t = 0; t < 3; t++) {
			struct stk_rect w = t ? test_window(&r, p.width, p.height) : (struct stk_rect){0, 0, p.width, p.height};
			struct stk_error err = {0};
			enum stk_status status;
			uint8_t *got = test_decode(d, f, STK_ANY_DATA, dtype, false, &w, &status, &err);
			size_t pixel = (size_t)channels[p.color] * stk_dtype_size(dtype);
			if (!got || !test_window_equal(got, want, p.width, pixel, w))
				fail_msg("%dx%d colour %d bits %d interlaced %d: %s", p.width, p.height, p.color, p.bits, p.interlaced,
					err.message);
			free(got);
		}
		free(want);
		free(f.data);
	}
	stk__decoder_destroy(d);
}

/* For each kind of PNG and each output type, compares the decoder's values with a computation in floating point from the stored pixels. */
static void test_png_conversions(void **state)
{
	(void)state;
	static const int kinds[][2] = {{0, 8}, {0, 16}, {2, 8}, {2, 16}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
	static const int channels[] = {1, 0, 3, 3, 2, 0, 4};
	struct stk_decoder *d = test_decoder(NULL);
	for (int n = 0; n < 8 * 4; n++) {
		struct test_png p = {.width = 90, .height = 8, .color = kinds[n / 4][0], .bits = kinds[n / 4][1], .seed = 11};
		enum stk_image_type type = (enum stk_image_type)(n % 4);
		struct test_file f = test_png_make(&p);
		uint8_t *stored = test_png_reference(f, &p);
		for (int wide = 0; wide <= (p.bits == 16); wide++) {
			enum stk_status status;
			uint8_t *got = test_decode(d, f, type, wide ? STK_UINT16 : STK_UINT8, false, NULL, &status, NULL);
			assert_non_null(got);
			int c = channels[p.color], out = type == STK_GRAY ? 1 : 3;
			double scale = p.bits == 16 && !wide ? 1 / 257.0 : 1, unit = wide ? 257 : 1;
			for (int i = 0; i < p.width * p.height; i++) {
				double v[3], w[3];
				for (int k = 0; k < 3; k++) {
					int at = i * c + (c < 3 ? 0 : k);
					v[k] = (p.bits == 16 ? ((uint16_t *)stored)[at] : stored[at]) * scale;
				}
				double y = c < 3 ? v[0] : .299 * v[0] + .587 * v[1] + .114 * v[2];
				w[0] = type == STK_GRAY ? y : type == STK_BGR ? v[2] : type == STK_RGB ? v[0] : 16 * unit + 219 / 255.0 * y;
				w[1] = type == STK_YCBCR ? 128 * unit + 112 / 255.0 * (v[2] - y) / .886 : v[1];
				w[2] = type == STK_BGR ? v[0] : type == STK_RGB ? v[2] : 128 * unit + 112 / 255.0 * (v[0] - y) / .701;
				for (int k = 0; k < out; k++) {
					double g = wide ? ((uint16_t *)got)[i * out + k] : got[i * out + k];
					/* all values are rounded, except gray from colours, which is truncated as in DALI */
					double above = .51 + .01 * unit, below = above + (type == STK_GRAY && c > 2);
					if (g - w[k] > above || w[k] - g > below)
						fail_msg("type %d of colour %d, %d bits to %s: %g, not %g", type, p.color, p.bits,
							wide ? "16" : "8", g, w[k]);
				}
			}
			free(got);
		}
		free(stored);
		free(f.data);
	}
	stk__decoder_destroy(d);
}

/* A small file that claims to be 2^31 - 1 pixels wide and high must be refused from its header. */
static void test_bombs_are_refused_from_their_header(void **state)
{
	(void)state;
	struct test_png p = {.width = 5, .height = 5, .color = 2, .bits = 8, .seed = 1};
	struct test_file f = test_png_make(&p);
	static const uint8_t huge[8] = {0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff};
	memcpy(f.data + 16, huge, sizeof huge);
	struct stk_image_info info;
	assert_int_equal(stk__image_peek(f.data, f.size, NULL, &info, NULL), STK_LIMIT);
	assert_int_equal(info.width, INT32_MAX);
	free(f.data);
}

static void test_png_crc_is_checked(void **state)
{
	(void)state;
	struct stk_decoder *d = test_decoder(NULL);
	struct test_png p = {.width = 40, .height = 30, .color = 2, .bits = 8, .seed = 1};
	struct test_file f = test_png_make(&p);
	f.data[f.size - 14] ^= 1; /* the CRC of IDAT ends where the 12 bytes of IEND begin */
	enum stk_status status;
	struct stk_error err = {0};
	assert_null(test_decode(d, f, STK_RGB, STK_UINT8, false, &(struct stk_rect){3, 3, 2, 2}, &status, &err));
	assert_int_equal(status, STK_CORRUPT);
	free(f.data);
	stk__decoder_destroy(d);
}

/* A chunk of 17 MiB is no error, whether libspng skips it or keeps it. libspng limits the size of a chunk, and the memory of kept chunks. */
static void test_a_png_of_more_than_16_mib(void **state)
{
	(void)state;
	enum { SIZE = 17 << 20 };
	static const char *const types[] = {"prVt", "eXIf"}; /* types[0]: chunks that libspng skips; types[1]: chunks that it keeps */
	struct test_png p = {.width = 40, .height = 30, .color = 2, .bits = 8, .seed = 1};
	for (int i = 0; i < 2; i++) {
		struct stk_decoder *d = test_decoder(NULL);
		struct test_file f = test_png_make(&p);
		uint8_t *right = test_png_reference(f, &p);
		hostile_png_insert(&f, types[i], SIZE);
		enum stk_status status;
		struct stk_error err = {0};
		uint8_t *pixels = test_decode(d, f, STK_RGB, STK_UINT8, false, NULL, &status, &err);
		if (status)
			fail_msg("%s: %s", types[i], err.message);
		assert_memory_equal(pixels, right, 40 * 30 * 3);
		free(pixels);
		free(right);
		free(f.data);
		stk__decoder_destroy(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_png_windows_equal_libspng),
		cmocka_unit_test(test_png_conversions),
		cmocka_unit_test(test_bombs_are_refused_from_their_header),
		cmocka_unit_test(test_png_crc_is_checked),
		cmocka_unit_test(test_a_png_of_more_than_16_mib),
	};
	return cmocka_run_group_tests_name("png", tests, NULL, NULL);
}
