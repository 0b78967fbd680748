/* SPDX-License-Identifier: Apache-2.0
 * Compares pipelines on a GPU with the same pipelines on the CPU: bytes, shapes, positions and errors must be equal for all batch sizes and numbers of
 * workers, fused or not, and with little memory. Runs on the emulated driver (test/cuda/emulated.h), also with random delays of its streams, or on a GPU. */
#include "test.h"

#include "device_runs.h"
#include "exec/device.h"
#include "image_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 17, SECONDS = 580 };
static char *good, *mixed; /* folders; `mixed` also has files that the GPU does not decode, and damaged ones */

static void write_file(const char *folder, int i, const uint8_t *data, size_t size)
{
	char path[512];
	file_path(folder, i, path, sizeof path);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, size, f), size);
	fclose(f);
}

/* Writes file i as a JPEG in which up to three bytes after the first third of the file are random. Half of these files are also cut off. */
static void damage(const char *folder, int i, uint64_t *seed)
{
	struct test_jpeg j = {.width = 90 + i, .height = 70, .components = 3, .quality = 85, .noise = 0.3, .seed = (uint64_t)i};
	j.h[0] = j.v[0] = 2;
	struct test_file f = test_jpeg_make(&j);
	int from = (int)f.size / 3;
	for (int hits = test_random_in(seed, 1, 3); hits > 0; hits--)
		f.data[test_random_in(seed, from, (int)f.size - 3)] = (uint8_t)test_random_in(seed, 0, 255);
	write_file(folder, i, f.data, test_random_in(seed, 0, 1) ? f.size : (size_t)from * 2);
	free(f.data);
}

static void make_mixed(void)
{
	static const char text[] = "hello, I am no photograph";
	uint64_t seed = test_seed();
	mixed = make_folder(FILES, 7);
	struct test_jpeg j = {.width = 77, .height = 61, .components = 3, .quality = 85, .noise = 0.3, .seed = 9, .progressive = true};
	j.h[0] = j.v[0] = 2;
	struct test_file f = test_jpeg_make(&j);
	write_file(mixed, 2, f.data, f.size);
	write_file(mixed, 9, f.data, f.size);
	free(f.data);
	write_file(mixed, 5, (const uint8_t *)text, sizeof text - 1);
	write_file(mixed, 6, (const uint8_t *)text, 0);
	for (int i = 10; i < 14; i++)
		damage(mixed, i, &seed);
}

static int set_up(void **state)
{
	(void)state;
	alarm(SECONDS); /* ends the test with a failure instead of waiting for ever */
	good = make_folder(FILES, 31);
	make_mixed();
	if (have_device())
		return 0;
	return getenv("STOKER_EMULATED_CUDA") ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(good);
	remove_folder(mixed);
	return 0;
}

/* ---- CPU and GPU give the same bytes ---- */

/* Runs the graph on the CPU and on the GPU and compares the results. Copies the GPU's run to *out unless that is NULL. */
static void assert_sides_agree(
	const char *folder, const struct device_graph *g, struct device_settings s, int epochs, struct device_run *out)
{
	struct device_settings on_cores = s;
	on_cores.device = -1;
	struct device_run a = run_device(g->make(folder), &on_cores, epochs), b = run_device(g->make(folder), &s, epochs);
	assert_same_runs(&a, &b, "%s, batch %d, %d ahead, %d threads, policy %d, device %d%s, seed %llu", g->what, s.batch, s.prefetch,
		s.threads, (int)s.on_error, s.device, s.no_fuse ? ", not fused" : "", (unsigned long long)test_seed());
	free_device_run(&a);
	if (out)
		*out = b;
	else
		free_device_run(&b);
}

static void test_each_graph_gives_the_same_bytes(void **state)
{
	(void)state;
	need_device();
	for (int i = 0; i < n_device_graphs; i++) {
		for (int no_fuse = 0; no_fuse < 2; no_fuse++) {
			struct device_run r;
			assert_sides_agree(good, &device_graphs[i], (struct device_settings){.no_fuse = no_fuse}, 2, &r);
			assert_true((r.errors > 0) == device_graphs[i].divides);
			assert_true(r.run.count >= 2 * FILES || device_graphs[i].divides);
			assert_true((r.decoded > 0) == device_graphs[i].photographs);
			free_device_run(&r);
		}
	}
}

static void test_batch_sizes_depths_and_threads(void **state)
{
	(void)state;
	need_device();
	static const char *const graphs[] = {"the usual", "a value used twice", "gathered between levels"};
	for (int batch = 1; batch <= 7; batch++)
		assert_sides_agree(good, device_graph(graphs[batch % 3]),
			(struct device_settings){.batch = batch, .prefetch = 1 + batch % 4, .threads = 1 + batch % 3}, 2, NULL);
	for (int prefetch = 1; prefetch <= 4; prefetch++)
		assert_sides_agree(good, device_graph(graphs[prefetch % 3]),
			(struct device_settings){.batch = 3, .prefetch = prefetch, .threads = 4}, 2, NULL);
}

