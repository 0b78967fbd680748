/* SPDX-License-Identifier: Apache-2.0
 * The codec: its windows equal the same parts of whole images that libjpeg-turbo and libspng decode, and it reports damage, exceeded limits and unknown
 * formats as different errors. */
#include "test.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "codec/jpeg_header.h"
#include "decoding.h"
#include "hostile_files.h"
#include "stoker/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static void describe(const struct test_jpeg *j, int denom, struct stk_rect w)
{
	print_error("1/%d of %dx%d, %d components %dx%d %dx%d %dx%d, quality %d, restart %d, seed %llu%s%s%s%s; window %d %d %d %d\n",
		denom, j->width, j->height, j->components, j->h[0], j->v[0], j->h[1], j->v[1], j->h[2], j->v[2], j->quality, j->restart,
		(unsigned long long)j->seed, j->optimise ? " optimised" : "", j->progressive ? " progressive" : "",
		j->arithmetic ? " arithmetic" : "", j->separate ? " separate" : "", w.x, w.y, w.w, w.h);
}

static const int samplings[][6] = {{1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1}, {4, 1, 1, 1, 1, 1},
	{4, 2, 1, 1, 1, 1}, {2, 2, 2, 1, 2, 1}, {2, 2, 1, 2, 1, 2}, {2, 2, 2, 1, 1, 2}, {1, 4, 1, 1, 1, 1}, {1, 1, 2, 2, 1, 1},
	{3, 1, 1, 1, 1, 1}, {1, 1, 2, 1, 2, 1}, {4, 1, 2, 1, 1, 1}, {2, 4, 1, 1, 1, 1}, {2, 2, 2, 2, 1, 1}};
enum { SAMPLINGS = sizeof samplings / sizeof *samplings };

static struct test_jpeg random_jpeg(uint64_t *r)
{
	struct test_jpeg j = {.width = test_random_in(r, 1, 200),
		.height = test_random_in(r, 1, 150),
		.components = test_random_in(r, 0, 9) ? 3 : 1,
		.quality = test_random_in(r, 1, 100),
		.noise = test_random_in(r, 0, 4) / 4.0,
		.seed = test_random(r)};
	if (test_random_in(r, 0, 3) == 0)
		j.width = test_random_in(r, 1, 20);
	if (test_random_in(r, 0, 3) == 0)
		j.height = test_random_in(r, 1, 20);
	const int *s = samplings[test_random_in(r, 0, SAMPLINGS - 1)];
	for (int i = 0; i < j.components; i++) {
		j.h[i] = s[2 * i];
		j.v[i] = s[2 * i + 1];
	}
	j.restart = test_random_in(r, 0, 2) ? 0 : test_random_in(r, 1, 40);
	j.optimise = test_random_in(r, 0, 2) == 0;
	j.progressive = test_random_in(r, 0, 5) == 0;
	j.arithmetic = test_random_in(r, 0, 11) == 0;
	j.separate = test_random_in(r, 0, 11) == 0;
	j.rgb = j.components == 3 && test_random_in(r, 0, 11) == 0;
	return j;
}

static const struct {
	enum stk_image_type type;
	J_COLOR_SPACE space;
	size_t pixel;
} direct_types[] = {{STK_RGB, JCS_RGB, 3}, {STK_BGR, JCS_EXT_BGR, 3}, {STK_GRAY, JCS_GRAYSCALE, 1}};

static void compare_windows(struct stk_decoder *d, uint64_t *r, int denom)
{
	struct test_jpeg j = random_jpeg(r);
	struct test_file f = test_jpeg_make(&j);
	int k = test_random_in(r, 0, 3) ? 0 : test_random_in(r, 1, 2), width, height;
	bool lossy;
	uint8_t *want = test_jpeg_reference_scaled(f, direct_types[k].space, denom, &width, &height, &lossy);
	assert_non_null(want);
	assert_false(lossy);
	for (int t = 0; t < 6; t++) {
		struct stk_rect w = t ? test_window(r, width, height) : (struct stk_rect){0, 0, width, height};
		struct stk_error err = {0};
		enum stk_status status;
		uint8_t *got = test_decode_scaled(d, f, direct_types[k].type, STK_UINT8, false, denom, &w, &status, &err);
		if (!got || !test_window_equal(got, want, width, direct_types[k].pixel, w)) {
			describe(&j, denom, w);
			fail_msg("type %d: %s", direct_types[k].type, got ? "pixels differ" : err.message);
		}
		free(got);
	}
	free(want);
	free(f.data);
}

