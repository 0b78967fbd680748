/* SPDX-License-Identifier: Apache-2.0
 * Users' sources: what a pipeline asks of one, what it makes of what comes, and that tensors are released and the source destroyed exactly once. */
#include "test.h"

#include "pipelines.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BATCH = 4, HEIGHT = 3, WIDTH = 2, BYTES = HEIGHT * WIDTH };

enum fault { NO_FAULT, FAILS, FAILS_SILENTLY, WRONG_DTYPE, WRONG_NDIM, NEGATIVE_SHAPE, TOO_MANY, TOO_FEW };

struct source {
	int64_t samples; /* of an epoch */
	bool per_sample;
	enum fault fault;
	int64_t fault_at; /* position */
	int delay_us;
	/* what it saw */
	int pulls, released, resets, destroyed;
	int64_t last_reset;
	pthread_t thread;
	bool one_thread;
};

/* One pull's tensors, freed by its release. */
struct pulled {
	struct source *source;
	uint8_t bytes[BATCH][2][BYTES];
};

static void release(void *user)
{
	struct pulled *p = user;
	p->source->released++;
	memset(p->bytes, 0xdd, sizeof p->bytes);
	free(p);
}

static void give(struct pulled *p, struct stk_feed *feed, int32_t asked, int32_t i, int64_t epoch, int64_t position)
{
	for (int o = 0; o < 2; o++) {
		memset(p->bytes[i][o], (int)(epoch * 100 + position + o * 50), BYTES);
		feed->tensors[o * asked + i] = (struct stk_tensor){p->bytes[i][o], {STK_UINT8, 3, {HEIGHT, WIDTH, 1}, ""}};
	}
}

static enum stk_status spoil(const struct source *s, struct stk_feed *feed, struct stk_error *err)
{
	switch (s->fault) {
	case FAILS:
		*err = (struct stk_error){.code = STK_USER, .sample = -1, .epoch = -1, .offset = -1, .message = "the shop is closed"};
		return STK_USER;
	case FAILS_SILENTLY:
		return STK_USER;
	case WRONG_DTYPE:
		feed->tensors[0].desc.dtype = STK_FLOAT;
		break;
	case WRONG_NDIM:
		feed->tensors[0].desc.ndim = 2;
		break;
	case NEGATIVE_SHAPE:
		feed->tensors[0].desc.shape[1] = -7;
		break;
	case TOO_MANY:
		feed->count = BATCH + 1;
		break;
	case TOO_FEW:
		feed->count = 0;
		break;
	default:
		break;
	}
	return STK_OK;
}

static enum stk_status pull(void *user, const struct stk_feed_request *q, struct stk_feed *feed, struct stk_error *err)
{
	struct source *s = user;
	if (!s->pulls++) {
		s->thread = pthread_self();
		s->one_thread = true;
	}
	s->one_thread &= pthread_equal(s->thread, pthread_self()) != 0;
	usleep((useconds_t)s->delay_us);
	int32_t asked = feed->count, want = q->index < 0 ? q->count : 1;
	if (asked != want || (q->index >= 0) != s->per_sample || q->position != q->batch * BATCH + (q->index < 0 ? 0 : q->index))
		abort();
	int64_t left = s->samples - q->position;
	if (left <= 0) {
		s->pulls--; /* nothing to release */
		return STK_END;
	}
	struct pulled *p = calloc(1, sizeof *p);
	p->source = s;
	int32_t n = asked < left ? asked : (int32_t)left;
	for (int32_t i = 0; i < n; i++)
		give(p, feed, asked, i, q->epoch, q->position + i);
	feed->count = n;
	feed->release = release;
	feed->release_user = p;
	enum stk_status status = STK_OK;
	if (s->fault && s->fault_at >= q->position && s->fault_at < q->position + n)
		status = spoil(s, feed, err);
	if (status) {
		s->pulls--;
		free(p);
	}
	return status;
}

