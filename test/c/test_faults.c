/* SPDX-License-Identifier: Apache-2.0
 * Fault loops over small pipelines, as in SQLite's tests: allocation, read or thread start number N fails, for N = 0, 1, 2, ... until a run meets no
 * fault; then number N and all later ones fail. In each case a call returns an error with a message, or the run succeeds. Batches are right, the run ends,
 * and the sanitizers find no leaks. Needs a build with -Dfaults=true. */
#include "test.h"

#include "pipelines.h"
#include "slow_source.h"
#include "sound_files.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 7, BATCH = 4, BATCHES = 2, SECONDS = 120, MOST_FAULTS = 20000 };
static char *folder;
static char tar[300], tar_index[320]; /* path of a tar of the folder's files, and path of the index that the reader writes for it */

static char sounds[300]; /* path of a folder of sounds of different lengths */

static bool make_sounds(void)
{
	char name[340];
	snprintf(sounds, sizeof sounds, "%s-sounds", folder);
	snprintf(name, sizeof name, "%s/a", sounds);
	if (mkdir(sounds, 0700) || mkdir(name, 0700))
		return false;
	for (int i = 0; i < FILES; i++) {
		const struct test_wav w = {TEST_WAV_PCM, 1 + i % 2, 16, 500 + 100 * i, 16000};
		struct test_wav_file f = test_wav_make(&w, (uint64_t)i);
		snprintf(name, sizeof name, "%s/a/%d.wav", sounds, i);
		FILE *file = fopen(name, "wb");
		bool ok = file && fwrite(f.data, 1, f.size, file) == f.size;
		ok &= file && fclose(file) == 0;
		free(f.data);
		if (!ok)
			return false;
	}
	return true;
}

static int set_up(void **state)
{
	char command[800];
	(void)state;
	folder = make_folder(FILES, 99);
	if (!folder || !make_sounds())
		return 1;
	snprintf(tar, sizeof tar, "%s.tar", folder);
	snprintf(tar_index, sizeof tar_index, "%s.stoker", tar);
	snprintf(command, sizeof command, "tar -C '%s' --format=ustar -cf '%s' .", folder, tar);
	return system(command) != 0;
}

static int tear_down(void **state)
{
	(void)state;
	char command[400];
	snprintf(command, sizeof command, "rm -r '%s'", sounds);
	const int removed = system(command);
	remove_folder(folder);
	unlink(tar);
	unlink(tar_index);
	return removed != 0;
}

struct outcome {
	enum stk_status status; /* the first error, or STK_OK */
	struct stk_error err;
	uint64_t hashes[BATCHES][BATCH];
	int32_t counts[BATCHES];         /* number of samples of each batch; 0: the batch was not delivered */
	int destroyed, pulled, released; /* number of calls of a source's functions */
};

/* Returns whether `status` is an error. Stores the first error in `o`. */
static bool note(struct outcome *o, enum stk_status status, const struct stk_error *err)
{
	if (status == STK_OK)
		return false;
	if (err->code != status)
		fail_msg("%s came back, and its error says %s: %s", stk_status_name(status), stk_status_name(err->code), err->message);
	if (!err->message[0])
		fail_msg("%s came back without a message", stk_status_name(status));
	if (!o->status) {
		o->status = status;
		o->err = *err;
	}
	return true;
}

/* ---- graphs ---- */

struct link {
	const char *op;
	const struct stk_arg *args;
	size_t n_args;
};

static enum stk_status add_links(struct stk_graph *g, const struct link *links, size_t n, struct stk_node *node, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	for (size_t i = 0; i < n && s == STK_OK; i++) {
		struct stk_node in = *node;
		s = stk_graph_add(g, links[i].op, in.op >= 0 ? &in : NULL, in.op >= 0, links[i].args, links[i].n_args, NULL, node, err);
	}
	return s;
}

static enum stk_status file_graph(struct stk_graph *g, struct outcome *o, struct stk_error *err)
{
	(void)o;
	const int64_t size[] = {24, 32};
	const double mean[] = {120, 110, 100};
	struct stk_node flip, image = {.op = -1}, label;
	enum stk_status s = stk_graph_add(g, "random.coin_flip", NULL, 0, NULL, 0, NULL, &flip, err);
	const struct stk_arg reader[] = {
		stk_arg_string("file_root", folder), stk_arg_bool("random_shuffle", true), stk_arg_string("tail", "keep")};
	const struct stk_arg resize[] = {stk_arg_list("size", STK_VALUE_INTS, size, 2)};
	const struct stk_arg norm[] = {stk_arg_node("mirror", flip), stk_arg_list("mean", STK_VALUE_FLOATS, mean, 3)};
	const struct link read = {"readers.file", reader, 3};
	const struct link rest[] = {{"decoders.image_random_crop", NULL, 0}, {"resize", resize, 1}, {"crop_mirror_normalize", norm, 2}};
	if (s || (s = add_links(g, &read, 1, &image, err)))
		return s;
	label = (struct stk_node){image.op, 1};
	if ((s = add_links(g, rest, 3, &image, err)) || (s = stk_graph_output(g, image, err)))
		return s;
	return stk_graph_output(g, label, err);
}