static void test_jpeg_windows_equal_libjpeg(void **state)
{
	(void)state;
	uint64_t r = test_seed();
	struct stk_decoder *d = test_decoder(NULL);
	for (int n = 0; n < 400; n++)
		compare_windows(d, &r, 1);
	stk__decoder_destroy(d);
}

/* Windows at 1/denom of the size equal the same parts of libjpeg-turbo's whole images, with our own decoder and with the one that uses only libjpeg-turbo. */
static void test_scaled_windows_equal_libjpeg(void **state)
{
	(void)state;
	uint64_t r = test_seed();
	for (int turbo = 0; turbo < 2; turbo++) {
		setenv("STOKER_JPEG", turbo ? "libjpeg-turbo" : "stoker", 1);
		struct stk_decoder *d = test_decoder(NULL);
		unsetenv("STOKER_JPEG");
		for (int n = 0; n < 600; n++)
			compare_windows(d, &r, 2 << n % 3);
		stk__decoder_destroy(d);
	}
}

static void test_png_is_not_scaled(void **state)
{
	(void)state;
	struct stk_decoder *d = test_decoder(NULL);
	struct test_png p = {.width = 13, .height = 9, .color = 2, .bits = 8, .seed = 4};
	struct test_file f = test_png_make(&p);
	enum stk_status status;
	struct stk_error err = {0};
	assert_null(test_decode_scaled(d, f, STK_RGB, STK_UINT8, false, 2, NULL, &status, &err));
	assert_int_equal(status, STK_UNSUPPORTED);
	assert_string_equal(err.message, "a PNG is not decoded at 1/2 of its size; a JPEG is");
	free(f.data);
	stk__decoder_destroy(d);
}

static int clip(double v)
{
	return v < 0 ? 0 : v > 255 ? 255 : (int)v;
}

static void test_jpeg_ycbcr_is_studio_range(void **state)
{
	(void)state;
	struct stk_decoder *d = test_decoder(NULL);
	struct test_jpeg j = {
		.width = 67, .height = 45, .components = 3, .h = {2, 1, 1}, .v = {2, 1, 1}, .quality = 90, .noise = .5, .seed = 3};
	struct test_file f = test_jpeg_make(&j);
	int width, height, off = 0;
	bool lossy;
	uint8_t *rgb = test_jpeg_reference(f, JCS_RGB, &width, &height, &lossy);
	enum stk_status status;
	uint8_t *got = test_decode(d, f, STK_YCBCR, STK_UINT8, false, NULL, &status, NULL);
	assert_non_null(got);
	for (int i = 0; i < width * height; i++) {
		double red = rgb[3 * i], green = rgb[3 * i + 1], blue = rgb[3 * i + 2];
		/* BT.601 by its definition: luma, then colour differences, scaled to 219 and 224 steps. */
		double y = .299 * red + .587 * green + .114 * blue;
		int want[3] = {clip(16.5 + 219 * y / 255), clip(128.5 + 224 * (blue - y) / (2 * (1 - .114)) / 255),
			clip(128.5 + 224 * (red - y) / (2 * (1 - .299)) / 255)};
		for (int k = 0; k < 3; k++) {
			assert_in_range(got[3 * i + k] - want[k] + 1, 0, 2);
			off += got[3 * i + k] != want[k];
		}
	}
	assert_true(off < width * height / 100);
	free(got);
	free(rgb);
	free(f.data);
	stk__decoder_destroy(d);
}