/* A setting chooses the CPU or the GPU to decode all files. Both give the same bytes, even for damaged files and with every policy. */
static void test_the_sides_that_decode(void **state)
{
	(void)state;
	need_device();
	for (int i = 0; i < n_device_graphs; i++) {
		for (int decode = STK_DECODE_GPU; decode <= STK_DECODE_CORES; decode++) {
			struct device_run r;
			const struct device_settings s = {.decode = (enum stk_decoding)decode, .no_fuse = i % 2, .threads = 1 + i % 3};
			assert_sides_agree(good, &device_graphs[i], s, 2, &r);
			assert_true((r.decoded > 0) == (device_graphs[i].photographs && decode == STK_DECODE_GPU));
			assert_true((r.spare > 0) == (device_graphs[i].photographs && decode == STK_DECODE_CORES));
			free_device_run(&r);
		}
		const struct device_settings s = {.decode = STK_DECODE_CORES, .batch = 3, .on_error = (enum stk_on_error)(i % 3)};
		assert_sides_agree(mixed, &device_graphs[i], s, 2, NULL);
	}
}

/* Runs two epochs at a fixed level, the number that divides the files between cores and GPU (exec/decode_side.h). */
static struct device_run run_at_level(const struct device_graph *g, int32_t level)
{
	const struct device_settings s = {.batch = 4, .threads = 3};
	struct device_run r = {0};
	struct stk_context *ctx = make_context(s.threads);
	struct stk_pipeline *p = make_device_pipeline(ctx, g->make(good), &s);
	struct stk_decode_side *side = &p->parts.device->side;
	atomic_store(&side->window_ns, INT64_MAX); /* no window ends, so the level stays */
	atomic_store(&side->level, level);
	for (int epochs = 2; epochs;)
		epochs -= !take_batch(p, &r);
	r.decoded = counter_of(p, "gpu_decodes");
	r.spare = counter_of(p, "core_decodes");
	close_pipeline(p, ctx);
	return r;
}

/* A level divides the files between cores and GPU. The results must be the same bytes at each level. */
static void test_levels_between_the_sides(void **state)
{
	(void)state;
	static const int32_t levels[] = {STK_LEVEL_LEAST, -100, 0, STK_LEVEL_BATCHES, 80, STK_LEVEL_MOST};
	need_device();
	const struct device_graph *g = device_graph("the usual");
	const struct device_settings on_cores = {.device = -1};
	struct device_run want = run_device(g->make(good), &on_cores, 2);
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
		struct device_run r = run_at_level(g, levels[i]);
		assert_same_runs(&want, &r, "level %d", levels[i]);
		assert_true((r.decoded > 0) == (levels[i] < STK_LEVEL_MOST));
		assert_true((r.spare > 0) == (levels[i] > 0));
		free_device_run(&r);
	}
	free_device_run(&want);
}

/* ---- files that the GPU does not decode ---- */

static void test_refused_and_damaged_files(void **state)
{
	(void)state;
	need_device();
	for (int i = 0; i < n_device_graphs; i++) {
		for (int policy = STK_ON_ERROR_RAISE; policy <= STK_ON_ERROR_REPLACE; policy++) {
			struct device_run r;
			const struct device_settings s = {.on_error = (enum stk_on_error)policy, .batch = 3};
			assert_sides_agree(mixed, &device_graphs[i], s, 2, &r);
			if (policy == STK_ON_ERROR_RAISE)
				assert_true(r.errors > 0);
			free_device_run(&r);
		}
	}
}

static void test_batches_of_bad_files_only(void **state)
{
	(void)state;
	need_device();
	for (int policy = STK_ON_ERROR_RAISE; policy <= STK_ON_ERROR_SKIP; policy++)
		assert_sides_agree(mixed, device_graph("the usual"),
			(struct device_settings){.on_error = (enum stk_on_error)policy, .batch = 1}, 2, NULL);
}

/* ---- little memory ---- */

static void test_images_beyond_the_memory_go_to_the_cores(void **state)
{
	(void)state;
	need_device();
	struct device_run r;
	assert_sides_agree(good, device_graph("the usual"), (struct device_settings){.gpu_memory = 1, .batch = 5}, 2, &r);
	assert_true(r.refused > 0);
	free_device_run(&r);
	assert_sides_agree(
		good, device_graph("several decoders of a sample"), (struct device_settings){.gpu_memory = 300 << 10, .batch = 5}, 2, NULL);
	assert_sides_agree(mixed, device_graph("unknown shapes"),
		(struct device_settings){.gpu_memory = 200 << 10, .on_error = STK_ON_ERROR_SKIP}, 2, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_graph_gives_the_same_bytes),
		cmocka_unit_test(test_batch_sizes_depths_and_threads),
		cmocka_unit_test(test_the_sides_that_decode),
		cmocka_unit_test(test_levels_between_the_sides),
		cmocka_unit_test(test_refused_and_damaged_files),
		cmocka_unit_test(test_batches_of_bad_files_only),
		cmocka_unit_test(test_images_beyond_the_memory_go_to_the_cores),
	};
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests_name("device", tests, set_up, tear_down);
}
