/* SPDX-License-Identifier: Apache-2.0
 * GPU faults from the emulated driver: call N of a function fails, for N = 1, 2, ... until a run has fewer than N calls; or the device is lost at
 * operation N. In each case a call returns an error with a message, or the run succeeds. Delivered batches are right. The run and the clean-up end, and
 * leave nothing on the device, which the driver's option "strict" checks. With -Dfaults=true the host's allocations and threads fail too. */
#include "test.h"

#include "base/memory.h"
#include "device_runs.h"
#include "image_files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 11, BATCH = 4, BATCHES = 3, SECONDS = 60, MOST = 20000 };
static char *folder;
static const char *const graphs[] = {"a value used twice", "gathered between levels", "arrays"};
enum { GRAPHS = sizeof graphs / sizeof *graphs };

/* Makes the tests' folder of baseline JPEGs, in which file 4 is progressive. */
static int set_up(void **state)
{
	(void)state;
	char path[512];
	struct test_jpeg j = {.width = 77, .height = 61, .components = 3, .quality = 85, .noise = 0.3, .seed = 9, .progressive = true};
	struct test_file f = test_jpeg_make(&j);
	folder = make_folder(FILES, 99);
	file_path(folder, 4, path, sizeof path);
	FILE *out = fopen(path, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(f.data, 1, f.size, out), f.size);
	fclose(out);
	free(f.data);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

/* ---- running one graph with a fault ---- */

/* The results of a run: hashes of the delivered batches, and the first error. */
struct outcome {
	enum stk_status status;
	struct stk_error err;
	int32_t counts[BATCHES]; /* number of samples of each batch; 0: the batch was not delivered, or could not be read */
	uint64_t hashes[BATCHES][BATCH];
};

/* Returns whether `status` is an error. Stores the first error in `o`. */
static bool note(struct outcome *o, enum stk_status status, const struct stk_error *err)
{
	if (status == STK_OK)
		return false;
	if (err->code != status || !err->message[0])
		fail_msg("%s came back with %s: %s", stk_status_name(status), stk_status_name(err->code), err->message);
	if (!o->status) {
		o->status = status;
		o->err = *err;
	}
	return true;
}

static bool hash_outputs(struct outcome *o, struct stk_batch *b, int32_t i, uint64_t *hash)
{
	*hash = 0xcbf29ce484222325u;
	for (int32_t k = 0; k < stk_batch_outputs(b); k++) {
		static uint8_t bytes[1 << 20];
		struct stk_error err = {0};
		int64_t size = stk_desc_bytes(&stk_batch_output(b, k)->samples[i].desc);
		assert_true(size <= (int64_t)sizeof bytes);
		if (note(o, stk_batch_copy(b, k, i, bytes, sizeof bytes, &err), &err))
			return false;
		for (int64_t at = 0; at < size; at++)
			*hash = (*hash ^ bytes[at]) * 0x100000001b3u;
	}
	return true;
}

static void keep_batch(struct outcome *o, struct stk_batch *b)
{
	int64_t step = stk_batch_step(b);
	assert_true(step >= 0 && step < BATCHES);
	struct stk_error err = {0};
	bool read = !note(o, stk_batch_use_stream(b, 0, &err), &err);
	for (int32_t i = 0; i < stk_batch_size(b) && read; i++)
		read = hash_outputs(o, b, i, &o->hashes[step][i]);
	o->counts[step] = read ? stk_batch_size(b) : 0;
}

/* Takes batches to the end of the epoch, and continues after errors. */
static void take_epoch(struct stk_pipeline *p, struct outcome *o)
{
	for (int k = 0; k <= BATCHES; k++) {
		struct stk_batch *b = NULL;
		struct stk_error err = {0};
		enum stk_status s = stk_pipeline_next(p, &b, &err);
		if (s == STK_END) {
			assert_true(k == BATCHES || o->status);
			return;
		}
		if (note(o, s, &err)) {
			assert_null(b);
			if (s == STK_SYSTEM)
				return; /* the pipeline has not started, because a thread could not be started */
			continue;
		}
		keep_batch(o, b);
		stk_batch_unref(&b);
	}
}

/* Runs the graph, frees it, and returns the results. */
static struct outcome run_graph(struct stk_graph *g, int device)
{
	struct outcome o = {0};
	struct stk_context *ctx = NULL;
	struct stk_error err = {0};
	const struct stk_context_config c = {.size = sizeof c, .threads = 2};
	const struct device_settings s = {
		.device = device, .batch = BATCH, .prefetch = 1, .max_batches = 2}; /* few batches, so that slots are reused */
	alarm(SECONDS);                                                             /* ends the test if it hangs */
	if (!note(&o, stk_context_create(&c, &ctx, &err), &err)) {
		struct stk_pipeline *p = try_device_pipeline(ctx, g, &s, &err);
		if (p)
			take_epoch(p, &o);
		else
			assert_true(note(&o, err.code, &err));
		stk_pipeline_destroy(p);
	} else {
		stk_graph_destroy(g);
	}
	stk_context_unref(&ctx);
	alarm(0);
	return o;
}

static struct outcome run_once(const struct device_graph *graph, int device)
{
	return run_graph(graph->make(folder), device);
}

static void check_outcome(const struct outcome *got, const struct outcome *want, bool met, const char *what, long nth)
{
	if (got->status && !met)
		fail_msg("%s %ld: no fault was met, and yet: %s", what, nth, got->err.message);
	for (int k = 0; k < BATCHES; k++) {
		if (!got->counts[k] && got->status)
			continue;
		if (got->counts[k] != want->counts[k] || memcmp(got->hashes[k], want->hashes[k], sizeof got->hashes[k]))
			fail_msg("%s %ld: batch %d has %d samples and %d are right, or their bytes differ (%s)", what, nth, k,
				got->counts[k], want->counts[k], got->err.message);
	}
}

/* ---- faults of the driver ---- */

/* Fails each call of a function in turn. reported: each fault must lead to an error. Otherwise the pipeline must continue without the resource, and deliver
 * the same bytes. */
static void fault_loop(const char *function, const char *mode, bool reported)
{
	char what[128];
	int failed = 0, met = 0, left = GRAPHS;
	bool over[GRAPHS] = {false};
	struct outcome want[GRAPHS];
	for (int g = 0; g < GRAPHS; g++) {
		want[g] = run_once(device_graph(graphs[g]), -1);
		assert_int_equal(want[g].status, STK_OK);
	}
	int g = 0;
	for (long nth = 1; left; g = (g + 1) % GRAPHS) {
		if (over[g])
			continue;
		assert_true(nth < MOST);
		snprintf(what, sizeof what, "%s %s, %s:", mode, function, graphs[g]);
		emulate("strict %s seed=%ld fail=%s:%ld", mode, (long)test_seed() + nth, function, nth);
		struct outcome got = run_once(device_graph(graphs[g]), 0);
		over[g] = emulated_calls_seen() < nth;
		check_outcome(&got, &want[g], !over[g], what, nth);
		failed += got.status != STK_OK;
		met += !over[g];
		left -= over[g];
		nth += over[g] ? 0 : 1 + nth / 2;
	}
	print_message("%s %s: %d faults were met, %d were reported\n", mode, function, met, failed);
	assert_true(met > 0 && (failed > 0) == reported);
}

static void test_calls_that_fail(void **state)
{
	(void)state;
	if (!have_device() || !is_emulated())
		skip();
	/* Index of the first function that is called while batches are in flight; the functions before it are only called when a pipeline starts. */
	enum { IN_FLIGHT = 6 };
	static const char *const functions[] = {"cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute",
		"cuStreamCreateWithPriority", "cuEventCreate", "cuMemAlloc", "cuMemHostAlloc", "cuMemGetInfo", "cuMemcpyHtoDAsync",
		"cuMemcpyDtoHAsync", "cuLaunchKernel", "cuEventRecord", "cuEventSynchronize", "cuStreamWaitEvent", "cuStreamSynchronize"};
	/* This function closes the gap of a dropped sample. If it fails, the batch is delivered with gaps. */
	static const char *const moves = "cuMemcpyDtoDAsync";
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		fault_loop(functions[i], "", true);
		if (i >= IN_FLIGHT)
			fault_loop(functions[i], "async", true);
	}
	fault_loop(moves, "", false);
	fault_loop(moves, "async", false);
}

