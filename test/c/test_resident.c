/* SPDX-License-Identifier: Apache-2.0
 * Data sets that lie on the GPU against the cores: the same bytes, places, names and errors for every order, batch and recipe; what does not qualify
 * takes the ordinary path with the same bytes. CIFAR's test split, made of noise, mostly by lists of indices. */
#include "test.h"

#include "device_runs.h"
#include "image_files.h"
#include "late_reader.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORDS = 10000, RECORD = 3073, SECONDS = 580, LISTED = 45 };
static char folder[] = "/tmp/stoker-resident-XXXXXX";
static char indices[LISTED * 8];

static void write_records(void)
{
	char path[256];
	uint64_t seed = test_seed();
	uint8_t *data = malloc((size_t)RECORDS * RECORD);
	assert_non_null(data);
	for (size_t i = 0; i < (size_t)RECORDS * RECORD; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		data[i] = (uint8_t)(seed >> 56);
	}
	for (int i = 0; i < RECORDS; i++)
		data[i * RECORD] = (uint8_t)(i * 7 % 10);
	snprintf(path, sizeof path, "%s/test_batch.bin", folder);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, RECORD, RECORDS, f), RECORDS);
	fclose(f);
	free(data);
}

static int set_up(void **state)
{
	(void)state;
	alarm(SECONDS);
	if (!mkdtemp(folder))
		return -1;
	write_records();
	for (int i = 0, at = 0; i < LISTED; i++)
		at += snprintf(indices + at, sizeof indices - (size_t)at, "%s%d", i ? ", " : "", i * 219 % RECORDS);
	if (have_device())
		return 0;
	return getenv("STOKER_EMULATED_CUDA") ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	char path[256];
	snprintf(path, sizeof path, "%s/test_batch.bin", folder);
	unlink(path);
	rmdir(folder);
	return 0;
}

/* ---- graphs: operators behind a reader (0) and two coins (1, 2) ---- */

#define OP(name, args) ", {\"op\": \"" name "\", " args "}"
#define CORES(i, o) "\"inputs\": [[" #i ", " #o "]], \"args\": "
#define FROM(i, o) "\"device\": \"gpu\", " CORES(i, o)
#define NORM "\"mean\": [123.5, 116.25, 103.0], \"std\": [58.0, 57.0, 57.5]"
#define LABEL OP("cast", CORES(0, 1) "{\"dtype\": 7}") OP("copy", FROM(3, 0) "{}")

struct recipe {
	const char *what, *ops, *outputs;
	bool resident, on_cores;
};

