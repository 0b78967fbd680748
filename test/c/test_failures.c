/* SPDX-License-Identifier: Apache-2.0
 * Bad samples: a run continues or stops according to its policy, positions of other samples never change, and messages name the bad sample. */
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

/* Returns the data set's index of the bad file. Files are sorted by class, then by name. */
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
		int64_t epoch = -1;
		int32_t planned = -1;
		bool is_last = false;
		s = stk_pipeline_next(p, &b, &err);
		batches += s == STK_OK;
		const int taken = batches + errors;
		assert_int_equal(stk_pipeline_failed_batch(p, &epoch, &planned, &is_last), s != STK_OK && s != STK_END);
		assert_false(stk_pipeline_failed_batch(p, NULL, &planned, &is_last));
		if (s != STK_OK && s != STK_END) {
			errors++;
			assert_int_equal(epoch, 0);
			assert_int_equal(planned, 8);
			assert_int_equal(is_last, taken + 1 == FILES / 8);
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
	/* the other samples equal those of a run with another batch size, so their positions are unchanged */
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
	bool reported = false;
	int64_t bad = 0; /* number of bad samples of this epoch; the pipeline already prepares the next epoch */
	for (int64_t i = 0; i < stk_pipeline_bad_samples(p); i++) {
		struct stk_error err;
		assert_true(stk_pipeline_bad_sample(p, i, &err));
		reported |= strstr(err.message, "00002.jpg") != NULL;
		bad += err.epoch == 0;
	}
	assert_true(reported);
	assert_int_equal((int64_t)r.count + bad, FILES);
	free(r.samples);
	close_pipeline(p, ctx);
}

/* The bad samples of a batch are not listed before the batch is delivered, even if it is finished. */
static void test_bad_samples_are_of_delivered_batches(void **state)
{
	(void)state;
	enum { MADE = 4 };
	char *own = make_folder(FILES, 7), path[512];
	file_path(own, BAD, path, sizeof path);
	assert_int_equal(truncate(path, 200), 0);
	const struct options o = {.threads = 2,
		.batch = 8,
		.prefetch = MADE,
		.tail = "keep",
		.on_error = STK_ON_ERROR_SKIP,
		.max_errors = 5,
		.in_order = true};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(own, &o, &ctx);
	assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
	while (pipeline_counter(p, "samples") < 8 * MADE)
		usleep(1000);
	for (int k = 0; k < MADE; k++) {
		bool delivered = k > bad_id() / 8;
		assert_int_equal(stk_pipeline_bad_samples(p), delivered);
		assert_true(pipeline_counter(p, "bad_samples") == delivered);
		struct stk_batch *b = NULL;
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		stk_batch_unref(&b);
	}
	assert_int_equal(stk_pipeline_bad_samples(p), 1);
	close_pipeline(p, ctx);
	remove_folder(own);
}

static void test_the_last_ten_thousand_bad_samples_are_kept(void **state)
{
	(void)state;
	enum { KEPT = 10000, BATCHES = 90, SIZE = 128 };
	char *own = make_folder(4, 7), path[512];
	for (int i = 0; i < 4; i++) {
		file_path(own, i, path, sizeof path);
		assert_int_equal(truncate(path, 20), 0);
	}
	const struct options o = {.threads = 2, .batch = SIZE, .tail = "wrap", .on_error = STK_ON_ERROR_SKIP, .max_errors = 1e6};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(own, &o, &ctx);
	for (int k = 0; k < BATCHES; k++) {
		struct stk_batch *b = NULL;
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		assert_int_equal(stk_batch_size(b), 0);
		stk_batch_unref(&b);
	}
	enum { ALL = BATCHES * SIZE };
	assert_int_equal(stk_pipeline_bad_samples(p), ALL);
	assert_true(pipeline_counter(p, "bad_samples") == ALL);
	struct stk_error err, before = {.epoch = 0, .sample = -1};
	assert_false(stk_pipeline_bad_sample(p, ALL - KEPT - 1, &err));
	assert_false(stk_pipeline_bad_sample(p, ALL, &err));
	for (int64_t i = ALL - KEPT; i < ALL; i++) {
		assert_true(stk_pipeline_bad_sample(p, i, &err));
		assert_true(err.epoch > before.epoch || (err.epoch == before.epoch && err.sample > before.sample));
		before = err;
	}
	assert_true(before.epoch == ALL / 4 - 1 && before.sample == 3);
	close_pipeline(p, ctx);
	remove_folder(own);
}

