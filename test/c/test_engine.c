/* SPDX-License-Identifier: Apache-2.0
 * The engine's guarantees: results do not depend on threads, prefetch, batch size, fusion or CPU level; states can be restored; failures are reported; a
 * warm pipeline does not allocate. */
#include "test.h"

#include "graphs.h"
#include "pipelines.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 61 };
static char *folder;

static int set_up(void **state)
{
	(void)state;
	folder = make_folder(FILES, 20260101);
	return folder == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

/* ---- determinism ---- */

static void assert_same_run(const struct run *a, const struct run *b, const char *what)
{
	if (a->count != b->count)
		fail_msg("%s: %zu samples against %zu", what, a->count, b->count);
	for (size_t i = 0; i < a->count; i++)
		if (a->samples[i].id != b->samples[i].id || a->samples[i].hash != b->samples[i].hash)
			fail_msg("%s: sample %zu differs: id %lld hash %016llx against id %lld hash %016llx", what, i,
				(long long)a->samples[i].id, (unsigned long long)a->samples[i].hash, (long long)b->samples[i].id,
				(unsigned long long)b->samples[i].hash);
}

static void check_variant(const struct run *want, struct options o, const char *what)
{
	struct run got = run_epochs(folder, &o, 2);
	assert_same_run(want, &got, what);
	free(got.samples);
}

static void test_results_do_not_depend_on_how(void **state)
{
	(void)state;
	const struct options base = {.threads = 1, .batch = 8, .tail = "keep"};
	struct run want = run_epochs(folder, &base, 2);
	assert_int_equal(want.count, 2 * FILES);
	struct options o = base;
	o.threads = 2;
	check_variant(&want, o, "2 threads");
	o.threads = 7;
	check_variant(&want, o, "7 threads");
	o = base;
	o.prefetch = 5;
	check_variant(&want, o, "prefetch 5");
	o = base;
	o.batch = 32;
	check_variant(&want, o, "batch 32");
	o.batch = 512;
	check_variant(&want, o, "batch 512");
	o = base;
	o.no_fuse = true;
	check_variant(&want, o, "not fused");
	setenv("STOKER_CPU", "c", 1);
	check_variant(&want, base, "plain C");
	unsetenv("STOKER_CPU");
	free(want.samples);
}

static int by_position(const void *a, const void *b)
{
	const struct run_sample *x = a, *y = b;
	if (x->epoch != y->epoch)
		return x->epoch < y->epoch ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

static void test_ranks_make_one_sequence(void **state)
{
	(void)state;
	const int32_t counts[] = {1, 2, 3, 8};
	struct options o = {.threads = 2, .batch = 4, .tail = "keep"};
	struct run want = run_epochs(folder, &o, 1);
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
		struct run all = {0};
		for (int32_t r = 0; r < counts[c]; r++) {
			o.ranks = counts[c];
			o.rank = r;
			struct run part = run_epochs(folder, &o, 1);
			all.samples = realloc(all.samples, (all.count + part.count) * sizeof *all.samples);
			memcpy(all.samples + all.count, part.samples, part.count * sizeof *part.samples);
			all.count += part.count;
			free(part.samples);
		}
		qsort(all.samples, all.count, sizeof *all.samples, by_position);
		assert_same_run(&want, &all, "ranks");
		free(all.samples);
	}
	/* a different augmentation seed on each rank gives different windows for the same samples */
	o.ranks = 2;
	o.rank = 1;
	struct run a = run_epochs(folder, &o, 1);
	o.seed = 13;
	struct run b = run_epochs(folder, &o, 1);
	assert_int_equal(a.count, b.count);
	bool differ = false;
	for (size_t i = 0; i < a.count; i++) {
		assert_int_equal(a.samples[i].id, b.samples[i].id);
		differ |= a.samples[i].hash != b.samples[i].hash;
	}
	assert_true(differ);
	free(a.samples);
	free(b.samples);
	free(want.samples);
}

/* ---- state ---- */

static void test_resume_at_every_batch(void **state)
{
	(void)state;
	const struct options o = {.threads = 2, .batch = 8, .tail = "keep"};
	struct run want = run_epochs(folder, &o, 2);
	for (int stop = 0; stop <= 8; stop++) {
		struct stk_context *ctx;
		struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
		size_t seen = 0;
		for (int k = 0; k < stop; k++) {
			struct stk_batch *b = NULL;
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			seen += (size_t)stk_batch_size(b);
			stk_batch_unref(&b);
		}
		char *text;
		assert_int_equal(stk_pipeline_save(p, &text, NULL), STK_OK);
		assert_true(strlen(text) < 1024);
		close_pipeline(p, ctx);
		/* a run with another number of ranks continues: all its ranks together deliver the rest of the epoch, in the order of positions */
		for (int32_t ranks = 1; ranks <= 3; ranks += 2) {
			struct run rest = {0};
			for (int32_t r = 0; r < ranks; r++) {
				struct options q = o;
				q.ranks = ranks;
				q.rank = r;
				struct run part = resume_epoch(folder, &q, text);
				rest.samples = realloc(rest.samples, (rest.count + part.count + 1) * sizeof *rest.samples);
				memcpy(rest.samples + rest.count, part.samples, part.count * sizeof *part.samples);
				rest.count += part.count;
				free(part.samples);
			}
			qsort(rest.samples, rest.count, sizeof *rest.samples, by_position);
			size_t left = (seen < FILES ? FILES : 2 * FILES) - seen;
			assert_int_equal(rest.count, left);
			struct run tail = {want.samples + seen, left};
			assert_same_run(&tail, &rest, "resumed");
			free(rest.samples);
		}
		stk_text_free(text);
	}
	free(want.samples);
}

/* Returns the state as text, which the caller frees. */
static char *state_of(struct stk_pipeline *p)
{
	char *text;
	assert_int_equal(stk_pipeline_save(p, &text, NULL), STK_OK);
	return text;
}

static void test_a_batch_is_put_back(void **state)
{
	(void)state;
	const char *const tails[] = {"keep", "drop", "fill", "wrap"};
	for (int t = 0; t < 4; t++) {
		const struct options o = {.threads = 2, .batch = 8, .tail = tails[t]};
		struct stk_context *ctx;
		struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
		struct stk_error err = {0};
		struct stk_batch *b, *again;
		for (int k = 0; k < 20; k++) {
			char *before = state_of(p);
			enum stk_status s = stk_pipeline_next(p, &b, NULL);
			if (s == STK_OK) {
				char *after = state_of(p);
				const double delivered = pipeline_counter(p, "batches_delivered");
				assert_int_equal(stk_pipeline_put_back(p, b, NULL), STK_OK);
				assert_int_equal(stk_pipeline_put_back(p, b, &err), STK_STATE);
				char *undone = state_of(p);
				assert_string_equal(undone, before);
				assert_int_equal(stk_pipeline_next_within(p, 0, NULL, NULL), STK_OK);
				assert_int_equal(stk_pipeline_next(p, &again, NULL), STK_OK);
				assert_ptr_equal(again, b);
				char *redone = state_of(p);
				assert_string_equal(redone, after);
				assert_true(pipeline_counter(p, "batches_delivered") == delivered);
				stk_batch_unref(&again);
				stk_batch_unref(&b);
				stk_text_free(after);
				stk_text_free(undone);
				stk_text_free(redone);
			} else {
				assert_int_equal(s, STK_END);
			}
			stk_text_free(before);
		}
		/* a batch that was put back belongs to the epoch that is skipped, and is freed with the pipeline */
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		const int64_t epoch = stk_batch_epoch(b);
		assert_int_equal(stk_pipeline_put_back(p, b, NULL), STK_OK);
		stk_batch_unref(&b);
		assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		assert_int_equal(stk_batch_epoch(b), epoch + 1);
		assert_int_equal(stk_pipeline_next(p, &again, NULL), STK_OK);
		assert_int_equal(stk_pipeline_put_back(p, b, &err), STK_STATE);
		assert_int_equal(stk_pipeline_put_back(p, again, NULL), STK_OK);
		stk_batch_unref(&again);
		stk_batch_unref(&b);
		close_pipeline(p, ctx);
	}
}

/* Ways to cut epochs into batches. `tail` NULL: contiguous shards, by DALI's rules. */
struct cut {
	const char *tail;
	bool pad;
	int32_t batch, ranks, rank;
};
static const struct cut cuts[] = {{"keep", false, 8, 1, 0}, {"drop", false, 8, 1, 0}, {"fill", false, 8, 2, 1}, {"wrap", false, 8, 1, 0},
	{"wrap", false, 4, 3, 1}, {"wrap", false, 200, 1, 0}, {NULL, false, 8, 1, 0}, {NULL, false, 4, 2, 1}, {NULL, true, 4, 3, 2}};
enum { CUTS = sizeof cuts / sizeof *cuts, CALLS = 26 };

/* Makes a pipeline that gives the labels of the files, and restores the state, which may be NULL. */
static struct stk_pipeline *cut_pipeline(struct stk_context *ctx, const struct cut *c, const char *state)
{
	struct stk_error err = {0};
	struct stk_graph *g = new_graph();
	struct added_op how = {.args = {stk_arg_string("file_root", folder), stk_arg_int("num_shards", c->ranks),
				       stk_arg_int("shard_id", c->rank), stk_arg_bool("random_shuffle", c->tail != NULL)}};
	how.args[4] = c->tail ? stk_arg_string("tail", c->tail) : stk_arg_bool("pad_last_batch", c->pad);
	OUTPUTS(g, output_of(add_op(g, "readers.file", &how), 1));
	const struct stk_pipeline_config config = {.size = sizeof config, .batch_size = c->batch, .device_id = -1, .seed = 5};
	struct stk_pipeline *p = NULL;
	if (stk_pipeline_create(ctx, g, &config, &p, &err) || (state && stk_pipeline_restore(p, state, strlen(state), &err)))
		fail_msg("%s", err.message);
	stk_graph_destroy(g);
	return p;
}

/* Takes the next batch or the end of an epoch, and describes it. */
static void describe_next(struct stk_pipeline *p, char text[200])
{
	struct stk_batch *b = NULL;
	enum stk_status s = stk_pipeline_next(p, &b, NULL);
	snprintf(text, 200, "%s", stk_status_name(s));
	if (s == STK_OK) {
		const struct stk_sample *first = stk_batch_sample(b, 0), *last = stk_batch_sample(b, stk_batch_size(b) - 1);
		snprintf(text, 200, "epoch %lld, step %lld%s: %d samples, %lld (position %lld) to %lld", (long long)stk_batch_epoch(b),
			(long long)stk_batch_step(b), stk_batch_is_last(b) ? " (the last)" : "", stk_batch_size(b), (long long)first->id,
			(long long)first->position, (long long)last->id);
	}
	stk_batch_unref(&b);
}

static struct stk_pipeline *cut_pipeline_after(struct stk_context *ctx, const struct cut *c, int calls)
{
	struct stk_pipeline *p = cut_pipeline(ctx, c, NULL);
	char text[200];
	for (int k = 0; k < calls; k++)
		describe_next(p, text);
	return p;
}

/* Checks that both pipelines continue alike. Closes `p`. */
static void assert_continues_alike(struct stk_pipeline *p, char want[3][200], const char *how, int cut, int calls)
{
	for (int k = 0; k < 3; k++) {
		char got[200];
		describe_next(p, got);
		if (strcmp(got, want[k]) != 0)
			fail_msg("cut %d, after %d calls, %s: \"%s\" instead of \"%s\"", cut, calls, how, got, want[k]);
	}
	stk_pipeline_destroy(p);
}

/* A batch has the same step, and all else, in a run that was restored before it as in one that never stopped. */
static void test_steps_count_from_the_epochs_start(void **state)
{
	(void)state;
	const struct stk_context_config cc = {.size = sizeof cc, .threads = 2};
	struct stk_context *ctx;
	assert_int_equal(stk_context_create(&cc, &ctx, NULL), STK_OK);
	for (int c = 0; c < CUTS; c++) {
		char want[CALLS + 4][200];
		struct stk_pipeline *p = cut_pipeline(ctx, &cuts[c], NULL);
		for (int k = 0; k < CALLS + 4; k++)
			describe_next(p, want[k]);
		stk_pipeline_destroy(p);
		for (int k = 0; k < CALLS; k++) {
			p = cut_pipeline_after(ctx, &cuts[c], k);
			char *text = state_of(p);
			stk_pipeline_destroy(p);
			int end = strcmp(want[k], "END") == 0; /* the state after an epoch's last batch is that of the next epoch's start */
			assert_continues_alike(cut_pipeline(ctx, &cuts[c], text), want + k + end, "restored", c, k);
			stk_text_free(text);
		}
	}
	stk_context_unref(&ctx);
}

/* An epoch's rest is skipped in the same way after a restore, and after a batch was put back, as without. */
static void test_an_epoch_is_skipped_from_any_position(void **state)
{
	(void)state;
	const struct stk_context_config cc = {.size = sizeof cc, .threads = 2};
	struct stk_context *ctx;
	struct stk_error err = {0};
	assert_int_equal(stk_context_create(&cc, &ctx, NULL), STK_OK);
	for (int c = 0; c < CUTS; c++)
		for (int k = 0; k < CALLS; k++) {
			struct stk_pipeline *p = cut_pipeline_after(ctx, &cuts[c], k);
			char want[3][200], *before = state_of(p);
			assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
			char *after = state_of(p);
			for (int n = 0; n < 3; n++)
				describe_next(p, want[n]);
			stk_pipeline_destroy(p);

			p = cut_pipeline(ctx, &cuts[c], before);
			assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
			char *text = state_of(p);
			assert_string_equal(text, after);
			stk_text_free(text);
			assert_continues_alike(p, want, "restored", c, k);

			p = cut_pipeline_after(ctx, &cuts[c], k);
			struct stk_batch *b = NULL;
			if (stk_pipeline_next(p, &b, NULL) == STK_OK) {
				assert_int_equal(stk_pipeline_put_back(p, b, NULL), STK_OK);
				stk_batch_unref(&b);
				assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
				assert_int_equal(stk_pipeline_restore(p, before, strlen(before), &err), STK_STATE);
				assert_continues_alike(p, want, "put back", c, k);
			} else {
				stk_pipeline_destroy(p);
			}
			stk_text_free(before);
			stk_text_free(after);
		}
	stk_context_unref(&ctx);
}

static void take_and_drop(struct stk_pipeline *p)
{
	struct stk_batch *b = NULL;
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	stk_batch_unref(&b);
}

/* The batches of an epoch are made only after the consumer has asked for the first one, if epoch_by_epoch is set. They are the same as without it. */
static void test_an_epoch_waits_for_the_consumer(void **state)
{
	(void)state;
	enum { STEPS = (FILES + 7) / 8, EPOCHS = 4 };
	for (int32_t threads = 1; threads <= 3; threads++) {
		struct options o = {.threads = threads, .batch = 8, .prefetch = 4, .tail = "keep"};
		struct run want = run_epochs(folder, &o, EPOCHS);
		o.epoch_by_epoch = true;
		struct stk_context *ctx;
		struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
		assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
		assert_true(pipeline_counter(p, "batches_opened") == 0);
		size_t count = 0;
		for (int epoch = 0; epoch < EPOCHS; epoch++) {
			struct run got = drain_epochs(p, 1);
			assert_true(pipeline_counter(p, "batches_opened") == (epoch + 1) * STEPS);
			assert_true(count + got.count <= want.count);
			assert_memory_equal(got.samples, want.samples + count, got.count * sizeof *got.samples);
			count += got.count;
			free(got.samples);
		}
		assert_int_equal(count, want.count);
		free(want.samples);
		/* the rest of an epoch that is skipped is not made up for, and a state leads back to an epoch that waits again */
		char *text = state_of(p);
		take_and_drop(p);
		assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
		const double opened = pipeline_counter(p, "batches_opened");
		assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
		assert_true(pipeline_counter(p, "batches_opened") == opened);
		take_and_drop(p);
		assert_true(pipeline_counter(p, "batches_opened") > opened);
		close_pipeline(p, ctx);
		p = open_pipeline(folder, &o, &ctx);
		assert_int_equal(stk_pipeline_restore(p, text, strlen(text), NULL), STK_OK);
		assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
		assert_true(pipeline_counter(p, "batches_opened") == 0);
		take_and_drop(p);
		stk_text_free(text);
		close_pipeline(p, ctx);
	}
}

static void test_restoring_does_no_earlier_work(void **state)
{
	(void)state;
	const struct options o = {.threads = 2, .batch = 8, .tail = "keep"};
	const char *at_the_end =
		"{\"stoker_state\": 1, \"order\": 1, \"random\": 1, \"seed\": 0, \"order_seed\": 0, \"shuffle\": true, \"epoch\": 0, "
		"\"consumed\": 56, \"size\": 61, \"fingerprint\": \"%016llx\"}";
	char text[512];
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	struct stk_reader_meta meta;
	assert_int_equal(stk_pipeline_reader_meta(p, NULL, &meta, NULL), STK_OK);
	snprintf(text, sizeof text, at_the_end, (unsigned long long)meta.fingerprint);
	assert_int_equal(stk_pipeline_restore(p, text, strlen(text), NULL), STK_OK);
	struct stk_batch *b;
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	assert_int_equal(stk_batch_size(b), FILES - 56);
	assert_int_equal(stk_batch_sample(b, 0)->position, 56);
	stk_batch_unref(&b);
	/* the samples read so far belong to this batch or to the prefetch of the next epoch, and all are at or after position 56 of epoch 0 */
	assert_true(pipeline_counter(p, "decodes") <= (FILES - 56) + 3 * 8);
	close_pipeline(p, ctx);
	struct stk_error err = {0};
	p = open_pipeline(folder, &o, &ctx);
	assert_int_equal(stk_pipeline_restore(p, "{\"stoker_state\"", 15, &err), STK_STATE);
	assert_int_equal(stk_pipeline_restore(p, text, strlen(text) / 2, &err), STK_STATE);
	snprintf(text, sizeof text, at_the_end, 12345ull);
	assert_int_equal(stk_pipeline_restore(p, text, strlen(text), &err), STK_STATE);
	assert_non_null(strstr(err.message, "data set"));
	close_pipeline(p, ctx);
}

/* ---- memory ---- */

static void test_scratch_does_not_depend_on_the_batch(void **state)
{
	(void)state;
	double scratch[2];
	for (int i = 0; i < 2; i++) {
		const struct options o = {.threads = 1, .batch = i ? 512 : 32, .tail = "keep", .whole = true};
		struct stk_context *ctx;
		struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
		struct run r = drain_epochs(p, 1);
		assert_int_equal(r.count, FILES);
		free(r.samples);
		scratch[i] = pipeline_counter(p, "scratch_bytes");
		close_pipeline(p, ctx);
	}
	assert_true(scratch[0] > 0);
	assert_true(scratch[0] == scratch[1]);
}

static void test_warm_pipelines_allocate_nothing(void **state)
{
	(void)state;
	const struct options o = {.threads = 2, .batch = 8, .tail = "wrap"};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	struct stk_batch *b;
	for (int k = 0; k < 200; k++) {
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		stk_batch_unref(&b);
	}
	double grown = 1; /* tries several runs: on a busy machine a read may miss the page cache, and the first such read allocates */
	for (int run = 0; run < 10 && grown > 0; run++) {
		double before = pipeline_counter(p, "allocations");
		for (int k = 0; k < 50; k++) {
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			stk_batch_unref(&b);
		}
		grown = pipeline_counter(p, "allocations") - before;
	}
	assert_true(grown == 0);
	/* slots for two batches ahead, for the consumer's batch, and for one more that may open while a slow read delays the oldest */
	assert_true(pipeline_counter(p, "slots") <= 4);
	close_pipeline(p, ctx);
}

static void test_batches_outlive_their_pipeline(void **state)
{
	(void)state;
	const struct options o = {.threads = 2, .batch = 8, .tail = "wrap"};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	struct stk_batch *held[5];
	uint64_t hashes[5];
	for (int k = 0; k < 5; k++) {
		assert_int_equal(stk_pipeline_next(p, &held[k], NULL), STK_OK);
		hashes[k] = hash_sample(held[k], 3);
	}
	close_pipeline(p, ctx);
	for (int k = 0; k < 5; k++) {
		assert_true(hash_sample(held[k], 3) == hashes[k]);
		assert_non_null(strstr(stk_batch_sample(held[k], 3)->uri, ".jpg"));
		stk_batch_unref(&held[k]);
	}
}

static void count(void *user)
{
	++*(int *)user;
}

static void test_the_log_is_done_with_when_the_last_pipeline_has_gone(void **state)
{
	(void)state;
	int done = 0;
	struct stk_error err = {0};
	struct stk_context *ctx = NULL;
	struct stk_pipeline *p = NULL;
	const struct stk_context_config cc = {.size = sizeof cc, .threads = 1, .log_user = &done, .log_done = count};
	const struct stk_pipeline_config pc = {.size = sizeof pc, .batch_size = 2, .device_id = -1};
	struct stk_graph *g = new_graph();
	struct value file = ADD(g, "readers.file", .args = {stk_arg_string("file_root", folder)});
	OUTPUTS(g, output_of(file, 1));
	assert_int_equal(stk_context_create(&cc, &ctx, &err), STK_OK);
	if (stk_pipeline_create(ctx, g, &pc, &p, &err))
		fail_msg("%s", err.message);
	stk_graph_destroy(g);
	stk_context_unref(&ctx);
	assert_int_equal(done, 0);
	stk_pipeline_destroy(p);
	assert_int_equal(done, 1);
}

static void test_holding_too_many_batches_is_an_error_that_says_so(void **state)
{
	(void)state;
	const struct options o = {.threads = 1, .batch = 4, .tail = "wrap", .max_batches = 4};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	struct stk_batch *held[8] = {0};
	struct stk_error err = {0};
	enum stk_status s = STK_OK;
	int n = 0;
	while (n < 8 && (s = stk_pipeline_next(p, &held[n], &err)) == STK_OK)
		n++;
	assert_int_equal(n, 4);
	assert_int_equal(s, STK_LIMIT);
	assert_non_null(strstr(err.message, "all 4 batches that max_batches allows are held: output 0"));
	stk_batch_unref(&held[0]);
	assert_int_equal(stk_pipeline_next(p, &held[0], &err), STK_OK);
	for (int i = 0; i < n; i++)
		stk_batch_unref(&held[i]);
	close_pipeline(p, ctx);
}

/* Checks that sample i of `copy` is a copy of sample k of `output`, with its own memory. */
static void assert_copy_of(const struct stk_batch *copy, int32_t i, const struct stk_batch *b, int32_t output, int32_t k)
{
	const struct stk_tensor *a = &stk_batch_output(copy, 0)->samples[i], *want = &stk_batch_output(b, output)->samples[k];
	assert_int_equal(stk_desc_bytes(&a->desc), stk_desc_bytes(&want->desc));
	assert_memory_equal(a->data, want->data, (size_t)stk_desc_bytes(&want->desc));
	assert_ptr_not_equal(a->data, want->data);
	assert_int_equal(stk_batch_sample(copy, i)->id, stk_batch_sample(b, k)->id);
	assert_string_equal(stk_batch_sample(copy, i)->uri, stk_batch_sample(b, k)->uri);
}

static void test_copies_on_the_host_hold_no_slot(void **state)
{
	(void)state;
	const struct options o = {.threads = 2, .batch = 5, .prefetch = 1, .max_batches = 2, .tail = "keep"};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	struct stk_batch *copies[10], *one, *b;
	struct stk_error err = {0};
	uint64_t sum = 0, want = 0;
	for (int k = 0; k < 10; k++) {
		assert_int_equal(stk_pipeline_next(p, &b, &err), STK_OK);
		int32_t output = k % stk_batch_outputs(b), last = stk_batch_size(b) - 1;
		assert_int_equal(stk_batch_to_host(b, output, -1, &copies[k], &err), STK_OK);
		assert_int_equal(stk_batch_to_host(b, output, last, &one, &err), STK_OK);
		assert_int_equal(stk_batch_outputs(copies[k]), 1);
		assert_int_equal(stk_batch_size(one), 1);
		for (int32_t i = 0; i <= last; i++)
			assert_copy_of(copies[k], i, b, output, i);
		assert_copy_of(one, 0, b, output, last);
		stk_batch_unref(&one);
		assert_int_equal(stk_batch_to_host(b, 9, -1, &one, &err), STK_INVALID);
		assert_null(one);
		want += hash_sample(copies[k], 0);
		stk_batch_unref(&b);
	}
	close_pipeline(p, ctx);
	for (int k = 0; k < 10; k++) {
		sum += hash_sample(copies[k], 0);
		assert_true(stk_batch_sample(copies[k], 0)->uri[0]);
		stk_batch_unref(&copies[k]);
	}
	assert_int_equal(sum, want);
}

static void test_a_forked_child_drops_batches_without_a_hang(void **state)
{
	(void)state;
	const struct options o = {.threads = 2, .batch = 2, .tail = "wrap"};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, &o, &ctx);
	for (int k = 0; k < 100; k++) {
		struct stk_batch *b;
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		pid_t child = fork();
		if (child == 0) {
			alarm(200);
			struct stk_batch *none = NULL;
			stk_batch_unref(&b);
			bool refused = stk_pipeline_next(p, &none, NULL) == STK_STATE;
			stk_pipeline_destroy(p);
			_exit(refused ? 0 : 1);
		}
		int status;
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		stk_batch_unref(&b);
	}
	close_pipeline(p, ctx);
}