static const struct recipe recipes[] = {
	{"training",
		LABEL OP("random_crop", FROM(0, 0) "{\"size\": [32, 32], \"padding\": [4, 4, 4, 4], \"fill_values\": [9, 8, 7]}")
			OP("flip", FROM(5, 0) "{\"horizontal\": {\"node\": [1, 0]}}")
				OP("crop_mirror_normalize", FROM(6, 0) "{" NORM ", \"dtype\": 8, \"output_layout\": \"HWC\"}"),
		"[7, 0], [4, 0]", true, true},
	{"validation", LABEL OP("crop_mirror_normalize", FROM(0, 0) "{" NORM "}"), "[5, 0], [4, 0]", true, true},
	{"uint8", LABEL OP("crop_mirror_normalize", FROM(0, 0) "{\"mirror\": {\"node\": [1, 0]}, \"dtype\": 0}"), "[5, 0], [4, 0]", true,
		true},
	{"uneven windows, two coins of one, appended channels",
		OP("random_crop", FROM(0, 0) "{\"size\": [37, 29], \"padding\": [3, 0, 1, 9], \"fill_values\": [1, 2, 3]}")
			OP("flip", FROM(3, 0) "{\"horizontal\": {\"node\": [1, 0]}, \"vertical\": {\"node\": [1, 0]}}")
				OP("crop", FROM(4, 0) "{\"crop\": [19, 21], \"crop_pos_x\": 0.3}") OP("crop_mirror_normalize",
					FROM(5, 0) "{\"mirror\": {\"node\": [2, 0]}, " NORM ", \"dtype\": 12, \"pad_output\": true}"),
		"[6, 0]", true, true},
	{"a window outside, normalised before the fill",
		OP("crop_mirror_normalize", FROM(0, 0) "{\"crop\": [40, 24], \"crop_pos_x\": 0.9, \"out_of_bounds_policy\": \"pad\", "
						       "\"fill_values\": [0.5], \"mirror\": {\"node\": [1, 0]}, " NORM "}"),
		"[3, 0]", true, true},
	{"two views and two tables",
		LABEL OP("one_hot", FROM(0, 1) "{\"num_classes\": 11}")
			OP("random_crop", "\"name\": \"A\", " FROM(0, 0) "{\"size\": [24, 24]}") OP("random_crop",
				"\"name\": \"B\", " FROM(0, 0) "{\"size\": [24, 24]}") OP("crop_mirror_normalize", FROM(6, 0) "{" NORM "}")
				OP("crop_mirror_normalize", FROM(7, 0) "{" NORM ", \"mirror\": {\"node\": [2, 0]}}"),
		"[8, 0], [9, 0], [4, 0], [5, 0]", true, true},
	{"an output twice", LABEL OP("crop_mirror_normalize", FROM(0, 0) "{" NORM "}"), "[5, 0], [4, 0], [5, 0]", false},
	{"labels on the cores", OP("crop_mirror_normalize", FROM(0, 0) "{" NORM "}"), "[3, 0], [0, 1]", false, true},
	{"a resize", OP("resize", FROM(0, 0) "{\"size\": [24, 40]}"), "[3, 0]", false},
	{"a brightness that is drawn",
		OP("random.uniform", "\"args\": {\"range\": [0.5, 1.5]}")
			OP("brightness_contrast", FROM(0, 0) "{\"brightness\": {\"node\": [3, 0]}}"),
		"[4, 0]", false},
	{"a coin that decides on the fill",
		OP("crop_mirror_normalize", FROM(0, 0) "{\"crop\": [20, 20], \"crop_pos_x\": {\"node\": [1, 0]}, " NORM "}"), "[3, 0]",
		true, true},
	{"a draw that is kept", OP("copy", FROM(1, 0) "{}") OP("crop_mirror_normalize", FROM(0, 0) "{" NORM "}"), "[4, 0], [3, 0]", false},
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* reader: more of its arguments. */
static const char *graph(const struct recipe *r, const char *reader)
{
	static char json[6000];
	snprintf(json, sizeof json,
		"{\"stoker_graph\": 1, \"operators\": [{\"op\": \"readers.cifar\", \"args\": {\"root\": \"%%s\", \"split\": \"test\"%s%s}}"
		", {\"op\": \"random.coin_flip\", \"name\": \"Flip\"}, {\"op\": \"random.coin_flip\", \"args\": {\"probability\": "
		"0.3}}%s], "
		"\"outputs\": [%s]}",
		reader[0] ? ", " : "", reader, r->ops, r->outputs);
	return json;
}

static const char *listed(const char *more)
{
	static char args[1000];
	snprintf(args, sizeof args, "\"indices\": [%s]%s%s", indices, more[0] ? ", " : "", more);
	return args;
}

/* What runs: by calls, without fusion; on the cores; on the GPU. */
enum side { CALLS, CORES_TOO, ON_GPU, SIDES };

/* A member of what explain says in JSON, which is true or false. */
static bool explained(struct stk_pipeline *p, const char *member)
{
	char *text = NULL;
	struct stk_error err = {0};
	ok(stk_pipeline_explain(p, true, &text, &err), &err);
	json_t *told = json_loads(text, 0, NULL), *found = json_object_get(told, member);
	stk_text_free(text);
	assert_true(json_is_boolean(found));
	bool is = json_is_true(found);
	json_decref(told);
	return is;
}

static bool has_recipes(struct stk_pipeline *p)
{
	return explained(p, "recipes") || explained(p, "resident");
}

/* Batches of all sides; they are made by recipes where they should be. */
static void assert_sides_agree(const struct recipe *r, const char *reader, struct device_settings s, int batches)
{
	struct device_run runs[SIDES] = {0};
	bool no_fuse = s.no_fuse;
	for (int side = 0; side < SIDES; side++) {
		s.device = side == ON_GPU ? 0 : -1;
		s.no_fuse = no_fuse || side == CALLS;
		struct stk_context *ctx = make_context(s.threads);
		struct stk_pipeline *p = make_device_pipeline(ctx, folder, graph(r, reader), &s);
		for (int k = 0; k < batches; k++)
			take_batch(p, &runs[side]);
		double resident = counter_of(p, "resident_batches");
		bool wanted = !s.no_fuse && (side == CORES_TOO ? r->on_cores : r->resident && !s.gpu_memory);
		if ((resident > 0) != (wanted && side == ON_GPU) || has_recipes(p) != wanted)
			fail_msg("%s, side %d: %g batches were of a resident data set", r->what, side, resident);
		close_pipeline(p, ctx);
	}
	assert_true(runs[0].run.count > 0 && runs[0].errors == 0);
	for (int side = 1; side < SIDES; side++)
		assert_same_runs(&runs[0], &runs[side], "%s, batch %d, reader {%.80s}, side %d, seed %llu", r->what, s.batch, reader, side,
			(unsigned long long)test_seed());
	for (int side = 0; side < SIDES; side++)
		free_device_run(&runs[side]);
}

static void test_each_recipe_gives_the_same_bytes(void **state)
{
	(void)state;
	need_device();
	for (int i = 0; i < RECIPES; i++) {
		assert_sides_agree(
			&recipes[i], listed("\"random_shuffle\": true, \"tail\": \"keep\""), (struct device_settings){.batch = 8}, 14);
		if (i < 3)
			assert_sides_agree(&recipes[i], "\"random_shuffle\": true", (struct device_settings){.batch = 33}, 3);
	}
	assert_sides_agree(&recipes[0], listed(""), (struct device_settings){.batch = 8, .no_fuse = true}, 3);
	assert_sides_agree(&recipes[0], listed(""), (struct device_settings){.batch = 8, .gpu_memory = 1 << 20}, 3);
}

static void test_each_order(void **state)
{
	(void)state;
	need_device();
	static const char *const shards[] = {
		"", "\"num_shards\": 3, \"shard_id\": 2", "\"num_shards\": 3, \"shard_id\": 1, \"stick_to_shard\": true"};
	static const char *const orders[] = {"", "\"pad_last_batch\": true", "\"random_shuffle\": true", "\"tail\": \"keep\"",
		"\"tail\": \"drop\", \"random_shuffle\": true", "\"tail\": \"fill\", \"random_shuffle\": true", "\"tail\": \"wrap\""};
	for (size_t i = 0; i < sizeof shards / sizeof *shards; i++)
		for (size_t k = 0; k < (i < 2 ? sizeof orders / sizeof *orders : 2); k++) { /* sticking is for contiguous shards */
			char args[200];
			snprintf(args, sizeof args, "%s%s%s", shards[i], shards[i][0] && orders[k][0] ? ", " : "", orders[k]);
			assert_sides_agree(&recipes[k % 2], listed(args),
				(struct device_settings){.batch = 3 + (int32_t)(i + k) % 9, .prefetch = 1 + (int32_t)k % 4}, 25);
		}
}

/* More epochs in a batch than a launch takes. */
static void test_batches_larger_than_the_data_set(void **state)
{
	(void)state;
	need_device();
	struct recipe r = recipes[1];
	assert_sides_agree(&r, "\"indices\": [5, 6, 7, 8, 9, 4, 3]", (struct device_settings){.batch = 16}, 5);
	r.resident = false;
	assert_sides_agree(&r, "\"indices\": [5, 6]", (struct device_settings){.batch = 16}, 5);
}

/* ---- the consumer's side ---- */

static struct stk_pipeline *open_training(struct stk_context *ctx, int device, int32_t max_batches, const char *more)
{
	const struct device_settings s = {.device = device, .batch = 8, .max_batches = max_batches};
	return make_device_pipeline(ctx, folder, graph(&recipes[0], listed(more)), &s);
}

static void test_a_state_goes_on_there_and_on_the_cores(void **state)
{
	(void)state;
	need_device();
	const char *order = "\"random_shuffle\": true, \"tail\": \"keep\"";
	for (int after = 0; after <= 5; after++) {
		char *text = NULL;
		struct stk_error err = {0};
		struct device_run head = {0}, rest = {0};
		struct stk_context *ctx = make_context(1);
		struct stk_pipeline *p = open_training(ctx, 0, 0, order);
		for (int k = 0; k < after; k++)
			take_batch(p, &head);
		ok(stk_pipeline_save(p, &text, &err), &err);
		while (take_batch(p, &rest)) {
		}
		assert_int_equal(head.run.count + rest.run.count, LISTED);
		close_pipeline(p, ctx);
		for (int device = -1; device <= 0; device++) {
			struct device_run r = {0};
			ctx = make_context(1);
			p = open_training(ctx, device, 0, order);
			ok(stk_pipeline_restore(p, text, strlen(text), &err), &err);
			while (take_batch(p, &r)) {
			}
			assert_same_runs(&rest, &r, "a state after %d batches, on device %d", after, device);
			close_pipeline(p, ctx);
			free_device_run(&r);
		}
		free_device_run(&head);
		free_device_run(&rest);
		stk_text_free(text);
	}
}

static void test_epochs_that_are_left(void **state)
{
	(void)state;
	need_device();
	struct device_run runs[2] = {0};
	for (int gpu = 0; gpu < 2; gpu++) {
		struct stk_context *ctx = make_context(2);
		struct stk_pipeline *p = open_training(ctx, gpu - 1, 0, "\"random_shuffle\": true, \"tail\": \"keep\"");
		leave_epochs(p, &runs[gpu]);
		close_pipeline(p, ctx);
	}
	assert_true(runs[0].run.count > 0);
	assert_same_runs(&runs[0], &runs[1], "epochs that are left");
	free_device_run(&runs[0]);
	free_device_run(&runs[1]);
}

/* Batches live on when the pipeline has gone, with the names of their samples; and too many of them are an error that says so. */
static void test_batches_that_are_kept(void **state)
{
	(void)state;
	need_device();
	enum { KEPT = 5 };
	struct stk_error err = {0};
	struct device_run runs[2] = {0};
	for (int gpu = 0; gpu < 2; gpu++) {
		struct stk_batch *kept[KEPT], *host = NULL, *none = NULL;
		struct stk_context *ctx = make_context(2);
		struct stk_pipeline *p = open_training(ctx, gpu - 1, KEPT, "\"random_shuffle\": true");
		for (int k = 0; k < KEPT; k++)
			ok(stk_pipeline_next(p, &kept[k], &err), &err);
		assert_int_equal(stk_pipeline_next(p, &none, &err), STK_LIMIT);
		close_pipeline(p, ctx);
		for (int k = 0; k < KEPT; k++) {
			ok(stk_batch_to_host(kept[k], 0, 3, &host, &err), &err);
			assert_int_equal(stk_batch_sample(host, 0)->id, stk_batch_sample(kept[k], 3)->id);
			stk_batch_unref(&host);
			add_batch_seen(&runs[gpu], kept[k]);
			stk_batch_unref(&kept[k]);
		}
	}
	assert_same_runs(&runs[0], &runs[1], "batches that are kept");
	free_device_run(&runs[0]);
	free_device_run(&runs[1]);
}

/* As many as one likes: slots get other memory, in which their samples have places anew. */
static void test_many_batches_are_kept(void **state)
{
	(void)state;
	need_device();
	enum { KEPT = 90 };
	struct stk_error err = {0};
	struct device_run runs[2] = {0};
	for (int gpu = 0; gpu < 2; gpu++) {
		static struct stk_batch *kept[KEPT];
		struct stk_context *ctx = make_context(2);
		struct stk_pipeline *p = open_training(ctx, gpu - 1, 0, "\"random_shuffle\": true, \"tail\": \"wrap\"");
		for (int k = 0; k < KEPT; k++)
			ok(stk_pipeline_next(p, &kept[k], &err), &err);
		assert_true(counter_of(p, "held_bytes") > 0);
		assert_true(counter_of(p, "slots") <= 45);
		for (int k = 0; k < KEPT; k += 2)
			add_batch_seen(&runs[gpu], kept[k]);
		for (int k = 0; k < KEPT; k += 2)
			stk_batch_unref(&kept[k]);
		for (int k = 0; k < KEPT; k++) { /* over the memory that came back */
			struct stk_batch *b;
			ok(stk_pipeline_next(p, &b, &err), &err);
			add_batch_seen(&runs[gpu], b);
			stk_batch_unref(&b);
		}
		for (int k = 1; k < KEPT; k += 2) {
			add_batch_seen(&runs[gpu], kept[k]);
			stk_batch_unref(&kept[k]);
		}
		assert_int_equal(counter_of(p, "held_bytes"), 0);
		close_pipeline(p, ctx);
	}
	assert_same_runs(&runs[0], &runs[1], "many batches that are kept");
	free_device_run(&runs[0]);
	free_device_run(&runs[1]);
}

/* The one launch of a batch waits for whoever still reads its slot. */
static void test_a_late_reader_sees_its_batch(void **state)
{
	(void)state;
	need_device();
	enum { BATCH = 16, SAMPLE = 32 * 32 * 3 * 2 };
	const struct device_settings s = {.max_batches = 3, .prefetch = 1, .batch = BATCH},
				     cores = {.device = -1, .batch = BATCH, .max_batches = 2 * LATE_BATCHES};
	struct late_reader l;
	if (is_emulated())
		emulate("strict async seed=%d delay=3000", (int)(test_seed() % 1000));
	late_open(&l, SAMPLE, BATCH);
	struct stk_context *ctx = make_context(2);
	struct stk_pipeline *p = make_device_pipeline(ctx, folder, graph(&recipes[0], "\"random_shuffle\": true"), &s),
			    *q = make_device_pipeline(ctx, folder, graph(&recipes[0], "\"random_shuffle\": true"), &cores);
	late_check(&l, p, q);
	assert_true(counter_of(p, "resident_batches") >= LATE_BATCHES);
	stk_pipeline_destroy(q);
	close_pipeline(p, ctx);
	late_close(&l);
	if (is_emulated())
		emulate("strict");
}

static void test_it_is_told(void **state)
{
	(void)state;
	need_device();
	char *text = NULL;
	struct stk_error err = {0};
	struct stk_context *ctx = make_context(2);
	struct stk_pipeline *p = open_training(ctx, 0, 0, "");
	ok(stk_pipeline_explain(p, false, &text, &err), &err);
	assert_non_null(strstr(text, "the data set lies on the GPU, 10000 samples"));
	stk_text_free(text);
	assert_true(explained(p, "resident"));
	assert_false(explained(p, "recipes"));
	close_pipeline(p, ctx);
}

/* Each batch is submitted by the consumer and made by the GPU, in spans of their own; no worker has any. */
static void test_spans(void **state)
{
	(void)state;
	need_device();
	enum { BATCHES = 6, MOST = 1000 };
	static struct stk_span spans[MOST];
	char json[8192];
	int submitted = 0, made = 0;
	struct stk_error err = {0};
	struct stk_graph *g = NULL;
	struct stk_pipeline *p = NULL;
	struct stk_context *ctx = make_context(2);
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = 8, .device_id = 0, .trace = ""};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(json, sizeof json, graph(&recipes[0], listed("")), folder);
#pragma GCC diagnostic pop
	ok(stk_graph_deserialize(json, strlen(json), &g, &err), &err);
	ok(stk_pipeline_create(ctx, g, &c, &p, &err), &err);
	for (int k = 0; k < BATCHES; k++) {
		struct stk_batch *b = NULL;
		ok(stk_pipeline_next(p, &b, &err), &err);
		stk_batch_unref(&b);
	}
	size_t n = stk_pipeline_spans(p, spans, MOST);
	for (size_t i = 0; i < n && i < MOST; i++) {
		submitted += strcmp(spans[i].name, "submit") == 0;
		made += strcmp(spans[i].name, "gpu") == 0;
		assert_true(spans[i].thread >= 2);
	}
	if (submitted < BATCHES || made != BATCHES)
		for (size_t i = 0; i < n && i < 10; i++)
			print_message("%s in %d\n", spans[i].name, spans[i].thread);
	assert_true(submitted >= BATCHES && made == BATCHES);
	stk_graph_destroy(g);
	close_pipeline(p, ctx);
}

