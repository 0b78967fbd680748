/* SPDX-License-Identifier: Apache-2.0
 * User-defined sources: what a pipeline requests from a source, how it uses the results, and that every tensor is released and the source destroyed exactly
 * once. */
#include "test.h"

#include "pipelines.h"
#include "sources.h"

#include "base/error.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the pipeline delivers the source's tensors unchanged ---- */

static void check_epochs(bool per_sample, int64_t samples)
{
	struct source s = {.samples = samples, .per_sample = per_sample};
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = source_open(ctx, &s, NULL);
	for (int64_t epoch = 0; epoch < 3; epoch++) {
		struct stk_batch *b = NULL;
		for (int64_t at = 0; at < samples; at += BATCH) {
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			source_assert_batch(b, epoch, at, (int32_t)(samples - at < BATCH ? samples - at : BATCH));
			stk_batch_unref(&b);
		}
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_END);
		assert_null(b);
	}
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	source_assert_balanced(&s);
	assert_true(s.resets >= 2); /* the pipeline begins epochs before they are needed, and calls reset for each */
	assert_int_equal(s.last_reset, s.resets);
}

static void test_epochs_of_samples_and_batches(void **state)
{
	(void)state;
	for (int64_t n = 1; n <= 2 * BATCH + 1; n++) {
		check_epochs(true, n);
		check_epochs(false, n);
	}
}

static void test_a_source_without_samples_ends_at_once(void **state)
{
	(void)state;
	check_epochs(true, 0);
	check_epochs(false, 0);
}

static void test_batches_outlive_source_and_pipeline(void **state)
{
	(void)state;
	struct source s = {.samples = 10, .per_sample = true};
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = source_open(ctx, &s, NULL);
	struct stk_batch *held[2];
	for (int k = 0; k < 2; k++)
		assert_int_equal(stk_pipeline_next(p, &held[k], NULL), STK_OK);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	assert_int_equal(s.released, s.pulls); /* delivered batches do not refer to the source's tensors */
	for (int k = 0; k < 2; k++) {
		source_assert_batch(held[k], 0, k * BATCH, BATCH);
		stk_batch_unref(&held[k]);
	}
	source_assert_balanced(&s);
}

/* ---- tensors at the end of readable memory ---- */

/* A source of one image per sample. The image ends where readable memory ends, so that a read past the image crashes. */
struct edge {
	uint8_t *end;
	enum stk_dtype dtype;
	int64_t shape[3];
	const char *layout;
	int64_t samples;
};

static enum stk_status pull_edge(void *user, const struct stk_feed_request *q, struct stk_feed *feed, struct stk_error *err)
{
	const struct edge *e = user;
	(void)err;
	if (q->position >= e->samples)
		return STK_END;
	struct stk_tensor t = {NULL, {.dtype = e->dtype, .ndim = 3, .shape = {e->shape[0], e->shape[1], e->shape[2]}}};
	strcpy(t.desc.layout, e->layout);
	t.data = e->end - stk_desc_bytes(&t.desc);
	feed->tensors[0] = t;
	return STK_OK;
}

static void run_edge(struct stk_context *ctx, const struct edge *e, const char *op, const struct stk_arg *args, size_t n)
{
	struct stk_graph *g;
	struct stk_node in, out;
	struct stk_error err = {0};
	struct stk_pipeline *p;
	struct stk_batch *b = NULL;
	const struct stk_source_callbacks callbacks = {.pull = pull_edge, .user = (void *)e, .per_sample = true};
	const struct stk_arg source[] = {stk_arg_string("layout", e->layout), stk_arg_int("dtype", e->dtype)};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = 1, .device_id = -1};
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	if (stk_graph_add(g, "external_source", NULL, 0, source, 2, NULL, &in, &err) || stk_graph_set_source(g, in, &callbacks, &err) ||
		stk_graph_add(g, op, &in, 1, args, n, NULL, &out, &err) || stk_graph_output(g, out, &err) ||
		stk_pipeline_create(ctx, g, &c, &p, &err) || stk_pipeline_next(p, &b, &err))
		fail_msg("%s: %s", op, err.message);
	stk_batch_unref(&b);
	stk_pipeline_destroy(p);
	stk_graph_destroy(g);
}

