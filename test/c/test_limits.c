/* SPDX-License-Identifier: Apache-2.0
 * memory_limit: a sample's memory is estimated from its header or its file's size before it is allocated, and a sample over the limit fails with an error. */
#include "test.h"

#include "graphs.h"
#include "hostile_files.h"
#include "pipelines.h"
#include "process_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
/* Memory that the process may use in addition to the limit: for code, tables, stacks and idle buffers. */
#define BESIDE (16 * MIB)
/* Allowance for allocations of less than a page, which are not counted. */
#define SMALL (64 << 10)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MEASURES = 0 }; /* the sanitizers keep freed memory */
#else
enum { MEASURES = 1 };
#endif

enum { FILES = 6 };
static char *folder;

static int set_up(void **state)
{
	(void)state;
	folder = make_folder(FILES, 5);
	return folder ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

static void write_file(const char *path, struct test_file f)
{
	FILE *out = fopen(path, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(f.data, 1, f.size, out), f.size);
	fclose(out);
	free(f.data);
}

/* ---- the process's memory ---- */

/* Resets the peak of the process's resident memory, and returns its present size in bytes. */
static size_t watch(void)
{
	forget_peak();
	return (size_t)status_kb("VmRSS:") << 10;
}

static void assert_peak(size_t before, size_t limit, const char *what)
{
	size_t peak = (size_t)status_kb("VmHWM:") << 10;
	print_message("%s: %.1f MiB more at a limit of %.1f\n", what, peak > before ? (double)(peak - before) / (double)MIB : 0,
		(double)limit / (double)MIB);
	/* qemu-user keeps 280 kB of each thread that has ended, so the peak would say little about the library. */
	if (MEASURES && !getenv("STOKER_TEST_EMULATED") && peak > before + limit + BESIDE)
		fail_msg("%s took %zu bytes at a limit of %zu", what, peak - before, limit);
}

/* ---- pipelines ---- */

struct setting {
	size_t limit;
	enum stk_on_error on_error;
	int32_t batch;
	bool no_fuse, reads_only;
	int64_t crop;    /* side in pixels of a window, if only a window is decoded; 0: whole images */
	int64_t resized; /* side in pixels to which images are resized, and then back to 8; 0: no resize */
};

static struct stk_graph *make_graph(const char *const *files, size_t n, const struct setting *s)
{
	struct stk_graph *g = new_graph();
	struct value out =
		ADD(g, "readers.file", .args = {stk_arg_string("tail", "keep"), stk_arg_list("files", STK_VALUE_STRINGS, files, n)});
	if (!s->reads_only && s->crop)
		out = ADD(g, "decoders.image_crop", .in = {out}, .args = {FLOATS("crop", (double)s->crop, (double)s->crop)});
	else if (!s->reads_only)
		out = ADD(g, "decoders.image", .in = {out});
	if (s->resized) {
		out = ADD(g, "resize", .in = {out}, .args = {INTS("size", s->resized, s->resized)});
		out = ADD(g, "resize", .in = {out}, .args = {INTS("size", 8, 8)});
	}
	OUTPUTS(g, out);
	return g;
}

struct outcome {
	enum stk_status status;
	int32_t size; /* number of samples in the first batch */
	double bytes_read, scratch;
	struct stk_error err, bad; /* bad: the error of the first bad sample */
};

/* Takes the first batch of a pipeline over these files, in this order. */
static struct outcome run(const char *const *files, size_t n, const struct setting *s)
{
	struct stk_context *ctx;
	struct stk_pipeline *p;
	struct stk_batch *b = NULL;
	struct outcome o = {.status = STK_OK};
	const struct stk_context_config cc = {.size = sizeof cc, .threads = 1};
	const struct stk_pipeline_config pc = {.size = sizeof pc,
		.batch_size = s->batch ? s->batch : 1,
		.prefetch = 1,
		.device_id = -1,
		.on_error = s->on_error,
		.max_errors = 1e9,
		.memory_limit = s->limit,
		.no_fuse = s->no_fuse};
	struct stk_graph *g = make_graph(files, n, s);
	assert_int_equal(stk_context_create(&cc, &ctx, NULL), STK_OK);
	assert_int_equal(stk_pipeline_create(ctx, g, &pc, &p, &o.err), STK_OK);
	stk_graph_destroy(g);
	o.status = stk_pipeline_next(p, &b, &o.err);
	o.size = b ? stk_batch_size(b) : 0;
	stk_pipeline_bad_sample(p, 0, &o.bad);
	o.bytes_read = pipeline_counter(p, "bytes_read");
	o.scratch = pipeline_counter(p, "scratch_bytes");
	stk_batch_unref(&b);
	close_pipeline(p, ctx);
	return o;
}

static void assert_says(const struct stk_error *err, const char *path, size_t limit)
{
	char number[32];
	snprintf(number, sizeof number, "%zu bytes", limit);
	for (int i = 0; i < 4; i++) {
		const char *part = (const char *[]){path, "memory_limit", number, "on_error"}[i];
		if (!strstr(err->message, part))
			fail_msg("\"%s\" does not say \"%s\"", err->message, part);
	}
}

static void refuse(const char *path, const struct setting *s, const char *what)
{
	size_t before = watch();
	struct outcome o = run(&path, 1, s);
	if (o.status != STK_LIMIT)
		fail_msg("%s: %s %s", what, stk_status_name(o.status), o.err.message);
	assert_says(&o.err, path, s->limit);
	assert_true(o.scratch <= (double)(s->limit + SMALL));
	assert_peak(before, s->limit, what);
}

/* ---- tests ---- */

static void test_coefficients_of_a_small_file(void **state)
{
	(void)state;
	char path[256];
	struct test_file f = hostile_jpeg(16384, 16384);
	print_message("%zu bytes\n", f.size);
	assert_true(f.size < 400);
	snprintf(path, sizeof path, "%s/class0/coefficients.jpg", folder);
	write_file(path, f);
	refuse(path, &(struct setting){.limit = 64 * MIB}, "all of it");
	refuse(path, &(struct setting){.limit = 64 * MIB, .crop = 16}, "a window of it");
	setenv("STOKER_JPEG", "libjpeg-turbo", 1);
	refuse(path, &(struct setting){.limit = 64 * MIB, .crop = 16}, "a window of it, by libjpeg-turbo");
	unsetenv("STOKER_JPEG");
	write_file(path, hostile_jpeg(1024, 1024)); /* its coefficients and pixels are within the limit */
	struct outcome o = run(&(const char *){path}, 1, &(struct setting){.limit = 64 * MIB});
	if (o.status)
		fail_msg("%s", o.err.message);
	unlink(path);
}

static void test_a_file_of_3_gb(void **state)
{
	(void)state;
	char path[256];
	snprintf(path, sizeof path, "%s/class0/sparse.jpg", folder);
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)3 << 30), 0);
	close(fd);
	refuse(path, &(struct setting){.limit = 64 * MIB}, "a sparse file");
	refuse(path, &(struct setting){.limit = 64 * MIB, .reads_only = true}, "a sparse file that is only read");
	unlink(path);
}

