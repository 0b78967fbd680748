/* SPDX-License-Identifier: Apache-2.0
 * Compares data sets that are stored on the GPU with the CPU: bytes, positions, names and errors must be equal for every order, batch and recipe. Graphs
 * that do not qualify take the ordinary path and give the same bytes. Uses CIFAR's test split, made of noise, mostly through lists of indices. */
#include "test.h"

#include "cifar_recipes.h"
#include "device_runs.h"
#include "image_files.h"
#include "late_reader.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORDS = 10000, RECORD = 3073, SECONDS = 580, LISTED = 45 };
static char folder[] = "/tmp/stoker-resident-XXXXXX";
static int64_t indices[LISTED];

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
	for (int i = 0; i < LISTED; i++)
		indices[i] = i * 219 % RECORDS;
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

/* Skips tests of values under ThreadSanitizer: they take minutes, and do not test threads. */
static void skip_under_tsan(void)
{
#ifdef __SANITIZE_THREAD__
	skip();
#endif
}

/* ---- graphs ---- */

/* The reader's arguments; members that are zero are not passed. */
struct reading {
	const int64_t *indices;
	size_t n;
	bool shuffle, pad_last_batch, stick;
	const char *tail;
	int64_t shards, shard;
};

static struct stk_graph *graph(const struct recipe *r, struct reading how)
{
	struct added_op reader = {.args = {stk_arg_string("root", folder), stk_arg_string("split", "test")}};
	struct stk_arg *a = reader.args + 2;
	if (how.indices)
		*a++ = stk_arg_list("indices", STK_VALUE_INTS, how.indices, how.n);
	if (how.shuffle)
		*a++ = stk_arg_bool("random_shuffle", true);
	if (how.pad_last_batch)
		*a++ = stk_arg_bool("pad_last_batch", true);
	if (how.stick)
		*a++ = stk_arg_bool("stick_to_shard", true);
	if (how.tail)
		*a++ = stk_arg_string("tail", how.tail);
	if (how.shards) {
		*a++ = stk_arg_int("num_shards", how.shards);
		*a++ = stk_arg_int("shard_id", how.shard);
	}
	struct cifar in = {.g = new_graph()};
	in.image = add_op(in.g, "readers.cifar", &reader);
	in.label = output_of(in.image, 1);
	in.flip = ADD(in.g, "random.coin_flip", .name = "Flip");
	in.seldom = ADD(in.g, "random.coin_flip", .args = {stk_arg_float("probability", 0.3)});
	r->add(in);
	return in.g;
}

static struct reading listed(struct reading how)
{
	how.indices = indices;
	how.n = LISTED;
	return how;
}

/* The ways to run a graph. CALLS: on the CPU without fusion, with a call for each operator. CORES_TOO: on the CPU with fusion. */
enum side { CALLS, CORES_TOO, ON_GPU, SIDES };

/* Returns a boolean member of explain's JSON. */
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

/* Compares the batches of all ways to run the graph. Checks that exactly the ways that qualify use recipes, and that the GPU stores the data set exactly if its
 * way qualifies. */
static void assert_sides_agree(const struct recipe *r, struct reading how, struct device_settings s, int batches)
{
	struct device_run runs[SIDES] = {0};
	bool no_fuse = s.no_fuse;
	for (int side = 0; side < SIDES; side++) {
		s.device = side == ON_GPU ? 0 : -1;
		s.no_fuse = no_fuse || side == CALLS;
		struct stk_context *ctx = make_context(s.threads);
		struct stk_pipeline *p = make_device_pipeline(ctx, graph(r, how), &s);
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
		assert_same_runs(&runs[0], &runs[side], "%s, batch %d, %zu listed, tail %s, shard %d, side %d, seed %llu", r->what, s.batch,
			how.n, how.tail ? how.tail : "by default", (int)how.shard, side, (unsigned long long)test_seed());
	for (int side = 0; side < SIDES; side++)
		free_device_run(&runs[side]);
}

static void test_each_recipe_gives_the_same_bytes(void **state)
{
	(void)state;
	skip_under_tsan();
	need_device();
	for (int i = 0; i < RECIPES; i++) {
		assert_sides_agree(
			&recipes[i], listed((struct reading){.shuffle = true, .tail = "keep"}), (struct device_settings){.batch = 8}, 14);
		if (i < 3)
			assert_sides_agree(&recipes[i], (struct reading){.shuffle = true}, (struct device_settings){.batch = 33}, 3);
	}
	assert_sides_agree(&recipes[0], listed((struct reading){0}), (struct device_settings){.batch = 8, .no_fuse = true}, 3);
	assert_sides_agree(&recipes[0], listed((struct reading){0}), (struct device_settings){.batch = 8, .gpu_memory = 1 << 20}, 3);
}

static void test_each_order(void **state)
{
	(void)state;
	skip_under_tsan();
	need_device();
	static const struct reading shards[] = {{0}, {.shards = 3, .shard = 2}, {.shards = 3, .shard = 1, .stick = true}};
	static const struct reading orders[] = {{0}, {.pad_last_batch = true}, {.shuffle = true}, {.tail = "keep"},
		{.tail = "drop", .shuffle = true}, {.tail = "fill", .shuffle = true}, {.tail = "wrap"}};
	for (size_t i = 0; i < sizeof shards / sizeof *shards; i++)
		for (size_t k = 0; k < (i < 2 ? sizeof orders / sizeof *orders : 2); k++) { /* `stick` needs contiguous shards */
			struct reading how = orders[k];
			how.shards = shards[i].shards;
			how.shard = shards[i].shard;
			how.stick = shards[i].stick;
			assert_sides_agree(&recipes[k % 2], listed(how),
				(struct device_settings){.batch = 3 + (int32_t)(i + k) % 9, .prefetch = 1 + (int32_t)k % 4}, 25);
		}
}

/* Batches that span several epochs are made on the GPU, but not if they span more epochs than one launch can process. */
static void test_batches_larger_than_the_data_set(void **state)
{
	(void)state;
	need_device();
	struct recipe r = recipes[1];
	assert_sides_agree(
		&r, (struct reading){.indices = (int64_t[]){5, 6, 7, 8, 9, 4, 3}, .n = 7}, (struct device_settings){.batch = 16}, 5);
	r.resident = false;
	assert_sides_agree(&r, (struct reading){.indices = (int64_t[]){5, 6}, .n = 2}, (struct device_settings){.batch = 16}, 5);
}

/* ---- the consumer's side ---- */

static struct stk_pipeline *open_training(struct stk_context *ctx, int device, int32_t max_batches, struct reading how)
{
	const struct device_settings s = {.device = device, .batch = 8, .max_batches = max_batches};
	return make_device_pipeline(ctx, graph(&recipes[0], listed(how)), &s);
}

static void test_a_state_goes_on_there_and_on_the_cores(void **state)
{
	(void)state;
	need_device();
	const struct reading order = {.shuffle = true, .tail = "keep"};
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
		struct stk_pipeline *p = open_training(ctx, gpu - 1, 0, (struct reading){.shuffle = true, .tail = "keep"});
		leave_epochs(p, &runs[gpu]);
		close_pipeline(p, ctx);
	}
	assert_true(runs[0].run.count > 0);
	assert_same_runs(&runs[0], &runs[1], "epochs that are left");
	free_device_run(&runs[0]);
	free_device_run(&runs[1]);
}

