/* SPDX-License-Identifier: Apache-2.0
 * A tool that records NVTX calls sees every span as a range, and nothing else; without a tool no NVTX function is called. The meson test names the tool in
 * NVTX_INJECTION64_PATH, as Nsight Systems does. */
#include "test.h"

#include "device_runs.h"
#include "nvtx_tool.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 17, ROOM = 4096 };
static char *folder;

static int set_up(void **state)
{
	(void)state;
	folder = make_folder(FILES, 5);
	return folder == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

static struct nvtx_tool_counts seen(void)
{
	struct nvtx_tool_counts counts = {0};
	void *tool = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(tool); /* RTLD_NOLOAD finds the tool only if NVTX has loaded it */
	void (*read_counts)(struct nvtx_tool_counts *) = NULL;
	*(void **)&read_counts = dlsym(tool, "nvtx_tool_read");
	assert_non_null(read_counts);
	read_counts(&counts);
	dlclose(tool);
	return counts;
}

static const struct nvtx_tool_kind *kind_of(const struct nvtx_tool_counts *c, const char *name)
{
	const struct nvtx_tool_kind *k = c->kinds;
	while (k->name[0] && strcmp(k->name, name) != 0)
		k++;
	return k;
}

/* Number of the trace's rows that are threads: two workers, sources, the consumer, and the thread that waits for the GPU. Later rows are events that do not
 * happen on a thread. */
enum { THREADS = 5 };

/* Counts the spans of a kind, and adds up their batches. */
static struct nvtx_tool_kind spans_of(const struct stk_span *spans, size_t n, const char *name)
{
	struct nvtx_tool_kind k = {{0}, 0, 0};
	for (size_t i = 0; i < n; i++)
		if (spans[i].thread < THREADS && strcmp(spans[i].name, name) == 0) {
			k.begun++;
			k.batches += spans[i].batch;
		}
	return k;
}

/* Runs an epoch and a part of the next one. When everything has stopped, compares the tool's counters with the spans. wanted: kinds that must occur. */
static void compare(const char *graph, int32_t device, const char *wanted)
{
	static const char *const kinds[] = {"chain", "batch", "callback", "wait", "submit", "gpu"};
	static struct stk_span spans[ROOM];
	const struct device_settings s = {.device = device, .trace = true};
	struct stk_context *ctx = make_context(2);
	struct nvtx_tool_counts before = seen();
	struct stk_pipeline *p = make_device_pipeline(ctx, device_graph(graph)->make(folder), &s);
	struct device_run r = {0};
	while (take_batch(p, &r)) {
	}
	assert_true(take_batch(p, &r));
	assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
	size_t n = stk_pipeline_spans(p, spans, ROOM);
	assert_true(n > 0 && n < ROOM);
	struct nvtx_tool_counts after = seen();
	assert_int_equal(after.open, 0);
	assert_int_equal(after.wrong, 0);
	assert_true(after.domains > 0 && after.ours > 0);
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		struct nvtx_tool_kind want = spans_of(spans, n, kinds[k]);
		const struct nvtx_tool_kind *b = kind_of(&before, kinds[k]), *a = kind_of(&after, kinds[k]);
		if (a->begun - b->begun != want.begun)
			fail_msg("%s on device %d: %ld ranges, %ld spans", kinds[k], device, a->begun - b->begun, want.begun);
		assert_int_equal(a->batches - b->batches, want.batches);
		assert_true(want.begun > 0 || !strstr(wanted, kinds[k]));
	}
	free_device_run(&r);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

static void test_ranges_are_the_spans(void **state)
{
	(void)state;
	compare("gathered between levels", -1, "chain batch wait");
	if (have_device())
		compare("gathered between levels", 0, "chain batch wait submit gpu");
	assert_int_equal(seen().domains, 0); /* each context destroyed its domain */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges_are_the_spans)};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