/* Makes a graph that pads to the largest sample of the batch, so that the pipeline must decode all samples of a batch before it pads any. */
static enum stk_status gather_graph(struct stk_graph *g, struct outcome *o, struct stk_error *err)
{
	(void)o;
	const struct stk_arg reader[] = {stk_arg_string("file_root", folder), stk_arg_string("tail", "keep")};
	const struct link links[] = {{"readers.file", reader, 2}, {"decoders.image", NULL, 0}, {"pad", NULL, 0}};
	struct stk_node image = {.op = -1};
	enum stk_status s = add_links(g, links, 3, &image, err);
	return s ? s : stk_graph_output(g, image, err);
}

/* Makes a graph that decodes and resamples windows of sounds. */
static enum stk_status sound_graph(struct stk_graph *g, struct outcome *o, struct stk_error *err)
{
	(void)o;
	const char *const filters[] = {"*.wav"};
	const struct stk_arg reader[] = {stk_arg_string("file_root", sounds), stk_arg_list("file_filters", STK_VALUE_STRINGS, filters, 1),
		stk_arg_string("tail", "keep")};
	const struct stk_arg audio[] = {stk_arg_bool("downmix", true), stk_arg_float("sample_rate", 11025), stk_arg_float("duration", 0.06),
		stk_arg_float("position", 0.5), stk_arg_bool("pad", true)};
	const struct link links[] = {{"readers.file", reader, 3}, {"decoders.audio", audio, 5}};
	struct stk_node node = {.op = -1};
	enum stk_status s = add_links(g, links, 2, &node, err);
	return s ? s : stk_graph_output(g, node, err);
}

/* Makes a graph that reads from a tar file while a thread still searches the tar for samples. */
static enum stk_status survey_graph(struct stk_graph *g, struct outcome *o, struct stk_error *err)
{
	(void)o;
	const char *const paths[] = {tar}, *const endings[] = {"jpg"};
	const struct stk_arg reader[] = {stk_arg_list("paths", STK_VALUE_STRINGS, paths, 1),
		stk_arg_list("ext", STK_VALUE_STRINGS, endings, 1), stk_arg_string("tail", "keep")};
	const struct link links[] = {{"readers.webdataset_unindexed", reader, 3}};
	struct stk_node file = {.op = -1};
	unlink(tar_index);
	enum stk_status s = add_links(g, links, 1, &file, err);
	return s ? s : stk_graph_output(g, file, err);
}

static void count_release(void *user)
{
	((struct outcome *)user)->released++;
}

/* Feeds one of the 7 tensors of 3 x 2 bytes of an epoch. All bytes of a tensor are its position plus 1. */
static enum stk_status pull(void *user, const struct stk_feed_request *request, struct stk_feed *feed, struct stk_error *err)
{
	static uint8_t pixels[FILES][6];
	struct outcome *o = user;
	(void)err;
	if (request->position >= FILES)
		return STK_END;
	uint8_t *p = pixels[request->position];
	memset(p, (int)request->position + 1, 6);
	feed->tensors[0] = (struct stk_tensor){p, {STK_UINT8, 3, {3, 2, 1}, "HWC"}};
	feed->release = count_release;
	feed->release_user = o;
	o->pulled++;
	return STK_OK;
}

static void count_destroy(void *user)
{
	((struct outcome *)user)->destroyed++;
}

static enum stk_status source_graph(struct stk_graph *g, struct outcome *o, struct stk_error *err)
{
	struct stk_node image = {.op = -1};
	const struct stk_arg source[] = {stk_arg_string("layout", "HWC"), stk_arg_int("dtype", STK_UINT8)};
	const struct link first = {"external_source", source, 2}, flip = {"flip", NULL, 0};
	const struct stk_source_callbacks callbacks = {.pull = pull, .destroy = count_destroy, .user = o, .per_sample = true};
	enum stk_status s = add_links(g, &first, 1, &image, err);
	if (s)
		return s;
	if ((s = stk_graph_set_source(g, image, &callbacks, err)) || (s = add_links(g, &flip, 1, &image, err)))
		return s;
	return stk_graph_output(g, image, err);
}

