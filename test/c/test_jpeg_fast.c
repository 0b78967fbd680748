/* SPDX-License-Identifier: Apache-2.0
 * Compares our JPEG decoder with libjpeg-turbo: it must accept the right files, give the same pixels, and agree about damaged files. Also compares the
 * header parser with libjpeg's. */
#include "test.h"

#include "base/cpu.h"
#include "codec/jpeg_fast.h"
#include "codec/jpeg_progressive.h"
#include "decoding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

static const int samplings[][6] = {{1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1}, {4, 1, 1, 1, 1, 1},
	{4, 2, 1, 1, 1, 1}, {2, 2, 2, 1, 2, 1}, {2, 2, 1, 2, 1, 2}, {2, 2, 2, 1, 1, 2}, {1, 4, 1, 1, 1, 1}, {1, 1, 2, 2, 1, 1},
	{3, 1, 1, 1, 1, 1}, {1, 1, 2, 1, 2, 1}, {4, 1, 2, 1, 1, 1}, {2, 4, 1, 1, 1, 1}, {2, 2, 2, 2, 1, 1}, {3, 3, 1, 1, 1, 1}};
/* The number of samplings that are tested: without the last one, 3x3, which has more blocks than a scan may have. */
enum { SAMPLINGS = sizeof samplings / sizeof *samplings - 1 };