/* A GPU that takes its time: waits end when they were to, and what is then asked for again is the same. */
static void test_a_wait_that_ends_early(void **state)
{
	(void)state;
	need_device();
	if (!is_emulated())
		skip();
	struct stk_error err = {0};
	struct device_run runs[2] = {0};
	int timeouts = 0;
	for (int gpu = 0; gpu < 2; gpu++) {
		emulate("strict async seed=%d delay=30000", (int)(test_seed() % 1000));
		struct stk_context *ctx = make_context(1);
		struct stk_pipeline *p = open_training(ctx, gpu - 1, 0, "\"random_shuffle\": true");
		for (int k = 0; k < 6;) {
			struct stk_batch *b = NULL;
			enum stk_status s = stk_pipeline_next_within(p, gpu ? k % 2 : -1, &b, &err);
			timeouts += s == STK_TIMEOUT;
			if (s == STK_TIMEOUT) {
				assert_true(strstr(err.message, "waits for the GPU") || strstr(err.message, "not ready"));
				continue;
			}
			ok(s, &err);
			add_batch_seen(&runs[gpu], b);
			stk_batch_unref(&b);
			k++;
		}
		stk_pipeline_cancel(p);
		struct stk_batch *none = NULL;
		assert_int_equal(stk_pipeline_next(p, &none, &err), STK_CANCELLED);
		close_pipeline(p, ctx);
	}
	emulate("strict");
	print_message("%d waits ended early\n", timeouts);
	assert_same_runs(&runs[0], &runs[1], "waits that end early");
	free_device_run(&runs[0]);
	free_device_run(&runs[1]);
}