/* ---- running one graph with a fault ---- */

typedef enum stk_status (*graph_fn)(struct stk_graph *g, struct outcome *o, struct stk_error *err);

static struct stk_pipeline *open_run(struct stk_context *ctx, graph_fn build, struct outcome *o)
{
	struct stk_graph *g = NULL;
	struct stk_pipeline *p = NULL;
	struct stk_error err = {0};
	const struct stk_pipeline_config c = {
		.size = sizeof c, .batch_size = BATCH, .device_id = -1, .seed = 5, .read_requests = 4, .trace = ""};
	if (!note(o, stk_graph_create(&g, &err), &err) && !note(o, build(g, o, &err), &err) &&
		!note(o, stk_pipeline_create(ctx, g, &c, &p, &err), &err))
		assert_non_null(p);
	stk_graph_destroy(g);
	return p;
}

/* Takes batches to the end of the epoch, beginning with batch number `first`, and continues after errors. */
static void take_epoch(struct stk_pipeline *p, int first, struct outcome *o)
{
	for (int k = first; k <= BATCHES; k++) {
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
		assert_non_null(b);
		int64_t step = stk_batch_step(b);
		assert_true(step >= 0 && step < BATCHES);
		o->counts[step] = stk_batch_size(b);
		for (int32_t i = 0; i < stk_batch_size(b); i++)
			o->hashes[step][i] = hash_sample(b, i);
		stk_batch_unref(&b);
	}
}

/* Saves a state after the first batch, and restores it in another pipeline. */
static void resume(struct stk_context *ctx, struct stk_pipeline *p, graph_fn build, struct outcome *o)
{
	char *text = NULL;
	struct stk_error err = {0};
	struct stk_batch *b = NULL;
	if (note(o, stk_pipeline_next(p, &b, &err), &err))
		return;
	stk_batch_unref(&b);
	if (note(o, stk_pipeline_save(p, &text, &err), &err))
		return;
	struct stk_pipeline *q = open_run(ctx, build, o);
	if (q && !note(o, stk_pipeline_restore(q, text, strlen(text), &err), &err))
		take_epoch(q, 1, o);
	stk_pipeline_destroy(q);
	stk_text_free(text);
}

static void run_plain(struct stk_context *ctx, graph_fn build, struct outcome *o)
{
	struct stk_pipeline *p = open_run(ctx, build, o);
	if (p)
		take_epoch(p, 0, o);
	stk_pipeline_destroy(p);
}

/* Requests another batch after a thread could not be started. The pipeline must report the failure again or deliver a batch; it must not hang. */
static void run_stubbornly(struct stk_context *ctx, graph_fn build, struct outcome *o)
{
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	struct stk_pipeline *p = open_run(ctx, build, o);
	if (p)
		take_epoch(p, 0, o);
	if (p && o->status == STK_SYSTEM)
		note(o, stk_pipeline_next(p, &b, &err), &err);
	stk_batch_unref(&b);
	stk_pipeline_destroy(p);
}

static void run_resumed(struct stk_context *ctx, graph_fn build, struct outcome *o)
{
	struct stk_pipeline *p = open_run(ctx, build, o);
	if (p)
		resume(ctx, p, build, o);
	stk_pipeline_destroy(p);
}

/* Converts the graph to JSON and explains its pipeline, but takes no batch. */
static void run_texts(struct stk_context *ctx, graph_fn build, struct outcome *o)
{
	struct stk_graph *g = NULL, *again = NULL;
	struct stk_pipeline *p = NULL;
	struct stk_error err = {0};
	char *json = NULL, *plan = NULL;
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = BATCH, .device_id = -1};
	if (note(o, stk_graph_create(&g, &err), &err) || note(o, build(g, o, &err), &err) ||
		note(o, stk_graph_serialize(g, &json, &err), &err) ||
		note(o, stk_graph_deserialize(json, strlen(json), &again, &err), &err) ||
		note(o, stk_pipeline_create(ctx, again, &c, &p, &err), &err) || note(o, stk_pipeline_explain(p, true, &plan, &err), &err))
		goto out;
	assert_non_null(strstr(plan, "decode + pass"));
out:
	stk_text_free(json);
	stk_text_free(plan);
	stk_pipeline_destroy(p);
	stk_graph_destroy(g);
	stk_graph_destroy(again);
}

typedef void (*run_fn)(struct stk_context *ctx, graph_fn build, struct outcome *o);