static struct test_jpeg random_baseline(uint64_t *r)
{
	struct test_jpeg j = {.width = test_random_in(r, 1, 220),
		.height = test_random_in(r, 1, 160),
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
	j.rgb = j.components == 3 && test_random_in(r, 0, 11) == 0;
	return j;
}

static struct test_jpeg random_progressive(uint64_t *r)
{
	struct test_jpeg j = random_baseline(r);
	j.progressive = true;
	if (test_random_in(r, 0, 1))
		j.script = test_random(r) | 1;
	return j;
}

/* Our JPEG decoder with the kernels for a set of processor features. */
struct decoders {
	unsigned cpu;
	struct stk_jpeg_kernels kernels;
	struct stk_jpeg_fast *fast;
};

static void make_decoders(struct decoders d[2])
{
	for (int i = 0; i < 2; i++) {
		d[i].cpu = i ? stk__cpu_capabilities() : 0;
		stk__jpeg_kernels_init(&d[i].kernels, d[i].cpu);
		d[i].fast = stk__jpeg_fast_create(&d[i].kernels);
		assert_non_null(d[i].fast);
	}
}

static void destroy_decoders(struct decoders d[2])
{
	stk__jpeg_fast_destroy(d[0].fast);
	stk__jpeg_fast_destroy(d[1].fast);
}

enum { MOST_SCANS = 4096 };

/* Decodes with our decoder, without libjpeg-turbo as a fallback. */
static enum stk_status decode_fast(const struct decoders *d, struct stk_arena *scratch, struct test_file file, enum stk_image_type type,
	int denom, struct stk_rect w, uint8_t *out)
{
	struct stk_jpeg_header h;
	size_t end;
	struct stk_error err = {0};
	if (stk__jpeg_header_parse(file.data, file.size, &h, &err))
		fail_msg("%s", err.message);
	assert_true(stk__jpeg_find_eoi(file.data, file.size, &h, &end));
	struct stk_decode rq = {.data = file.data,
		.size = file.size,
		.type = type,
		.denom = denom,
		.window = w,
		.dst = stk__image_hwc(out, STK_UINT8, w.w, w.h, type == STK_GRAY ? 1 : 3)};
	enum stk_status status = h.process == STK_JPEG_PROGRESSIVE ? stk__jpeg_progressive_decode(&d->kernels, &h, MOST_SCANS, &rq, scratch)
								   : stk__jpeg_fast_decode(d->fast, &h, end, &rq, scratch);
	stk__arena_reset(scratch);
	return status;
}

static const struct {
	enum stk_image_type type;
	J_COLOR_SPACE space;
} types[] = {{STK_RGB, JCS_RGB}, {STK_BGR, JCS_EXT_BGR}, {STK_GRAY, JCS_GRAYSCALE}};

/* Inserts up to 3 bytes of FF before restart markers, as the standard allows [B.1.1.2]. */
static void add_fill_bytes(struct test_file *f, uint64_t *r)
{
	enum { MOST = 3, SLACK = 64 };
	struct test_file out = {calloc(1, f->size * (MOST + 1) + SLACK), 0};
	assert_non_null(out.data);
	for (size_t i = 0; i < f->size; i++) {
		bool marker = i + 1 < f->size && f->data[i] == 0xff && (f->data[i + 1] & 0xf8) == 0xd0;
		for (int n = marker ? test_random_in(r, 0, MOST) : 0; n > 0; n--)
			out.data[out.size++] = 0xff;
		out.data[out.size++] = f->data[i];
	}
	free(f->data);
	*f = out;
}

static void compare_windows(const struct decoders decoders[2], struct test_jpeg j, uint64_t *r, int t, int denom)
{
	struct stk_arena scratch;
	int width, height;
	bool lossy;
	struct test_file f = test_jpeg_make(&j);
	if (j.restart && test_random_in(r, 0, 1))
		add_fill_bytes(&f, r);
	uint8_t *want = test_jpeg_reference_scaled(f, types[t].space, denom, &width, &height, &lossy);
	assert_non_null(want);
	stk__arena_init(&scratch);
	size_t pixel = types[t].type == STK_GRAY ? 1 : 3;
	uint8_t *got = malloc((size_t)width * (size_t)height * pixel);
	for (int k = 0; k < 6; k++) {
		struct stk_rect w = k ? test_window(r, width, height) : (struct stk_rect){0, 0, width, height};
		enum stk_status status = decode_fast(&decoders[k & 1], &scratch, f, types[t].type, denom, w, got);
		if (status || !test_window_equal(got, want, width, pixel, w))
			fail_msg("1/%d of %dx%d, %d components %dx%d %dx%d %dx%d quality %d restart %d seed %llu script %llu, window %d %d "
				 "%d %d: status %d",
				denom, j.width, j.height, j.components, j.h[0], j.v[0], j.h[1], j.v[1], j.h[2], j.v[2], j.quality,
				j.restart, (unsigned long long)j.seed, (unsigned long long)j.script, w.x, w.y, w.w, w.h, status);
	}
	stk__arena_destroy(&scratch);
	free(got);
	free(want);
	free(f.data);
}

static void take_and_compare(struct test_jpeg (*make)(uint64_t *), uint64_t r, int files)
{
	struct decoders decoders[2];
	make_decoders(decoders);
	for (int n = 0; n < files; n++) {
		struct test_jpeg j = make(&r);
		int t = test_random_in(&r, 0, 2), denom = n & 1 ? 1 : 2 << n / 2 % 3;
		if (!j.rgb || types[t].type != STK_GRAY) /* our decoder supports only these combinations, and leaves other files to
			                            * libjpeg-turbo */
			compare_windows(decoders, j, &r, t, denom);
	}
	destroy_decoders(decoders);
}

static void test_it_takes_baseline_and_equals_libjpeg(void **state)
{
	(void)state;
	take_and_compare(random_baseline, test_seed() + 7, 800);
}

static void test_it_takes_progressive_and_equals_libjpeg(void **state)
{
	(void)state;
	const char *rounds = getenv("STOKER_TEST_ROUNDS");
	take_and_compare(random_progressive, test_seed() + 8, rounds ? atoi(rounds) : 800);
}

/* libjpeg-turbo smooths images whose scans leave coefficients undetermined, so our decoder must refuse such files. */
static void test_it_leaves_unfinished_scans_to_libjpeg(void **state)
{
	(void)state;
	uint64_t r = test_seed() + 9;
	struct decoders decoders[2];
	struct stk_arena scratch;
	struct stk_decoder *all = test_decoder(NULL);
	make_decoders(decoders);
	stk__arena_init(&scratch);
	for (int n = 0; n < 100; n++) {
		struct test_jpeg j = random_progressive(&r);
		j.script |= 1;
		j.unfinished = true;
		int width, height;
		bool lossy;
		struct test_file f = test_jpeg_make(&j);
		uint8_t *want = test_jpeg_reference(f, JCS_RGB, &width, &height, &lossy), *got = malloc((size_t)width * (size_t)height * 3);
		struct stk_rect w = n % 3 == 0 ? (struct stk_rect){0, 0, width, height} : test_window(&r, width, height);
		assert_non_null(want);
		assert_int_not_equal(decode_fast(&decoders[n & 1], &scratch, f, STK_RGB, 1, w, got), STK_OK);
		free(got);
		enum stk_status status;
		got = test_decode(all, f, STK_RGB, STK_UINT8, false, &w, &status, NULL);
		if (status != STK_LIMIT && (!got || !test_window_equal(got, want, width, 3, w)))
			fail_msg("file %d, window %d %d %d %d of %dx%d: status %d", n, w.x, w.y, w.w, w.h, width, height, status);
		free(got);
		free(want);
		free(f.data);
	}
	stk__arena_destroy(&scratch);
	stk__decoder_destroy(all);
	destroy_decoders(decoders);
}

/* ---- coefficients that an encoder would not produce ---- */

static void random_coefficients(uint64_t *r, JBLOCKROW row, JDIMENSION blocks, int most)
{
	for (JDIMENSION b = 0; b < blocks; b++) {
		int rows = test_random_in(r, 0, 2) ? 8 : 1, density = test_random_in(r, 0, 100);
		for (int i = 0; i < 64; i++)
			row[b][i] = (JCOEF)(i < 8 * rows && test_random_in(r, 0, 99) < density ? test_random_in(r, -most, most) : 0);
	}
}

static void say_nothing(j_common_ptr cinfo, int level)
{
	(void)cinfo;
	(void)level;
}

/* Makes a file with random coefficients, of magnitudes up to `most`, and random quantisation steps: sums overflow 16 bits, and pixels saturate. */
static struct test_file make_extreme(uint64_t *r, int width, int height, int most, bool progressive)
{
	struct test_jpeg frame = {
		.width = width, .height = height, .components = 3, .h = {2, 1, 1}, .v = {2, 1, 1}, .quality = 50, .seed = 1};
	struct test_file f = test_jpeg_make(&frame);
	struct jpeg_decompress_struct d;
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	d.err = c.err = jpeg_std_error(&errors);
	errors.emit_message = say_nothing;
	jpeg_create_decompress(&d);
	jpeg_create_compress(&c);
	jpeg_mem_src(&d, f.data, f.size);
	jpeg_read_header(&d, TRUE);
	jvirt_barray_ptr *arrays = jpeg_read_coefficients(&d);
	for (int i = 0; i < 3; i++) {
		jpeg_component_info *info = &d.comp_info[i];
		for (JDIMENSION y = 0; y < info->height_in_blocks; y++)
			random_coefficients(
				r, d.mem->access_virt_barray((j_common_ptr)&d, arrays[i], y, 1, TRUE)[0], info->width_in_blocks, most);
	}
	jpeg_copy_critical_parameters(&d, &c);
	for (int t = 0; t < 2; t++)
		for (int i = 0; i < 64; i++)
			c.quant_tbl_ptrs[t]->quantval[i] = (UINT16)test_random_in(r, 1, test_random_in(r, 0, 3) ? 255 : 65535);
	c.optimize_coding = TRUE;
	if (progressive)
		jpeg_simple_progression(&c);
	unsigned char *out = NULL;
	unsigned long size = 0;
	jpeg_mem_dest(&c, &out, &size);
	jpeg_write_coefficients(&c, arrays);
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	jpeg_destroy_decompress(&d);
	free(f.data);
	f.data = calloc(1, size + 64);
	f.size = size;
	memcpy(f.data, out, size);
	free(out);
	return f;
}

struct catcher {
	struct jpeg_error_mgr base;
	jmp_buf escape;
	bool cut_off; /* the file has no end marker, so libjpeg added one */
};

static void catch_message(j_common_ptr cinfo, int level)
{
	if (level < 0 && cinfo->err->msg_code == JWRN_JPEG_EOF)
		((struct catcher *)cinfo->err)->cut_off = true;
}

static void catch_error(j_common_ptr cinfo)
{
	longjmp(((struct catcher *)cinfo->err)->escape, 1);
}

/* Reads a header with libjpeg. Returns false if libjpeg refuses it, or had to add an end marker. */
static bool libjpeg_header(struct test_file f, struct jpeg_decompress_struct *c, struct catcher *catcher)
{
	c->err = jpeg_std_error(&catcher->base);
	catcher->base.error_exit = catch_error;
	catcher->base.emit_message = catch_message;
	catcher->cut_off = false;
	jpeg_create_decompress(c);
	if (setjmp(catcher->escape))
		return false;
	jpeg_mem_src(c, f.data, f.size);
	return jpeg_read_header(c, TRUE) == JPEG_HEADER_OK && !catcher->cut_off;
}

/* libjpeg-turbo's versions treat sums that exceed 16 bits differently: plain C keeps 32 bits, NEON drops the upper bits after the first pass, and SSE2 and
 * AVX2 saturate there. Our decoder gives the results of the x86 versions on all processors. */
#if defined(__x86_64__)
enum { OVERFLOWS_ARE_LIBJPEGS = 1 };
#else
enum { OVERFLOWS_ARE_LIBJPEGS = 0 };
#endif

/* Continues the FNV-1a hash `h` with `size` more bytes. */
static uint64_t digest(uint64_t h, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		h = (h ^ data[i]) * 0x100000001b3;
	return h;
}

/* Decodes files of extreme coefficients, and compares with libjpeg-turbo where its results are defined. Returns a hash of the pixels. */
static uint64_t decode_extremes(uint64_t r)
{
	struct decoders decoders[2];
	make_decoders(decoders);
	struct stk_arena scratch;
	stk__arena_init(&scratch);
	uint64_t sum[2] = {0, 0};
	for (int n = 0; n < 160; n++) {
		struct test_file f = make_extreme(&r, 64, 48, n % 2 ? 1023 : 40, n / 8 % 2);
		int width, height, denom = 1 << n / 2 % 4;
		bool lossy;
		uint8_t *want = test_jpeg_reference_scaled(f, JCS_RGB, denom, &width, &height, &lossy), *got = malloc(64 * 48 * 3);
		size_t size = (size_t)width * (size_t)height * 3;
		assert_non_null(want);
		for (int level = 0; level < 2; level++) {
			struct stk_rect all = {0, 0, width, height};
			assert_int_equal(decode_fast(&decoders[level], &scratch, f, STK_RGB, denom, all, got), STK_OK);
			if (OVERFLOWS_ARE_LIBJPEGS && memcmp(got, want, size))
				fail_msg("file %d at 1/%d, level %d: pixels differ", n, denom, level);
			sum[level] = digest(sum[level], got, size);
			if (sum[0] != sum[level])
				fail_msg("file %d at 1/%d: kernels differ", n, denom);
		}
		free(want);
		free(got);
		free(f.data);
	}
	stk__arena_destroy(&scratch);
	destroy_decoders(decoders);
	return sum[0];
}

static void test_extreme_coefficients_equal_libjpeg(void **state)
{
	(void)state;
	decode_extremes(test_seed());
	assert_int_equal(decode_extremes(1), 0xe08641eb61f0cd81); /* the hash of libjpeg-turbo's pixels on x86 */
}

/* Returns whether coefficients are so small that all of libjpeg-turbo's versions agree. In each of the two passes of the inverse DCT, a sum is less
 * than 1.39 times that of the coefficients' magnitudes; after both it is divided by 8. With magnitudes of 2000 in all, sums between the passes fit in 16 bits,
 * and samples stay below 512, beyond which plain C wraps. */
static bool sums_fit(struct test_file f)
{
	enum { MOST = 2000 };
	struct jpeg_decompress_struct c;
	struct catcher catcher;
	volatile bool fit = libjpeg_header(f, &c, &catcher);
	if (setjmp(catcher.escape))
		fit = false;
	jvirt_barray_ptr *arrays = fit ? jpeg_read_coefficients(&c) : NULL;
	for (int i = 0; arrays && fit && i < c.num_components; i++) {
		const jpeg_component_info *info = &c.comp_info[i];
		for (JDIMENSION y = 0; info->quant_table && y < info->height_in_blocks; y++) {
			JBLOCKROW row = c.mem->access_virt_barray((j_common_ptr)&c, arrays[i], y, 1, FALSE)[0];
			for (JDIMENSION b = 0; b < info->width_in_blocks; b++) {
				int64_t sum = 0;
				for (int k = 0; k < 64; k++)
					sum += llabs((long long)row[b][k] * info->quant_table->quantval[k]);
				fit = fit && sum <= MOST;
			}
		}
	}
	jpeg_destroy_decompress(&c);
	return fit;
}

/* ---- damage ---- */

enum { MOST_PIXELS = 4 << 20 };

static void damage(uint64_t *r, struct test_file *f)
{
	int kind = test_random_in(r, 0, 5), count = test_random_in(r, 1, kind == 0 ? 1 : 6);
	for (int i = 0; i < count; i++) {
		size_t at = (size_t)test_random_in(r, 2, (int)f->size - 1);
		/* A third of the damage is in the first 700 bytes, since changes of headers have the greatest effect. */
		if (test_random_in(r, 0, 2) == 0)
			at = (size_t)test_random_in(r, 2, 700) % f->size;
		if (kind < 3)
			f->data[at] ^= (uint8_t)(1 << test_random_in(r, 0, 7));
		else if (kind == 3)
			f->data[at] = (uint8_t)test_random(r);
		else if (kind == 4)
			f->data[at] = 0xff;
		else
			memmove(f->data + at, f->data + at + 1, f->size - at - 1);
	}
	if (test_random_in(r, 0, 19) == 0)
		f->size -= (size_t)test_random_in(r, 0, (int)f->size / 2);
}

struct verdict {
	enum stk_status status;
	size_t size;
	uint8_t *pixels;
	char message[sizeof(((struct stk_error *)0)->message)];
};

static struct verdict judge(struct stk_decoder *d, struct test_file f, const struct stk_image_info *info, enum stk_image_type type,
	int denom, struct stk_rect w)
{
	struct verdict v = {.size = (size_t)w.w * (size_t)w.h * (size_t)stk__image_channels(info, type)};
	v.pixels = calloc(1, v.size);
	assert_non_null(v.pixels);
	struct stk_decode rq = {.data = f.data,
		.size = f.size,
		.info = info,
		.type = type,
		.denom = denom,
		.window = w,
		.dst = stk__image_hwc(v.pixels, STK_UINT8, w.w, w.h, stk__image_channels(info, type))};
	struct stk_error err = {0};
	v.status = stk__image_decode(d, &rq, &err);
	if (v.status)
		assert_true(err.message[0]);
	memcpy(v.message, err.message, sizeof v.message);
	return v;
}

struct judges {
	struct stk_decoder *ours[2][2], *turbo[2]; /* first index: strict, lenient; second: kernels in plain C, the fastest kernels */
	int damaged, sound, unseen, compared;
};

static void compare_verdicts(struct judges *j, struct test_file f, uint64_t *r, uint64_t seed)
{
	struct stk_image_info info;
	if (stk__image_peek(f.data, f.size, NULL, &info, NULL) || (int64_t)info.width * info.height > MOST_PIXELS)
		return;
	enum stk_image_type type = types[test_random_in(r, 0, 2)].type;
	int denom = test_random(r) & 1 ? 1 : 2 << test_random(r) % 3, width = stk__image_scaled(info.width, denom),
	    height = stk__image_scaled(info.height, denom);
	struct stk_rect w = test_random(r) & 1 ? test_window(r, width, height) : (struct stk_rect){0, 0, width, height};
	for (int lenient = 0; lenient < 2; lenient++) {
		struct verdict ours = judge(j->ours[lenient][test_random(r) & 1], f, &info, type, denom, w),
			       turbo = judge(j->turbo[lenient], f, &info, type, denom, w);
		/* libjpeg-turbo decodes the scans of a progressive image completely, our decoder only down to the window's last row. So only
		 * libjpeg-turbo sees damage below the window. */
		bool unseen = info.progressive && !ours.status && turbo.status && w.y + w.h < height;
		j->unseen += unseen;
		if (ours.status != turbo.status && !unseen)
			fail_msg("round seed %llu: \"%s\", libjpeg-turbo \"%s\" (lenient %d, window %d %d %d %d of 1/%d of %dx%d)",
				(unsigned long long)seed, ours.message, turbo.message, lenient, w.x, w.y, w.w, w.h, denom, info.width,
				info.height);
		bool alike = !ours.status && !unseen && (OVERFLOWS_ARE_LIBJPEGS || sums_fit(f));
		j->compared += alike;
		if (alike && memcmp(ours.pixels, turbo.pixels, ours.size))
			fail_msg("round seed %llu: pixels differ (lenient %d, window %d %d %d %d of 1/%d of %dx%d)",
				(unsigned long long)seed, lenient, w.x, w.y, w.w, w.h, denom, info.width, info.height);
		*(ours.status ? &j->damaged : &j->sound) += 1;
		free(ours.pixels);
		free(turbo.pixels);
	}
}

static struct stk_decoder *make_decoder(bool lenient, const char *which, int level)
{
	static struct stk_arena scratch; /* shared by all decoders, which run in turn */
	struct stk_decoder *d;
	setenv("STOKER_JPEG", which, 1);
	assert_int_equal(stk__decoder_create(&(struct stk_codec_limits){.lenient = lenient}, level, &scratch, &d, NULL), STK_OK);
	unsetenv("STOKER_JPEG");
	return d;
}

static void test_damaged_files_get_libjpegs_verdict(void **state)
{
	(void)state;
	const char *rounds = getenv("STOKER_TEST_ROUNDS");
	struct judges j = {0};
	for (int lenient = 0; lenient < 2; lenient++) {
		j.ours[lenient][0] = make_decoder(lenient, "stoker", 0);
		j.ours[lenient][1] = make_decoder(lenient, "stoker", stk__cpu_capabilities());
		j.turbo[lenient] = make_decoder(lenient, "libjpeg-turbo", stk__cpu_capabilities());
	}
	for (int n = 0; n < (rounds ? atoi(rounds) : 3000); n++) {
		uint64_t seed = test_seed() + (uint64_t)n * 1000003, r = seed;
		struct test_jpeg jpeg = n & 1 ? random_progressive(&r) : random_baseline(&r);
		struct test_file f = test_jpeg_make(&jpeg);
		damage(&r, &f);
		compare_verdicts(&j, f, &r, seed);
		free(f.data);
	}
	print_message("%d damaged, %d sound, pixels of %d compared\n", j.damaged, j.sound, j.compared);
	assert_true(j.damaged > 100 && j.sound > 100 && j.compared > 100);
	for (int lenient = 0; lenient < 2; lenient++) {
		stk__decoder_destroy(j.ours[lenient][0]);
		stk__decoder_destroy(j.ours[lenient][1]);
		stk__decoder_destroy(j.turbo[lenient]);
	}
}

/* ---- the header ---- */

static void test_header_parser_agrees_with_libjpeg(void **state)
{
	(void)state;
	uint64_t r = test_seed() + 3;
	int accepted = 0, refused = 0;
	for (int n = 0; n < 6000; n++) {
		struct test_jpeg j = random_baseline(&r);
		j.width = j.height = 9;
		j.orientation = test_random_in(&r, 0, 8);
		j.progressive = n % 3 == 0;
		struct test_file f = test_jpeg_make(&j);
		if (test_random_in(&r, 0, 3))
			damage(&r, &f);
		struct jpeg_decompress_struct c;
		struct catcher catcher;
		struct stk_jpeg_header h;
		struct stk_error err = {0};
		bool theirs = libjpeg_header(f, &c, &catcher);
		enum stk_status ours = stk__jpeg_header_parse(f.data, f.size, &h, &err);
		if (theirs != (ours == STK_OK) && !(theirs && ours == STK_UNSUPPORTED)) {
			char text[JMSG_LENGTH_MAX];
			c.err->format_message((j_common_ptr)&c, text);
			fail_msg("file %d: libjpeg %s (%s), we say \"%s\"", n, theirs ? "reads it" : "refuses", text, err.message);
		}
		if (!ours && theirs) {
			assert_int_equal(h.width, c.image_width);
			assert_int_equal(h.height, c.image_height);
			assert_int_equal(h.components, c.num_components);
			assert_int_equal(h.restart_interval, c.restart_interval);
			assert_int_equal(f.size - h.scan_offset, c.src->bytes_in_buffer);
			assert_int_equal(h.adobe, c.saw_Adobe_marker);
			assert_int_equal(h.jfif, c.saw_JFIF_marker);
			for (int i = 0; i < h.components; i++) {
				assert_int_equal(h.component[i].h, c.comp_info[i].h_samp_factor);
				assert_int_equal(h.component[i].width, c.comp_info[i].downsampled_width);
				assert_int_equal(h.component[i].height, c.comp_info[i].downsampled_height);
			}
			static const J_COLOR_SPACE spaces[] = {JCS_GRAYSCALE, JCS_YCbCr, JCS_RGB, JCS_CMYK, JCS_YCCK, JCS_UNKNOWN};
			assert_int_equal(spaces[h.color], c.jpeg_color_space);
		}
		accepted += theirs;
		refused += !theirs;
		jpeg_destroy_decompress(&c);
		free(f.data);
	}
	assert_true(accepted > 500 && refused > 500);
}

static void test_the_largest_header_is_libjpegs(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		for (int most = 65500; most <= 65501; most++) {
			uint64_t r = test_seed();
			struct test_jpeg j = random_baseline(&r);
			struct test_file f = test_jpeg_make(&j);
			uint8_t *sof = f.data;
			while (sof[0] != 0xff || sof[1] < 0xc0 || sof[1] > 0xc2)
				sof++;
			sof[5 + 2 * side] = (uint8_t)(most >> 8);
			sof[6 + 2 * side] = (uint8_t)most;
			struct jpeg_decompress_struct c;
			struct catcher catcher;
			struct stk_jpeg_header h;
			assert_int_equal(libjpeg_header(f, &c, &catcher), most == 65500);
			assert_int_equal(stk__jpeg_header_parse(f.data, f.size, &h, NULL), most == 65500 ? STK_OK : STK_UNSUPPORTED);
			jpeg_destroy_decompress(&c);
			free(f.data);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_takes_baseline_and_equals_libjpeg),
		cmocka_unit_test(test_it_takes_progressive_and_equals_libjpeg),
		cmocka_unit_test(test_it_leaves_unfinished_scans_to_libjpeg),
		cmocka_unit_test(test_extreme_coefficients_equal_libjpeg),
		cmocka_unit_test(test_damaged_files_get_libjpegs_verdict),
		cmocka_unit_test(test_header_parser_agrees_with_libjpeg),
		cmocka_unit_test(test_the_largest_header_is_libjpegs),
	};
	return cmocka_run_group_tests_name("jpeg_fast", tests, NULL, NULL);
}