static void test_cmyk_becomes_rgb(void **state)
{
	(void)state;
	struct stk_decoder *d = test_decoder(NULL);
	for (int kind = 0; kind < 3; kind++) {
		struct test_jpeg j = {.width = 37,
			.height = 21,
			.components = 4,
			.quality = 95,
			.noise = .3,
			.seed = 5,
			.ycck = kind == 1,
			.no_adobe = kind == 2};
		struct test_file f = test_jpeg_make(&j);
		int width, height;
		bool lossy;
		uint8_t *cmyk = test_jpeg_reference(f, JCS_CMYK, &width, &height, &lossy);
		enum stk_status status;
		uint8_t *rgb = test_decode(d, f, STK_RGB, STK_UINT8, false, NULL, &status, NULL),
			*any = test_decode(d, f, STK_ANY_DATA, STK_UINT8, false, NULL, &status, NULL);
		assert_non_null(rgb);
		assert_non_null(any);
		for (int i = 0; i < width * height; i++)
			for (int k = 0; k < 3; k++) {
				int c = cmyk[4 * i + k], black = cmyk[4 * i + 3];
				if (j.no_adobe)
					c = 255 - c, black = 255 - black;
				assert_int_equal(rgb[3 * i + k], c * black / 255);
				assert_int_equal(any[4 * i + k], 255 - c);
			}
		free(rgb);
		free(any);
		free(cmyk);
		free(f.data);
	}
	stk__decoder_destroy(d);
}

/* Computes which stored pixel (x, y) becomes pixel (u, v) of the upright image, by the rotation and mirroring of each EXIF orientation. */
static void stored_of(int orientation, int width, int height, int u, int v, int *x, int *y)
{
	int right = width - 1, bottom = height - 1;
	const int from[9][2] = {{0, 0}, {u, v}, {right - u, v}, {right - u, bottom - v}, {u, bottom - v}, {v, u}, {v, bottom - u},
		{right - v, bottom - u}, {right - v, u}};
	*x = from[orientation][0];
	*y = from[orientation][1];
}

static void check_oriented(struct stk_decoder *d, struct test_file f, int orientation, int denom, const uint8_t *want, int width,
	int height, size_t pixel, enum stk_image_type type, uint64_t *r)
{
	int w = orientation > 4 ? height : width, h = orientation > 4 ? width : height;
	for (int t = 0; t < 4; t++) {
		struct stk_rect window = t ? test_window(r, w, h) : (struct stk_rect){0, 0, w, h};
		enum stk_status status;
		struct stk_error err = {0};
		uint8_t *got = test_decode_scaled(d, f, type, STK_UINT8, true, denom, &window, &status, &err);
		if (!got)
			fail_msg("%s", err.message);
		for (int v = 0; v < window.h; v++)
			for (int u = 0; u < window.w; u++) {
				int x, y;
				stored_of(orientation, width, height, window.x + u, window.y + v, &x, &y);
				assert_memory_equal(got + ((size_t)v * (size_t)window.w + (size_t)u) * pixel,
					want + ((size_t)y * (size_t)width + (size_t)x) * pixel, pixel);
			}
		free(got);
	}
}

static void test_orientation(void **state)
{
	(void)state;
	uint64_t r = test_seed();
	struct stk_decoder *d = test_decoder(NULL);
	for (int o = 1; o <= 8; o++) {
		struct test_jpeg j = {.width = 50,
			.height = 35,
			.components = 3,
			.h = {2, 1, 1},
			.v = {2, 1, 1},
			.quality = 90,
			.orientation = o,
			.seed = 8};
		struct test_file f = test_jpeg_make(&j);
		int width, height;
		bool lossy;
		uint8_t *want = test_jpeg_reference(f, JCS_RGB, &width, &height, &lossy);
		check_oriented(d, f, o, 1, want, width, height, 3, STK_RGB, &r);
		free(want);
		want = test_jpeg_reference_scaled(f, JCS_RGB, 4, &width, &height, &lossy);
		check_oriented(d, f, o, 4, want, width, height, 3, STK_RGB, &r);
		free(want);
		want = test_jpeg_reference(f, JCS_GRAYSCALE, &width, &height, &lossy);
		check_oriented(d, f, o, 1, want, width, height, 1, STK_GRAY, &r);
		free(want);
		free(f.data);
		struct test_png p = {.width = 13, .height = 9, .color = 6, .bits = 8, .orientation = o, .seed = 4};
		f = test_png_make(&p);
		want = test_png_reference(f, &p);
		check_oriented(d, f, o, 1, want, p.width, p.height, 4, STK_ANY_DATA, &r);
		free(want);
		free(f.data);
	}
	stk__decoder_destroy(d);
}

