/* SPDX-License-Identifier: Apache-2.0
 * Compares the plain C version of the GPU's JPEG decoder with libjpeg-turbo: on generated files with all sampling factors, on photographs (from the folder
 * in STOKER_TEST_JPEGS, otherwise from the tests' own files), and on damaged files. If it sets no error flags for an image, the pixels must equal
 * libjpeg-turbo's, and libjpeg-turbo must not warn. */
#include "test.h"

#include "base/memory.h"
#include "codec/jpeg_gpu/jpeg_gpu_plan.h"
#include "jpeg_reference.h"
#include "kernel/jpeg_gpu/jpeg_gpu_reference.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t rng = 1;

static uint32_t draw(uint32_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((rng >> 33) % n);
}

struct bench {
	struct stk_jpeg_gpu_plan_limits limits;
	struct stk_jpeg_gpu_plan *plan;
	void *tables, *work;
};

static int setup(void **state)
{
	struct bench *b = calloc(1, sizeof *b);
	b->limits = (struct stk_jpeg_gpu_plan_limits){
		.images = 8, .bytes = 8 << 20, .blocks = 200000, .scans = 8 * STK_JPEG_GPU_MAX_SCANS, .tables = 8 * STK_JPEG_GPU_MAX_SET};
	struct stk_jpeg_gpu_plan_sizes sizes = stk__jpeg_gpu_plan_sizes(&b->limits);
	b->tables = stk__alloc(sizes.tables);
	b->work = stk__alloc(sizes.work);
	memset(b->work, 0xa5, sizes.work);
	*state = b;
	return stk__jpeg_gpu_plan_create(&b->limits, b->tables, &b->plan, NULL);
}

static int teardown(void **state)
{
	struct bench *b = *state;
	stk__jpeg_gpu_plan_destroy(b->plan);
	stk__free(b->tables);
	stk__free(b->work);
	free(b);
	return 0;
}

enum { MAX_FILES = 8 };

struct file {
	const char *name;
	const uint8_t *data;
	size_t size;
	struct stk_jpeg_header header;
	struct stk_rect window;
};

/* Numbers of images that were decoded correctly, flagged, and refused. */
struct tally {
	int right, flagged, refused;
};

static struct stk_rect draw_window(int w, int h)
{
	int ww = 1 + (int)draw((uint32_t)w), hh = 1 + (int)draw((uint32_t)h);
	switch (draw(8)) {
	case 0:
		return (struct stk_rect){0, 0, w, h};
	case 1:
		return (struct stk_rect){w - 1, h - 1, 1, 1};
	default:
		return (struct stk_rect){(int)draw((uint32_t)(w - ww + 1)), (int)draw((uint32_t)(h - hh + 1)), ww, hh};
	}
}

static void compare(const struct file *f, const uint8_t *got, uint32_t pitch)
{
	int w, h;
	long warnings = 0;
	uint8_t *want = jpeg_reference_decode(f->data, f->size, f->window.y + f->window.h, &w, &h, &warnings);
	/* libjpeg-turbo decodes all rows of a progressive file, whichever are requested, so it may warn of damage below the window. */
	if (warnings && f->header.process == STK_JPEG_PROGRESSIVE && f->window.y + f->window.h < h) {
		free(want);
		return;
	}
	if (!want || warnings)
		fail_msg("%s: taken for right where libjpeg-turbo %s", f->name, want ? "warns" : "fails");
	for (int y = 0; y < f->window.h; y++)
		for (int x = 0; x < 3 * f->window.w; x++) {
			uint8_t a = got[(size_t)y * pitch + (size_t)x],
				b = want[((size_t)(f->window.y + y) * (size_t)w + (size_t)f->window.x) * 3 + (size_t)x];
			if (a != b)
				fail_msg("%s: window %d,%d %dx%d: %d instead of %d at x %d channel %d y %d", f->name, f->window.x,
					f->window.y, f->window.w, f->window.h, a, b, x / 3, x % 3, y);
		}
	free(want);
}

