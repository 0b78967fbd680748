/* SPDX-License-Identifier: Apache-2.0
 * Internal functions for videos: plans begin and end at the right packets; colour conversion follows its formula; packets are converted for the
 * GPU's parser; a failed allocation or read gives an error or the right result. The video is an AVI of JPEGs, which this test writes. */
#include "test.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "image_files.h"
#include "media/annex_b.h"
#include "media/colour.h"
#include "media/plan.h"
#include "media/video.h"
#include "op/video/video_cache.h"
#include "stoker/video.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- plans ---- */

/* Two groups of pictures: I P B B
 *  I B B P. The B frames after the second I are shown before that I, and refer to the first group. */
static const int64_t times[] = {0, 3, 1, 2, 6, 4, 5, 7};
static const int32_t packet_of[] = {0, 2, 3, 1, 5, 6, 4, 7}, keys[] = {0, 4};
static const struct stk_frame_table open_groups = {packet_of, times, keys, 8, 2};

static void check_plan(const int32_t *wanted, int32_t count, const struct stk_segment *want, int32_t segments)
{
	struct stk_segment got[8];
	assert_int_equal(stk__plan(&open_groups, wanted, count, got), segments);
	for (int32_t i = 0; i < segments; i++) {
		assert_int_equal(got[i].first, want[i].first);
		assert_int_equal(got[i].last, want[i].last);
		assert_int_equal(got[i].wanted, want[i].wanted);
		assert_int_equal(got[i].n_wanted, want[i].n_wanted);
	}
}

static void test_plans(void **state)
{
	(void)state;
	check_plan((int32_t[]){0}, 1, (struct stk_segment[]){{0, 0, 0, 1}}, 1);
	check_plan((int32_t[]){1, 3}, 2, (struct stk_segment[]){{0, 2, 0, 2}}, 1);
	check_plan((int32_t[]){3}, 1, (struct stk_segment[]){{0, 1, 0, 1}}, 1);
	check_plan((int32_t[]){4}, 1, (struct stk_segment[]){{0, 5, 0, 1}},
		1); /* packet 5 is a B frame of the open group, which refers to the first group */
	check_plan((int32_t[]){6}, 1, (struct stk_segment[]){{4, 4, 0, 1}}, 1);
	check_plan((int32_t[]){0, 7}, 2, (struct stk_segment[]){{0, 0, 0, 1}, {4, 7, 1, 1}}, 2);
	check_plan((int32_t[]){4, 7}, 2, (struct stk_segment[]){{0, 7, 0, 2}}, 1); /* the second key packet is decoded anyway */
	const struct stk_frame_table without = {packet_of, times, keys + 1, 8, 1};
	assert_int_equal(stk__plan_key(&without, 0), -1);
	assert_int_equal(stk__plan_key(&without, 4), -1);
	assert_int_equal(stk__plan_key(&without, 7), 0);
	/* a file whose second part has earlier times than its first */
	const struct stk_frame_table turned = {(int32_t[]){2, 3, 0, 1}, (int64_t[]){10, 11, 0, 1}, (int32_t[]){0, 2}, 4, 2};
	struct stk_segment got[4];
	assert_int_equal(stk__plan(&turned, (int32_t[]){0, 1, 2, 3}, 4, got), 2);
	assert_memory_equal(got, ((struct stk_segment[]){{2, 3, 0, 2}, {0, 1, 2, 2}}), 2 * sizeof *got);
}

/* ---- colours ---- */