/* A file in the page cache is read without asking for its size first. If it is larger than the limit, it is refused before any byte is read. */
static void test_the_size_of_a_cached_file(void **state)
{
	(void)state;
	enum { SIZE = 100000 };
	char path[256];
	snprintf(path, sizeof path, "%s/class0/plain.jpg", folder);
	write_file(path, (struct test_file){calloc(1, SIZE), SIZE});
	const char *files[] = {path};
	struct outcome fits = run(files, 1, &(struct setting){.limit = SIZE + 4096, .reads_only = true});
	assert_int_equal(fits.status, STK_OK);
	assert_true(fits.bytes_read >= SIZE);
	struct outcome over = run(files, 1, &(struct setting){.limit = SIZE - 1, .reads_only = true});
	assert_int_equal(over.status, STK_LIMIT);
	assert_true(over.bytes_read == 0);
	assert_says(&over.err, path, SIZE - 1);
	unlink(path);
}

static void test_a_png_of_100_000_by_100_000(void **state)
{
	(void)state;
	char path[256];
	struct setting s = {.limit = 64 * MIB};
	snprintf(path, sizeof path, "%s/class0/large.png", folder);
	for (int interlaced = 0; interlaced < 2; interlaced++) {
		write_file(path, hostile_png(100000, 100000, interlaced));
		size_t before = watch();
		struct outcome o = run(&(const char *){path}, 1, &s);
		assert_int_equal(o.status, STK_LIMIT);
		assert_non_null(strstr(o.err.message, "STOKER_MAX_IMAGE_SIZE"));
		assert_peak(before, s.limit, "a PNG of 100 000 x 100 000");
		setenv("STOKER_MAX_IMAGE_SIZE", "100000000000", 1);
		refuse(path, &s, "the same without a limit of pixels");
		s.crop = 16;
		if (interlaced)
			refuse(path, &s, "a window of it, interlaced");
		s.crop = 0;
		unsetenv("STOKER_MAX_IMAGE_SIZE");
	}
	unlink(path);
}

static void test_policies(void **state)
{
	(void)state;
	char bad[256], ok[2][256];
	snprintf(bad, sizeof bad, "%s/class0/bad.jpg", folder);
	write_file(bad, hostile_jpeg(16384, 16384));
	file_path(folder, 0, ok[0], sizeof ok[0]);
	file_path(folder, 1, ok[1], sizeof ok[1]);
	const char *files[] = {ok[0], bad, ok[1]};
	struct setting s = {.limit = 64 * MIB, .batch = 3};
	assert_int_equal(run(files, 3, &s).status, STK_LIMIT);
	s.on_error = STK_ON_ERROR_SKIP;
	struct outcome skipped = run(files, 3, &s);
	assert_int_equal(skipped.status, STK_OK);
	assert_int_equal(skipped.size, 2);
	assert_int_equal(skipped.bad.code, STK_LIMIT);
	assert_says(&skipped.bad, bad, s.limit);
	s.on_error = STK_ON_ERROR_REPLACE;
	struct outcome replaced = run(files, 3, &s);
	assert_int_equal(replaced.status, STK_OK);
	assert_int_equal(replaced.size, 3);
	assert_says(&replaced.bad, bad, s.limit);
	unlink(bad);
}