static void test_nothing_is_read_behind_a_users_memory(void **state)
{
	(void)state;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = 16 * page;
	uint8_t *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(mprotect(map + room, page, PROT_NONE), 0);
	const int64_t size[] = {9, 20};
	const double mean[] = {1};
	const struct stk_arg to_size[] = {stk_arg_list("size", STK_VALUE_INTS, size, 2)},
			     moments[] = {stk_arg_list("mean", STK_VALUE_FLOATS, mean, 1)};
	const enum stk_dtype types[] = {STK_UINT8, STK_INT16, STK_FLOAT};
	struct stk_context *ctx = source_context();
	for (int k = 0; k < 3; k++)
		for (int64_t w = 1; w < 40; w += 3)
			for (int planar = 0; planar < 2; planar++) {
				struct edge e = {map + room, types[k], {7, w, 3}, "HWC", 1};
				if (planar)
					e = (struct edge){map + room, types[k], {3, 7, w}, "CHW", 1};
				run_edge(ctx, &e, "resize", to_size, 1);
				run_edge(ctx, &e, "crop_mirror_normalize", moments, 1);
				run_edge(ctx, &e, "brightness_contrast", NULL, 0);
				run_edge(ctx, &e, "flip", NULL, 0);
				run_edge(ctx, &e, "normalize", NULL, 0);
				run_edge(ctx, &e, "transpose", NULL, 0);
			}
	stk_context_unref(&ctx);
	munmap(map, room + page);
}

/* ---- errors ---- */

static void check_fault(enum fault fault, bool per_sample, const char *says)
{
	struct source s = {.samples = 5 * BATCH, .per_sample = per_sample, .fault = fault, .fault_at = 2 * BATCH + 1};
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = source_open(ctx, &s, NULL);
	for (int64_t k = 0; k < 5; k++) {
		struct stk_batch *b = NULL;
		struct stk_error err = {0};
		enum stk_status status = stk_pipeline_next(p, &b, &err);
		if (k == 2) {
			assert_int_equal(status, STK_USER);
			assert_int_equal(err.code, STK_USER);
			assert_null(b);
			if (!strstr(err.message, says))
				fail_msg("fault %d: \"%s\" does not say \"%s\"", fault, err.message, says);
			continue;
		}
		if (status)
			fail_msg("fault %d, batch %lld: %s", fault, (long long)k, err.message);
		source_assert_batch(b, 0, k * BATCH, BATCH);
		stk_batch_unref(&b);
	}
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	source_assert_balanced(&s);
}

static void test_faults_name_the_source_and_cost_one_batch(void **state)
{
	(void)state;
	for (int per_sample = 0; per_sample < 2; per_sample++) {
		check_fault(FAILS, per_sample, "the shop is closed");
		check_fault(FAILS_SILENTLY, per_sample, "shop");
		check_fault(WRONG_DTYPE, per_sample, "is declared as uint8 and gave float32");
		check_fault(NEGATIVE_SHAPE, per_sample, "impossible shape");
		check_fault(TOO_MANY, per_sample, "\"shop\" gave 5 samples");
		check_fault(TOO_FEW, per_sample, "\"shop\" gave 0 samples");
	}
	check_fault(WRONG_NDIM, false, "is declared with 3 dims and gave 2");
}

static void test_leaving_in_the_middle(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++) {
		struct source s = {.samples = 1000, .per_sample = i & 1, .delay_us = 100 * (i % 3)};
		struct stk_context *ctx = source_context();
		struct stk_pipeline *p = source_open(ctx, &s, NULL);
		struct stk_batch *b = NULL;
		if (i % 5 == 0)
			assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
		for (int k = 0; k < i % 4; k++) {
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			stk_batch_unref(&b);
		}
		stk_pipeline_destroy(p);
		stk_context_unref(&ctx);
		source_assert_balanced(&s);
	}
}