/* Decodes the files as one batch, and compares the images without error flags. Returns the counts. */
static struct tally run_batch(struct bench *b, struct file *files, int n)
{
	static uint8_t raw[24 << 20];
	struct tally tally = {0};
	uint32_t index[MAX_FILES], at = 16;
	bool taken[MAX_FILES];
	stk__jpeg_gpu_plan_begin(b->plan, &b->limits);
	for (int i = 0; i < n; i++) {
		at += draw(40); /* so that files begin at addresses of any alignment */
		assert_true(at + files[i].size + 64 < sizeof raw);
		memcpy(raw + at, files[i].data, files[i].size);
		struct stk_jpeg_gpu_file f = {
			.data = files[i].data, .size = files[i].size, .header = &files[i].header, .window = files[i].window, .raw = at};
		taken[i] = stk__jpeg_gpu_plan_add(b->plan, &f, &index[i]);
		at += (uint32_t)files[i].size;
	}
	stk__jpeg_gpu_plan_end(b->plan);
	struct stk_jpeg_gpu_view view;
	stk__jpeg_gpu_plan_view(b->plan, (uintptr_t)b->tables, (uintptr_t)b->work, (uintptr_t)raw, &view);
	stk__jpeg_gpu_run(&view, STK_JPEG_GPU_COUNT, STK_JPEG_GPU_PHASES);
	for (int i = 0; i < n; i++) {
		if (!taken[i] || view.flags[index[i]]) {
			tally.refused += !taken[i];
			tally.flagged += taken[i];
			if (getenv("VERBOSE"))
				print_message(
					"%s: %s %x\n", files[i].name, taken[i] ? "flags" : "refused", taken[i] ? view.flags[index[i]] : 0);
			continue;
		}
		uint64_t pixels;
		uint32_t pitch;
		stk__jpeg_gpu_plan_window(b->plan, index[i], &pixels, &pitch);
		compare(&files[i], view.rgb + pixels, pitch);
		tally.right++;
	}
	return tally;
}

static struct tally plus(struct tally a, struct tally b)
{
	return (struct tally){a.right + b.right, a.flagged + b.flagged, a.refused + b.refused};
}

/* Sampling factors h and v of Y, Cb and Cr. */
static const int samplings[][6] = {{1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1}, {4, 1, 1, 1, 1, 1},
	{2, 2, 2, 1, 1, 1}, {2, 2, 1, 2, 2, 1}, {4, 2, 1, 1, 1, 1}, {1, 1, 2, 2, 1, 1}, {2, 2, 2, 2, 1, 1}, {1, 4, 1, 1, 1, 2}};

static struct jpeg_shape draw_shape(void)
{
	const int *s = samplings[draw(sizeof samplings / sizeof *samplings)];
	return (struct jpeg_shape){.width = 1 + (int)draw(draw(2) ? 300 : 40),
		.height = 1 + (int)draw(draw(2) ? 300 : 40),
		.components = draw(6) ? 3 : 1,
		.h = {s[0], s[2], s[4]},
		.v = {s[1], s[3], s[5]},
		.restart = draw(3) ? 0 : 1 + (int)draw(40),
		.quality = 30 + (int)draw(70),
		.optimize = (int)draw(2),
		.texture = (int)draw(5),
		.three_tables = !draw(4)};
}

static struct jpeg_shape draw_progressive(void)
{
	struct jpeg_shape s = draw_shape();
	s.scans = draw(3) ? 10 + (int)draw(STK_JPEG_GPU_MAX_SCANS - 9) : 1;
	return s;
}

static struct tally made_files(struct bench *b, int batches, struct jpeg_shape (*draw_file)(void), bool damage)
{
	struct tally total = {0};
	for (int batch = 0; batch < batches; batch++) {
		struct file files[MAX_FILES];
		uint8_t *data[MAX_FILES];
		char names[MAX_FILES][160];
		int n = 0;
		while (n < MAX_FILES) {
			struct jpeg_shape s = draw_file();
			if (damage && s.components == 1) /* else libjpeg-turbo may report damage below the window */
				s.h[0] = s.v[0] = 1;
			uint64_t seed = rng;
			struct file *f = &files[n];
			data[n] = jpeg_reference_encode(&s, seed, &f->size);
			if (stk__jpeg_header_parse(data[n], f->size, &f->header, NULL))
				fail_msg("seed %llu", (unsigned long long)seed);
			for (uint32_t hits = damage ? 1 + draw(3) : 0; hits > 0; hits--) {
				size_t scan = f->header.scan_offset;
				if (draw(4) == 0)
					f->size = scan + draw((uint32_t)(f->size - scan)) + 1;
				else
					data[n][scan + draw((uint32_t)(f->size - scan))] = (uint8_t)(draw(3) ? draw(256) : 0xff);
			}
			f->data = data[n];
			f->window = draw_window(s.width, s.height);
			snprintf(names[n], sizeof names[n],
				"seed %llu: %dx%d c%d %d%d%d%d%d%d restart %d q%d opt %d texture %d 3t %d scans %d",
				(unsigned long long)seed, s.width, s.height, s.components, s.h[0], s.v[0], s.h[1], s.v[1], s.h[2], s.v[2],
				s.restart, s.quality, s.optimize, s.texture, s.three_tables, s.scans);
			f->name = names[n++];
		}
		total = plus(total, run_batch(b, files, n));
		while (n > 0)
			free(data[--n]);
	}
	return total;
}