static void reset(void *user, int64_t epoch)
{
	struct source *s = user;
	s->resets++;
	s->last_reset = epoch;
}

static void destroy(void *user)
{
	((struct source *)user)->destroyed++;
}

/* ---- pipelines ---- */

static struct stk_source_callbacks callbacks_of(struct source *s)
{
	return (struct stk_source_callbacks){.pull = pull, .reset = reset, .destroy = destroy, .user = s, .per_sample = s->per_sample};
}

/* Two outputs of a source: the first mirrored, the second as it came; and a reader's label before them, where there is a folder. */
static struct stk_pipeline *open_source(struct stk_context *ctx, struct source *s, const char *folder)
{
	struct stk_graph *g;
	struct stk_node in, flipped, file;
	struct stk_error err = {0};
	struct stk_pipeline *p = NULL;
	const struct stk_source_callbacks callbacks = callbacks_of(s);
	const struct stk_arg args[] = {stk_arg_int("num_outputs", 2), stk_arg_string("layout", "HWC"), stk_arg_int("dtype", STK_UINT8)};
	const struct stk_arg root[] = {stk_arg_string("file_root", folder), stk_arg_string("tail", "keep")};
	const struct stk_graph_options named = {.name = "shop"};
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	if (stk_graph_add(g, "external_source", NULL, 0, args, 3, &named, &in, &err) || stk_graph_set_source(g, in, &callbacks, &err) ||
		stk_graph_add(g, "flip", &in, 1, NULL, 0, NULL, &flipped, &err) || stk_graph_output(g, flipped, &err) ||
		stk_graph_output(g, (struct stk_node){in.op, 1}, &err))
		fail_msg("%s", err.message);
	if (folder && (stk_graph_add(g, "readers.file", NULL, 0, root, 2, NULL, &file, &err) ||
			      stk_graph_output(g, (struct stk_node){file.op, 1}, &err)))
		fail_msg("%s", err.message);
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = BATCH, .device_id = -1};
	if (stk_pipeline_create(ctx, g, &c, &p, &err))
		fail_msg("%s", err.message);
	stk_graph_destroy(g);
	return p;
}

static struct stk_context *two_workers(void)
{
	struct stk_context *ctx;
	const struct stk_context_config c = {.size = sizeof c, .threads = 2};
	assert_int_equal(stk_context_create(&c, &ctx, NULL), STK_OK);
	return ctx;
}

static void assert_balanced(const struct source *s)
{
	assert_int_equal(s->destroyed, 1);
	assert_int_equal(s->released, s->pulls);
	assert_true(s->pulls == 0 || s->one_thread);
}

static void assert_batch(struct stk_batch *b, int64_t epoch, int64_t position, int32_t count)
{
	assert_int_equal(stk_batch_size(b), count);
	assert_int_equal(stk_batch_epoch(b), epoch);
	for (int32_t i = 0; i < count; i++) {
		assert_int_equal(stk_batch_sample(b, i)->position, position + i);
		for (int o = 0; o < 2; o++) {
			const struct stk_tensor *t = &stk_batch_output(b, o)->samples[i];
			assert_int_equal(stk_desc_bytes(&t->desc), BYTES);
			for (int k = 0; k < BYTES; k++)
				assert_int_equal(((uint8_t *)t->data)[k], (uint8_t)(epoch * 100 + position + i + o * 50));
		}
	}
}

/* ---- what comes is what is delivered ---- */

