/* SPDX-License-Identifier: Apache-2.0
 * Consumers of pipelines on a GPU: they hold batches, read them late on their own streams, stop early, restore a state, and fork. */
#include "test.h"

#include "device_runs.h"
#include "gpu/gpu.h"
#include "image_files.h"
#include "late_reader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 13, BATCH = 4, SECONDS = 580 };
static char *folder;
static bool emulated;
static char options[256]; /* options of the emulated driver (STOKER_EMULATED_CUDA) when the test began */

static int set_up(void **state)
{
	(void)state;
	const char *given = getenv("STOKER_EMULATED_CUDA");
	snprintf(options, sizeof options, "%s", given ? given : "");
	alarm(SECONDS); /* ends the test with a failure if it hangs */
	folder = make_folder(FILES, 31);
	bool have = have_device();
	emulated = have && is_emulated();
	return given && !have ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

static int restore_options(void **state)
{
	(void)state;
	emulate("%s", options);
	return 0;
}

static struct device_run on_cores(const char *what, struct device_settings s, int epochs)
{
	s.device = -1;
	return run_device(device_graph(what)->make(folder), &s, epochs);
}

static struct stk_batch *next(struct stk_pipeline *p)
{
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	enum stk_status s = stk_pipeline_next(p, &b, &err);
	if (s)
		fail_msg("%s: %s", stk_status_name(s), err.message);
	return b;
}

static void assert_batch_is(struct stk_batch *b, const struct device_run *want, size_t first)
{
	assert_true(first + (size_t)stk_batch_size(b) <= want->run.count);
	for (int32_t i = 0; i < stk_batch_size(b); i++) {
		assert_int_equal(stk_batch_sample(b, i)->id, want->run.samples[first + (size_t)i].id);
		if (hash_sample(b, i) != want->run.samples[first + (size_t)i].hash)
			fail_msg("sample %d of batch %lld differs, seed %llu", i, (long long)stk_batch_step(b),
				(unsigned long long)test_seed());
	}
}

/* ---- batches that are held ---- */

static void test_held_batches_stay_what_they_are(void **state)
{
	(void)state;
	need_device();
	enum { HELD = 3 };
	const struct device_settings s = {.max_batches = HELD, .prefetch = 1, .batch = BATCH};
	struct device_run want = on_cores("a value used twice", s, 1);
	struct stk_context *ctx = make_context(2);
	struct stk_pipeline *p = make_device_pipeline(ctx, device_graph("a value used twice")->make(folder), &s);
	struct stk_batch *held[HELD], *more = NULL;
	struct stk_error err = {0};
	for (int k = 0; k < HELD; k++)
		held[k] = next(p);
	assert_int_equal(stk_pipeline_next(p, &more, &err), STK_LIMIT);
	assert_non_null(strstr(err.message, "held"));
	for (size_t k = 0; k < HELD; k++)
		assert_batch_is(held[k], &want, k * BATCH);
	stk_batch_unref(&held[1]);
	more = next(p);
	assert_batch_is(more, &want, HELD * BATCH);
	stk_pipeline_destroy(p);
	assert_batch_is(held[0], &want, 0); /* batches stay valid after their pipeline was destroyed */
	stk_batch_unref(&held[0]);
	stk_context_unref(&ctx);
	assert_batch_is(held[2], &want, 2 * BATCH);
	stk_batch_unref(&held[2]);
	stk_batch_unref(&more);
	free_device_run(&want);
}

/* If the consumer holds all batches and there is no memory for another one, a call without a timeout must fail instead of waiting for ever. */
static void test_a_held_batch_leaves_no_memory(void **state)
{
	(void)state;
	need_device();
	if (!emulated)
		skip();
	enum { MOST = 20, BYTES = 8 << 20 };
	emulate("strict memory=256M");
	struct late_reader l;
	late_open(&l, 1, 1);
	struct stk_context *ctx = make_context(2);
	struct stk_graph *g = new_graph();
	struct value noise = ADD(g, "random.uniform", .args = {INTS("shape", BYTES / BATCH / 4)});
	OUTPUTS(g, ADD(g, "copy", .in = {noise}, .gpu = true));
	const struct device_settings s = {.max_batches = MOST, .prefetch = 1, .batch = BATCH};
	struct stk_pipeline *p = make_device_pipeline(ctx, g, &s);
	struct stk_batch *held[MOST] = {next(p)};
	stk_gpu_ptr taken[MOST];
	int n_held = 1, n_taken = 0;
	for (size_t size = (size_t)128 << 20; size >= BYTES / 2;)
		if (!stk__gpu_alloc(l.dev, size, &taken[n_taken], NULL))
			n_taken++;
		else
			size /= 2;
	struct stk_error err = {0};
	enum stk_status status;
	while (!(status = stk_pipeline_next(p, &held[n_held], &err)))
		n_held++;
	assert_int_equal(status, STK_NO_MEMORY);
	assert_in_range(n_held, 1, MOST - 1);
	while (n_held)
		stk_batch_unref(&held[--n_held]);
	held[0] = next(p);
	stk_batch_unref(&held[0]);
	while (n_taken)
		stk__gpu_free(l.dev, taken[--n_taken]);
	close_pipeline(p, ctx);
	late_close(&l);
}

/* ---- streams of the consumer ---- */

enum { PIXELS = 3 * 24 * 32 };

/* Checks a graph's batches with a consumer that reads them late (late_reader.h), against the same graph on the cores. words: more options for the emulated
 * driver. sample: size in bytes of a sample of the graph's first output. */
static void run_late(const char *graph, int64_t sample, uint64_t seed, const char *words)
{
	const struct device_settings s = {.max_batches = 3, .prefetch = 1, .batch = BATCH},
				     cores = {.device = -1, .batch = BATCH, .max_batches = 2 * LATE_BATCHES};
	struct late_reader l;
	emulate("strict async seed=%llu delay=3000 %s", (unsigned long long)seed, words);
	late_open(&l, sample, BATCH);
	struct stk_context *ctx = make_context(2);
	const struct device_graph *made = device_graph(graph);
	struct stk_pipeline *p = make_device_pipeline(ctx, made->make(folder), &s),
			    *q = make_device_pipeline(ctx, made->make(folder), &cores);
	late_check(&l, p, q);
	stk_pipeline_destroy(q);
	close_pipeline(p, ctx);
	late_close(&l);
}

static void test_a_late_reader_sees_its_batch(void **state)
{
	(void)state;
	need_device();
	for (uint64_t seed = 0; seed < (emulated ? 3 : 1); seed++)
		run_late("the usual", PIXELS * 4, test_seed() + seed, "");
}

/* The loader's streams must never wait for streams of the consumer, since work that waits on the GPU slows the consumer down. */
static void test_no_stream_waits_for_a_reader(void **state)
{
	(void)state;
	need_device();
	if (!emulated) /* only the emulated driver counts calls */
		skip();
	/* This graph runs no operators but the decoders. */
	run_late("several decoders of a sample", PIXELS, test_seed(), "fail=cuStreamWaitEvent:0");
	assert_int_equal(emulated_calls_seen(), 0);
}

static void test_too_many_streams(void **state)
{
	(void)state;
	need_device();
	struct stk_error err = {0};
	struct late_reader l;
	late_open(&l, 1, 1);
	struct stk_context *ctx = make_context(1);
	const struct device_settings s = {.batch = 2};
	struct stk_pipeline *p = make_device_pipeline(ctx, device_graph("the usual")->make(folder), &s);
	struct stk_batch *b = next(p);
	for (int again = 0; again < 3; again++) /* passing a stream several times must have no further effect */
		for (int i = 0; i < STK_SLOT_STREAMS; i++)
			ok(stk_batch_use_stream(b, (uint64_t)(uintptr_t)l.streams[i], &err), &err);
	assert_int_equal(stk_batch_use_stream(b, 0, &err), STK_LIMIT);
	stk_batch_unref(&b);
	b = next(p);
	stk_batch_unref(&b);
	close_pipeline(p, ctx);
	late_close(&l);
}

/* ---- several pipelines ---- */

static void test_pipelines_side_by_side(void **state)
{
	(void)state;
	need_device();
	static const char *const graphs[] = {"the usual", "a value used twice", "gathered between levels", "arrays"};
	enum { PIPELINES = 4, EPOCHS = 2 };
	struct stk_context *ctx = make_context(3);
	struct stk_pipeline *p[PIPELINES];
	struct device_run got[PIPELINES] = {0};
	for (int i = 0; i < PIPELINES; i++) {
		const struct device_settings s = {.device = emulated ? i % 2 : 0, .batch = 3 + i};
		p[i] = make_device_pipeline(ctx, device_graph(graphs[i])->make(folder), &s);
	}
	int epochs[PIPELINES] = {0};
	for (bool any = true; any;) {
		any = false;
		for (int i = 0; i < PIPELINES; i++) {
			if (epochs[i] == EPOCHS)
				continue;
			epochs[i] += !take_batch(p[i], &got[i]);
			any = true;
		}
	}
	for (int i = 0; i < PIPELINES; i++) {
		struct device_run want = on_cores(graphs[i], (struct device_settings){.batch = 3 + i}, EPOCHS);
		stk_pipeline_destroy(p[i]);
		assert_same_runs(&want, &got[i], "%s beside others", graphs[i]);
		free_device_run(&want);
		free_device_run(&got[i]);
	}
	stk_context_unref(&ctx);
}

/* ---- consumers that stop early ---- */

static void leave_after(int batches, bool hold, int delay)
{
	const struct device_settings s = {.batch = 3, .prefetch = 4};
	struct device_run want = on_cores("a value used twice", s, 1);
	struct stk_context *ctx = make_context(2);
	struct stk_pipeline *p = make_device_pipeline(ctx, device_graph("a value used twice")->make(folder), &s);
	struct stk_batch *held = NULL;
	struct stk_error err = {0};
	ok(stk_pipeline_start(p, &err), &err);
	for (int k = 0; k < batches; k++) {
		struct stk_batch *b = next(p);
		if (hold && k == 0)
			held = stk_batch_ref(b);
		stk_batch_unref(&b);
	}
	usleep((useconds_t)delay);
	close_pipeline(p, ctx);
	if (held)
		assert_batch_is(held, &want, 0);
	stk_batch_unref(&held);
	free_device_run(&want);
}

static void test_leaving_with_work_in_flight(void **state)
{
	(void)state;
	need_device();
	for (int round = 0; round < 12; round++) {
		emulate("strict %s seed=%llu delay=%d", round % 3 ? "async" : "",
			(unsigned long long)test_seed() + (unsigned long long)round, 100 << round % 6);
		leave_after(round % 4, round % 2, round * 700 % 5000);
	}
}

static void test_epochs_that_are_left(void **state)
{
	(void)state;
	need_device();
	struct device_run runs[2] = {0};
	for (int gpu = 0; gpu < 2; gpu++) {
		const struct device_settings s = {.device = gpu - 1, .prefetch = 3};
		struct stk_context *ctx = make_context(2);
		struct stk_pipeline *p = make_device_pipeline(ctx, device_graph("gathered between levels")->make(folder), &s);
		leave_epochs(p, &runs[gpu]);
		close_pipeline(p, ctx);
	}
	assert_true(runs[0].run.count > 0);
	assert_same_runs(&runs[0], &runs[1], "epochs that are left");
	free_device_run(&runs[0]);
	free_device_run(&runs[1]);
}

/* ---- state ---- */

static struct device_run resumed(const struct device_graph *graph, const char *text, int device)
{
	struct device_run r = {0};
	struct stk_error err = {0};
	const struct device_settings s = {.device = device, .batch = BATCH};
	struct stk_context *ctx = make_context(2);
	struct stk_pipeline *p = make_device_pipeline(ctx, graph->make(folder), &s);
	ok(stk_pipeline_restore(p, text, strlen(text), &err), &err);
	while (take_batch(p, &r)) {
	}
	close_pipeline(p, ctx);
	return r;
}

static void test_a_state_goes_on_there_and_on_the_cores(void **state)
{
	(void)state;
	need_device();
	const struct device_settings s = {.batch = BATCH};
	const struct device_graph *graph = device_graph("the usual");
	for (int after = 1; after <= 3; after++) {
		char *text = NULL;
		struct stk_error err = {0};
		struct device_run head = {0}, rest = {0};
		struct stk_context *ctx = make_context(2);
		struct stk_pipeline *p = make_device_pipeline(ctx, graph->make(folder), &s);
		for (int k = 0; k < after; k++)
			take_batch(p, &head);
		ok(stk_pipeline_save(p, &text, &err), &err);
		while (take_batch(p, &rest)) {
		}
		close_pipeline(p, ctx);
		for (int device = -1; device <= 0; device++) {
			struct device_run r = resumed(graph, text, device);
			assert_same_runs(&rest, &r, "a state after %d batches, on device %d", after, device);
			free_device_run(&r);
		}
		assert_int_equal(head.run.count + rest.run.count, FILES);
		free_device_run(&head);
		free_device_run(&rest);
		stk_text_free(text);
	}
}

/* ---- devices that do not exist, and forked children ---- */

static void test_no_such_device(void **state)
{
	(void)state;
	need_device();
	struct stk_context *ctx = make_context(1);
	static const int32_t wrong[] = {63, 4000, INT32_MAX};
	for (int i = 0; i < 3; i++) {
		char number[16];
		struct stk_error err = {0};
		const struct device_settings s = {.device = wrong[i]};
		assert_null(try_device_pipeline(ctx, device_graph("the usual")->make(folder), &s, &err));
		assert_int_equal(err.code, STK_INVALID);
		snprintf(number, sizeof number, "%d", wrong[i]);
		assert_non_null(strstr(err.message, number));
	}
	const struct device_settings s = {.batch = 2};
	struct stk_pipeline *p = make_device_pipeline(ctx, device_graph("the usual")->make(folder), &s);
	struct stk_batch *b = next(p);
	stk_batch_unref(&b);
	close_pipeline(p, ctx);
}

/* Uses inherited objects in a forked child: calls must return errors or nothing, and must not hang. */
static int live_as_child(struct stk_pipeline *p, struct stk_context *ctx, struct stk_batch *held)
{
	struct stk_error err = {0};
	struct stk_batch *b = NULL;
	uint8_t byte[PIXELS * 4];
	const struct device_settings s = {.batch = 2};
	if (stk_pipeline_next(p, &b, &err) != STK_STATE || b)
		return 1;
	if (try_device_pipeline(ctx, device_graph("the usual")->make(folder), &s, &err) || err.code != STK_STATE)
		return 2;
	if (stk_batch_copy(held, 0, 0, byte, sizeof byte, &err) == STK_OK || !strstr(err.message, "fork"))
		return 3;
	stk_batch_unref(&held);
	stk_pipeline_destroy(p);
	return 0;
}

static void test_a_forked_child(void **state)
{
	(void)state;
	need_device();
	const struct device_settings s = {.prefetch = 3, .batch = 3};
	struct device_run want = on_cores("the usual", s, 1);
	struct stk_context *ctx = make_context(2);
	struct stk_pipeline *p = make_device_pipeline(ctx, device_graph("the usual")->make(folder), &s);
	for (size_t k = 0; k < 4; k++) {
		struct stk_batch *b = next(p);
		pid_t pid = fork();
		if (pid == 0) {
			alarm(200);
			_exit(live_as_child(p, ctx, b));
		}
		int status = -1;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status)
			fail_msg("the child ended with %#x", status);
		assert_batch_is(b, &want, k * 3);
		stk_batch_unref(&b);
	}
	close_pipeline(p, ctx);
	free_device_run(&want);
}

