/* SPDX-License-Identifier: Apache-2.0
 * The process's memory: a huge image's memory is freed, epochs do not add to it, a warm pipeline touches almost no new pages, and decompression bombs are
 * refused because of their headers. Not for builds with sanitizers, whose own memory would be measured too. */
#include "test.h"

#include "image_files.h"
#include "pipelines.h"
#include "process_memory.h"

#include "base/memory.h"

#include <jpeglib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURED 0
#else
#define MEASURED 1
#endif

static long resident_kb(void)
{
	return status_kb("VmRSS:");
}

static long minor_faults(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

static void take(struct stk_pipeline *p, int batches)
{
	struct stk_error err = {0};
	for (int k = 0; k < batches; k++) {
		struct stk_batch *b;
		if (stk_pipeline_next(p, &b, &err))
			fail_msg("%s", err.message);
		stk_batch_unref(&b);
	}
}

static void write_uniform_jpeg(const char *path, unsigned side)
{
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	JSAMPLE *row = calloc(side, 1);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	jpeg_stdio_dest(&c, f);
	c.image_width = c.image_height = side;
	c.input_components = 1;
	c.in_color_space = JCS_GRAYSCALE;
	jpeg_set_defaults(&c);
	jpeg_start_compress(&c, TRUE);
	for (unsigned y = 0; y < side; y++)
		jpeg_write_scanlines(&c, &row, 1);
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	fclose(f);
	free(row);
}

/* ---- warm pipelines ---- */

static void test_epochs_add_nothing_and_pages_are_not_touched_anew(void **state)
{
	(void)state;
	enum { FILES = 64, BATCH = 16, EPOCH = FILES / BATCH };
	if (!MEASURED)
		skip();
	char *folder = make_folder(FILES, 3);
	const struct options o = {.threads = 2, .batch = BATCH, .tail = "wrap"};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	take(p, 40 * EPOCH);
	long before = resident_kb(), faults = minor_faults();
	take(p, 20 * EPOCH);
	long grown = resident_kb() - before, touched = minor_faults() - faults;
	print_message("20 epochs of %d images: %ld KiB more, %ld minor page faults\n", FILES, grown, touched);
	assert_true(grown <= 256);
	assert_true(touched <= 20 * FILES);
	close_pipeline(p, ctx);
	remove_folder(folder);
}

/* The only huge image is the first of the epoch; then there are 100 batches in which memory can shrink again. */
static void test_a_giant_leaves_nothing_behind(void **state)
{
	(void)state;
	enum { FILES = 60, BATCH = 4, SIDE = 20000 };
	if (!MEASURED || getenv("STOKER_TEST_EMULATED")) /* an emulator's own memory would be measured too */
		skip();
	setenv("STOKER_MAX_IMAGE_SIZE", "500000000", 1); /* above the default limit, as a user might set it */
	char *folder = make_folder(FILES, 3), path[256], kept[300], big[300];
	const struct options o = {.threads = 1, .batch = BATCH, .tail = "wrap", .whole = true, .in_order = true, .read_requests = 8};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	take(p, 10 * FILES / BATCH);
	file_path(folder, 0, path, sizeof path);
	snprintf(kept, sizeof kept, "%s.kept", path);
	snprintf(big, sizeof big, "%s.big", path); /* renamed when it is complete, since workers read ahead */
	write_uniform_jpeg(big, SIDE);
	assert_int_equal(rename(path, kept), 0);
	assert_int_equal(rename(big, path), 0);
	long before = resident_kb();
	take(p, FILES / BATCH + 12); /* more than an epoch, because the bytes of some batches had been read before the file was replaced */
	long most = status_kb("VmHWM:");
	assert_int_equal(rename(kept, path), 0);
	take(p, 100);
	long after = resident_kb();
	print_message("resident: %ld KiB, %ld at most, %ld 100 batches later\n", before, most, after);
	assert_true(most - before > 3L * SIDE * SIDE / 1024);   /* the whole image was in memory at the peak */
	assert_true(after <= before + before / 10 + (8 << 10)); /* idle read buffers of 8 MiB may always stay */
	unsetenv("STOKER_MAX_IMAGE_SIZE");
	close_pipeline(p, ctx);
	remove_folder(folder);
}

/* ---- bombs ---- */

/* Decodes a file that is the only one of a folder. *grown: set to the additional memory that this took, in KiB. */
static enum stk_status decode(const void *data, size_t size, long *grown, struct stk_error *err)
{
	char *folder = make_folder(1, 3), path[256];
	const struct options o = {.threads = 1, .batch = 1, .tail = "keep", .whole = true, .read_requests = 1};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	struct stk_batch *b = NULL;
	file_path(folder, 0, path, sizeof path);
	FILE *f = fopen(path, "wb");
	assert_int_equal(fwrite(data, 1, size, f), size);
	fclose(f);
	long before = resident_kb();
	alarm(200);
	enum stk_status s = stk_pipeline_next(p, &b, err);
	alarm(0);
	*grown = resident_kb() - before;
	stk_batch_unref(&b);
	close_pipeline(p, ctx);
	remove_folder(folder);
	return s;
}

static void refuse(const void *data, size_t size, const char *what)
{
	struct stk_error err = {0};
	long grown;
	enum stk_status s = decode(data, size, &grown, &err);
	print_message("%s: %s, %ld KiB: %s\n", what, stk_status_name(s), grown, err.message);
	assert_true(s == STK_LIMIT || s == STK_CORRUPT || s == STK_UNSUPPORTED);
	assert_non_null(strstr(err.message, ".jpg"));
	assert_true(!MEASURED || grown < 16 << 10);
}

static void test_headers_that_promise_too_much(void **state)
{
	(void)state;
	const struct test_jpeg j = {.width = 16, .height = 16, .components = 3, .quality = 80};
	struct test_file f = test_jpeg_make(&j);
	uint8_t *sof = memmem(f.data, f.size, "\xff\xc0", 2);
	assert_non_null(sof);
	memset(sof + 5, 0xff, 4); /* a size of 65535 x 65535 pixels */
	refuse(f.data, f.size, "JPEG");
	free(f.data);
	const struct test_png png = {.width = 16, .height = 16, .color = 2, .bits = 8};
	f = test_png_make(&png);
	/* Sets IHDR's width and height to 2^31 - 1 and corrects its checksum. The file keeps its tiny pixel data. */
	static const uint8_t huge[] = {0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff};
	memcpy(f.data + 16, huge, sizeof huge);
	uint32_t crc = 0xffffffff;
	for (int i = 12; i < 29; i++) {
		crc ^= f.data[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	for (int k = 0; k < 4; k++)
		f.data[29 + k] = (uint8_t)(~crc >> (24 - 8 * k));
	refuse(f.data, f.size, "PNG");
	free(f.data);
}

/* Repeats the last scan; for each copy a decoder would have to process the whole image. */
static void test_a_thousand_scans(void **state)
{
	(void)state;
	const struct test_jpeg j = {.width = 96, .height = 96, .components = 1, .quality = 80, .progressive = true};
	struct test_file f = test_jpeg_make(&j);
	size_t last = 0, scan;
	for (size_t i = 0; i + 1 < f.size; i++)
		if (f.data[i] == 0xff && f.data[i + 1] == 0xda)
			last = i;
	assert_true(last > 0);
	scan = f.size - 2 - last;
	uint8_t *many = malloc(f.size + 1000 * scan);
	memcpy(many, f.data, f.size - 2);
	for (int k = 0; k < 1000; k++)
		memcpy(many + f.size - 2 + (size_t)k * scan, f.data + last, scan);
	memcpy(many + f.size - 2 + 1000 * scan, "\xff\xd9", 2);
	refuse(many, f.size + 1000 * scan, "1000 scans");
	free(many);
	free(f.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_epochs_add_nothing_and_pages_are_not_touched_anew),
		cmocka_unit_test(test_a_giant_leaves_nothing_behind),
		cmocka_unit_test(test_headers_that_promise_too_much),
		cmocka_unit_test(test_a_thousand_scans),
	};
	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
