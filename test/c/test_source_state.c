/* SPDX-License-Identifier: Apache-2.0
 * User-defined sources and saved states: a restored run requests exactly the samples after the state; states at which a source cannot begin are refused. */
#include "test.h"

#include "pipelines.h"
#include "sources.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- epochs and state ---- */

static void test_skipping_and_resuming(void **state)
{
	(void)state;
	struct source s = {.samples = 2 * BATCH, .per_sample = true}, t = s;
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = source_open(ctx, &s, NULL);
	struct stk_batch *b = NULL;
	char *text;
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	stk_batch_unref(&b);
	assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		source_assert_batch(b, 1, k * BATCH, BATCH);
		stk_batch_unref(&b);
	}
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_END);
	assert_int_equal(stk_pipeline_save(p, &text, NULL), STK_OK);
	stk_pipeline_destroy(p);
	source_assert_balanced(&s);
	/* between epochs a source's state is the number of the next epoch */
	struct stk_error err = {0};
	p = source_open(ctx, &t, NULL);
	if (stk_pipeline_restore(p, text, strlen(text), &err))
		fail_msg("%s", err.message);
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	source_assert_batch(b, 2, 0, BATCH);
	stk_batch_unref(&b);
	stk_text_free(text);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	source_assert_balanced(&t);
}

/* Takes n batches of an epoch, from position `at` on. Each has `stride` samples over all shards. Returns the pipeline's state afterwards. */
static char *take_batches(struct stk_pipeline *p, const struct source *s, int64_t epoch, int64_t at, int n)
{
	int64_t stride = (int64_t)BATCH * (s->shards ? s->shards : 1);
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	char *text = NULL;
	for (int k = 0; k < n; k++, at += stride) {
		if (stk_pipeline_next(p, &b, &err))
			fail_msg("batch %d of %d: %s", k, n, err.message);
		source_assert_batch(b, epoch, at + (int64_t)s->shard * BATCH, BATCH);
		assert_int_equal(stk_batch_step(b), at / stride);
		stk_batch_unref(&b);
	}
	assert_int_equal(stk_pipeline_save(p, &text, NULL), STK_OK);
	return text;
}

/* Restores a state after k of an epoch's five batches: the pipeline must not request earlier samples, and must continue the positions. */
static void check_mid_epoch(int k, bool per_sample, int32_t shards)
{
	int64_t together = (int64_t)BATCH * shards;
	struct source s = {
		.samples = 5 * together, .per_sample = per_sample, .seek = STK_SEEK_BATCH, .shards = shards, .shard = shards - 1};
	struct source t = s;
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = source_open(ctx, &s, NULL);
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	char *text = take_batches(p, &s, 0, 0, k);
	stk_pipeline_destroy(p);
	p = source_open(ctx, &t, NULL);
	if (stk_pipeline_restore(p, text, strlen(text), &err))
		fail_msg("after %d: %s", k, err.message);
	stk_text_free(text);
	stk_text_free(take_batches(p, &t, 0, k * together, 5 - k));
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_END);
	stk_text_free(take_batches(p, &t, 1, 0, 5));
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	source_assert_balanced(&s);
	source_assert_balanced(&t);
}

static void test_resuming_in_mid_epoch(void **state)
{
	(void)state;
	for (int k = 0; k <= 5; k++)
		for (int32_t shards = 1; shards <= 3; shards++) {
			check_mid_epoch(k, true, shards);
			check_mid_epoch(k, false, shards);
		}
}

/* Makes a pipeline and takes the first n batches. */
static struct stk_pipeline *pipeline_after(struct stk_context *ctx, struct source *s, int n)
{
	struct stk_pipeline *p = source_open(ctx, s, NULL);
	stk_text_free(take_batches(p, s, 0, 0, n));
	return p;
}

/* Skips the rest of the epoch. The next batch must be the first one of `epoch`. Closes the pipeline. */
static void check_skip(struct stk_pipeline *p, const struct source *s, int64_t epoch)
{
	assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
	stk_text_free(take_batches(p, s, epoch, 0, 5));
	stk_pipeline_destroy(p);
	source_assert_balanced(s);
}

/* An epoch's rest is skipped in the same way after a restore, and after a batch was put back, as without. */
static void test_skipping_from_any_position(void **state)
{
	(void)state;
	for (int k = 0; k < 5; k++)
		for (int32_t shards = 1; shards <= 2; shards++) {
			const struct source s = {
				.samples = 5 * BATCH * shards, .seek = STK_SEEK_BATCH, .shards = shards, .shard = shards - 1};
			struct source saved = s, restored = s, put_back = s;
			struct stk_context *ctx = source_context();
			struct stk_pipeline *p = pipeline_after(ctx, &saved, k);
			struct stk_batch *b = NULL;
			struct stk_error err = {0};
			char *text = NULL;
			assert_int_equal(stk_pipeline_save(p, &text, NULL), STK_OK);
			check_skip(p, &saved, k > 0);
			p = source_open(ctx, &restored, NULL);
			if (stk_pipeline_restore(p, text, strlen(text), &err))
				fail_msg("after %d: %s", k, err.message);
			check_skip(p, &restored, k > 0);
			p = pipeline_after(ctx, &put_back, k);
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			assert_int_equal(stk_pipeline_put_back(p, b, NULL), STK_OK);
			stk_batch_unref(&b);
			check_skip(p, &put_back, k > 0);
			stk_text_free(text);
			stk_context_unref(&ctx);
		}
}