/* ---- batches under way, memory and streams must not grow ---- */

static void run_on(struct stk_pipeline *p, int batches)
{
	for (int k = 0; k < batches; k++) {
		struct stk_batch *b = NULL;
		struct stk_error err = {0};
		enum stk_status s = stk_pipeline_next(p, &b, &err);
		assert_true(s == STK_OK || s == STK_END);
		stk_batch_unref(&b);
	}
}

/* Returns the number of open batches, once the pipeline opens no more. */
static int under_way(struct stk_pipeline *p)
{
	for (double last = -1, now;; last = now) {
		now = counter_of(p, "batches_opened");
		if (now == last)
			return (int)(now - counter_of(p, "batches_delivered"));
		usleep(50000);
	}
}

/* If a consumer takes all batches at once, it waits for the GPU, and the number of open batches rises. The number must fall when the consumer no longer
 * waits. */
static void test_batches_that_nobody_waits_for_are_not_kept(void **state)
{
	(void)state;
	enum { PREFETCH = 2 };
	need_device();
	struct stk_context *ctx = make_context(2);
	const struct device_settings s = {.prefetch = PREFETCH, .batch = 3};
	struct stk_graph *g = new_graph();
	OUTPUTS(g, ADD(g, "copy", .in = {ADD(g, "random.coin_flip", .gpu = false)}, .gpu = true));
	struct stk_pipeline *p = make_device_pipeline(ctx, g, &s);
	int most = PREFETCH, now;
	for (int k = 0; k < 100 && most <= PREFETCH + 2; k++) {
		run_on(p, 20);
		now = under_way(p);
		most = now > most ? now : most;
	}
	assert_true(most > PREFETCH + 2);
	for (double nap_us = 2000; (now = under_way(p)) > PREFETCH; nap_us *= 1.2) /* if the number never falls, the alarm ends the test */
		for (int k = 0; k < 80; k++) {
			run_on(p, 1);
			usleep((useconds_t)nap_us);
		}
	run_on(p, 20);
	close_pipeline(p, ctx);
}