static void test_a_device_that_is_lost(void **state)
{
	(void)state;
	if (!have_device() || !is_emulated())
		skip();
	for (int async = 0; async < 2; async++) {
		for (int g = 0; g < GRAPHS; g++) {
			const struct device_graph *graph = device_graph(graphs[g]);
			struct outcome want = run_once(graph, -1);
			int failed = 0;
			bool met = true;
			for (long nth = 1; met && nth < MOST; nth += 1 + nth / 4) {
				emulate("strict %s seed=%ld lost=%ld", async ? "async" : "", (long)test_seed() + nth, nth);
				struct outcome got = run_once(graph, 0);
				met = got.status != STK_OK;
				check_outcome(&got, &want, true, "lost after", nth);
				failed += met;
			}
			print_message("%s, %s: lost %d times\n", graphs[g], async ? "async" : "at once", failed);
			assert_true(failed > 0 && !met);
		}
	}
}

/* ---- faults of the host ---- */

#ifdef STK_FAULTS
static void host_loop(enum stk_fault kind, bool lasts, const char *mode)
{
	const struct device_graph *graph = device_graph(graphs[0]);
	struct outcome want = run_once(graph, -1);
	int failed = 0;
	emulate("strict %s", mode);
	for (int64_t nth = 0, met = 1; met; nth += 1 + (kind == STK_FAULT_ALLOC ? nth / 40 : 0)) {
		assert_true(nth < MOST);
		struct stk_graph *g = graph->make(folder); /* the functions that make graphs do not handle failures of allocations */
		(lasts ? stk__fault_set_from : stk__fault_set)(kind, nth);
		struct outcome got = run_graph(g, 0);
		met = stk__fault_passed(kind) > nth;
		stk__fault_set(kind, -1);
		check_outcome(&got, &want, met, kind == STK_FAULT_ALLOC ? "host allocation" : "thread", (long)nth);
		failed += got.status != STK_OK;
	}
	assert_true(failed > 0);
}

static void test_the_host_is_short(void **state)
{
	(void)state;
	if (!have_device() || !is_emulated())
		skip();
	for (int lasts = 0; lasts < 2; lasts++) {
		host_loop(STK_FAULT_ALLOC, lasts, "");
		host_loop(STK_FAULT_ALLOC, lasts, "async");
		host_loop(STK_FAULT_THREAD, lasts, "");
	}
}
#endif

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_that_fail),
		cmocka_unit_test(test_a_device_that_is_lost),
#ifdef STK_FAULTS
		cmocka_unit_test(test_the_host_is_short),
#endif
	};
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests_name("device_faults", tests, set_up, tear_down);
}