/* Returns the number of rounds: STOKER_TEST_ROUNDS, or 60 if it is not set. */
static int rounds(void)
{
	const char *text = getenv("STOKER_TEST_ROUNDS");
	return text ? atoi(text) : 60;
}

static void made_files_equal_libjpeg_turbo(void **state)
{
	struct tally t = made_files(*state, rounds(), draw_shape, false);
	print_message("%d right, %d flagged, %d refused\n", t.right, t.flagged, t.refused);
	assert_true(t.right > rounds() * MAX_FILES / 2);
	assert_true(t.flagged < rounds() * MAX_FILES / 20);
}

static void damage_is_flagged_or_harmless(void **state)
{
#ifndef __x86_64__
	skip(); /* for damaged coefficients that overflow, libjpeg-turbo's NEON code gives other pixels than its x86 code */
#endif
	struct tally t = made_files(*state, rounds(), draw_shape, true);
	print_message("%d right, %d flagged, %d refused\n", t.right, t.flagged, t.refused);
	assert_true(t.flagged > rounds());
}

static void progressive_files_equal_libjpeg_turbo(void **state)
{
	struct tally t = made_files(*state, rounds(), draw_progressive, false);
	print_message("%d right, %d flagged, %d refused\n", t.right, t.flagged, t.refused);
	assert_true(t.right > rounds() * MAX_FILES / 2);
	assert_int_equal(t.flagged, 0);
}

static void damage_to_progressive_files_is_flagged_or_harmless(void **state)
{
	struct tally t = made_files(*state, rounds(), draw_progressive, true);
	print_message("%d right, %d flagged, %d refused\n", t.right, t.flagged, t.refused);
	/* Many damaged progressive files are refused, because a segment between scans has a wrong length or EOI is
	 * missing. So only a third of the files must be flagged. */
	assert_true(t.flagged > rounds() / 3);
}

/* With pure noise, all Huffman tables fit all blocks of an MCU equally well. So a thread that starts at the wrong block seldom notices, and seldom
 * synchronises. */
static void what_never_synchronises_is_flagged(void **state)
{
	struct jpeg_shape s = {.width = 640, .height = 480, .components = 3, .h = {2, 1, 1}, .v = {2, 1, 1}, .quality = 99, .texture = 1};
	struct file f = {.name = "noise"};
	uint8_t *data = jpeg_reference_encode(&s, 5, &f.size);
	f.data = data;
	assert_int_equal(stk__jpeg_header_parse(f.data, f.size, &f.header, NULL), STK_OK);
	f.window = (struct stk_rect){0, 0, s.width, s.height};
	struct tally t = run_batch(*state, &f, 1);
	assert_int_equal(t.flagged, 1);
	/* Restart markers make the start of each interval known. */
	free(data);
	s.restart = 1;
	data = jpeg_reference_encode(&s, 5, &f.size);
	f.data = data;
	assert_int_equal(stk__jpeg_header_parse(f.data, f.size, &f.header, NULL), STK_OK);
	t = run_batch(*state, &f, 1);
	assert_int_equal(t.right, 1);
	free(data);
}

/* The GPU must refuse files with large scans, since other files of the batch would wait too long for them. */
static void files_with_large_scans_are_refused(void **state)
{
	struct jpeg_shape s = {.width = 1200, .height = 700, .components = 1, .h = {1}, .v = {1}, .quality = 99, .texture = 1, .scans = 1};
	for (int small = 0; small < 2; small++) {
		struct file f = {.name = "large scans"};
		s.width = small ? 60 : s.width;
		uint8_t *data = jpeg_reference_encode(&s, 5, &f.size);
		f.data = data;
		assert_int_equal(stk__jpeg_header_parse(f.data, f.size, &f.header, NULL), STK_OK);
		f.window = (struct stk_rect){0, 0, s.width, 8};
		struct tally t = run_batch(*state, &f, 1);
		assert_int_equal(t.right, small);
		assert_int_equal(t.refused, !small);
		free(data);
	}
}