static void assert_refused(struct source *s, const char *folder, const char *state, const char *says)
{
	struct stk_context *ctx = source_context();
	struct stk_error err = {0};
	struct stk_pipeline *p = source_open(ctx, s, folder);
	assert_int_equal(stk_pipeline_restore(p, state, strlen(state), &err), STK_STATE);
	assert_non_null(strstr(err.message, "shop"));
	if (!strstr(err.message, says))
		fail_msg("\"%s\" does not say \"%s\"", err.message, says);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	assert_int_equal(s->pulls, 0);
}

/* An iterator cannot begin at a restored state, and a source that counts batches can only begin after a whole batch. A source that continues from epoch to
 * epoch without a gap cannot begin at an epoch's end either. */
static void test_states_that_a_source_cannot_begin_at(void **state)
{
	(void)state;
	struct source s = {.samples = 5 * BATCH, .per_sample = true}, iterator = s, counts = s, goes_on = s;
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = source_open(ctx, &s, NULL);
	char *text = take_batches(p, &s, 0, 0, 1);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	assert_refused(&iterator, NULL, text, "can't begin there");
	size_t at = 0;
	while (text[at] && strncmp(text + at, "\"consumed\": 4", 13))
		at++;
	assert_true(text[at]);
	text[at + 12] = '6';
	counts.seek = STK_SEEK_BATCH;
	assert_refused(&counts, NULL, text, "does not lie between two batches of");
	goes_on.seek = STK_SEEK_NEVER;
	assert_refused(&goes_on, NULL, text, "can't continue it");
	text[at + 12] = '0';
	for (at = 0; text[at] && strncmp(text + at, "\"epoch\": 0", 10);)
		at++;
	assert_true(text[at]);
	text[at + 9] = '1';
	assert_refused(&goes_on, NULL, text, "can't continue it");
	stk_text_free(text);
}

static void test_shards_that_cannot_be(void **state)
{
	(void)state;
	struct source s = {.samples = 8, .shards = 2, .shard = 2};
	struct stk_context *ctx = source_context();
	struct stk_graph *g;
	struct stk_node in;
	struct stk_pipeline *p;
	struct stk_error err = {0};
	const struct stk_source_callbacks callbacks = source_callbacks(&s);
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = BATCH, .device_id = -1};
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	assert_int_equal(stk_graph_add(g, "external_source", NULL, 0, NULL, 0, NULL, &in, NULL), STK_OK);
	assert_int_equal(stk_graph_set_source(g, in, &callbacks, NULL), STK_OK);
	assert_int_equal(stk_graph_output(g, in, NULL), STK_OK);
	assert_int_equal(stk_pipeline_create(ctx, g, &c, &p, &err), STK_INVALID);
	assert_non_null(strstr(err.message, "shard 2 of 2"));
	stk_graph_destroy(g);
	stk_context_unref(&ctx);
}

/* ---- sources in a pipeline with a reader, which leads ---- */

enum { FILES = 10 };

static void test_resuming_beside_a_reader(void **state)
{
	(void)state;
	char *folder = make_folder(FILES, 4);
	struct source s = {.samples = FILES, .per_sample = true, .seek = STK_SEEK_BATCH}, t = s, iterator = {.samples = FILES};
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = source_open(ctx, &s, folder);
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	char *text = take_batches(p, &s, 0, 0, 1);
	stk_pipeline_destroy(p);
	p = source_open(ctx, &t, folder);
	if (stk_pipeline_restore(p, text, strlen(text), &err))
		fail_msg("%s", err.message);
	stk_text_free(take_batches(p, &t, 0, BATCH, 1)); /* take_batches also checks each request's place in the epoch */
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	stk_batch_unref(&b);
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_END);
	stk_text_free(take_batches(p, &t, 1, 0, 1));
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	assert_refused(&iterator, folder, text, "can't begin there");
	stk_text_free(text);
	source_assert_balanced(&s);
	source_assert_balanced(&t);
	remove_folder(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_skipping_and_resuming),
		cmocka_unit_test(test_resuming_in_mid_epoch),
		cmocka_unit_test(test_skipping_from_any_position),
		cmocka_unit_test(test_states_that_a_source_cannot_begin_at),
		cmocka_unit_test(test_shards_that_cannot_be),
		cmocka_unit_test(test_resuming_beside_a_reader),
	};
	alarm(250); /* if the test hangs, it fails */
	return cmocka_run_group_tests_name("source_state", tests, NULL, NULL);
}