static void check_epochs(bool per_sample, int64_t samples)
{
	struct source s = {.samples = samples, .per_sample = per_sample};
	struct stk_context *ctx = two_workers();
	struct stk_pipeline *p = open_source(ctx, &s, NULL);
	for (int64_t epoch = 0; epoch < 3; epoch++) {
		struct stk_batch *b = NULL;
		for (int64_t at = 0; at < samples; at += BATCH) {
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			assert_batch(b, epoch, at, (int32_t)(samples - at < BATCH ? samples - at : BATCH));
			stk_batch_unref(&b);
		}
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_END);
		assert_null(b);
	}
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	assert_balanced(&s);
	assert_true(s.resets >= 2); /* and one for each epoch that was run ahead into */
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
	struct stk_context *ctx = two_workers();
	struct stk_pipeline *p = open_source(ctx, &s, NULL);
	struct stk_batch *held[2];
	for (int k = 0; k < 2; k++)
		assert_int_equal(stk_pipeline_next(p, &held[k], NULL), STK_OK);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	assert_int_equal(s.released, s.pulls); /* what was delivered is ours, not the source's */
	for (int k = 0; k < 2; k++) {
		assert_batch(held[k], 0, k * BATCH, BATCH);
		stk_batch_unref(&held[k]);
	}
	assert_balanced(&s);
}

/* ---- memory that ends where a page ends ---- */

/* One image a sample, whose last byte is the last that can be read. */
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
	struct stk_context *ctx = two_workers();
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

/* ---- what goes wrong ---- */

static void check_fault(enum fault fault, bool per_sample, const char *says)
{
	struct source s = {.samples = 5 * BATCH, .per_sample = per_sample, .fault = fault, .fault_at = 2 * BATCH + 1};
	struct stk_context *ctx = two_workers();
	struct stk_pipeline *p = open_source(ctx, &s, NULL);
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
		assert_batch(b, 0, k * BATCH, BATCH);
		stk_batch_unref(&b);
	}
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	assert_balanced(&s);
}

static void test_faults_name_the_source_and_cost_one_batch(void **state)
{
	(void)state;
	for (int per_sample = 0; per_sample < 2; per_sample++) {
		check_fault(FAILS, per_sample, "the shop is closed");
		check_fault(FAILS_SILENTLY, per_sample, "shop");
		check_fault(WRONG_DTYPE, per_sample, "promised uint8 and gave float32");
		check_fault(NEGATIVE_SHAPE, per_sample, "impossible shape");
		check_fault(TOO_MANY, per_sample, "\"shop\" gave 5 samples");
		check_fault(TOO_FEW, per_sample, "\"shop\" gave 0 samples");
	}
	check_fault(WRONG_NDIM, false, "promised 3 dims and gave 2");
}

static void test_leaving_in_the_middle(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++) {
		struct source s = {.samples = 1000, .per_sample = i & 1, .delay_us = 100 * (i % 3)};
		struct stk_context *ctx = two_workers();
		struct stk_pipeline *p = open_source(ctx, &s, NULL);
		struct stk_batch *b = NULL;
		if (i % 5 == 0)
			assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
		for (int k = 0; k < i % 4; k++) {
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			stk_batch_unref(&b);
		}
		stk_pipeline_destroy(p);
		stk_context_unref(&ctx);
		assert_balanced(&s);
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
	struct stk_source_callbacks c = callbacks_of(&lost);
	assert_int_equal(stk_graph_set_source(g, flip, &c, &err), STK_INVALID);
	assert_true(err.message[0]);
	assert_int_equal(lost.destroyed, 1); /* the graph's from then on, whatever is returned */
	lost.destroyed = 0;
	assert_int_not_equal(stk_graph_set_source(g, (struct stk_node){77, 0}, &c, &err), STK_OK);
	assert_int_equal(lost.destroyed, 1);
	c = callbacks_of(&first);
	assert_int_equal(stk_graph_set_source(g, in, &c, &err), STK_OK);
	c = callbacks_of(&second);
	enum stk_status again = stk_graph_set_source(g, in, &c, &err);
	assert_int_equal(first.destroyed + second.destroyed, 1); /* replaced or refused */
	assert_int_equal(again == STK_OK, first.destroyed);
	stk_graph_destroy(g);
	assert_int_equal(first.destroyed, 1);
	assert_int_equal(second.destroyed, 1);
}