/* Whether a file is accepted does not depend on the other files, as long as the batch has the capacity that stk__jpeg_gpu_plan_need computes. */
static void room_for_what_files_need_suffices(void **state)
{
	(void)state;
	enum { FILES = 32 };
	struct stk_jpeg_gpu_plan_limits sum = {0};
	struct stk_jpeg_header *header = calloc(FILES, sizeof *header);
	struct stk_jpeg_gpu_file file[FILES];
	uint8_t *data[FILES];
	for (int i = 0; i < FILES; i++) {
		/* Each file has its own tables, and three pairs of them instead of the usual two. */
		struct jpeg_shape s = {.width = 64 + i, .height = 64, .components = 3, .h = {1, 1, 1}, .v = {1, 1, 1}};
		s.quality = 80 + i % 16;
		s.optimize = s.three_tables = 1;
		s.texture = 3;
		file[i] = (struct stk_jpeg_gpu_file){.header = &header[i], .window = {0, 0, s.width, s.height}, .type = STK_RGB};
		file[i].data = data[i] = jpeg_reference_encode(&s, 100 + (uint64_t)i, &file[i].size);
		assert_int_equal(stk__jpeg_header_parse(data[i], file[i].size, &header[i], NULL), STK_OK);
		assert_true(stk__jpeg_gpu_plan_need(&file[i], &sum));
	}
	struct stk_jpeg_gpu_plan *plan;
	void *tables = stk__alloc(stk__jpeg_gpu_plan_sizes(&sum).tables);
	assert_int_equal(stk__jpeg_gpu_plan_create(&sum, tables, &plan, NULL), STK_OK);
	stk__jpeg_gpu_plan_begin(plan, &sum);
	for (int i = 0; i < FILES; i++) {
		uint32_t index;
		if (!stk__jpeg_gpu_plan_add(plan, &file[i], &index))
			fail_msg("file %d is refused", i);
	}
	assert_true(stk__jpeg_gpu_plan_end(plan) <= stk__jpeg_gpu_plan_sizes(&sum).tables);
	stk__jpeg_gpu_plan_destroy(plan);
	stk__free(tables);
	for (int i = 0; i < FILES; i++)
		free(data[i]);
	free(header);
}

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return NULL;
	fseek(f, 0, SEEK_END);
	*size = (size_t)ftell(f);
	rewind(f);
	uint8_t *data = malloc(*size + 64);
	size_t got = fread(data, 1, *size, f);
	fclose(f);
	if (got == *size)
		return data;
	free(data);
	return NULL;
}

static void photographs_equal_libjpeg_turbo(void **state)
{
	const char *folder = getenv("STOKER_TEST_JPEGS");
	DIR *dir = folder ? opendir(folder) : NULL;
	struct dirent *entry;
	struct tally total = {0};
	if (!dir)
		skip();
	while ((entry = readdir(dir))) {
		char path[1024];
		struct file f = {.name = entry->d_name};
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		uint8_t *data = entry->d_name[0] == '.' ? NULL : read_file(path, &f.size);
		f.data = data;
		if (data && !stk__jpeg_header_parse(f.data, f.size, &f.header, NULL)) {
			f.window = draw_window(f.header.width, f.header.height);
			total = plus(total, run_batch(*state, &f, 1));
		}
		free(data);
	}
	closedir(dir);
	print_message("%d right, %d flagged, %d refused\n", total.right, total.flagged, total.refused);
	assert_true(total.right > 10 * (total.flagged + total.refused));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_files_equal_libjpeg_turbo),
		cmocka_unit_test(what_never_synchronises_is_flagged),
		cmocka_unit_test(damage_is_flagged_or_harmless),
		cmocka_unit_test(progressive_files_equal_libjpeg_turbo),
		cmocka_unit_test(damage_to_progressive_files_is_flagged_or_harmless),
		cmocka_unit_test(files_with_large_scans_are_refused),
		cmocka_unit_test(room_for_what_files_need_suffices),
		cmocka_unit_test(photographs_equal_libjpeg_turbo),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