/* Whatever call of the driver fails: an error with a message, at once or for a batch, and nothing is left behind ("strict"). */
static void test_calls_that_fail(void **state)
{
	(void)state;
	need_device();
	if (!is_emulated())
		skip();
	static const char *const functions[] = {"cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction",
		"cuStreamCreateWithPriority", "cuEventCreate", "cuMemAlloc", "cuMemGetInfo", "cuMemcpyHtoDAsync", "cuLaunchKernel",
		"cuEventRecord", "cuEventQuery"}; /* what tests read batches by is not among them */
	for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
		bool met = true;
		for (long nth = 1; met; nth += 1 + nth / 4) {
			struct stk_error err = {0};
			struct device_run r = {0};
			emulate("strict fail=%s:%ld", functions[f], nth);
			struct stk_context *ctx = make_context(1);
			const struct device_settings s = {.batch = 8};
			struct stk_pipeline *p =
				try_device_pipeline(ctx, folder, graph(&recipes[0], listed("\"tail\": \"keep\"")), &s, &err);
			assert_true(p || err.message[0]);
			for (int k = 0; p && k < 7; k++)
				take_batch(p, &r);
			met = emulated_calls_seen() >= nth;
			assert_true(met || r.run.count == LISTED);
			close_pipeline(p, ctx);
			free_device_run(&r);
		}
	}
	emulate("strict");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_recipe_gives_the_same_bytes),
		cmocka_unit_test(test_each_order),
		cmocka_unit_test(test_batches_larger_than_the_data_set),
		cmocka_unit_test(test_a_state_goes_on_there_and_on_the_cores),
		cmocka_unit_test(test_epochs_that_are_left),
		cmocka_unit_test(test_batches_that_are_kept),
		cmocka_unit_test(test_many_batches_are_kept),
		cmocka_unit_test(test_a_late_reader_sees_its_batch),
		cmocka_unit_test(test_it_is_told),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_a_wait_that_ends_early),
		cmocka_unit_test(test_calls_that_fail),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