static void test_a_source_is_destroyed_once_wherever_it_ends(void **state)
{
	(void)state;
	struct stk_graph *g;
	struct stk_node in, flip;
	struct stk_error err = {0};
	struct source first = {.samples = 1}, second = {.samples = 1}, lost = {.samples = 1};
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	assert_int_equal(stk_graph_add(g, "external_source", NULL, 0, NULL, 0, NULL, &in, NULL), STK_OK);
	assert_int_equal(stk_graph_add(g, "copy", &in, 1, NULL, 0, NULL, &flip, NULL), STK_OK);
	struct stk_source_callbacks c = source_callbacks(&lost);
	assert_int_equal(stk_graph_set_source(g, flip, &c, &err), STK_INVALID);
	assert_true(err.message[0]);
	assert_int_equal(lost.destroyed, 1); /* from this call on the graph owns the source, even if the call returns an error */
	lost.destroyed = 0;
	assert_int_not_equal(stk_graph_set_source(g, (struct stk_node){77, 0}, &c, &err), STK_OK);
	assert_int_equal(lost.destroyed, 1);
	c = source_callbacks(&first);
	assert_int_equal(stk_graph_set_source(g, in, &c, &err), STK_OK);
	c = source_callbacks(&second);
	enum stk_status again = stk_graph_set_source(g, in, &c, &err);
	assert_int_equal(first.destroyed + second.destroyed, 1); /* the graph keeps one of the two sources, and has destroyed the other */
	assert_int_equal(again == STK_OK, first.destroyed);
	stk_graph_destroy(g);
	assert_int_equal(first.destroyed, 1);
	assert_int_equal(second.destroyed, 1);
}

static void test_a_pipeline_needs_its_source(void **state)
{
	(void)state;
	struct stk_context *ctx = source_context();
	struct stk_graph *g;
	struct stk_node in;
	struct stk_error err = {0};
	struct stk_pipeline *p;
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = BATCH, .device_id = -1};
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	assert_int_equal(
		stk_graph_add(g, "external_source", NULL, 0, NULL, 0, &(struct stk_graph_options){.name = "shop"}, &in, NULL), STK_OK);
	assert_int_equal(stk_graph_output(g, in, NULL), STK_OK);
	assert_int_equal(stk_pipeline_create(ctx, g, &c, &p, &err), STK_INVALID);
	assert_non_null(strstr(err.message, "shop"));
	stk_graph_destroy(g);
	stk_context_unref(&ctx);
}

/* ---- sources in a pipeline with a reader, which leads ---- */

enum { FILES = 10 };

static void test_source_beside_a_reader(void **state)
{
	(void)state;
	char *folder = make_folder(FILES, 4);
	struct source s = {.samples = FILES, .per_sample = true};
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = source_open(ctx, &s, folder);
	struct stk_batch *b = NULL;
	for (int64_t epoch = 0; epoch < 2; epoch++) {
		for (int64_t at = 0; at < FILES; at += BATCH) {
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			source_assert_batch(b, epoch, at, (int32_t)(FILES - at < BATCH ? FILES - at : BATCH));
			for (int32_t i = 0; i < stk_batch_size(b); i++) /* files are sorted by class, so labels rise with the position */
				assert_int_equal(*(int32_t *)stk_batch_output(b, 2)->samples[i].data, at + i < 4 ? 0 : at + i < 7 ? 1 : 2);
			stk_batch_unref(&b);
		}
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_END);
	}
	stk_pipeline_destroy(p);
	source_assert_balanced(&s);
	assert_true(s.resets >= 1 && s.last_reset == s.resets);
	stk_context_unref(&ctx);
	remove_folder(folder);
}

/* It must be an error if a source ends before the reader; otherwise the reader's remaining samples would be dropped silently. */
static void test_a_source_shorter_than_the_reader_is_an_error(void **state)
{
	(void)state;
	char *folder = make_folder(FILES, 4);
	for (int i = 0; i < 4; i++) {
		struct source s = {.samples = BATCH + (i & 1), .per_sample = i >> 1}; /* ends after a whole batch, or within a batch */
		struct stk_context *ctx = source_context();
		struct stk_pipeline *p = source_open(ctx, &s, folder);
		struct stk_batch *b = NULL;
		struct stk_error err = {0};
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		stk_batch_unref(&b);
		assert_int_equal(stk_pipeline_next(p, &b, &err), STK_USER);
		assert_non_null(strstr(err.message, "shop"));
		stk_pipeline_destroy(p);
		stk_context_unref(&ctx);
		source_assert_balanced(&s);
	}
	remove_folder(folder);
}