static void test_a_pipeline_needs_its_source(void **state)
{
	(void)state;
	struct stk_context *ctx = two_workers();
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

/* ---- epochs and state ---- */

static void test_skipping_and_resuming(void **state)
{
	(void)state;
	struct source s = {.samples = 2 * BATCH, .per_sample = true}, t = s;
	struct stk_context *ctx = two_workers();
	struct stk_pipeline *p = open_source(ctx, &s, NULL);
	struct stk_batch *b = NULL;
	char *text;
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	stk_batch_unref(&b);
	assert_int_equal(stk_pipeline_skip_epoch(p, NULL), STK_OK);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		assert_batch(b, 1, k * BATCH, BATCH);
		stk_batch_unref(&b);
	}
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_END);
	assert_int_equal(stk_pipeline_save(p, &text, NULL), STK_OK);
	stk_pipeline_destroy(p);
	assert_balanced(&s);
	/* between epochs the state of a source is the number of the next */
	struct stk_error err = {0};
	p = open_source(ctx, &t, NULL);
	if (stk_pipeline_restore(p, text, strlen(text), &err))
		fail_msg("%s", err.message);
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	assert_batch(b, 2, 0, BATCH);
	stk_batch_unref(&b);
	stk_text_free(text);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	assert_balanced(&t);
}

/* ---- beside a reader, which leads ---- */

enum { FILES = 10 };

static void test_source_beside_a_reader(void **state)
{
	(void)state;
	char *folder = make_folder(FILES, 4);
	struct source s = {.samples = FILES, .per_sample = true};
	struct stk_context *ctx = two_workers();
	struct stk_pipeline *p = open_source(ctx, &s, folder);
	struct stk_batch *b = NULL;
	for (int64_t epoch = 0; epoch < 2; epoch++) {
		for (int64_t at = 0; at < FILES; at += BATCH) {
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			assert_batch(b, epoch, at, (int32_t)(FILES - at < BATCH ? FILES - at : BATCH));
			for (int32_t i = 0; i < stk_batch_size(b); i++) /* files are sorted by class */
				assert_int_equal(*(int32_t *)stk_batch_output(b, 2)->samples[i].data, at + i < 4 ? 0 : at + i < 7 ? 1 : 2);
			stk_batch_unref(&b);
		}
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_END);
	}
	stk_pipeline_destroy(p);
	assert_balanced(&s);
	assert_true(s.resets >= 1 && s.last_reset == s.resets);
	stk_context_unref(&ctx);
	remove_folder(folder);
}

/* The reader's samples would be lost in silence. */
static void test_a_source_shorter_than_the_reader_is_an_error(void **state)
{
	(void)state;
	char *folder = make_folder(FILES, 4);
	for (int i = 0; i < 4; i++) {
		struct source s = {.samples = BATCH + (i & 1), .per_sample = i >> 1}; /* ends with a batch, or within one */
		struct stk_context *ctx = two_workers();
		struct stk_pipeline *p = open_source(ctx, &s, folder);
		struct stk_batch *b = NULL;
		struct stk_error err = {0};
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		stk_batch_unref(&b);
		assert_int_equal(stk_pipeline_next(p, &b, &err), STK_USER);
		assert_non_null(strstr(err.message, "shop"));
		stk_pipeline_destroy(p);
		stk_context_unref(&ctx);
		assert_balanced(&s);
	}
	remove_folder(folder);
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
		cmocka_unit_test(test_a_source_is_destroyed_once_wherever_it_ends),
		cmocka_unit_test(test_a_pipeline_needs_its_source),
		cmocka_unit_test(test_skipping_and_resuming),
		cmocka_unit_test(test_source_beside_a_reader),
		cmocka_unit_test(test_a_source_shorter_than_the_reader_is_an_error),
	};
	alarm(250); /* a hang is a failure too */
	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