static uint8_t exact(double v)
{
	v = floor(v + .5);
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Compares all luma values, and some chroma values, with the formula in double. */
static void check_colors(double red, double blue, bool full, int bits, int sub_x, int sub_y)
{
	enum { W = 64, H = 16 };
	uint16_t planes[3][H][W];
	uint8_t bytes[3][H][W], out[H][W][3];
	const double green = 1 - red - blue, most = full ? (1 << bits) - 1 : 255 << (bits - 8);
	int off = 0;
	for (int c = 0; c < 3; c++)
		for (int y = 0; y < H; y++)
			for (int x = 0; x < W; x++) {
				planes[c][y][x] =
					(uint16_t)(((unsigned)(x * 977 + y * 7919 + c * 4241) * 2654435761u >> 8) & ((1u << bits) - 1));
				bytes[c][y][x] = (uint8_t)planes[c][y][x];
			}
	struct stk_picture p = {.width = W - 1, .height = H - 1, .count = 3, .bits = bits, .sub_x = sub_x, .sub_y = sub_y};
	p.matrix = stk__yuv_matrix(red, blue, full, bits);
	for (int c = 0; c < 3; c++)
		p.planes[c] = bits == 8 ? (struct stk_plane){bytes[c][0], W, 1, 0}
					: (struct stk_plane){(const uint8_t *)planes[c][0], W * 2, 2, 0};
	const struct stk_image dst = {out, STK_UINT8, W - 1, H - 1, 3, W * 3, 3, 1};
	stk__picture_to_rgb(&p, stk__yuv_row, &dst);
	for (int y = 0; y < H - 1; y++)
		for (int x = 0; x < W - 1; x++) {
			const double zero = 128 << (bits - 8), u = planes[1][y >> sub_y][x >> sub_x] - zero,
				     v = planes[2][y >> sub_y][x >> sub_x] - zero;
			const double l = (planes[0][y][x] - (full ? 0 : 16 << (bits - 8))) * 255 / most * (full ? 1 : 255. / 219),
				     k = 255 / most * (full ? 1 : 255. / 224);
			const double want[3] = {l + k * 2 * (1 - red) * v,
				l - k * 2 * ((1 - blue) * blue * u + (1 - red) * red * v) / green, l + k * 2 * (1 - blue) * u};
			for (int c = 0; c < 3; c++) {
				assert_in_range(out[y][x][c] - exact(want[c]) + 1, 0, 2);
				off += out[y][x][c] != exact(want[c]);
			}
		}
	assert_in_range(off, 0, 20); /* rounding may differ only for values within 2^-8 of a half */
}

static void test_colors(void **state)
{
	(void)state;
	for (int full = 0; full < 2; full++)
		for (int bits = 8; bits <= 12; bits += 2)
			for (int sub = 0; sub < 3; sub++) {
				check_colors(.299, .114, full, bits, sub > 0, sub > 1);
				check_colors(.2126, .0722, full, bits, sub > 0, sub > 1);
			}
}

/* In both chroma layouts and for several matrices and widths, this processor's row conversion gives the same bytes as plain C and writes no others. */
static void test_rows(void **state)
{
	(void)state;
	enum { MOST = 100, GUARD = 32 };
	stk_yuv_row *const other = stk__yuv_row_for(stk__cpu_capabilities());
	uint8_t y[MOST], u[MOST], v[MOST], want[3 * MOST + GUARD], got[3 * MOST + GUARD];
	uint32_t seed = 1;
	for (int round = 0; round < 4000; round++) {
		const int32_t width = 1 + round % MOST;
		const int pixel = round / MOST % 2 ? 1 : 3, extreme = round % 7 == 0;
		const struct stk_yuv_matrix m = stk__yuv_matrix(round % 3 ? .2126 : .299, round % 3 ? .0722 : .114, round % 5 == 0, 8);
		for (int i = 0; i < MOST; i++) {
			seed = seed * 1664525 + 1013904223;
			y[i] = extreme ? (uint8_t)(seed >> 31 ? 255 : 0) : (uint8_t)(seed >> 24);
			u[i] = extreme ? (uint8_t)(seed >> 30 & 1 ? 255 : 0) : (uint8_t)(seed >> 16);
			v[i] = extreme ? (uint8_t)(seed >> 29 & 1 ? 255 : 0) : (uint8_t)(seed >> 8);
		}
		memset(want, 7, sizeof want);
		memset(got, 7, sizeof got);
		const int step = pixel == 3 ? 1 : MOST;
		stk__yuv_row(&m, y, u, v, width, (uint8_t *[3]){want, want + step, want + 2 * step}, pixel);
		other(&m, y, u, v, width, (uint8_t *[3]){got, got + step, got + 2 * step}, pixel);
		assert_memory_equal(want, got, sizeof want);
	}
}

static void test_turned_views(void **state)
{
	(void)state;
	uint8_t memory[6 * 3];
	for (int rotation = 0; rotation < 360; rotation += 90) {
		const bool lies = rotation == 90 || rotation == 270;
		const struct stk_image dst = stk__image_hwc(memory, STK_UINT8, lies ? 2 : 3, lies ? 3 : 2, 3),
				       view = stk__image_turned(&dst, rotation);
		assert_int_equal(view.width, 3);
		assert_int_equal(view.height, 2);
		for (int y = 0; y < 2; y++)
			for (int x = 0; x < 3; x++) {
				/* the position of pixel (x, y) of a picture of 3 x 2 pixels after clockwise rotations by 0, 90, 180 and 270 degrees */
				const int at[4][2] = {{x, y}, {1 - y, x}, {2 - x, 1 - y}, {y, 2 - x}};
				const uint8_t *want = memory + (at[rotation / 90][1] * dst.width + at[rotation / 90][0]) * 3;
				assert_ptr_equal((uint8_t *)view.data + y * view.row + x * view.pixel, want);
			}
	}
}

/* ---- a video ---- */

enum { FRAMES = 5, WIDTH = 48, HEIGHT = 32 };

static void put(uint8_t **at, const char *name, uint32_t value)
{
	memcpy(*at, name, 4);
	memcpy(*at + 4, &value, 4); /* little endian, as the machine is */
	*at += 8;
}

static void put_numbers(uint8_t **at, const uint32_t *values, size_t n)
{
	memcpy(*at, values, n * sizeof *values);
	*at += n * sizeof *values;
}

static uint8_t *make_avi(size_t *size)
{
	struct test_file frames[FRAMES];
	size_t total = 0;
	for (int i = 0; i < FRAMES; i++) {
		struct test_jpeg j = {.width = WIDTH,
			.height = HEIGHT,
			.components = 3,
			.h = {2, 1, 1},
			.v = {2, 1, 1},
			.quality = 90,
			.seed = (uint64_t)i};
		frames[i] = test_jpeg_make(&j);
		total += 8 + ((frames[i].size + 1) & ~(size_t)1);
	}
	uint8_t *avi = calloc(1, total + 1024), *at = avi;
	put(&at, "RIFF", (uint32_t)(4 + 200 + 12 + total));
	put(&at, "AVI ", 0);
	at -= 4;
	put(&at, "LIST", 192);
	put(&at, "hdrl", 0);
	at -= 4;
	put(&at, "avih", 56);
	put_numbers(&at, (uint32_t[]){40000, 0, 0, 0, FRAMES, 0, 1, 0, WIDTH, HEIGHT, 0, 0, 0, 0}, 14);
	put(&at, "LIST", 116);
	put(&at, "strl", 0);
	at -= 4;
	put(&at, "strh", 56);
	memcpy(at, "vidsMJPG", 8);
	at += 8;
	put_numbers(&at, (uint32_t[]){0, 0, 0, 1, 25, 0, FRAMES, 0, 0, 0, 0, HEIGHT << 16 | WIDTH}, 12);
	put(&at, "strf", 40);
	put_numbers(&at, (uint32_t[]){40, WIDTH, HEIGHT, 24 << 16 | 1}, 4);
	memcpy(at, "MJPG", 4);
	at += 24;
	put(&at, "LIST", (uint32_t)(4 + total));
	put(&at, "movi", 0);
	at -= 4;
	for (int i = 0; i < FRAMES; i++) {
		put(&at, "00dc", (uint32_t)frames[i].size);
		memcpy(at, frames[i].data, frames[i].size);
		at += (frames[i].size + 1) & ~(size_t)1;
		free(frames[i].data);
	}
	*size = (size_t)(at - avi);
	return avi;
}

/* Opens the video from `path` or, if that is NULL, from memory, and reads frames. Sets *hash to a hash of the frames. Returns the first error. */
static enum stk_status use_video(const uint8_t *avi, size_t size, const char *path, uint64_t *hash, struct stk_error *err)
{
	struct stk_video_request request = {
		.size = sizeof request, .data = path ? NULL : avi, .bytes = (int64_t)size, .path = path, .stream = -1};
	struct stk_video *v = NULL;
	const int64_t wanted[] = {4, 0, 2, 2};
	const uint8_t *pixels;
	int32_t height, width;
	enum stk_status s = stk_video_open(&request, &v, err);
	if (!s)
		s = stk_video_read(v, wanted, 4, false, &pixels, &height, &width, err);
	if (!s) {
		assert_int_equal(height, HEIGHT);
		assert_int_equal(width, WIDTH);
		*hash = 14695981039346656037u;
		for (size_t i = 0; i < (size_t)4 * HEIGHT * WIDTH * 3; i++)
			*hash = (*hash ^ pixels[i]) * 1099511628211u;
		assert_memory_equal(
			pixels + (size_t)2 * HEIGHT * WIDTH * 3, pixels + (size_t)3 * HEIGHT * WIDTH * 3, (size_t)HEIGHT * WIDTH * 3);
		assert_int_equal(stk_video_counters(v, NULL, 100), stk_video_counters(v, NULL, 0));
		assert_memory_not_equal(pixels, pixels + (size_t)HEIGHT * WIDTH * 3, (size_t)HEIGHT * WIDTH * 3);
	}
	stk_video_close(v);
	return s;
}

static bool has_video(const uint8_t *avi, size_t size)
{
	struct stk_error err = {0};
	uint64_t hash;
	return use_video(avi, size, NULL, &hash, &err) != STK_UNSUPPORTED;
}

static void test_faults_are_reported(void **state)
{
	(void)state;
	size_t size;
	uint8_t *avi = make_avi(&size);
	uint64_t want = 0;
	struct stk_error err = {0};
	if (!has_video(avi, size)) {
		free(avi);
		skip();
	}
	assert_int_equal(use_video(avi, size, NULL, &want, &err), STK_OK);
#ifdef STK_FAULTS
	char path[] = "/tmp/stoker-media-XXXXXX.avi";
	int fd = mkstemps(path, 4);
	assert_true(fd >= 0 && write(fd, avi, size) == (ssize_t)size);
	close(fd);
	for (int kind = 0; kind < 2; kind++)
		for (int64_t nth = 0; nth < 5000; nth++) {
			uint64_t hash = 0;
			err = (struct stk_error){0};
			stk__fault_set(kind ? STK_FAULT_READ : STK_FAULT_ALLOC, nth);
			enum stk_status s = use_video(avi, size, path, &hash, &err);
			const bool all = stk__fault_passed(kind ? STK_FAULT_READ : STK_FAULT_ALLOC) <= nth;
			stk__fault_set(kind ? STK_FAULT_READ : STK_FAULT_ALLOC, -1);
			if (s && (err.code != s || !err.message[0]))
				fail_msg("fault %d of kind %d: %s without its message", (int)nth, kind, stk_status_name(s));
			if (!s && hash != want)
				fail_msg("fault %d of kind %d: wrong pixels and no error", (int)nth, kind);
			if (all) {
				assert_int_equal(s, STK_OK);
				break;
			}
		}
	unlink(path);
#endif
	free(avi);
}

/* ---- frames by path ---- */

/* Reads frames in such an order that a decoder first continues, then returns to earlier frames, and then is closed for another video. Returns the first
 * error. */
static enum stk_status use_cache(const char *path, uint64_t *hash, struct stk_error *err)
{
	const int64_t wanted[] = {1, 2, 4, 0};
	struct stk_video_cache *cache;
	struct stk_arena arena;
	stk__arena_init(&arena);
	enum stk_status s = stk__video_cache_create(1, &cache, err);
	*hash = 14695981039346656037u;
	for (int i = 0; i < 5 && !s; i++) {
		struct stk_video_tally tally = {0};
		struct stk_frame_request r = {.path = path, .frame = i < 4 ? wanted[i] : -1, .seconds = 0.13, .tally = &tally};
		struct stk_image image;
		stk__arena_reset(&arena);
		s = stk__video_cache_read(cache, &r, &arena, &image, err);
		if (!s)
			assert_int_equal(tally.frames, 1);
		for (size_t k = 0; k < (size_t)HEIGHT * WIDTH * 3 && !s; k++)
			*hash = (*hash ^ ((uint8_t *)image.data)[k]) * 1099511628211u;
	}
	stk__arena_destroy(&arena);
	stk__video_cache_destroy(cache);
	return s;
}

static void test_frames_by_path(void **state)
{
	(void)state;
	size_t size;
	uint8_t *avi = make_avi(&size);
	struct stk_error err = {0};
	uint64_t want;
	char path[] = "/tmp/stoker-media-XXXXXX.avi";
	int fd = mkstemps(path, 4);
	assert_true(fd >= 0 && write(fd, avi, size) == (ssize_t)size);
	close(fd);
	if (!has_video(avi, size)) {
		free(avi);
		unlink(path);
		skip();
	}
	assert_int_equal(use_cache(path, &want, &err), STK_OK);
#ifdef STK_FAULTS
	for (int kind = 0; kind < 2; kind++)
		for (int64_t nth = 0; nth < 5000; nth++) {
			uint64_t hash = 0;
			err = (struct stk_error){0};
			stk__fault_set(kind ? STK_FAULT_READ : STK_FAULT_ALLOC, nth);
			enum stk_status s = use_cache(path, &hash, &err);
			const bool all = stk__fault_passed(kind ? STK_FAULT_READ : STK_FAULT_ALLOC) <= nth;
			stk__fault_set(kind ? STK_FAULT_READ : STK_FAULT_ALLOC, -1);
			assert_true(!s || (err.code == s && err.message[0]));
			assert_true(s || hash == want);
			if (all)
				break;
		}
#endif
	free(avi);
	unlink(path);
}

/* Makes an index, and converts it to bytes and back. Returns the first error. */
static enum stk_status pack_index(const uint8_t *avi, size_t size, struct stk_error *err)
{
	const struct stk_media_input in = {.size = (int64_t)size, .data = avi};
	struct stk_video_index *x, *again = NULL;
	uint8_t *bytes = NULL;
	size_t n;
	enum stk_status s = stk__video_index_create(&in, -1, &x, err);
	if (!s)
		s = stk__video_index_pack(x, &bytes, &n, err);
	if (!s)
		s = stk__video_index_unpack(bytes, n, &again, err);
	if (!s)
		assert_memory_equal(stk__video_facts(x), stk__video_facts(again), sizeof(struct stk_video_facts));
	stk__free(bytes);
	stk__video_index_destroy(x);
	stk__video_index_destroy(again);
	return s;
}

static void test_faults_around_packed_indexes(void **state)
{
	(void)state;
	size_t size;
	struct stk_error err = {0};
	uint8_t *avi = make_avi(&size);
	if (!has_video(avi, size)) {
		free(avi);
		skip();
	}
	assert_int_equal(pack_index(avi, size, &err), STK_OK);
#ifdef STK_FAULTS
	enum stk_status s = STK_NO_MEMORY;
	for (int64_t nth = 0; nth < 5000 && s; nth++) {
		err = (struct stk_error){0};
		stk__fault_set(STK_FAULT_ALLOC, nth);
		s = pack_index(avi, size, &err);
		const bool all = stk__fault_passed(STK_FAULT_ALLOC) <= nth;
		stk__fault_set(STK_FAULT_ALLOC, -1);
		if (s && (s != STK_NO_MEMORY || err.code != s || !err.message[0]))
			fail_msg("fault %d: %s without its message", (int)nth, stk_status_name(s));
		assert_true(!all || !s);
	}
	assert_int_equal(s, STK_OK);
#endif
	free(avi);
}

/* ---- packets for the GPU's parser ---- */

static void convert_packet(const struct stk_annex_b *a, const uint8_t *packet, size_t size, const uint8_t *want, size_t n)
{
	uint8_t to[64];
	size_t written = 0;
	assert_true(stk__annex_b_capacity(a, size) <= sizeof to);
	assert_int_equal(stk__annex_b_convert(a, packet, size, to, &written, NULL), STK_OK);
	assert_int_equal(written, n);
	assert_memory_equal(to, want, n);
}
#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static void test_units_follow_start_codes(void **state)
{
	(void)state;
	struct stk_annex_b a;
	struct stk_error err = {0};
	uint8_t to[64];
	size_t written;
	/* avcC: lengths of two bytes, one sequence parameter set and one picture parameter set */
	assert_int_equal(
		stk__annex_b_create(STK_UNITS_H264, BYTES(1, 100, 0, 13, 0xfd, 0xe1, 0, 2, 0x67, 9, 1, 0, 1, 0x68), &a, &err), STK_OK);
	assert_int_equal(a.length, 2);
	assert_int_equal(a.head_size, 11);
	assert_memory_equal(a.head, ((uint8_t[]){0, 0, 0, 1, 0x67, 9, 0, 0, 0, 1, 0x68}), 11);
	convert_packet(&a, BYTES(0, 2, 0x65, 7, 0, 0, 0, 1, 0x41), BYTES(0, 0, 0, 1, 0x65, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0x41));
	assert_int_equal(stk__annex_b_convert(&a, BYTES(0, 3, 0x65, 7), to, &written, &err), STK_CORRUPT);
	assert_int_equal(stk__annex_b_convert(&a, BYTES(0, 1, 0x65, 7), to, &written, &err), STK_CORRUPT);
	assert_int_equal(stk__annex_b_convert(&a, BYTES(0, 6, 0x65, 0, 0, 1, 5, 6), to, &written, &err), STK_CORRUPT);
	assert_int_equal(stk__annex_b_convert(&a, BYTES(0, 9, 0x65, 7, 0, 0, 0, 0, 0, 0, 0), to, &written, &err), STK_CORRUPT);
	assert_int_equal(stk__annex_b_convert(&a, BYTES(0, 8, 0x65, 0, 0, 3, 0, 3, 0, 0), to, &written, &err), STK_OK);
	/* Only slices of pictures to which no picture refers (nal_ref_idc 0) are unneeded. */
	assert_true(stk__annex_b_unneeded(&a, BYTES(0, 1, 9, 0, 2, 0x01, 5)));
	assert_false(stk__annex_b_unneeded(&a, BYTES(0, 2, 0x41, 5)));
	assert_false(stk__annex_b_unneeded(&a, BYTES(0, 2, 0x67, 5)));
	assert_false(stk__annex_b_unneeded(&a, BYTES(0, 9, 0x01, 5)));
	stk__annex_b_free(&a);
	assert_int_equal(stk__annex_b_create(STK_UNITS_H264, BYTES(1, 100, 0, 13, 0xff, 0xe1, 0, 9, 0x67), &a, &err), STK_CORRUPT);
	assert_non_null(strstr(err.message, "cut short"));
	/* Streams that are in Annex B already stay unchanged. */
	assert_int_equal(stk__annex_b_create(STK_UNITS_H264, NULL, 0, &a, &err), STK_OK);
	assert_true(stk__annex_b_unneeded(&a, BYTES(0, 0, 0, 1, 9, 0, 0, 1, 0x01, 5)));
	assert_false(stk__annex_b_unneeded(&a, BYTES(0, 0, 1, 0x41, 5)));
	convert_packet(&a, BYTES(0, 0, 1, 0x65), BYTES(0, 0, 1, 0x65));
	stk__annex_b_free(&a);
}

/* In HEVC, a picture to which no picture of its temporal layer refers is unneeded only in the highest layer. */
static void test_unneeded_pictures_of_hevc(void **state)
{
	(void)state;
	struct stk_annex_b a;
	const uint8_t trail_n[] = {0, 0, 1, 0x00, 1, 9}, higher[] = {0, 0, 1, 0x00, 2, 9}, trail_r[] = {0, 0, 1, 0x02, 1, 9};
	/* The file's header holds a sequence parameter set with one temporal layer, and then with two. */
	assert_int_equal(stk__annex_b_create(STK_UNITS_HEVC, BYTES(0, 0, 1, 0x42, 1, 0x01, 9), &a, NULL), STK_OK);
	assert_int_equal(a.layers, 1);
	assert_true(stk__annex_b_unneeded(&a, trail_n, sizeof trail_n));
	assert_false(stk__annex_b_unneeded(&a, trail_r, sizeof trail_r));
	stk__annex_b_free(&a);
	assert_int_equal(stk__annex_b_create(STK_UNITS_HEVC, BYTES(0, 0, 1, 0x42, 1, 0x03, 9), &a, NULL), STK_OK);
	assert_int_equal(a.layers, 2);
	assert_false(stk__annex_b_unneeded(&a, trail_n, sizeof trail_n));
	assert_true(stk__annex_b_unneeded(&a, higher, sizeof higher));
	stk__annex_b_free(&a);
	assert_int_equal(stk__annex_b_create(STK_UNITS_HEVC, NULL, 0, &a, NULL), STK_OK); /* the number of layers is unknown */
	assert_false(stk__annex_b_unneeded(&a, trail_n, sizeof trail_n));
	/* A key packet with parameter sets of two layers; the set of another layer of the stream (nuh_layer_id 1) does not count. */
	assert_false(stk__annex_b_unneeded(&a, BYTES(0, 0, 1, 0x42, 1, 0x03, 9, 0, 0, 1, 0x42, 9, 0x07, 9, 0, 0, 1, 0x26, 1, 9)));
	assert_int_equal(a.layers, 2);
	assert_false(stk__annex_b_unneeded(&a, trail_n, sizeof trail_n));
	assert_true(stk__annex_b_unneeded(&a, higher, sizeof higher));
}

static void test_colours_of_key_frames(void **state)
{
	(void)state;
	int matrix = -1;
	bool full = true;
	/* VP9: marker 2, profile 0, key frame, shown; sync code; colour space 2 (BT.709), limited, then full range */
	assert_true(stk__colour_of_vp9(BYTES(0x82, 0x49, 0x83, 0x42, 0x40), &matrix, &full));
	assert_true(matrix == 1 && !full);
	assert_true(stk__colour_of_vp9(BYTES(0x82, 0x49, 0x83, 0x42, 0x50), &matrix, &full));
	assert_true(matrix == 1 && full);
	assert_false(stk__colour_of_vp9(BYTES(0x82, 0x49, 0x83, 0x42, 0xe0), &matrix, &full)); /* RGB */
	assert_false(stk__colour_of_vp9(BYTES(0x86, 0x49, 0x83, 0x42, 0x40), &matrix, &full)); /* not a key frame */
	assert_false(stk__colour_of_vp9(BYTES(0x82, 0x49), &matrix, &full));
	assert_true(stk__colour_of_vp8(BYTES(0x10, 2, 0, 0x9d, 1, 0x2a, 16, 0, 16, 0, 0, 0, 0), &matrix, &full));
	assert_true(matrix == 5 && !full);
	assert_true(stk__colour_of_vp8(BYTES(0x10, 2, 0, 0x9d, 1, 0x2a, 16, 0, 16, 0, 0x7f, 0, 0), &matrix, &full));
	assert_true(matrix == 5 && full);
	assert_false(stk__colour_of_vp8(BYTES(0x11, 2, 0, 0x9d, 1, 0x2a, 16, 0, 16, 0, 0, 0, 0), &matrix, &full));
}

static void test_wrong_requests(void **state)
{
	(void)state;
	struct stk_error err = {0};
	struct stk_video *v = NULL;
	struct stk_video_request request = {.size = sizeof request};
	assert_int_equal(stk_video_open(NULL, &v, &err), STK_INVALID);
	assert_int_equal(stk_video_open(&request, &v, &err), STK_INVALID);
	request = (struct stk_video_request){.size = 1, .path = "a"};
	assert_int_equal(stk_video_open(&request, &v, &err), STK_INVALID);
	request = (struct stk_video_request){.size = sizeof request, .path = "a", .data = "", .stream = -1};
	assert_int_equal(stk_video_open(&request, &v, &err), STK_INVALID);
	assert_null(v);
	stk_video_close(NULL);
	assert_int_equal(stk_video_shown(NULL, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plans),
		cmocka_unit_test(test_colors),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_turned_views),
		cmocka_unit_test(test_faults_are_reported),
		cmocka_unit_test(test_frames_by_path),
		cmocka_unit_test(test_faults_around_packed_indexes),
		cmocka_unit_test(test_units_follow_start_codes),
		cmocka_unit_test(test_unneeded_pictures_of_hevc),
		cmocka_unit_test(test_colours_of_key_frames),
		cmocka_unit_test(test_wrong_requests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