/* Memory between two operators counts too: here it holds an image of 3000 x 3000 pixels, which takes 27 MB. */
static void test_values_between_operators(void **state)
{
	(void)state;
	char path[256];
	file_path(folder, 0, path, sizeof path);
	const char *files[] = {path};
	struct setting s = {.limit = 20 * MIB, .no_fuse = true, .resized = 3000};
	refuse(path, &s, "a large value");
	s.limit = 64 * MIB;
	struct outcome o = run(files, 1, &s);
	if (o.status)
		fail_msg("%s", o.err.message);
	assert_true(o.scratch > 27e6);
}

/* A worker frees the large memory of one sample before another worker takes as much: all samples together must not exceed the limit. */
static void test_samples_one_after_another(void **state)
{
	(void)state;
	char path[2][256];
	struct test_jpeg whole = {.width = 2400, .height = 2400, .components = 3, .quality = 50, .seed = 1};
	snprintf(path[0], sizeof path[0], "%s/class0/whole.jpg", folder);
	write_file(path[0], test_jpeg_make(&whole));
	snprintf(path[1], sizeof path[1], "%s/class0/scans.jpg", folder);
	write_file(path[1], hostile_jpeg(2600, 2600)); /* 21 MB of pixels, 42 MB of coefficients */
	const char *files[] = {path[0], path[1], path[0], path[1], path[0], path[1]};
	size_t before = watch();
	/* In builds with sanitizers the resize works on a copy of the image, since it may read past the image's end. */
	struct setting s = {.limit = (MEASURES ? 72 : 96) * MIB, .batch = 1, .no_fuse = true, .resized = 2000};
	struct outcome o = run(files, 6, &s);
	if (o.status)
		fail_msg("%s", o.err.message);
	assert_true(o.scratch > (double)(40 * MIB));
	assert_peak(before, s.limit, "samples one after another");
	unlink(path[0]);
	unlink(path[1]);
}

static void test_mutated_headers(void **state)
{
	(void)state;
	const char *rounds = getenv("STOKER_TEST_ROUNDS");
	uint64_t seed = test_seed();
	int refused = 0, over = 0, tries = rounds ? atoi(rounds) : 1500;
	char path[256];
	const size_t limit = 8 * MIB;
	print_message("seed %llu\n", (unsigned long long)seed);
	snprintf(path, sizeof path, "%s/class0/mutated.jpg", folder);
	size_t before = watch();
	for (int t = 0; t < tries; t++) {
		uint64_t this_seed = seed;
		struct test_jpeg j = {.width = 61, .height = 47, .components = 3, .quality = 80, .progressive = t % 3 == 0, .seed = 1};
		j.h[0] = j.v[0] = 1 + (t & 1);
		struct test_png png = {.width = 37, .height = 29, .color = t & 8 ? 6 : 2, .bits = 8, .interlaced = t & 16, .seed = 5};
		struct test_file f = t % 8 == 0  ? hostile_jpeg(1 << test_random_in(&seed, 3, 15), 3000)
				     : t % 8 < 6 ? test_jpeg_make(&j)
						 : test_png_make(&png);
		f.data = realloc(f.data, f.size + 1024);
		assert_non_null(f.data);
		for (int k = test_random_in(&seed, 1, 4); k > 0; k--)
			hostile_mutate(&f, &seed);
		write_file(path, f);
		struct outcome o = run(&(const char *){path}, 1, &(struct setting){.limit = limit, .crop = t & 4 ? 4 : 0});
		refused += o.status != STK_OK;
		over += o.status == STK_LIMIT && strstr(o.err.message, "memory_limit");
		if (o.status && o.status != STK_CORRUPT && o.status != STK_UNSUPPORTED && o.status != STK_LIMIT && o.status != STK_SHAPE)
			fail_msg("seed %llu: %s: %s", (unsigned long long)this_seed, stk_status_name(o.status), o.err.message);
		if (o.scratch > (double)(limit + SMALL))
			fail_msg("seed %llu: %.0f bytes of scratch", (unsigned long long)this_seed, o.scratch);
	}
	print_message("%d of %d files were refused, %d by memory_limit\n", refused, tries, over);
	assert_peak(before, limit, "mutated headers");
	assert_true(over > tries / 50);
	assert_true(refused < tries * 9 / 10);
	unlink(path);
}

int main(void)
{
	/* glibc raises this threshold when large blocks are freed, and does not return smaller freed blocks to the system: the peak would then include
	 * memory that is not in use. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_coefficients_of_a_small_file),
		cmocka_unit_test(test_a_file_of_3_gb),
		cmocka_unit_test(test_the_size_of_a_cached_file),
		cmocka_unit_test(test_a_png_of_100_000_by_100_000),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_values_between_operators),
		cmocka_unit_test(test_samples_one_after_another),
		cmocka_unit_test(test_mutated_headers),
	};
	return cmocka_run_group_tests_name("limits", tests, set_up, tear_down);
}