/* The pipeline holds no lock while the user's functions run, whether a batch is taken, an epoch is left, or the pipeline is destroyed. */
static void test_callbacks_may_ask_the_pipeline(void **state)
{
	(void)state;
	for (int per_sample = 0; per_sample < 2; per_sample++) {
		struct source s = {.samples = 5 * BATCH, .per_sample = per_sample};
		struct stk_context *ctx = source_context();
		struct stk_pipeline *p = source_open(ctx, &s, NULL);
		struct stk_batch *b = NULL;
		s.asks = p;
		alarm(200);
		for (int k = 0; k < 8; k++) {
			enum stk_status got = stk_pipeline_next(p, &b, NULL);
			assert_true(got == STK_OK || got == STK_END);
			stk_batch_unref(&b);
		}
		assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		stk_batch_unref(&b);
		stk_pipeline_destroy(p);
		alarm(0);
		source_assert_balanced(&s);
		stk_context_unref(&ctx);
	}
}

/* ---- functions ---- */

/* A user's function (call_function), which adds 1 to each byte of the input, in new memory that release_function frees, and also returns each sample's
 * position in the batch. It fails in the manner that `fault` names. */
struct function {
	bool by_batch;
	enum fault fault;
	enum stk_status status;         /* what a function that FAILS returns; 0: STK_USER */
	struct stk_pipeline *waits_for; /* NULL, or a pipeline from which each call takes a batch */
	_Atomic int calls, released;
};

static void release_function(void *user)
{
	struct function *f = *(void **)user;
	f->released++;
	free(user);
}

static enum stk_status call_function(void *user, const struct stk_feed_request *q, struct stk_feed *feed, struct stk_error *err)
{
	struct function *f = user;
	int32_t n = q->index < 0 ? q->count : 1;
	if (q->n_inputs != 1 || feed->count != n || (q->index < 0) != f->by_batch)
		abort();
	f->calls++;
	struct stk_batch *awaited = NULL;
	const enum stk_status s = f->waits_for ? stk_pipeline_next(f->waits_for, &awaited, err) : STK_OK;
	stk_batch_unref(&awaited);
	if (s && s != STK_END)
		return s;
	if (f->fault == FAILS)
		return stk__fail(err, f->status ? f->status : STK_USER, "the function is out of order");
	uint8_t *memory = calloc(1, sizeof(void *) + (size_t)n * (BYTES + 4));
	*(void **)(void *)memory = f;
	for (int32_t i = 0; i < n; i++) {
		uint8_t *to = memory + sizeof(void *) + i * (BYTES + 4);
		int32_t place = q->index < 0 ? i : q->index;
		memcpy(to, &place, 4);
		for (int k = 0; k < BYTES; k++)
			to[4 + k] = (uint8_t)(((const uint8_t *)q->inputs[i].data)[k] + 1);
		feed->tensors[i] = (struct stk_tensor){to + 4, q->inputs[i].desc};
		feed->tensors[n + i] = (struct stk_tensor){to, {.dtype = STK_INT32}};
	}
	if (f->fault == WRONG_DTYPE)
		feed->tensors[0].desc.dtype = (enum stk_dtype)99;
	if (f->fault == TOO_FEW)
		feed->count = 0;
	feed->release = release_function;
	feed->release_user = memory;
	return STK_OK;
}

static struct stk_pipeline *function_open(struct stk_context *ctx, struct source *s, struct function *f)
{
	struct stk_graph *g;
	struct stk_node in, out;
	struct stk_error err = {0};
	struct stk_pipeline *p;
	const char *layouts[] = {"XYZ"};
	const struct stk_arg args[] = {stk_arg_int("num_outputs", 2), stk_arg_bool("batch_processing", f->by_batch),
		stk_arg_list("output_layouts", STK_VALUE_STRINGS, layouts, 1)};
	const struct stk_arg source[] = {stk_arg_int("num_outputs", 2)};
	const struct stk_source_callbacks feeds = source_callbacks(s), calls = {.pull = call_function, .user = f};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = BATCH, .device_id = -1};
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	if (stk_graph_add(g, "external_source", NULL, 0, source, 1, NULL, &in, &err) || stk_graph_set_source(g, in, &feeds, &err) ||
		stk_graph_add(g, "python_function", &in, 1, args, 3, NULL, &out, &err) || stk_graph_set_source(g, out, &calls, &err) ||
		stk_graph_output(g, out, &err) || stk_graph_output(g, (struct stk_node){out.op, 1}, &err) ||
		stk_pipeline_create(ctx, g, &c, &p, &err))
		fail_msg("%s", err.message);
	stk_graph_destroy(g);
	return p;
}