static void test_strangers_are_named(void **state)
{
	(void)state;
	struct stk_image_info info;
	struct stk_error err = {0};
	uint8_t hello[5 + 64] = "hello";
	assert_int_equal(stk__image_peek(hello, 5, NULL, &info, &err), STK_CORRUPT);
	assert_string_equal(err.message, stk_image_named("a.webp") ? "not a JPEG, PNG, WebP, TIFF, BMP or PNM (starts with \"hello\")"
								   : "not a JPEG, PNG, TIFF, BMP or PNM (starts with \"hello\")");
	assert_int_equal(stk__image_peek(hello, 0, NULL, &info, &err), STK_CORRUPT);
	assert_non_null(strstr(err.message, " or PNM: it is empty"));
	uint8_t binary[3 + 64] = {0, '"', 0xff};
	assert_int_equal(stk__image_peek(binary, 3, NULL, &info, &err), STK_CORRUPT);
	assert_non_null(strstr(err.message, " or PNM (starts with \"\\x00\\x22\\xff\")"));
}

static void test_peek_allocates_nothing_and_agrees(void **state)
{
	(void)state;
	struct test_jpeg j = {.width = 123, .height = 45, .components = 3, .quality = 80, .progressive = true, .orientation = 6, .seed = 1};
	struct test_file f = test_jpeg_make(&j);
	struct stk_image_info info;
	uint64_t before = stk__alloc_count();
	assert_int_equal(stk__image_peek(f.data, f.size, NULL, &info, NULL), STK_OK);
	assert_int_equal(stk__alloc_count(), before);
	assert_string_equal(info.format, "jpeg");
	assert_int_equal(info.width, 123);
	assert_int_equal(info.height, 45);
	assert_int_equal(info.channels, 3);
	assert_int_equal(info.bits, 8);
	assert_int_equal(info.orientation, 6);
	assert_true(info.progressive);
	int32_t w, h;
	stk__image_extent(&info, true, &w, &h);
	assert_int_equal(w, 45);
	assert_int_equal(h, 123);
	struct stk_codec_limits limits = {.max_pixels = 123 * 45 - 1};
	struct stk_error err = {0};
	assert_int_equal(stk__image_peek(f.data, f.size, &limits, &info, &err), STK_LIMIT);
	assert_non_null(strstr(err.message, "STOKER_MAX_IMAGE_SIZE"));
	free(f.data);
}

static void test_scan_limit(void **state)
{
	(void)state;
	struct test_jpeg j = {.width = 64, .height = 64, .components = 3, .quality = 80, .progressive = true, .seed = 1};
	struct test_file f = test_jpeg_make(&j); /* the file has 10 scans */
	for (int scans = 9; scans <= 10; scans++) {
		struct stk_codec_limits limits = {.max_scans = scans};
		struct stk_decoder *d = test_decoder(&limits);
		struct stk_error err = {0};
		enum stk_status status;
		free(test_decode(d, f, STK_RGB, STK_UINT8, false, NULL, &status, &err));
		assert_int_equal(status, scans == 10 ? STK_OK : STK_LIMIT);
		stk__decoder_destroy(d);
	}
	free(f.data);
}

/* Returns a copy of the file in which the part from the first scan to EOI is repeated `times` times. odd: each copy is followed by a segment that our own
 * parser of scans does not know. */