static struct outcome run_once(run_fn run, graph_fn build)
{
	static struct outcome shared; /* the source's user pointer, which must outlive the run */
	struct stk_context *ctx = NULL;
	struct stk_error err = {0};
	const struct stk_context_config c = {.size = sizeof c, .threads = 2};
	shared = (struct outcome){0};
	alarm(SECONDS);
	if (!note(&shared, stk_context_create(&c, &ctx, &err), &err))
		run(ctx, build, &shared);
	stk_context_unref(&ctx);
	alarm(0);
	return shared;
}

/* ---- the loop over all faults ---- */

static void check_outcome(const struct outcome *got, const struct outcome *want, bool met, const char *what, int64_t nth)
{
	if (got->status && !met)
		fail_msg("%s %lld: no fault was met, and yet: %s", what, (long long)nth, got->err.message);
	if (got->pulled != got->released)
		fail_msg("%s %lld: %d pulls, %d releases", what, (long long)nth, got->pulled, got->released);
	for (int k = 0; k < BATCHES; k++) {
		if (!got->counts[k] && got->status)
			continue;
		if (got->counts[k] != want->counts[k] || memcmp(got->hashes[k], want->hashes[k], sizeof got->hashes[k]))
			fail_msg("%s %lld: batch %d has %d samples and %d are right, or their bytes differ (%s)", what, (long long)nth, k,
				got->counts[k], want->counts[k], got->err.message);
	}
}

static void fault_loop_of(run_fn run, graph_fn build, enum stk_fault kind, bool lasts, const char *what)
{
	struct outcome want = run_once(run, build);
	if (want.status)
		fail_msg("without faults: %s", want.err.message);
	int failed = 0, survived = 0;
	for (int64_t nth = 0, met = 1; met; nth++) {
		assert_true(nth < MOST_FAULTS);
		(lasts ? stk__fault_set_from : stk__fault_set)(kind, nth);
		struct outcome got = run_once(run, build);
		met = stk__fault_passed(kind) > nth;
		stk__fault_set(kind, -1);
		check_outcome(&got, &want, met, what, nth);
		failed += got.status != STK_OK;
		survived += met && got.status == STK_OK;
	}
	print_message("%s%s: %d faults were reported, %d were survived\n", what, lasts ? ", for good" : "", failed, survived);
	assert_true(failed > 0);
}

/* Fails call N only, then call N and all later ones. In the second case storing the error's details may fail too. */
static void fault_loop(run_fn run, graph_fn build, enum stk_fault kind, const char *what)
{
	fault_loop_of(run, build, kind, false, what);
	fault_loop_of(run, build, kind, true, what);
}

static void test_files(void **state)
{
	(void)state;
	fault_loop(run_plain, file_graph, STK_FAULT_ALLOC, "files, allocation");
	fault_loop(run_plain, file_graph, STK_FAULT_READ, "files, read");
	fault_loop(run_plain, gather_graph, STK_FAULT_ALLOC, "gathering, allocation");
	fault_loop(run_plain, file_graph, STK_FAULT_THREAD, "files, thread");
}

static void test_sounds(void **state)
{
	(void)state;
	fault_loop(run_plain, sound_graph, STK_FAULT_ALLOC, "sounds, allocation");
}

static void test_source(void **state)
{
	(void)state;
	fault_loop(run_plain, source_graph, STK_FAULT_ALLOC, "source, allocation");
	fault_loop(run_plain, source_graph, STK_FAULT_THREAD, "source, thread");
	struct outcome o = run_once(run_plain, source_graph);
	assert_int_equal(o.destroyed, 1);
}

static void test_survey(void **state)
{
	(void)state;
	fault_loop(run_stubbornly, survey_graph, STK_FAULT_THREAD, "survey, thread");
}

static void test_resuming(void **state)
{
	(void)state;
	fault_loop(run_resumed, file_graph, STK_FAULT_ALLOC, "resume, allocation");
	fault_loop(run_resumed, file_graph, STK_FAULT_READ, "resume, read");
}

static void test_texts(void **state)
{
	(void)state;
	fault_loop(run_texts, file_graph, STK_FAULT_ALLOC, "JSON, allocation");
}

/* ---- late reads ---- */

/* Waits until no request has arrived for a while, and returns the number of requests so far. */
static int64_t calm(struct slow_source *s)
{
	int64_t before = -1, now = 0;
	for (int same = 0; same < 25; same = now == before ? same + 1 : 0) {
		usleep(2000);
		before = now;
		now = slow_source_asked(s);
	}
	return now;
}

