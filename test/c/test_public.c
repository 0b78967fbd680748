/* SPDX-License-Identifier: Apache-2.0
 * Calls every public function with arguments that it must refuse: NULL for each pointer, invalid enumerators, extreme sizes and times. */
#include "test.h"

#include "image_files.h"
#include "pipelines.h"
#include "stoker/batching.h"
#include "stoker/nuscenes.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 6 };
static char *folder;
static struct stk_context *ctx;

static int set_up(void **state)
{
	(void)state;
	const struct stk_context_config c = {.size = sizeof c, .threads = 2};
	folder = make_folder(FILES, 5);
	return !folder || stk_context_create(&c, &ctx, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	stk_context_unref(&ctx);
	remove_folder(folder);
	return 0;
}

/* ---- which functions were called ---- */

static char called[256][48];
static int n_called;

static void note(const char *call)
{
	const size_t n = strcspn(call, "(");
	for (int i = 0; i < n_called; i++)
		if (strlen(called[i]) == n && !memcmp(called[i], call, n))
			return;
	assert_true(n < sizeof called[0] && n_called < 256);
	memcpy(called[n_called++], call, n);
}

static bool was_called(const char *name)
{
	for (int i = 0; i < n_called; i++)
		if (!strcmp(called[i], name))
			return true;
	return false;
}

static struct stk_error err;

static void check_refused(enum stk_status s, const char *call, const char *says)
{
	note(call);
	if (s != STK_INVALID)
		fail_msg("%s gave %s, not INVALID", call, stk_status_name(s));
	if (err.code != STK_INVALID || !strstr(err.message, says))
		fail_msg("%s says \"%s\", not \"%s\"", call, err.message, says);
	err = (struct stk_error){0};
}

/* REFUSED checks that the call is refused and that the message contains `says`. VALUE checks the result, and FINE nothing. All three record the function's
 * name. */
#define REFUSED(call, says) check_refused(call, #call, says)
#define VALUE(call, want)                                                                                                                  \
	do {                                                                                                                               \
		note(#call);                                                                                                               \
		assert_true((call) == (want));                                                                                             \
	} while (0)
#define FINE(call)                                                                                                                         \
	do {                                                                                                                               \
		note(#call);                                                                                                               \
		call;                                                                                                                      \
	} while (0)

/* ---- valid arguments ---- */

static enum stk_status pull(void *user, const struct stk_feed_request *request, struct stk_feed *feed, struct stk_error *e)
{
	(void)user, (void)request, (void)feed, (void)e;
	return STK_END;
}

static struct stk_graph *new_graph(void)
{
	struct stk_graph *g;
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	return g;
}

static struct stk_node add_reader(struct stk_graph *g)
{
	const struct stk_arg args[] = {stk_arg_string("file_root", folder), stk_arg_string("tail", "keep")};
	struct stk_node file;
	assert_int_equal(stk_graph_add(g, "readers.file", NULL, 0, args, 2, NULL, &file, NULL), STK_OK);
	return file;
}

static struct stk_pipeline_config config_of(void)
{
	return (struct stk_pipeline_config){.size = sizeof(struct stk_pipeline_config), .batch_size = 2, .device_id = -1};
}

static struct stk_pipeline *new_pipeline(const struct stk_pipeline_config *c)
{
	struct stk_graph *g = new_graph();
	struct stk_pipeline *p;
	assert_int_equal(stk_graph_output(g, add_reader(g), NULL), STK_OK);
	if (stk_pipeline_create(ctx, g, c, &p, &err))
		fail_msg("%s", err.message);
	stk_graph_destroy(g);
	return p;
}

/* ---- contexts, graphs ---- */

static void test_contexts(void **state)
{
	(void)state;
	struct stk_context *c = NULL;
	struct stk_context_config config = {.size = sizeof config, .threads = -1};
	REFUSED(stk_context_create(NULL, NULL, &err), "out is NULL");
	REFUSED(stk_context_create(&config, &c, &err), "threads");
	config.threads = INT32_MAX;
	REFUSED(stk_context_create(&config, &c, &err), "threads");
	config = (struct stk_context_config){.size = sizeof config, .io_threads = INT32_MIN};
	REFUSED(stk_context_create(&config, &c, &err), "threads");
	config = (struct stk_context_config){.size = 3};
	REFUSED(stk_context_create(&config, &c, &err), "size");
	assert_null(c);
	VALUE(stk_context_ref(NULL), NULL);
	VALUE(stk_context_threads(NULL), 0);
	FINE(stk_context_unref(NULL));
	FINE(stk_context_unref(&c));
	assert_int_equal(stk_context_create(NULL, NULL, NULL), STK_INVALID);
	assert_non_null(stk_version());
	note("stk_version");
}

static void test_graphs(void **state)
{
	(void)state;
	struct stk_graph *g = new_graph(), *none = NULL;
	struct stk_node node = add_reader(g), out;
	struct stk_desc desc;
	char *text = NULL;
	REFUSED(stk_graph_create(NULL, &err), "out is NULL");
	REFUSED(stk_graph_add(NULL, "flip", &node, 1, NULL, 0, NULL, &out, &err), "g is NULL");
	REFUSED(stk_graph_add(g, NULL, &node, 1, NULL, 0, NULL, &out, &err), "op is NULL");
	REFUSED(stk_graph_add(g, "flip", &node, 1, NULL, 0, NULL, NULL, &err), "out is NULL");
	REFUSED(stk_graph_add(g, "flip", NULL, 1, NULL, 0, NULL, &out, &err), "inputs is NULL");
	REFUSED(stk_graph_add(g, "flip", &node, 1, NULL, 1, NULL, &out, &err), "args is NULL");
	const struct stk_arg bad[] = {
		stk_arg_int(NULL, 1),
		stk_arg_string("file_root", NULL),
		{"file_root", (enum stk_value_kind)77, {0}},
		{"file_root", (enum stk_value_kind) - 1, {0}},
		stk_arg_list("files", STK_VALUE_STRINGS, NULL, 2),
		stk_arg_list("files", STK_VALUE_STRINGS, (const char *const[]){NULL}, 1),
		stk_arg_list("indices", STK_VALUE_INTS, NULL, 2),
		stk_arg_list("indices", STK_VALUE_INTS, (const int64_t[]){1}, (size_t)1 << 40),
		stk_arg_int("file_root", 1),
		stk_arg_node("num_shards", (struct stk_node){INT32_MAX, INT32_MIN}),
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		REFUSED(stk_graph_add(g, "readers.file", NULL, 0, &bad[i], 1, NULL, &out, &err), "");
	const struct stk_graph_options device = {.device = (enum stk_device)77}, when = {.n_when = 3};
	REFUSED(stk_graph_add(g, "flip", &node, 1, NULL, 0, &device, &out, &err), "device 77");
	REFUSED(stk_graph_add(g, "flip", &node, 1, NULL, 0, &when, &out, &err), "n_when");
	const struct stk_node nowhere[] = {{-1, 0}, {INT32_MAX, 0}, {node.op, INT32_MIN}, {node.op, INT32_MAX}};
	for (size_t i = 0; i < 4; i++) {
		REFUSED(stk_graph_add(g, "flip", &nowhere[i], 1, NULL, 0, NULL, &out, &err), "not a value of this graph");
		REFUSED(stk_graph_output(g, nowhere[i], &err), "not a value of this graph");
		REFUSED(stk_graph_describe(g, nowhere[i], &desc, &err), "not a value of this graph");
	}
	VALUE(stk_graph_node_outputs(g, nowhere[1]), 0);
	VALUE(stk_graph_node_outputs(NULL, node), 0);
	VALUE(stk_graph_node_device(NULL, node), STK_DEVICE_CPU);
	REFUSED(stk_graph_output(NULL, node, &err), "g is NULL");
	REFUSED(stk_graph_describe(NULL, node, &desc, &err), "g is NULL");
	REFUSED(stk_graph_describe(g, node, NULL, &err), "out is NULL");
	REFUSED(stk_graph_serialize(NULL, &text, &err), "g is NULL");
	REFUSED(stk_graph_serialize(g, NULL, &err), "out is NULL");
	REFUSED(stk_graph_deserialize(NULL, 3, &none, &err), "text is NULL");
	REFUSED(stk_graph_deserialize("{}", 2, NULL, &err), "out is NULL");
	REFUSED(stk_graph_deserialize("{}", 2, &none, &err), "stoker_graph");
	assert_null(none);
	stk_graph_destroy(g);
	FINE(stk_graph_destroy(NULL));
	FINE(stk_text_free(NULL));
}

static void test_sources(void **state)
{
	(void)state;
	struct stk_graph *g = new_graph();
	struct stk_node source;
	assert_int_equal(stk_graph_add(g, "external_source", NULL, 0, NULL, 0, NULL, &source, NULL), STK_OK);
	const struct stk_source_callbacks good = {.pull = pull};
	struct stk_source_callbacks c = good;
	REFUSED(stk_graph_set_source(NULL, source, &c, &err), "g is NULL");
	REFUSED(stk_graph_set_source(g, source, NULL, &err), "callbacks is NULL");
	REFUSED(stk_graph_set_source(g, (struct stk_node){-1, -1}, &c, &err), "not a value of this graph");
	c.pull = NULL;
	REFUSED(stk_graph_set_source(g, source, &c, &err), "pull is NULL");
	c = good, c.seek = (enum stk_seek)77;
	REFUSED(stk_graph_set_source(g, source, &c, &err), "seek is 77");
	stk_graph_destroy(g);
}

/* ---- pipelines ---- */

static void test_configurations(void **state)
{
	(void)state;
	struct stk_graph *g = new_graph();
	struct stk_pipeline *p = NULL;
	assert_int_equal(stk_graph_output(g, add_reader(g), NULL), STK_OK);
	const struct stk_pipeline_config good = config_of();
	REFUSED(stk_pipeline_create(NULL, g, &good, &p, &err), "ctx is NULL");
	REFUSED(stk_pipeline_create(ctx, NULL, &good, &p, &err), "graph is NULL");
	REFUSED(stk_pipeline_create(ctx, g, NULL, &p, &err), "config is NULL");
	REFUSED(stk_pipeline_create(ctx, g, &good, NULL, &err), "out is NULL");
#define SET(field, value, says)                                                                                                            \
	do {                                                                                                                               \
		struct stk_pipeline_config c = good;                                                                                       \
		c.field = value;                                                                                                           \
		REFUSED(stk_pipeline_create(ctx, g, &c, &p, &err), says);                                                                  \
		assert_null(p);                                                                                                            \
	} while (0)
	SET(size, 7, "size");
	SET(batch_size, 0, "batch_size");
	SET(batch_size, INT32_MAX, "batch_size");
	SET(prefetch, -1, "prefetch");
	SET(prefetch, INT32_MAX, "prefetch");
	SET(device_id, -2, "device_id is -2");
	SET(device_id, INT32_MIN, "device_id");
	SET(on_error, (enum stk_on_error)77, "on_error is 77");
	SET(on_error, (enum stk_on_error) - 1, "on_error is -1");
	SET(max_errors, (double)NAN, "max_errors is nan");
	SET(max_errors, -1e300, "max_errors");
	SET(max_errors, (double)-INFINITY, "max_errors");
	SET(timeout_ms, -1, "timeout_ms is -1");
	SET(timeout_ms, INT64_MIN, "timeout_ms");
	SET(read_requests, -1, "read_requests");
	SET(read_requests, INT32_MAX, "read_requests is 2147483647; it must be from 0 (the default) to 1048576");
	SET(read_requests, 1 << 30, "read_requests");
	SET(read_requests, INT32_MIN, "read_requests");
	SET(max_batches, INT32_MIN, "max_batches");
	SET(memory_limit, SIZE_MAX, "memory_limit");
	SET(decode, (enum stk_decoding)(STK_DECODE_CORES + 1), "decode is 3; it must be one of enum stk_decoding");
	SET(gpu_memory, SIZE_MAX, "gpu_memory");
	SET(read_bytes, (size_t)PTRDIFF_MAX + 1, "read_bytes");
	SET(held_limit, SIZE_MAX, "held_limit");
#undef SET
	stk_graph_destroy(g);
}

/* Settings at their upper limits work: a time limit of centuries does not end a wait at once, and a window of any size is accepted. */
static void test_large_settings(void **state)
{
	(void)state;
	const int64_t times[] = {1, INT32_MAX, INT64_MAX / 1000000, INT64_MAX / 1000000 + 1, INT64_MAX - 1, INT64_MAX};
	for (size_t i = 1; i < sizeof times / sizeof *times; i++) {
		struct stk_pipeline_config c = config_of();
		c.timeout_ms = times[i];
		c.max_errors = i % 2 ? (double)INFINITY : 1e300;
		c.max_batches = INT32_MAX;
		c.read_bytes = c.memory_limit = c.held_limit = PTRDIFF_MAX;
		c.read_requests = 1 << 16;
		struct stk_pipeline *p = new_pipeline(&c);
		for (int k = 0; k < FILES; k++) {
			struct stk_batch *b;
			enum stk_status s = k % 2 ? stk_pipeline_next(p, &b, &err) : stk_pipeline_next_within(p, times[i], &b, &err);
			if (s && s != STK_END)
				fail_msg("timeout_ms %lld: %s", (long long)times[i], err.message);
			if (!s)
				stk_batch_unref(&b);
		}
		assert_int_equal(stk_pipeline_end_within(p, times[i], NULL), STK_OK);
		assert_int_equal(stk_pipeline_destroy_within(p, times[i], NULL), STK_OK);
	}
	struct stk_pipeline_config c = config_of();
	c.batch_size = 1 << 20;
	c.prefetch = 1024;
	struct stk_graph *g = new_graph();
	struct stk_pipeline *p;
	assert_int_equal(stk_graph_output(g, add_reader(g), NULL), STK_OK);
	/* The pipeline would need half a terabyte for its records. */
	assert_int_equal(stk_pipeline_create(ctx, g, &c, &p, &err), STK_NO_MEMORY);
	assert_non_null(strstr(err.message, "prefetch (1024)"));
	stk_graph_destroy(g);
}

static void test_pipelines(void **state)
{
	(void)state;
	const struct stk_pipeline_config c = config_of();
	struct stk_pipeline *p = new_pipeline(&c);
	struct stk_batch *b = NULL;
	struct stk_reader_meta meta;
	struct stk_desc desc;
	const char *skipped;
	char *text = NULL;
	REFUSED(stk_pipeline_start(NULL, &err), "p is NULL");
	REFUSED(stk_pipeline_next(NULL, &b, &err), "p is NULL");
	REFUSED(stk_pipeline_next(p, NULL, &err), "out is NULL");
	REFUSED(stk_pipeline_next_within(NULL, 0, &b, &err), "p is NULL");
	REFUSED(stk_pipeline_put_back(NULL, b, &err), "p is NULL");
	REFUSED(stk_pipeline_put_back(p, NULL, &err), "batch is NULL");
	REFUSED(stk_pipeline_skip_epoch(NULL, &err), "p is NULL");
	REFUSED(stk_pipeline_end_within(NULL, 0, &err), "p is NULL");
	REFUSED(stk_pipeline_lead(NULL, "r", &err), "p is NULL");
	REFUSED(stk_pipeline_lead(p, NULL, &err), "reader is NULL");
	REFUSED(stk_pipeline_reader_meta(NULL, NULL, &meta, &err), "p is NULL");
	REFUSED(stk_pipeline_reader_meta(p, NULL, NULL, &err), "out is NULL");
	REFUSED(stk_pipeline_explain(NULL, true, &text, &err), "p is NULL");
	REFUSED(stk_pipeline_explain(p, true, NULL, &err), "out is NULL");
	REFUSED(stk_pipeline_save(NULL, &text, &err), "p is NULL");
	REFUSED(stk_pipeline_save(p, NULL, &err), "out is NULL");
	REFUSED(stk_pipeline_restore(NULL, "{}", 2, &err), "p is NULL");
	REFUSED(stk_pipeline_restore(p, NULL, 2, &err), "state is NULL");
	VALUE(stk_pipeline_output_desc(NULL, 0, &desc), STK_INVALID);
	VALUE(stk_pipeline_output_desc(p, 0, NULL), STK_INVALID);
	VALUE(stk_pipeline_output_desc(p, INT32_MAX, &desc), STK_INVALID);
	VALUE(stk_pipeline_output_desc(p, -1, &desc), STK_INVALID);
	VALUE(stk_pipeline_outputs(NULL), 0);
	VALUE(stk_pipeline_readers(NULL), 0);
	VALUE(stk_pipeline_reader_name(NULL, 0), NULL);
	VALUE(stk_pipeline_reader_name(p, INT32_MAX), NULL);
	VALUE(stk_pipeline_reader_name(p, INT32_MIN), NULL);
	VALUE(stk_pipeline_class_name(NULL, NULL, 0), NULL);
	VALUE(stk_pipeline_class_name(p, "none", 0), NULL);
	VALUE(stk_pipeline_class_name(p, NULL, INT64_MAX), NULL);
	VALUE(stk_pipeline_class_name(p, NULL, INT64_MIN), NULL);
	VALUE(stk_pipeline_reader_skipped(NULL, NULL, &skipped), 0);
	VALUE(stk_pipeline_reader_skipped(p, NULL, NULL), 0);
	VALUE(stk_pipeline_failed_batch(NULL, NULL, NULL, NULL), false);
	VALUE(stk_pipeline_failed_batch(p, NULL, NULL, NULL), false);
	VALUE(stk_pipeline_bad_samples(NULL), 0);
	VALUE(stk_pipeline_bad_sample(NULL, 0, &err), false);
	VALUE(stk_pipeline_bad_sample(p, INT64_MAX, NULL), false);
	VALUE(stk_pipeline_bad_sample(p, INT64_MIN, &err), false);
	VALUE(stk_pipeline_counters(NULL, NULL, 0), 0);
	assert_true(stk_pipeline_counters(p, NULL, SIZE_MAX) > 0);
	VALUE(stk_pipeline_spans(NULL, NULL, 5), 0);
	FINE(stk_pipeline_cancel(NULL));
	assert_int_equal(stk_pipeline_next(NULL, &b, NULL), STK_INVALID);
	assert_null(b);
	stk_pipeline_destroy(p);
	FINE(stk_pipeline_destroy(NULL));
	VALUE(stk_pipeline_destroy_within(NULL, 0, &err), STK_OK);
}

/* ---- batches ---- */

static void test_batches(void **state)
{
	(void)state;
	const struct stk_pipeline_config c = config_of();
	struct stk_pipeline *p = new_pipeline(&c);
	struct stk_batch *b, *copy = NULL;
	void *capsule = NULL;
	char bytes[8] = {0};
	assert_int_equal(stk_pipeline_next(p, &b, &err), STK_OK);
	VALUE(stk_batch_ref(NULL), NULL);
	FINE(stk_batch_unref(NULL));
	FINE(stk_batch_unref(&copy));
	VALUE(stk_batch_ref_output(NULL, 0), NULL);
	VALUE(stk_batch_ref_output(b, INT32_MAX), NULL);
	VALUE(stk_batch_ref_output(b, -1), NULL);
	FINE(stk_batch_unref_output(NULL, 0));
	FINE(stk_batch_unref_output(&copy, 0));
	VALUE(stk_batch_size(NULL), 0);
	VALUE(stk_batch_planned(NULL), 0);
	VALUE(stk_batch_outputs(NULL), 0);
	VALUE(stk_batch_output(NULL, 0), NULL);
	VALUE(stk_batch_output(b, INT32_MIN), NULL);
	VALUE(stk_batch_sample(NULL, 0), NULL);
	VALUE(stk_batch_sample(b, INT32_MAX), NULL);
	VALUE(stk_batch_epoch(NULL), -1);
	VALUE(stk_batch_step(NULL), -1);
	VALUE(stk_batch_is_last(NULL), false);
	REFUSED(stk_batch_dlpack(NULL, 0, 0, &capsule, &err), "b is NULL");
	REFUSED(stk_batch_dlpack(b, 0, 0, NULL, &err), "out is NULL");
	REFUSED(stk_batch_dlpack(b, INT32_MAX, 0, &capsule, &err), "no sample");
	REFUSED(stk_batch_dlpack(b, 0, INT32_MAX, &capsule, &err), "no sample");
	REFUSED(stk_batch_dlpack(b, 0, -2, &capsule, &err), "no sample -2");
	REFUSED(stk_batch_copy(b, 0, -2, bytes, 8, &err), "no sample -2");
	REFUSED(stk_batch_to_host(b, 0, INT32_MIN, &copy, &err), "no sample");
	assert_null(copy);
	REFUSED(stk_batch_copy(NULL, 0, 0, bytes, 8, &err), "b is NULL");
	REFUSED(stk_batch_copy(b, 0, 0, NULL, 8, &err), "to is NULL");
	REFUSED(stk_batch_copy(b, 0, 0, bytes, 8, &err), "8 bytes are given");
	REFUSED(stk_batch_copy(b, -1, 0, bytes, 8, &err), "no sample");
	REFUSED(stk_batch_to_host(NULL, 0, 0, &copy, &err), "b is NULL");
	REFUSED(stk_batch_to_host(b, 0, 0, NULL, &err), "out is NULL");
	REFUSED(stk_batch_to_host(b, 7, 0, &copy, &err), "no sample");
	REFUSED(stk_batch_use_stream(NULL, 0, &err), "b is NULL");
	REFUSED(stk_batch_use_stream_output(NULL, 0, 0, &err), "b is NULL");
	REFUSED(stk_batch_use_stream_output(b, INT32_MIN, 0, &err), "no output");
	stk_batch_unref(&b);
	stk_pipeline_destroy(p);
	const struct stk_tensor good = {.data = bytes, .desc = {.dtype = STK_UINT8, .ndim = 1, .shape = {8}}};
	struct stk_tensor t = good;
	REFUSED(stk_batch_wrap(&t, 1, NULL, NULL, NULL, &err), "out is NULL");
	REFUSED(stk_batch_wrap(NULL, 1, NULL, NULL, &b, &err), "samples is NULL");
	REFUSED(stk_batch_wrap(&t, INT32_MIN, NULL, NULL, &b, &err), "count");
	t.desc.dtype = (enum stk_dtype)77;
	REFUSED(stk_batch_wrap(&t, 1, NULL, NULL, &b, &err), "type");
	t = good, t.desc.ndim = INT32_MAX;
	REFUSED(stk_batch_wrap(&t, 1, NULL, NULL, &b, &err), "shape");
	t = good, t.desc.shape[0] = INT64_MIN;
	REFUSED(stk_batch_wrap(&t, 1, NULL, NULL, &b, &err), "shape");
	t = good, t.desc.ndim = 2, t.desc.shape[0] = t.desc.shape[1] = INT64_MAX;
	REFUSED(stk_batch_wrap(&t, 1, NULL, NULL, &b, &err), "shape");
	t = good, memset(t.desc.layout, 'H', sizeof t.desc.layout);
	REFUSED(stk_batch_wrap(&t, 1, NULL, NULL, &b, &err), "shape");
	t = good, t.data = NULL;
	REFUSED(stk_batch_wrap(&t, 1, NULL, NULL, &b, &err), "NULL");
	assert_null(b);
	VALUE(stk_desc_bytes(NULL), -1);
	VALUE(stk_desc_elements(NULL), -1);
	VALUE(stk_desc_elements(&(struct stk_desc){.ndim = STK_MAX_DIMS + 1}), -1);
	VALUE(stk_dtype_size((enum stk_dtype)77), 0);
	VALUE(stk_dtype_size((enum stk_dtype)INT_MIN), 0);
	assert_string_equal(stk_dtype_name((enum stk_dtype) - 9), "?");
	note("stk_dtype_name");
}

/* ---- storage ---- */

static void forget(void *user)
{
	++*(int *)user;
}

static enum stk_status fetch(void *user, const struct stk_fetch_call *call, struct stk_error *e)
{
	(void)user, (void)call, (void)e;
	return STK_NOT_FOUND;
}

static void test_storages(void **state)
{
	(void)state;
	struct stk_storage *s = NULL;
	struct stk_storage_report report = {.size = sizeof report};
	const struct stk_storage_config good = {.size = sizeof good};
	REFUSED(stk_storage_create(NULL, NULL, &err), "out is NULL");
#define SET(field, value, says)                                                                                                            \
	do {                                                                                                                               \
		struct stk_storage_config c = good;                                                                                        \
		c.field = value;                                                                                                           \
		REFUSED(stk_storage_create(&c, &s, &err), says);                                                                           \
		assert_null(s);                                                                                                            \
	} while (0)
	SET(size, 1, "size");
	SET(addressing, (enum stk_addressing)77, "addressing");
	SET(addressing, (enum stk_addressing) - 1, "addressing");
	SET(threads, INT32_MIN, "threads");
	SET(threads, INT32_MAX, "threads");
	SET(requests, -1, "requests");
	SET(retries, -2, "retries");
	SET(fetch_threads, INT32_MAX, "fetch_threads");
	SET(fetch_threads, 513, "it must be from 0 to 512");
	SET(connect_ms, INT64_MAX, "connect_ms");
	SET(first_byte_ms, INT64_MAX / 1000000 + 1, "first_byte_ms");
	SET(stall_ms, INT64_MIN, "stall_ms");
	SET(cache_limit, 5, "cache_limit");
	SET(cache_limit, INT64_MIN, "cache_limit");
	SET(endpoint, "", "endpoint");
#undef SET
	int forgotten = 0;
	struct stk_storage_config c = good;
	c.fetch = fetch, c.cache = "/tmp/stk-no-cache";
	REFUSED(stk_storage_create(&c, &s, &err), "fetch_name is missing");
	c = good;
	c.fetch = fetch, c.fetch_done = forget, c.fetch_user = &forgotten, c.threads = -5;
	REFUSED(stk_storage_create(&c, &s, &err), "threads");
	REFUSED(stk_storage_create(&c, NULL, &err), "out is NULL");
	assert_int_equal(forgotten, 2); /* once per call, as documented in the header */
	assert_int_equal(stk_storage_create(NULL, &s, &err), STK_OK);
	REFUSED(stk_storage_probe(NULL, "s3://b", &report, &err), "s is NULL");
	REFUSED(stk_storage_probe(s, NULL, &report, &err), "uri is NULL");
	REFUSED(stk_storage_probe(s, "s3://b", NULL, &err), "out is NULL");
	char bytes[1 + STK_STORAGE_SLACK];
	struct stk_storage_object object = {.size = 1};
	REFUSED(stk_storage_read(NULL, "s3://b/k", 0, 1, bytes, NULL, &err), "s is NULL");
	REFUSED(stk_storage_read(s, NULL, 0, 1, bytes, NULL, &err), "uri is NULL");
	REFUSED(stk_storage_read(s, "s3://b/k", 0, 1, NULL, NULL, &err), "data is NULL");
	REFUSED(stk_storage_read(s, "s3://b/k", -1, 1, bytes, NULL, &err), "-1");
	REFUSED(stk_storage_read(s, "s3://b/k", 0, 1, bytes, &object, &err), "stk_storage_object.size");
	assert_int_equal(stk_storage_read(s, "/tmp", 0, 1, bytes, NULL, &err), STK_UNSUPPORTED);
	struct stk_storage_object known = {.size = sizeof known}, now = known;
	REFUSED(stk_storage_read_again(NULL, "s3://b/k", 0, 1, bytes, &known, &now, &err), "s is NULL");
	REFUSED(stk_storage_read_again(s, NULL, 0, 1, bytes, &known, &now, &err), "uri is NULL");
	REFUSED(stk_storage_read_again(s, "s3://b/k", 0, 1, NULL, &known, &now, &err), "data is NULL");
	REFUSED(stk_storage_read_again(s, "s3://b/k", 0, 1, bytes, NULL, &now, &err), "known is NULL");
	REFUSED(stk_storage_read_again(s, "s3://b/k", 0, 1, bytes, &known, NULL, &err), "object is NULL");
	REFUSED(stk_storage_read_again(s, "s3://b/k", 0, 1, bytes, &object, &now, &err), "stk_storage_object.size");
	REFUSED(stk_storage_read_again(s, "s3://b/k", 0, 1, bytes, &known, &object, &err), "stk_storage_object.size");
	assert_int_equal(stk_storage_read_again(s, "/tmp", 0, 1, bytes, &known, &now, &err), STK_UNSUPPORTED);
	REFUSED(stk_storage_find(NULL, NULL, 0, NULL, NULL, &err), "s is NULL");
	REFUSED(stk_storage_find_entries(NULL, NULL, 0, NULL, NULL, &err), "s is NULL");
	VALUE(stk_storage_tag(NULL), 0);
	VALUE(stk_storage_counters(NULL, NULL, 9), 0);
	assert_true(stk_storage_counters(s, NULL, 9) > 0);
	VALUE(stk_storage_ref(NULL), NULL);
	stk_storage_unref(&s);
	FINE(stk_storage_unref(NULL));
	FINE(stk_storage_unref(&s));
	VALUE(stk_fetch_room(NULL, 1), NULL);
	VALUE(stk_fetch_room(&(struct stk_fetch_call){0}, 1), NULL);
	struct stk_cache_facts facts = {.size = 1};
	REFUSED(stk_cache_list(NULL, NULL, NULL, NULL, &err), "dir is NULL");
	REFUSED(stk_cache_verify(NULL, NULL, NULL, NULL, &err), "dir is NULL");
	REFUSED(stk_cache_clear(NULL, NULL, NULL, &err), "dir is NULL");
	REFUSED(stk_cache_list("/tmp", NULL, NULL, &facts, &err), "size");
}

/* ---- functions that need no pipeline ---- */

static void test_indexes(void **state)
{
	(void)state;
	struct stk_index_options index = {.size = sizeof index};
	REFUSED(stk_index_write(NULL, NULL, &err), "options is NULL");
	REFUSED(stk_index_write(&index, NULL, &err), "root is NULL");
	index.root = folder;
	REFUSED(stk_index_write(&index, NULL, &err), "path is NULL");
	struct stk_tar_index_options tars = {.size = sizeof tars, .path_count = 2};
	int32_t unindexed;
	REFUSED(stk_tar_index(NULL, NULL, &err), "o is NULL");
	REFUSED(stk_tar_index(&tars, NULL, &err), "paths");
	tars.paths = (const char *const[]){"a.tar", NULL};
	REFUSED(stk_tar_index(&tars, NULL, &err), "path 1 is NULL");
	REFUSED(stk_tar_unindexed(&tars, &unindexed, &err), "path 1 is NULL");
	REFUSED(stk_tar_unindexed(NULL, &unindexed, &err), "o is NULL");
	REFUSED(stk_tar_unindexed(&tars, NULL, &err), "unindexed is NULL");
	REFUSED(stk_index_folder(NULL, &err), "out is NULL");
	REFUSED(stk_storage_unsigned_name(NULL, NULL, &err), "name is NULL");
	REFUSED(stk_storage_unsigned_name("a", NULL, &err), "out is NULL");
	tars.path_count = INT32_MIN;
	REFUSED(stk_tar_index(&tars, NULL, &err), "paths");
	struct stk_pack_options pack = {.size = sizeof pack};
	REFUSED(stk_pack(NULL, NULL, &err), "o is NULL");
	REFUSED(stk_pack(&pack, NULL, &err), "source is NULL");
	pack.source = folder;
	REFUSED(stk_pack(&pack, NULL, &err), "folder is NULL");
	pack.folder = "/tmp/stoker-never-made";
	pack.threads = INT32_MAX;
	REFUSED(stk_pack(&pack, NULL, &err), "threads");
	pack.threads = 0, pack.shard_bytes = INT64_MIN;
	REFUSED(stk_pack(&pack, NULL, &err), "shard_bytes");
	pack.shard_bytes = 0, pack.seed = INT64_MIN;
	REFUSED(stk_pack(&pack, NULL, &err), "seed");
	assert_int_equal(access(pack.folder, F_OK), -1);
}

static void test_images(void **state)
{
	(void)state;
	struct stk_image_decoder *d;
	struct stk_image_header header = {.size = sizeof header};
	struct stk_image_request q = {.size = sizeof q, .path = "/none.jpg"};
	int64_t shape[3];
	char byte = 0;
	assert_int_equal(stk_image_decoder_create(&d, &err), STK_OK);
	REFUSED(stk_image_decoder_create(NULL, &err), "out is NULL");
	REFUSED(stk_image_open(NULL, &q, shape, &err), "d is NULL");
	REFUSED(stk_image_open(d, NULL, shape, &err), "request is NULL");
	REFUSED(stk_image_open(d, &q, NULL, &err), "shape is NULL");
	q.type = (enum stk_image_type)77;
	REFUSED(stk_image_open(d, &q, shape, &err), "type of the request is 77");
	q = (struct stk_image_request){.size = sizeof q, .bytes = SIZE_MAX};
	REFUSED(stk_image_open(d, &q, shape, &err), "path or data");
	REFUSED(stk_image_read(NULL, &byte, 1, &err), "d is NULL");
	REFUSED(stk_image_read(d, NULL, 1, &err), "to is NULL");
	/* a read of the wrong size does not close the image */
	char path[512];
	file_path(folder, 0, path, sizeof path);
	q = (struct stk_image_request){.size = sizeof q, .path = path};
	assert_int_equal(stk_image_open(d, &q, shape, &err), STK_OK);
	const size_t size = (size_t)(shape[0] * shape[1] * shape[2]) * stk_dtype_size(stk_image_dtype(d));
	uint8_t *pixels = malloc(size);
	assert_non_null(pixels);
	REFUSED(stk_image_read(d, pixels, size - 1, &err), "bytes are given");
	assert_int_equal(stk_image_read(d, pixels, size, &err), STK_OK);
	assert_int_equal(stk_image_read(d, pixels, size, &err), STK_STATE);
	err = (struct stk_error){0};
	free(pixels);
	stk_image_decoder_destroy(d);
	FINE(stk_image_decoder_destroy(NULL));
	REFUSED(stk_image_inspect(NULL, 1, &header, &err), "needs data");
	REFUSED(stk_image_inspect("a", 1, NULL, &err), "needs data");
	VALUE(stk_image_named(NULL), false);
	VALUE(stk_image_dtype(NULL), STK_NO_DTYPE);
	assert_string_equal(stk_image_glob(0), "*.jpg");
	VALUE(stk_image_glob(SIZE_MAX), NULL);
	assert_string_equal(stk_video_glob(0), "*.mp4");
	VALUE(stk_video_glob(SIZE_MAX), NULL);
}

static void test_watch(void **state)
{
	(void)state;
	char left[] = "left", *text = left;
	REFUSED(stk_watch(0, NULL, &err), "json is NULL");
	REFUSED(stk_watch(-1, &text, &err), "above 0");
	REFUSED(stk_watch(INT64_MIN, &text, &err), "above 0");
	assert_null(text);
	VALUE(stk_watch(INT64_MAX, &text, &err), STK_NOT_FOUND);
}

static void test_nuscenes(void **state)
{
	(void)state;
	struct stk_nuscenes_view *v = NULL;
	struct stk_nuscenes_info info = {.size = sizeof info};
	struct stk_nuscenes_options o = {.size = sizeof o, .root = "/none", .version = "v1.0-mini"};
	struct stk_desc desc;
	char text[8];
	REFUSED(stk_nuscenes_open(NULL, &v, &err), "o is NULL");
	REFUSED(stk_nuscenes_open(&o, NULL, &err), "out is NULL");
	o.split = INT32_MIN;
	REFUSED(stk_nuscenes_open(&o, &v, &err), "split");
	o.split = 0, o.cameras = (const char *const[]){NULL}, o.camera_count = 1;
	REFUSED(stk_nuscenes_open(&o, &v, &err), "NULL");
	o = (struct stk_nuscenes_options){.size = sizeof o};
	REFUSED(stk_nuscenes_open(&o, &v, &err), "root");
	REFUSED(stk_nuscenes_describe(NULL, &info, &err), "v is NULL");
	REFUSED(stk_nuscenes_field(NULL, 0, 0, "boxes", &desc, NULL, 0, &err), "v is NULL");
	VALUE(stk_nuscenes_sequence(NULL, 0), -1);
	VALUE(stk_nuscenes_scene(NULL, 0), NULL);
	VALUE(stk_nuscenes_camera(NULL, 0), NULL);
	VALUE(stk_nuscenes_class(NULL, 0), NULL);
	VALUE(stk_nuscenes_file(NULL, 0, 0, text, sizeof text), 0);
	FINE(stk_nuscenes_close(NULL));
}

static void test_catalogue_and_machine(void **state)
{
	(void)state;
	struct stk_op_info op;
	struct stk_arg_info arg;
	struct stk_library_info library;
	size_t i;
	char text[64] = "";
	VALUE(stk_op_info(0, NULL), false);
	VALUE(stk_op_info(SIZE_MAX, &op), false);
	VALUE(stk_op_arg(0, 0, NULL), false);
	VALUE(stk_op_arg(SIZE_MAX, 0, &arg), false);
	VALUE(stk_op_arg(0, INT32_MIN, &arg), false);
	VALUE(stk_op_arg(0, INT32_MAX, &arg), false);
	VALUE(stk_op_find(NULL, &i), false);
	VALUE(stk_op_find("flip", NULL), false);
	FINE(stk_op_explain_missing(NULL, text, sizeof text));
	assert_true(text[0]);
	FINE(stk_op_explain_missing("flap", NULL, 9));
	FINE(stk_op_explain_missing("flap", text, 0));
	assert_true(stk_op_count() > 0);
	note("stk_op_count");
	REFUSED(stk_machine_probe(NULL, &err), "stk_machine");
	REFUSED(stk_cuda_probe(NULL, &err), "stk_cuda_info");
	REFUSED(stk_gpu_info(INT32_MIN, NULL, &err), "stk_gpu_info");
	VALUE(stk_library_info(0, NULL), false);
	VALUE(stk_library_info(SIZE_MAX, &library), false);
	assert_string_equal(stk_status_name((enum stk_status) - 1), "UNKNOWN");
	assert_string_equal(stk_status_name((enum stk_status)INT_MAX), "UNKNOWN");
	assert_string_equal(stk_status_text((enum stk_status)99), "unknown status");
	note("stk_status_name"), note("stk_status_text");
	char url[] = "http://me:pw@h/x";
	FINE(stk_text_make_safe(NULL, sizeof url));
	FINE(stk_text_make_safe(url, 0));
	assert_string_equal(url, "http://me:pw@h/x");
}

/* Only checks what is refused; test_ragged.c tests the results. */
static void test_ragged(void **state)
{
	(void)state;
	struct stk_ragged *r;
	assert_int_equal(stk_ragged_create(STK_RAGGED_CPU, 1, &r, &err), STK_OK);
	REFUSED(stk_ragged_create(STK_RAGGED_CPU, 1, NULL, &err), "out is NULL");
	REFUSED(stk_ragged_gather(NULL, &(struct stk_gather){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_gather(r, NULL, NULL, &err), "g is NULL");
	REFUSED(stk_ragged_scatter(NULL, &(struct stk_scatter){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_scatter(r, NULL, NULL, &err), "s is NULL");
	REFUSED(stk_ragged_scatter_add(NULL, &(struct stk_scatter_add){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_scatter_add(r, NULL, NULL, &err), "s is NULL");
	REFUSED(stk_ragged_keep(NULL, &(struct stk_keep){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_keep(r, NULL, NULL, &err), "k is NULL");
	REFUSED(stk_ragged_mask_to_index(NULL, &(struct stk_mask){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_mask_to_index(r, NULL, NULL, &err), "m is NULL");
	REFUSED(stk_ragged_index_to_mask(NULL, 1, 1, &(struct stk_indices){0}, NULL, NULL, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_index_to_mask(r, 1, 1, NULL, NULL, NULL, NULL, &err), "index is NULL");
	REFUSED(stk_ragged_pack(r, NULL, NULL, 1, 1, 1, NULL, &err), "samples is NULL");
	REFUSED(stk_ragged_assign(NULL, &(struct stk_assign){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_assign(r, NULL, NULL, &err), "a is NULL");
	VALUE(stk_ragged_assign_workspace(NULL, &(struct stk_assign){0}), 0);
	VALUE(stk_ragged_assign_workspace(r, NULL), 0);
	REFUSED(stk_ragged_cost(NULL, &(struct stk_cost){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_cost(r, NULL, NULL, &err), "c is NULL");
	REFUSED(stk_ragged_focal(NULL, &(struct stk_focal){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_focal(r, NULL, NULL, &err), "f is NULL");
	REFUSED(stk_ragged_l1(NULL, &(struct stk_l1){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_l1(r, NULL, NULL, &err), "l is NULL");
	REFUSED(stk_ragged_heatmap(NULL, &(struct stk_heatmap){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_heatmap(r, NULL, NULL, &err), "h is NULL");
	REFUSED(stk_ragged_polyline(NULL, &(struct stk_polyline){0}, NULL, &err), "r is NULL");
	REFUSED(stk_ragged_polyline(r, NULL, NULL, &err), "p is NULL");
	stk_ragged_destroy(r);
	FINE(stk_ragged_destroy(NULL));
}

static void test_audio(void **state)
{
	(void)state;
	static const uint8_t wav[] = "RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\x08\0\0\0\1\0\2\0\3\0\4";
	struct stk_audio *a = NULL;
	struct stk_audio_info info = {.size = sizeof info};
	struct stk_audio_request q = {.size = sizeof q, .data = wav, .bytes = sizeof wav};
	int16_t to[4];
	REFUSED(stk_audio_open(NULL, &a, &info, &err), "request is NULL");
	REFUSED(stk_audio_open(&q, NULL, &info, &err), "out is NULL");
	REFUSED(stk_audio_open(&q, &a, NULL, &err), "info is NULL");
	info.size = 0;
	REFUSED(stk_audio_open(&q, &a, &info, &err), "whose size is set");
	info.size = sizeof info;
	assert_int_equal(stk_audio_open(&q, &a, &info, &err), STK_OK);
	assert_int_equal(info.frames, 4);
	REFUSED(stk_audio_read(NULL, 0, 4, STK_INT16, false, to, sizeof to, &err), "a is NULL");
	REFUSED(stk_audio_read(a, 0, 4, STK_INT16, false, NULL, sizeof to, &err), "to is NULL");
	REFUSED(stk_audio_read(a, 0, 5, STK_INT16, false, to, sizeof to, &err), "the file has 4");
	REFUSED(stk_audio_read(a, 0, 4, (enum stk_dtype)77, false, to, sizeof to, &err), "type 77");
	assert_int_equal(stk_audio_read(a, 0, 4, STK_INT16, false, to, sizeof to, &err), STK_OK);
	assert_true(to[0] == 1 && to[3] == 4);
	stk_audio_close(a);
	FINE(stk_audio_close(NULL));
	VALUE(stk_audio_named(NULL), false);
}

/* Only checks what is refused; test_media.c tests the results. */
static void test_videos(void **state)
{
	(void)state;
	struct stk_video *v = NULL;
	struct stk_video_info info = {.size = sizeof info};
	struct stk_video_frame frame;
	struct stk_video_request q = {.size = sizeof q};
	const int64_t first = 0;
	const uint8_t *pixels;
	int32_t height, width;
	REFUSED(stk_video_open(NULL, &v, &err), "request is NULL");
	REFUSED(stk_video_open(&q, NULL, &err), "out is NULL");
	REFUSED(stk_video_open(&q, &v, &err), "one of path, data and read");
	q.path = "a", q.data = "b", q.bytes = 1;
	REFUSED(stk_video_open(&q, &v, &err), "one of path, data and read");
	q = (struct stk_video_request){.path = "a"};
	REFUSED(stk_video_open(&q, &v, &err), "size is set");
	REFUSED(stk_video_describe(NULL, &info, &err), "v is NULL");
	REFUSED(stk_video_frame(NULL, 0, &frame, &err), "v is NULL");
	REFUSED(stk_video_read(NULL, &first, 1, false, &pixels, &height, &width, &err), "v is NULL");
	int64_t offset, length;
	struct stk_video_device *d = NULL;
	REFUSED(stk_video_range(NULL, 0, 1, &offset, &length, &err), "v is NULL");
	REFUSED(stk_video_device_open(0, NULL, &err), "out is NULL");
	VALUE(stk_video_device_open(INT32_MAX, &d, &err) == STK_OK, false);
	assert_null(d);
	REFUSED(stk_video_use_gpu(NULL, d, &err), "v is NULL");
	REFUSED(stk_video_read_gpu(NULL, &first, 1, false, 0, NULL, &err), "v is NULL");
	assert_string_equal(stk_video_why_on_cores(NULL), "");
	note("stk_video_why_on_cores(");
	FINE(stk_video_device_close(NULL));
	VALUE(stk_video_shown(NULL, 0), -1);
	VALUE(stk_video_counters(NULL, NULL, 0), 0);
	FINE(stk_video_close(NULL));
}

static void test_none_is_left_out(void **state)
{
	(void)state;
	char name[128];
	FILE *f = fopen(STK_TEST_SYMBOLS, "r");
	int missing = 0;
	assert_non_null(f);
	while (fscanf(f, "%127s", name) == 1)
		if (!was_called(name)) {
			print_message("%s is called by no test above\n", name);
			missing++;
		}
	fclose(f);
	assert_int_equal(missing, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_sources),
		cmocka_unit_test(test_configurations),
		cmocka_unit_test(test_large_settings),
		cmocka_unit_test(test_pipelines),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_storages),
		cmocka_unit_test(test_indexes),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_watch),
		cmocka_unit_test(test_nuscenes),
		cmocka_unit_test(test_catalogue_and_machine),
		cmocka_unit_test(test_ragged),
		cmocka_unit_test(test_audio),
		cmocka_unit_test(test_videos),
		cmocka_unit_test(test_none_is_left_out),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