static struct test_file repeat_scans(struct test_file f, int times, bool odd)
{
	static const uint8_t segment[] = {0xff, 0xe5, 0, 3, 0};
	size_t first = 2, end = f.size - 2;
	while (f.data[first + 1] != 0xda) /* up to the marker of the first scan (SOS) */
		first += 2 + ((size_t)f.data[first + 2] << 8 | f.data[first + 3]);
	struct test_file all = {calloc(1, first + (size_t)times * (end - first + sizeof segment) + 66), first};
	assert_non_null(all.data);
	memcpy(all.data, f.data, first);
	for (int i = 0; i < times; i++) {
		memcpy(all.data + all.size, f.data + first, end - first);
		all.size += end - first;
		memcpy(all.data + all.size, segment, odd ? sizeof segment : 0);
		all.size += odd ? sizeof segment : 0;
	}
	memcpy(all.data + all.size, f.data + end, 2);
	all.size += 2;
	return all;
}

/* A scan of a few bytes can cover a whole image, so the size of a file does not limit the work for it. */
static void test_work_of_scans_is_bounded(void **state)
{
	(void)state;
	struct stk_codec_limits limits = {.max_scans = 256}, high = {.max_scans = 4096};
	struct test_file once = hostile_jpeg(2048, 2048);
	for (int odd = 0; odd < 2; odd++)
		for (int times = 100; times <= 250; times += 150) {
			struct test_file f = repeat_scans(once, times, odd);
			for (int raised = 0; raised < 2; raised++) {
				struct stk_decoder *d = test_decoder(raised ? &high : &limits);
				struct stk_error err = {0};
				enum stk_status status;
				free(test_decode(d, f, STK_RGB, STK_UINT8, false, NULL, &status, &err));
				assert_int_equal(status, times == 100 || raised ? STK_OK : STK_LIMIT);
				assert_true(!status || strstr(err.message, "STOKER_MAX_JPEG_SCANS"));
				stk__decoder_destroy(d);
			}
			free(f.data);
		}
	free(once.data);
}

static struct test_file file_of(const void *header, size_t header_size, size_t pixels)
{
	struct test_file f = {calloc(1, header_size + pixels + 64), header_size + pixels};
	assert_non_null(f.data);
	memcpy(f.data, header, header_size);
	return f;
}

/* No row may be decoded after the caller has cancelled. */
static void test_cancelled(void **state)
{
	(void)state;
	static const char ppm[] = "P6 64 64 255\n", text[] = "P3 1 1 255\n1 2 3\n";
	static const uint8_t bmp[54] = {'B', 'M', [10] = 54, [14] = 40, [18] = 64, [22] = 64, [26] = 1, [28] = 24};
	struct test_jpeg jpegs[] = {{.width = 64, .height = 64, .components = 3, .quality = 80, .seed = 1},
		{.width = 64, .height = 64, .components = 3, .quality = 80, .progressive = true, .seed = 1},
		{.width = 64, .height = 64, .components = 3, .quality = 80, .arithmetic = true, .seed = 1},
		{.width = 64, .height = 64, .components = 3, .quality = 80, .separate = true, .seed = 1},
		{.width = 64, .height = 64, .components = 4, .quality = 80, .seed = 1}};
	struct test_png pngs[] = {{.width = 64, .height = 64, .color = 2, .bits = 8, .seed = 1},
		{.width = 64, .height = 64, .color = 2, .bits = 8, .interlaced = true, .seed = 1}};
	struct test_file files[] = {test_jpeg_make(&jpegs[0]), test_jpeg_make(&jpegs[1]), test_jpeg_make(&jpegs[2]),
		test_jpeg_make(&jpegs[3]), test_jpeg_make(&jpegs[4]), test_png_make(&pngs[0]), test_png_make(&pngs[1]),
		file_of(ppm, sizeof ppm - 1, 3 * 64 * 64), file_of(text, sizeof text - 1, 0), file_of(bmp, sizeof bmp, 3 * 64 * 64)};
	struct stk_decoder *d = test_decoder(NULL);
	static uint8_t pixels[3 * 64 * 64];
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		for (int cancelled = 0; cancelled < 2; cancelled++) {
			struct stk_image_info info;
			struct stk_error err = {0};
			struct stk_cancel cancel = {cancelled};
			assert_int_equal(stk__image_peek(files[i].data, files[i].size, NULL, &info, &err), STK_OK);
			struct stk_decode rq = {.data = files[i].data,
				.size = files[i].size,
				.info = &info,
				.type = STK_RGB,
				.window = {0, 0, info.width, info.height},
				.dst = stk__image_hwc(pixels, STK_UINT8, info.width, info.height, 3),
				.cancel = &cancel};
			memset(pixels, 0xa5, sizeof pixels);
			assert_int_equal(stk__image_decode(d, &rq, &err), cancelled ? STK_CANCELLED : STK_OK);
			size_t touched = 0;
			for (size_t k = 0; k < (size_t)info.width * (size_t)info.height * 3; k++)
				touched += pixels[k] != 0xa5;
			if ((touched != 0) == cancelled)
				fail_msg("file %zu: %zu bytes were written", i, touched);
		}
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		free(files[i].data);
	stk__decoder_destroy(d);
}