/* Takes `count` batches that are not shuffled, and ignores those that fail because memory runs out. Stores the batches in `kept`, or releases them if it is
 * NULL. */
static void expect_batches(struct stk_pipeline *p, int count, struct stk_batch **kept)
{
	for (int k = 0; k < count; k++) {
		struct stk_batch *b = NULL;
		struct stk_error err = {0};
		enum stk_status s;
		while ((s = stk_pipeline_next(p, &b, &err)) == STK_NO_MEMORY) {
		}
		if (s)
			fail_msg("%s", err.message);
		for (int32_t i = 0; i < stk_batch_size(b); i++)
			assert_int_equal(stk_batch_sample(b, i)->id, stk_batch_sample(b, i)->position);
		if (kept)
			kept[k] = b;
		else
			stk_batch_unref(&b);
	}
}

/* A batch that gets no memory for its outputs (no slot) fails before the reads that were begun for it end. Its memory for reads must not be used for
 * another batch while one of these reads is in flight. */
static void test_reads_later_than_their_batch(void **state)
{
	(void)state;
	enum { OBJECTS = 2000, WARM = 40, HELD = 12, MORE = 8, WINDOW = 24 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 100000);
	struct stk_pipeline *p = slow_pipeline_with(
		ctx, OBJECTS, false, &(struct stk_pipeline_config){.batch_size = BATCH, .read_requests = WINDOW, .max_batches = 100});
	struct stk_batch *held[HELD + MORE] = {0};
	struct stk_error err = {0};
	int failed = 0, n = HELD;
	enum stk_status status = STK_OK;
	alarm(SECONDS);
	expect_batches(p, WARM, NULL);
	expect_batches(p, HELD, held); /* a further batch needs a new slot */
	calm(s);
	pthread_mutex_lock(&s->lock);
	s->all_stalled = true;
	pthread_mutex_unlock(&s->lock);
	stk__fault_set_from(STK_FAULT_ALLOC, 0);
	while (n < HELD + MORE && (status = stk_pipeline_next_within(p, 50, &held[n], &err)) != STK_TIMEOUT) {
		failed += status == STK_NO_MEMORY;
		n += status == STK_OK;
		assert_true(failed < 200);
	}
	stk__fault_set(STK_FAULT_ALLOC, -1);
	print_message("%d batches were made before, %d failed, then one waits for a late read\n", n - HELD, failed);
	assert_int_equal(status, STK_TIMEOUT);
	assert_true(failed > 2);
	for (int k = 0; k < n; k++)
		stk_batch_unref(&held[k]);
	slow_source_release(s);
	expect_batches(p, 100, NULL);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx); /* checks that all buffers were released */
	alarm(0);
}

/* The window for reading ahead is so narrow that it ends within the batch that gets no slot. The pipeline must not read the rest of that batch. */
static void test_nothing_is_read_for_a_batch_that_failed(void **state)
{
	(void)state;
	enum { OBJECTS = 400, WARM = 40, HELD = 12, MORE = 8 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 100000);
	struct stk_pipeline *p = slow_pipeline_with(
		ctx, OBJECTS, false, &(struct stk_pipeline_config){.batch_size = BATCH, .read_requests = 1, .max_batches = 100});
	struct stk_batch *held[HELD + MORE] = {0};
	alarm(SECONDS);
	expect_batches(p, WARM, NULL);
	expect_batches(p, HELD, held);
	int64_t asked = calm(s);
	stk__fault_set_from(STK_FAULT_ALLOC, 0);
	struct stk_error err = {0};
	for (int n = HELD; stk_pipeline_next(p, &held[n], &err) == STK_OK; n++) { /* batches that were finished before the failure */
		assert_true(n + 1 < HELD + MORE);
		int64_t now = calm(s);
		assert_true(now <= asked + 2); /* after the failure at most the first requests of the next batch were sent */
		asked = now;
	}
	assert_int_equal(err.code, STK_NO_MEMORY);
	stk__fault_set(STK_FAULT_ALLOC, -1);
	for (int k = 0; k < HELD + MORE; k++)
		stk_batch_unref(&held[k]);
	expect_batches(p, 10, NULL);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_read_for_a_batch_that_failed),
		cmocka_unit_test(test_reads_later_than_their_batch),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_sounds),
		cmocka_unit_test(test_source),
		cmocka_unit_test(test_survey),
		cmocka_unit_test(test_resuming),
		cmocka_unit_test(test_texts),
	};
	return cmocka_run_group_tests_name("faults", tests, set_up, tear_down);
}