static void check_function(bool by_batch, enum fault fault, const char *message)
{
	struct source s = {.samples = 2 * BATCH + 1};
	struct function f = {.by_batch = by_batch, .fault = fault};
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = function_open(ctx, &s, &f);
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	for (int64_t at = 0; !fault && at < s.samples; at += BATCH) {
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		const struct stk_tensor_list *images = stk_batch_output(b, 0), *places = stk_batch_output(b, 1);
		assert_string_equal(images->desc.layout, "XYZ");
		for (int32_t i = 0; i < stk_batch_size(b); i++) {
			assert_int_equal(((uint8_t *)images->samples[i].data)[BYTES - 1], at + i + 1);
			assert_int_equal(*(int32_t *)places->samples[i].data, i);
		}
		stk_batch_unref(&b);
	}
	assert_int_equal(stk_pipeline_next(p, &b, &err), fault ? STK_USER : STK_END);
	if (fault && (!strstr(err.message, message) || !strstr(err.op, "python_function")))
		fail_msg("%s", err.message);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	assert_int_equal(f.released, fault == FAILS ? 0 : f.calls);
	source_assert_balanced(&s);
}

static void test_functions_of_samples_and_batches(void **state)
{
	(void)state;
	for (int by_batch = 0; by_batch < 2; by_batch++) {
		check_function(by_batch, NO_FAULT, "");
		check_function(by_batch, FAILS, "out of order");
		check_function(by_batch, WRONG_DTYPE, "an unknown type");
		check_function(by_batch, TOO_FEW, "returned 0 samples");
	}
}

/* A function may wait for another pipeline of the same context, and so may that pipeline's function, although the context has only one worker. */
static void test_functions_that_wait_for_pipelines(void **state)
{
	(void)state;
	for (int by_batch = 0; by_batch < 2; by_batch++) {
		const struct stk_context_config one = {.size = sizeof one, .threads = 1};
		struct source s[3] = {{.samples = 2 * BATCH}, {.samples = 2 * BATCH}, {.samples = 2 * BATCH}};
		struct function inner = {.by_batch = by_batch}, outer = {.by_batch = by_batch};
		struct stk_context *ctx;
		struct stk_batch *b = NULL;
		assert_int_equal(stk_context_create(&one, &ctx, NULL), STK_OK);
		struct stk_pipeline *plain = source_open(ctx, &s[0], NULL);
		inner.waits_for = plain;
		struct stk_pipeline *middle = function_open(ctx, &s[1], &inner);
		outer.waits_for = middle;
		struct stk_pipeline *p = function_open(ctx, &s[2], &outer);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			assert_int_equal(((uint8_t *)stk_batch_output(b, 0)->samples[0].data)[BYTES - 1], k * BATCH + 1);
			stk_batch_unref(&b);
		}
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_END);
		stk_pipeline_destroy(p);
		stk_pipeline_destroy(middle);
		stk_pipeline_destroy(plain);
		stk_context_unref(&ctx);
		assert_true(outer.calls >= 2 && inner.calls >= 2);
		assert_int_equal(outer.calls, outer.released);
		assert_int_equal(inner.calls, inner.released);
	}
}

/* Returns the status of the consumer's call for a batch whose source, or function, returns `status`. */
static enum stk_status status_after(enum stk_status status, bool of_function)
{
	struct source s = {.samples = 2 * BATCH, .fault = of_function ? NO_FAULT : FAILS, .status = status};
	struct function f = {.fault = FAILS, .status = status};
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = of_function ? function_open(ctx, &s, &f) : source_open(ctx, &s, NULL);
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	const enum stk_status got = stk_pipeline_next(p, &b, &err);
	assert_int_equal(err.code, got);
	if (!strstr(err.message, of_function ? "the function is out of order" : "the shop is closed"))
		fail_msg("status %d: %s", status, err.message);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	return got;
}