static void check_truncations(struct stk_decoder *strict, struct test_file whole, uint64_t *r)
{
	for (int n = 0; n < 60; n++) {
		size_t size = n < 20 ? whole.size - 1 - (size_t)n : (size_t)test_random_in(r, 0, (int)whole.size - 1);
		struct test_file cut = {malloc(size + 64), size};
		assert_non_null(cut.data);
		memcpy(cut.data, whole.data, size);
		memset(cut.data + size, 0x5a, 64);
		struct stk_error err = {0};
		enum stk_status status;
		uint8_t *got = test_decode(strict, cut, STK_RGB, STK_UINT8, false, NULL, &status, &err);
		if (got || status != STK_CORRUPT)
			fail_msg("%zu of %zu bytes give status %d", size, whole.size, status);
		assert_true(err.message[0]);
		free(cut.data);
	}
}

static void test_truncated_files_are_errors(void **state)
{
	(void)state;
	uint64_t r = test_seed();
	struct stk_decoder *strict = test_decoder(NULL), *lenient = test_decoder(&(struct stk_codec_limits){.lenient = true});
	for (int n = 0; n < 5; n++) {
		struct test_jpeg j = {.width = 80,
			.height = 60,
			.components = 3,
			.h = {2, 1, 1},
			.v = {2, 1, 1},
			.quality = 80,
			.progressive = n == 1,
			.restart = n == 2 ? 3 : 0,
			.seed = 1};
		struct test_png p = {.width = 40, .height = 30, .color = 2, .bits = 8, .interlaced = n == 4, .seed = 1};
		struct test_file f = n < 3 ? test_jpeg_make(&j) : test_png_make(&p);
		check_truncations(strict, f, &r);
		if (n < 3) { /* if lenient, the decoder returns the part of the image before the damage */
			enum stk_status status;
			f.size -= 20;
			uint8_t *got = test_decode(lenient, f, STK_RGB, STK_UINT8, false, NULL, &status, NULL);
			assert_non_null(got);
			free(got);
		}
		free(f.data);
	}
	stk__decoder_destroy(strict);
	stk__decoder_destroy(lenient);
}

/* An image without tables must not use those of the previous image. */
static void test_no_image_uses_tables_of_another(void **state)
{
	(void)state;
	struct stk_decoder *d = test_decoder(NULL);
	struct test_jpeg j = {.width = 40, .height = 30, .components = 1, .quality = 80, .seed = 1};
	struct test_file f = test_jpeg_make(&j), bare = test_jpeg_make(&j);
	uint8_t *dqt = NULL;
	for (size_t i = 0; i + 1 < bare.size && !dqt; i++)
		if (bare.data[i] == 0xff && bare.data[i + 1] == 0xdb)
			dqt = bare.data + i;
	assert_non_null(dqt);
	dqt[1] = 0xfe; /* turns the segment of quantisation tables into a comment */
	for (int n = 0; n < 2; n++) {
		enum stk_status status;
		assert_null(test_decode(d, bare, STK_RGB, STK_UINT8, false, NULL, &status, NULL));
		assert_int_equal(status, STK_CORRUPT);
		uint8_t *got = test_decode(d, f, STK_RGB, STK_UINT8, false, NULL, &status, NULL);
		assert_non_null(got);
		free(got);
	}
	free(f.data);
	free(bare.data);
	stk__decoder_destroy(d);
}