/* Makes a graph with one chain for each name in `ops`. Each chain decodes, and then crops more than the image has. Returns the first batch's error. */
static struct stk_error first_failure(struct stk_context *ctx, const char *root, int n_ops, const char *const *ops, bool no_fuse)
{
	const int64_t huge[] = {5000, 5000};
	struct stk_graph *g;
	struct stk_node file, image;
	struct stk_error err = {0};
	const struct stk_arg reader[] = {stk_arg_string("file_root", root), stk_arg_string("tail", "keep")};
	const struct stk_arg crop[] = {stk_arg_list("crop", STK_VALUE_INTS, huge, 2)};
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	bool ok = !stk_graph_add(g, "readers.file", NULL, 0, reader, 2, NULL, &file, &err);
	for (int k = 0; k < n_ops && ok; k++)
		ok = !stk_graph_add(g, "decoders.image", &file, 1, NULL, 0, NULL, &image, &err) &&
		     !stk_graph_add(g, ops[k], &image, 1, crop, 1, NULL, &image, &err) && !stk_graph_output(g, image, &err);
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = 1, .device_id = -1, .no_fuse = no_fuse};
	struct stk_pipeline *p = NULL;
	struct stk_batch *b = NULL;
	if (!ok || stk_pipeline_create(ctx, g, &c, &p, &err))
		fail_msg("%s", err.message);
	assert_int_not_equal(stk_pipeline_next(p, &b, &err), STK_OK);
	assert_null(b);
	stk_pipeline_destroy(p);
	stk_graph_destroy(g);
	return err;
}

/* If several operators would fail, the error names the first of them, whether they are fused or not and whichever chain runs first. */
static void test_who_is_blamed(void **state)
{
	(void)state;
	static const char *const ops[] = {"crop", "crop_mirror_normalize"};
	const struct stk_context_config cc = {.size = sizeof cc, .threads = 2};
	struct stk_context *ctx;
	char *own = make_folder(1, 7), path[512];
	assert_int_equal(stk_context_create(&cc, &ctx, NULL), STK_OK);
	for (int k = 0; k < 200; k++) {
		struct stk_error err = first_failure(ctx, own, 2, ops, k % 2);
		if (strcspn(err.op, " ") != strlen("crop") || strncmp(err.op, "crop", strlen("crop")))
			fail_msg("run %d: %s: %s", k, err.op, err.message);
	}
	file_path(own, 0, path, sizeof path);
	assert_int_equal(truncate(path, 1500), 0);
	for (int fused = 0; fused < 2; fused++) {
		struct stk_error err = first_failure(ctx, own, 1, ops, !fused);
		assert_int_equal(err.code, STK_CORRUPT);
		if (strncmp(err.op, "decoders.image", 14))
			fail_msg("%s: %s: %s", fused ? "fused" : "not fused", err.op, err.message);
	}
	stk_context_unref(&ctx);
	remove_folder(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raise_names_the_sample_and_goes_on),
		cmocka_unit_test(test_skip_shortens_its_own_batch),
		cmocka_unit_test(test_replace_keeps_the_number_of_samples),
		cmocka_unit_test(test_too_many_errors_stop_the_run),
		cmocka_unit_test(test_bad_samples_are_of_delivered_batches),
		cmocka_unit_test(test_the_last_ten_thousand_bad_samples_are_kept),
		cmocka_unit_test(test_who_is_blamed),
		cmocka_unit_test(test_a_vanished_file_is_a_bad_sample),
	};
	return cmocka_run_group_tests_name("failures", tests, set_up, tear_down);
}
