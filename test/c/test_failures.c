/* SPDX-License-Identifier: Apache-2.0
 * Bad samples: by each policy a run goes on or stops as promised, positions never move, and messages name the sample. */
#include "test.h"

#include "pipelines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 40, BAD = 13 };
static char *folder;

static int set_up(void **state)
{
	(void)state;
	char path[512];
	folder = make_folder(FILES, 7);
	file_path(folder, BAD, path, sizeof path);
	FILE *f = fopen(path, "wb");
	fputs("hello, I am no photograph", f);
	return fclose(f);
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

/* The data set's index of the bad file: files are sorted by class, then by name. */
static int64_t bad_id(void)
{
	int64_t id = 0;
	for (int i = 0; i < FILES; i++)
		id += i % 3 < BAD % 3 || (i % 3 == BAD % 3 && i < BAD);
	return id;
}

static void test_raise_names_the_sample_and_goes_on(void **state)
{
	(void)state;
	const struct options o = {.threads = 2, .batch = 8, .tail = "keep", .on_error = STK_ON_ERROR_RAISE};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	int batches = 0, errors = 0;
	enum stk_status s;
	do {
		struct stk_batch *b = NULL;
		struct stk_error err = {0};
		s = stk_pipeline_next(p, &b, &err);
		batches += s == STK_OK;
		if (s != STK_OK && s != STK_END) {
			errors++;
			assert_int_equal(s, STK_CORRUPT);
			assert_non_null(strstr(err.message, "00013.jpg"));
			assert_non_null(strstr(err.message, "hello"));
			assert_non_null(strstr(err.message, "decoders.image_random_crop"));
			assert_true(err.sample >= 0 && err.epoch == 0);
		}
		stk_batch_unref(&b);
	} while (s != STK_END);
	assert_int_equal(errors, 1);
	assert_int_equal(batches, FILES / 8 - 1);
	close_pipeline(p, ctx);
}

static void test_skip_shortens_its_own_batch(void **state)
{
	(void)state;
	const struct options o = {.threads = 2, .batch = 8, .tail = "keep", .on_error = STK_ON_ERROR_SKIP, .max_errors = 5};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	struct run r = drain_epochs(p, 1);
	assert_int_equal(r.count, FILES - 1);
	for (size_t i = 0; i < r.count; i++)
		assert_true(r.samples[i].id != bad_id());
	assert_int_equal(stk_pipeline_bad_samples(p), 1);
	struct stk_error err;
	assert_true(stk_pipeline_bad_sample(p, 0, &err));
	assert_non_null(strstr(err.uri, "00013.jpg"));
	assert_false(stk_pipeline_bad_sample(p, 1, &err));
	close_pipeline(p, ctx);
	/* the others are what they are without the bad one in another batch size: positions have not moved */
	struct options q = o;
	q.batch = 5;
	struct run again = run_epochs(folder, &q, 1);
	assert_int_equal(again.count, r.count);
	assert_memory_equal(again.samples, r.samples, r.count * sizeof *r.samples);
	free(again.samples);
	free(r.samples);
}

static void test_replace_keeps_the_number_of_samples(void **state)
{
	(void)state;
	const struct options o = {.threads = 2, .batch = 8, .tail = "keep", .on_error = STK_ON_ERROR_REPLACE, .max_errors = 5};
	struct run a = run_epochs(folder, &o, 1);
	assert_int_equal(a.count, FILES);
	struct options q = o;
	q.threads = 1;
	q.batch = 16;
	struct run b = run_epochs(folder, &q, 1);
	assert_int_equal(b.count, FILES);
	assert_memory_equal(a.samples, b.samples, a.count * sizeof *a.samples);
	for (size_t i = 0; i < a.count; i++)
		assert_true(a.samples[i].id != bad_id());
	free(a.samples);
	free(b.samples);
}

static void test_too_many_errors_stop_the_run(void **state)
{
	(void)state;
	char path[512];
	for (int i = 20; i < 30; i++) {
		file_path(folder, i, path, sizeof path);
		assert_int_equal(truncate(path, 200), 0);
	}
	const struct options o = {.threads = 2, .batch = 8, .tail = "keep", .on_error = STK_ON_ERROR_SKIP, .max_errors = 3};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	struct stk_error err = {0};
	enum stk_status s = STK_OK;
	for (int k = 0; k < 10 && s == STK_OK; k++) {
		struct stk_batch *b = NULL;
		s = stk_pipeline_next(p, &b, &err);
		stk_batch_unref(&b);
	}
	assert_int_equal(s, STK_LIMIT);
	assert_non_null(strstr(err.message, "max_errors"));
	close_pipeline(p, ctx);
}

static void test_a_vanished_file_is_a_bad_sample(void **state)
{
	(void)state;
	const struct options o = {
		.threads = 2, .batch = 8, .tail = "keep", .on_error = STK_ON_ERROR_SKIP, .max_errors = 30, .in_order = true};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	char path[512];
	file_path(folder, 2, path, sizeof path);
	assert_int_equal(unlink(path), 0);
	struct run r = drain_epochs(p, 1);
	bool told = false;
	int64_t bad = 0; /* of this epoch: the next one is being made ahead */
	for (int64_t i = 0; i < stk_pipeline_bad_samples(p); i++) {
		struct stk_error err;
		assert_true(stk_pipeline_bad_sample(p, i, &err));
		told |= strstr(err.message, "00002.jpg") != NULL;
		bad += err.epoch == 0;
	}
	assert_true(told);
	assert_int_equal((int64_t)r.count + bad, FILES);
	free(r.samples);
	close_pipeline(p, ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raise_names_the_sample_and_goes_on),
		cmocka_unit_test(test_skip_shortens_its_own_batch),
		cmocka_unit_test(test_replace_keeps_the_number_of_samples),
		cmocka_unit_test(test_too_many_errors_stop_the_run),
		cmocka_unit_test(test_a_vanished_file_is_a_bad_sample),
	};
	return cmocka_run_group_tests_name("failures", tests, set_up, tear_down);
}