/* ---- work that takes long ---- */

static enum stk_status pull_pixel(void *user, const struct stk_feed_request *request, struct stk_feed *feed, struct stk_error *err)
{
	static uint8_t pixels[64 * 64];
	(void)user, (void)request, (void)err;
	feed->tensors[0] = (struct stk_tensor){pixels, {STK_UINT8, 3, {64, 64, 1}, "HWC"}};
	return STK_OK;
}

/* A sample takes about a second. The test cancels the pipeline while a worker processes the first sample; the worker must then stop. */
static void test_a_long_chain_is_cancelled(void **state)
{
	(void)state;
	const int64_t size[] = {16000, 16000};
	const struct stk_context_config cc = {.size = sizeof cc, .threads = 1};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = 1, .device_id = -1};
	const struct stk_source_callbacks callbacks = {.pull = pull_pixel, .per_sample = true};
	const struct stk_arg source[] = {stk_arg_string("layout", "HWC"), stk_arg_int("dtype", STK_UINT8)};
	const struct stk_arg resize[] = {stk_arg_list("size", STK_VALUE_INTS, size, 2), stk_arg_int("interp_type", STK_INTERP_LANCZOS3)};
	struct stk_context *ctx;
	struct stk_graph *g;
	struct stk_pipeline *p;
	struct stk_node image;
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	assert_int_equal(stk_context_create(&cc, &ctx, NULL), STK_OK);
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	if (stk_graph_add(g, "external_source", NULL, 0, source, 2, NULL, &image, &err) ||
		stk_graph_set_source(g, image, &callbacks, &err) || stk_graph_add(g, "resize", &image, 1, resize, 2, NULL, &image, &err) ||
		stk_graph_output(g, image, &err) || stk_pipeline_create(ctx, g, &c, &p, &err) || stk_pipeline_start(p, &err))
		fail_msg("%s", err.message);
	while (pipeline_counter(p, "passes") < 1)
		usleep(500);
	stk_pipeline_cancel(p);
	while (pipeline_counter(p, "units") < 1)
		usleep(500);
	assert_true(pipeline_counter(p, "samples") == 0);
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_CANCELLED);
	stk_pipeline_destroy(p);
	stk_graph_destroy(g);
	stk_context_unref(&ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results_do_not_depend_on_how),
		cmocka_unit_test(test_ranks_make_one_sequence),
		cmocka_unit_test(test_resume_at_every_batch),
		cmocka_unit_test(test_a_batch_is_put_back),
		cmocka_unit_test(test_steps_count_from_the_epochs_start),
		cmocka_unit_test(test_an_epoch_is_skipped_from_any_position),
		cmocka_unit_test(test_an_epoch_waits_for_the_consumer),
		cmocka_unit_test(test_restoring_does_no_earlier_work),
		cmocka_unit_test(test_scratch_does_not_depend_on_the_batch),
		cmocka_unit_test(test_warm_pipelines_allocate_nothing),
		cmocka_unit_test(test_batches_outlive_their_pipeline),
		cmocka_unit_test(test_the_log_is_done_with_when_the_last_pipeline_has_gone),
		cmocka_unit_test(test_copies_on_the_host_hold_no_slot),
		cmocka_unit_test(test_a_long_chain_is_cancelled),
		cmocka_unit_test(test_a_forked_child_drops_batches_without_a_hang),
		cmocka_unit_test(test_holding_too_many_batches_is_an_error_that_says_so),
	};
	return cmocka_run_group_tests_name("engine", tests, set_up, tear_down);
}