/* Searches the first 1200 batches for 50 consecutive ones without an allocation. A pipeline stops allocating when as many objects as possible have been in
 * use together, which depends on timing. */
static void assert_no_growth_of(const char *function)
{
	enum { PAUSE = 10, STEADY = 50, MOST = 1200 };
	emulate("strict async delay=2000 fail=%s:0", function);
	const struct device_settings s = {.batch = FILES, .prefetch = 2, .max_batches = 6};
	struct stk_context *ctx = make_context(2);
	struct stk_pipeline *p = make_device_pipeline(ctx, device_graph("passes and labels")->make(folder), &s);
	double made = -1;
	long called = -1;
	int steady = 0;
	for (int k = 0; k < MOST && steady < STEADY; k++) {
		run_on(p, 1);
		if (k % PAUSE == 0)
			usleep(20000); /* lets the pipeline do all work that it may do ahead of need */
		double now = counter_of(p, "allocations");
		long calls = emulated ? emulated_calls_seen() : 0;
		steady = now == made && calls == called ? steady + 1 : 0;
		made = now;
		called = calls;
	}
	assert_true(called > 0 || !emulated);
	if (steady < STEADY)
		fail_msg("memory or %s is still asked for after %d batches: %.0f allocations, %ld calls", function, MOST, made, called);
	close_pipeline(p, ctx);
}