/* Batches outlive the pipeline, with their samples' names; holding too many of them is an error with a clear message. */
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
		struct stk_pipeline *p = open_training(ctx, gpu - 1, KEPT, (struct reading){.shuffle = true});
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

/* A consumer may keep any number of batches: slots then get new memory, with new addresses for their samples. */
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
		struct stk_pipeline *p = open_training(ctx, gpu - 1, 0, (struct reading){.shuffle = true, .tail = "wrap"});
		for (int k = 0; k < KEPT; k++)
			ok(stk_pipeline_next(p, &kept[k], &err), &err);
		assert_true(counter_of(p, "held_bytes") > 0);
		assert_true(counter_of(p, "slots") <= 45);
		for (int k = 0; k < KEPT; k += 2)
			add_batch_seen(&runs[gpu], kept[k]);
		for (int k = 0; k < KEPT; k += 2)
			stk_batch_unref(&kept[k]);
		for (int k = 0; k < KEPT; k++) { /* the memory of released batches is reused */
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

/* The launch that makes a batch must wait until all readers of its slot have finished. */
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
	struct stk_pipeline *p = make_device_pipeline(ctx, graph(&recipes[0], (struct reading){.shuffle = true}), &s),
			    *q = make_device_pipeline(ctx, graph(&recipes[0], (struct reading){.shuffle = true}), &cores);
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
	struct stk_pipeline *p = open_training(ctx, 0, 0, (struct reading){0});
	ok(stk_pipeline_explain(p, false, &text, &err), &err);
	assert_non_null(strstr(text, "the data set lies on the GPU, 10000 samples"));
	stk_text_free(text);
	assert_true(explained(p, "resident"));
	assert_false(explained(p, "recipes"));
	close_pipeline(p, ctx);
}

/* The trace has separate spans for the consumer, which submits a batch, and for the GPU, which makes it. No worker has spans. */
static void test_spans(void **state)
{
	(void)state;
	need_device();
	enum { BATCHES = 6, MOST = 1000 };
	static struct stk_span spans[MOST];
	int submitted = 0, made = 0;
	struct stk_error err = {0};
	struct stk_graph *g = graph(&recipes[0], listed((struct reading){0}));
	struct stk_pipeline *p = NULL;
	struct stk_context *ctx = make_context(2);
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = 8, .device_id = 0, .trace = ""};
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

/* If the GPU is slow, a wait ends when its time is over, and the next call returns the batch that it waited for. */
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
		struct stk_pipeline *p = open_training(ctx, gpu - 1, 0, (struct reading){.shuffle = true});
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

/* Whichever call of the driver fails, a call reports an error with a message, at once or for a batch, and nothing is left on the device ("strict"). */
static void test_calls_that_fail(void **state)
{
	(void)state;
	skip_under_tsan();
	need_device();
	if (!is_emulated())
		skip();
	static const char *const functions[] = {"cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction",
		"cuStreamCreateWithPriority", "cuEventCreate", "cuMemAlloc", "cuMemGetInfo", "cuMemcpyHtoDAsync", "cuLaunchKernel",
		"cuEventRecord", "cuEventQuery"}; /* without the calls that the tests themselves make to read batches */
	for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
		bool met = true;
		for (long nth = 1; met; nth += 1 + nth / 4) {
			struct stk_error err = {0};
			struct device_run r = {0};
			emulate("strict fail=%s:%ld", functions[f], nth);
			struct stk_context *ctx = make_context(1);
			const struct device_settings s = {.batch = 8};
			struct stk_pipeline *p =
				try_device_pipeline(ctx, graph(&recipes[0], listed((struct reading){.tail = "keep"})), &s, &err);
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
