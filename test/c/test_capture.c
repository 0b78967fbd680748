/* SPDX-License-Identifier: Apache-2.0
 * A pipeline is created, runs and ends while the user's program captures a CUDA graph, in global mode too, on the capturing thread and on others. The
 * capture must stay valid. Needs the emulated driver, which invalidates a capture when another thread makes an unsafe call. */
#include "test.h"

#include "device_runs.h"

#include "gpu/device.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 12, BATCH = 4, GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2, UNSUPPORTED = 900, INVALIDATED = 901 };
static char *folder;

static int set_up(void **state)
{
	(void)state;
	folder = make_folder(FILES, 31);
	return folder == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

/* What a user's program has: a stream in the primary context of device 0, and the driver's functions that capture graphs. */
struct user {
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev;
	stk_gpu_stream stream;
	int (*begin)(void *stream, int mode);
	int (*end)(void *stream, void **graph);
};

static void open_user(struct user *u)
{
	*u = (struct user){0};
	assert_int_equal(stk__gpu_open(&u->gpu, NULL), STK_OK);
	assert_int_equal(stk__gpu_device_open(u->gpu, 0, &u->dev, NULL), STK_OK);
	*(void **)&u->begin = dlsym(u->dev->cu->library, "cuStreamBeginCapture_v2");
	*(void **)&u->end = dlsym(u->dev->cu->library, "cuStreamEndCapture");
	assert_true(u->begin && u->end);
	assert_int_equal(stk__gpu_enter(u->dev, NULL), STK_OK);
	assert_int_equal(stk__gpu_stream_create(u->dev, STK_GPU_HIGH, &u->stream, NULL), STK_OK);
	stk__gpu_leave(u->dev);
}

static void close_user(struct user *u)
{
	assert_int_equal(stk__gpu_enter(u->dev, NULL), STK_OK);
	stk__gpu_stream_destroy(u->dev, u->stream);
	stk__gpu_leave(u->dev);
	stk__gpu_device_close(u->dev);
	stk__gpu_close(u->gpu);
}

static void begin_capture(struct user *u, int mode)
{
	assert_int_equal(stk__gpu_enter(u->dev, NULL), STK_OK);
	assert_int_equal(u->begin(u->stream, mode), 0);
	stk__gpu_leave(u->dev);
}

static int end_capture(struct user *u)
{
	void *graph;
	assert_int_equal(stk__gpu_enter(u->dev, NULL), STK_OK);
	int result = u->end(u->stream, &graph);
	stk__gpu_leave(u->dev);
	return result;
}

/* Runs a pipeline's whole life: it begins, allocates as it grows, delivers batches, reuses slots that the captured stream and others read, and ends. */
static void *use_a_pipeline(void *arg)
{
	struct user *u = arg;
	const struct device_settings s = {.device = 0, .batch = BATCH, .max_batches = 4};
	struct device_run run = {0}, cores = run_device(device_graph("the usual")->make(folder),
					     &(struct device_settings){.device = -1, .batch = BATCH}, 1);
	struct stk_context *ctx = make_context(2);
	struct stk_pipeline *p = make_device_pipeline(ctx, device_graph("the usual")->make(folder), &s);
	for (int k = 0; k < 2; k++) { /* the pipeline must not reuse slots that the captured stream reads until the capture has ended */
		struct stk_batch *b = NULL;
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		add_batch_seen(&run, b);
		assert_int_equal(stk_batch_use_stream(b, k ? (uint64_t)(uintptr_t)u->stream : 0, NULL), STK_OK);
		stk_batch_unref(&b);
	}
	assert_memory_equal(run.run.samples, cores.run.samples, run.run.count * sizeof *run.run.samples);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	free_device_run(&run);
	free_device_run(&cores);
	return NULL;
}

/* Checks that the driver really invalidates a capture; otherwise the tests below would prove nothing. */
static void test_an_unsafe_call_spoils_a_capture(void **state)
{
	(void)state;
	struct user u;
	uint64_t memory;
	open_user(&u);
	begin_capture(&u, GLOBAL);
	assert_int_equal(stk__gpu_enter(u.dev, NULL), STK_OK);
	assert_int_equal(u.dev->cu->cuMemAlloc_v2(&memory, 100), UNSUPPORTED);
	stk__gpu_leave(u.dev);
	assert_int_equal(end_capture(&u), INVALIDATED);
	close_user(&u);
}

static void test_a_pipeline_beside_a_capture(void **state)
{
	(void)state;
	for (int mode = GLOBAL; mode <= RELAXED; mode++) {
		struct user u;
		pthread_t thread;
		open_user(&u);
		begin_capture(&u, mode);
		assert_int_equal(pthread_create(&thread, NULL, use_a_pipeline, &u), 0);
		pthread_join(thread, NULL);
		assert_int_equal(end_capture(&u), 0);
		close_user(&u);
	}
}

static void test_a_pipeline_in_the_thread_that_captures(void **state)
{
	(void)state;
	for (int mode = GLOBAL; mode <= RELAXED; mode++) {
		struct user u;
		open_user(&u);
		begin_capture(&u, mode);
		use_a_pipeline(&u);
		assert_int_equal(end_capture(&u), 0);
		close_user(&u);
	}
}

/* A call of the library that changes the thread's capture mode must restore it. */
static void test_the_mode_of_the_users_thread_stays(void **state)
{
	(void)state;
	for (int mode = GLOBAL; mode <= RELAXED; mode++) {
		struct user u;
		int before = mode;
		open_user(&u);
		assert_int_equal(u.dev->cu->cuThreadExchangeStreamCaptureMode(&before), 0);
		use_a_pipeline(&u);
		assert_int_equal(u.dev->cu->cuThreadExchangeStreamCaptureMode(&before), 0);
		assert_int_equal(before, mode);
		close_user(&u);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_unsafe_call_spoils_a_capture),
		cmocka_unit_test(test_a_pipeline_beside_a_capture),
		cmocka_unit_test(test_a_pipeline_in_the_thread_that_captures),
		cmocka_unit_test(test_the_mode_of_the_users_thread_stays),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