/* Decodes a file whose header was read into *info, and compares the pixels with those of a decoder that reads the header itself. */
static void decode_peeked(struct stk_decoder *d, struct test_file f, const struct stk_image_info *info)
{
	enum stk_status status;
	struct stk_decoder *other = test_decoder(NULL);
	uint8_t *want = test_decode(other, f, STK_RGB, STK_UINT8, false, NULL, &status, NULL);
	const size_t size = (size_t)info->width * (size_t)info->height * 3;
	uint8_t *got = malloc(size);
	assert_true(want && got);
	struct stk_decode rq = {.data = f.data,
		.size = f.size,
		.info = info,
		.type = STK_RGB,
		.denom = 1,
		.window = {0, 0, info->width, info->height},
		.dst = stk__image_hwc(got, STK_UINT8, info->width, info->height, 3)};
	assert_int_equal(stk__image_decode(d, &rq, NULL), STK_OK);
	assert_memory_equal(got, want, size);
	free(got);
	free(want);
	stk__decoder_destroy(other);
}

/* Files of equal extents and other tables and pixels. A decode uses the header that its decoder has kept only if it is that of its own file. */
static void test_a_header_is_parsed_once(void **state)
{
	(void)state;
	enum { FILES = 4 };
	struct stk_decoder *d = test_decoder(NULL), *second = test_decoder(NULL);
	struct test_file f[FILES];
	struct stk_image_info info[FILES];
	for (int i = 0; i < FILES; i++) {
		struct test_jpeg j = {.width = 70,
			.height = 50,
			.components = 3,
			.quality = 50 + 10 * i,
			.seed = (uint64_t)i,
			.noise = 0.5,
			.optimise = i == 1,
			.progressive = i == 2,
			.h = {1 + i % 2, 1, 1},
			.v = {1, 1, 1}};
		f[i] = test_jpeg_make(&j);
	}
	for (int i = 0; i < FILES; i++) {
		assert_int_equal(stk__image_peek_for(d, f[i].data, f[i].size, &info[i], NULL), STK_OK);
		assert_non_null(stk__jpeg_peeked(d, &info[i]));
		assert_null(stk__jpeg_peeked(second, &info[i]));
		decode_peeked(d, f[i], &info[i]);
		assert_null(stk__jpeg_peeked(d, &info[i]));
		decode_peeked(d, f[i], &info[i]);
		decode_peeked(second, f[i], &info[i]);
	}
	for (int i = 0; i < FILES; i++)
		assert_int_equal(stk__image_peek_for(i % 2 ? d : second, f[i].data, f[i].size, &info[i], NULL), STK_OK);
	for (int i = 0; i < FILES; i++)
		decode_peeked(d, f[i], &info[i]);
	for (int i = 0; i < FILES; i++) {
		struct stk_image_info plain;
		assert_int_equal(stk__image_peek(f[i].data, f[i].size, NULL, &plain, NULL), STK_OK);
		assert_null(stk__jpeg_peeked(d, &plain));
		decode_peeked(d, f[i], &plain);
		free(f[i].data);
	}
	stk__decoder_destroy(second);
	stk__decoder_destroy(d);
}

static void test_warm_decoder_allocates_nothing(void **state)
{
	(void)state;
	enum { FILES = 12 };
	uint64_t r = 5;
	struct stk_decoder *d = test_decoder(NULL);
	struct test_file files[FILES];
	for (int i = 0; i < FILES; i++) {
		struct test_jpeg j = random_jpeg(&r);
		files[i] = test_jpeg_make(&j);
	}
	uint64_t before = 0;
	for (int round = 0; round < 4; round++) {
		if (round == 3)
			before = stk__alloc_count();
		for (int i = 0; i < FILES; i++) {
			enum stk_status status;
			free(test_decode(d, files[i], STK_RGB, STK_UINT8, false, NULL, &status, NULL));
			assert_int_equal(status, STK_OK);
		}
	}
	assert_int_equal(stk__alloc_count(), before);
	for (int i = 0; i < FILES; i++)
		free(files[i].data);
	stk__decoder_destroy(d);
}