/* Codes that would claim that something happened to the pipeline, such as a timeout, reach the consumer as STK_USER. */
static void test_statuses_that_users_return(void **state)
{
	(void)state;
	const enum stk_status kept[] = {STK_USER, STK_IO, STK_NO_MEMORY},
			      others[] = {STK_CANCELLED, STK_TIMEOUT, STK_LIMIT, STK_STATE, STK_CUDA, (enum stk_status)55};
	for (int of_function = 0; of_function < 2; of_function++) {
		for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
			assert_int_equal(status_after(kept[k], of_function), kept[k]);
		for (size_t k = 0; k < sizeof others / sizeof *others; k++)
			assert_int_equal(status_after(others[k], of_function), STK_USER);
	}
}

/* ---- ending a pipeline ---- */

static void test_an_end_that_waits_for_a_source(void **state)
{
	(void)state;
	struct source s = {.samples = 4 * BATCH, .delay_us = 3000000};
	struct stk_context *ctx = source_context();
	struct stk_pipeline *p = source_open(ctx, &s, NULL);
	struct stk_error err = {0};
	struct stk_batch *b = NULL;
	assert_int_equal(stk_pipeline_start(p, &err), STK_OK);
	while (pipeline_counter(p, "user_calls") < 1)
		usleep(1000);
	assert_int_equal(stk_pipeline_end_within(p, 20, &err), STK_TIMEOUT);
	assert_non_null(strstr(err.message, "has not returned"));
	assert_int_equal(stk_pipeline_end_within(p, 60000, &err), STK_OK);
	assert_int_equal(s.pulls, 1); /* the pipeline does not call the source any more */
	assert_int_equal(stk_pipeline_end_within(p, 0, &err), STK_OK);
	assert_int_equal(stk_pipeline_next(p, &b, &err), STK_CANCELLED);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	source_assert_balanced(&s);
}

/* A negative time is no limit: the call returns only after the source has. */
static void test_an_end_without_a_time_limit(void **state)
{
	(void)state;
	for (int destroy = 0; destroy < 2; destroy++) {
		struct source s = {.samples = 4 * BATCH, .delay_us = 300000};
		struct stk_context *ctx = source_context();
		struct stk_pipeline *p = source_open(ctx, &s, NULL);
		assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
		while (pipeline_counter(p, "user_calls") < 1)
			usleep(1000);
		if (!destroy)
			assert_int_equal(stk_pipeline_end_within(p, -1, NULL), STK_OK);
		assert_int_equal(stk_pipeline_destroy_within(p, INT64_MIN, NULL), STK_OK);
		source_assert_balanced(&s);
		stk_context_unref(&ctx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_epochs_of_samples_and_batches),
		cmocka_unit_test(test_a_source_without_samples_ends_at_once),
		cmocka_unit_test(test_batches_outlive_source_and_pipeline),
		cmocka_unit_test(test_nothing_is_read_behind_a_users_memory),
		cmocka_unit_test(test_faults_name_the_source_and_cost_one_batch),
		cmocka_unit_test(test_leaving_in_the_middle),
		cmocka_unit_test(test_callbacks_may_ask_the_pipeline),
		cmocka_unit_test(test_a_source_is_destroyed_once_wherever_it_ends),
		cmocka_unit_test(test_a_pipeline_needs_its_source),
		cmocka_unit_test(test_source_beside_a_reader),
		cmocka_unit_test(test_a_source_shorter_than_the_reader_is_an_error),
		cmocka_unit_test(test_functions_of_samples_and_batches),
		cmocka_unit_test(test_functions_that_wait_for_pipelines),
		cmocka_unit_test(test_statuses_that_users_return),
		cmocka_unit_test(test_an_end_that_waits_for_a_source),
		cmocka_unit_test(test_an_end_without_a_time_limit),
	};
	alarm(250); /* if the test hangs, it fails */
	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