/* A pipeline has at most eight streams, since streams that share one of the hardware's eight queues wait for each other, and a ninth one for rare copies of
 * slots. */
static void test_streams_are_no_more_than_queues(void **state)
{
	(void)state;
	need_device();
	if (!emulated)
		skip();
	static const char *const graphs[] = {"the usual", "passes over tensors"};
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		emulate("strict fail=cuStreamCreateWithPriority:0");
		const struct device_settings s = {.batch = FILES, .prefetch = 20, .max_batches = 30};
		struct stk_context *ctx = make_context(2);
		struct stk_pipeline *p = make_device_pipeline(ctx, device_graph(graphs[i])->make(folder), &s);
		run_on(p, 30);
		assert_in_range(emulated_calls_seen(), 1, 8 + 1);
		close_pipeline(p, ctx);
	}
}

static void test_nothing_grows(void **state)
{
	(void)state;
	need_device();
	static const char *const functions[] = {"cuMemAlloc", "cuMemHostAlloc", "cuEventCreate"};
	for (int i = 0; i < (emulated ? 3 : 1); i++)
		assert_no_growth_of(functions[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_held_batches_stay_what_they_are),
		cmocka_unit_test_teardown(test_a_held_batch_leaves_no_memory, restore_options),
		cmocka_unit_test_teardown(test_a_late_reader_sees_its_batch, restore_options),
		cmocka_unit_test_teardown(test_no_stream_waits_for_a_reader, restore_options),
		cmocka_unit_test(test_too_many_streams),
		cmocka_unit_test(test_pipelines_side_by_side),
		cmocka_unit_test_teardown(test_leaving_with_work_in_flight, restore_options),
		cmocka_unit_test(test_epochs_that_are_left),
		cmocka_unit_test(test_a_state_goes_on_there_and_on_the_cores),
		cmocka_unit_test(test_no_such_device),
		cmocka_unit_test(test_a_forked_child),
		cmocka_unit_test(test_batches_that_nobody_waits_for_are_not_kept),
		cmocka_unit_test_teardown(test_streams_are_no_more_than_queues, restore_options),
		cmocka_unit_test_teardown(test_nothing_grows, restore_options),
	};
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests_name("device_use", tests, set_up, tear_down);
}