static void test_requests_that_do_not_fit_are_refused(void **state)
{
	(void)state;
	struct stk_decoder *d = test_decoder(NULL);
	struct test_jpeg j = {.width = 40, .height = 30, .components = 3, .quality = 80, .seed = 1};
	struct test_file f = test_jpeg_make(&j);
	static const struct stk_rect windows[] = {{0, 0, 41, 30}, {-1, 0, 5, 5}, {39, 29, 2, 1}, {0, 0, 0, 3}};
	for (int i = 0; i < 4; i++) {
		enum stk_status status;
		assert_null(test_decode(d, f, STK_RGB, STK_UINT8, false, &windows[i], &status, NULL));
		assert_int_equal(status, STK_INVALID);
	}
	free(f.data);
	stk__decoder_destroy(d);
}

#ifdef STK_FAULTS
/* Makes a new decoder's first allocation fail, then the second, and so on, until the decoder succeeds. It must report each failure and leak nothing. */
static void fail_each_allocation(struct test_file f, bool zlib)
{
	for (int nth = 0;; nth++) {
		struct stk_arena scratch = {0};
		struct stk_decoder *d;
		struct stk_error err = {0};
		stk__fault_set(STK_FAULT_ALLOC, nth);
		enum stk_status status = stk__decoder_create(NULL, stk__cpu_capabilities(), &scratch, &d, &err);
		uint8_t *pixels = status ? NULL : test_decode(d, f, STK_RGB, STK_UINT8, true, NULL, &status, &err);
		stk__fault_set(STK_FAULT_ALLOC, -1);
		/* If zlib runs out of memory in the middle of a stream, libspng reports a damaged stream. */
		if (status != (pixels ? STK_OK : STK_NO_MEMORY) && !(zlib && status == STK_CORRUPT))
			fail_msg("allocation %d: %s", nth, err.message);
		stk__decoder_destroy(d);
		stk__arena_destroy(&scratch);
		free(pixels);
		if (pixels)
			return;
		assert_true(err.message[0]);
	}
}
#endif

static void test_every_failing_allocation_is_told(void **state)
{
	(void)state;
#ifdef STK_FAULTS
	struct test_jpeg jpegs[] = {
		{.width = 60, .height = 40, .components = 3, .h = {2, 1, 1}, .v = {2, 1, 1}, .quality = 80, .orientation = 6, .seed = 1},
		{.width = 60, .height = 40, .components = 3, .quality = 80, .progressive = true, .seed = 1},
		{.width = 60, .height = 40, .components = 4, .quality = 80, .seed = 1}};
	struct test_png png = {.width = 30, .height = 20, .color = 3, .bits = 4, .interlaced = true, .seed = 1};
	for (int i = 0; i < 4; i++) {
		struct test_file f = i < 3 ? test_jpeg_make(&jpegs[i]) : test_png_make(&png);
		fail_each_allocation(f, i == 3);
		free(f.data);
	}
#else
	skip(); /* needs a build with -Dfaults=true */
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jpeg_windows_equal_libjpeg),
		cmocka_unit_test(test_scaled_windows_equal_libjpeg),
		cmocka_unit_test(test_png_is_not_scaled),
		cmocka_unit_test(test_jpeg_ycbcr_is_studio_range),
		cmocka_unit_test(test_cmyk_becomes_rgb),
		cmocka_unit_test(test_orientation),
		cmocka_unit_test(test_strangers_are_named),
		cmocka_unit_test(test_peek_allocates_nothing_and_agrees),
		cmocka_unit_test(test_scan_limit),
		cmocka_unit_test(test_work_of_scans_is_bounded),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_truncated_files_are_errors),
		cmocka_unit_test(test_no_image_uses_tables_of_another),
		cmocka_unit_test(test_warm_decoder_allocates_nothing),
		cmocka_unit_test(test_requests_that_do_not_fit_are_refused),
		cmocka_unit_test(test_a_header_is_parsed_once),
		cmocka_unit_test(test_every_failing_allocation_is_told),
	};
	return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
