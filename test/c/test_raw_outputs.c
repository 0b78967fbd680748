/* SPDX-License-Identifier: Apache-2.0
 * Outputs that are unchanged bytes of files: they stay in the buffer that the source filled, and belong to the owner of the batch, even after the pipeline
 * and its sources are gone. Small outputs, outputs of one size, and outputs that are used twice are copied. */
#include "test.h"

#include "base/memory.h"
#include "exec/context.h"
#include "stoker/stoker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 24, BATCH = 8, EPOCHS = 64 };

/* "given://NUMBER": bytes that depend on the number and are available at once. */
struct given_source {
	size_t base, more;                        /* object i has base + i * more bytes */
	_Atomic(const uint8_t *) lies[N][EPOCHS]; /* address of each object's bytes in each epoch */
	_Atomic int reads[N];
};

static uint8_t given_byte(int id, size_t i)
{
	return (uint8_t)((size_t)id * 7 + i * 13 + (i >> 8));
}

static bool was_given(const struct given_source *s, int id, const uint8_t *data)
{
	bool given = false;
	for (int k = 0; k < EPOCHS; k++)
		given |= s->lies[id][k] == data;
	return given;
}

static bool give_now(void *source, struct stk_io *io, struct stk_request *r)
{
	struct given_source *s = source;
	int id = atoi(r->uri + strlen("given://"));
	r->size = s->base + (size_t)id * s->more;
	r->buffer = stk__buffer_take(io, r->size);
	uint8_t *data = stk__buffer_data(r->buffer);
	for (size_t i = 0; i < r->size; i++)
		data[i] = given_byte(id, i);
	memset(data + r->size, 0, 64);
	r->data = data;
	s->lies[id][s->reads[id]++ % EPOCHS] = data;
	r->status = STK_OK;
	return true;
}

static void submit(void *source, struct stk_io *io, struct stk_request *r)
{
	give_now(source, io, r);
	stk__io_finish(io, r, STK_OK);
}

static void nothing(void *source)
{
	(void)source;
}

static const struct stk_source_ops given_ops = {
	.scheme = "given", .try_now = give_now, .submit = submit, .cancel_all = nothing, .destroy = nothing};

/* Opens a pipeline with two outputs: the bytes, and the same bytes under another name, which must not share memory with the first. */
static struct stk_pipeline *open_given(struct given_source *s, struct stk_context **ctx)
{
	char names[N][24];
	const char *list[N];
	struct stk_graph *g;
	struct stk_node file, again;
	struct stk_pipeline *p;
	struct stk_error err = {0};
	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof names[i], "given://%d", i);
		list[i] = names[i];
	}
	const struct stk_arg named = stk_arg_string("layout", "N");
	const struct stk_arg reader = stk_arg_list("files", STK_VALUE_STRINGS, list, N);
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = BATCH, .device_id = -1};
	if (stk_context_create(NULL, ctx, &err) || stk__io_add_source(stk__storage_io((*ctx)->storage), &given_ops, s, &err) ||
		stk_graph_create(&g, &err) || stk_graph_add(g, "readers.file", NULL, 0, &reader, 1, NULL, &file, &err) ||
		stk_graph_add(g, "reinterpret", &file, 1, &named, 1, NULL, &again, &err) || stk_graph_output(g, file, &err) ||
		stk_graph_output(g, again, &err) || stk_pipeline_create(*ctx, g, &c, &p, &err))
		fail_msg("%s", err.message);
	stk_graph_destroy(g);
	return p;
}

static struct stk_batch *next_batch(struct stk_pipeline *p)
{
	struct stk_batch *b;
	struct stk_error err = {0};
	enum stk_status status;
	while ((status = stk_pipeline_next(p, &b, &err)) == STK_END)
		continue;
	if (status)
		fail_msg("%s", err.message);
	return b;
}

static const struct stk_tensor *sample_of(const struct stk_batch *b, int output, int i)
{
	return &stk_batch_output(b, output)->samples[i];
}

/* Returns how many samples of the first output are where the source put them; checks that each output has the right bytes, and its own memory. */
static int check_batch(struct stk_batch *b, const struct given_source *s)
{
	int handed_over = 0;
	for (int i = 0; i < BATCH; i++) {
		int id = (int)stk_batch_sample(b, i)->id;
		const struct stk_tensor *one = sample_of(b, 0, i), *two = sample_of(b, 1, i);
		handed_over += was_given(s, id, one->data);
		assert_false(was_given(s, id, two->data));
		assert_ptr_not_equal(one->data, two->data);
		assert_int_equal(one->desc.shape[0], s->base + (size_t)id * s->more);
		assert_int_equal(two->desc.shape[0], one->desc.shape[0]);
		for (size_t k = 0; k < (size_t)one->desc.shape[0]; k++)
			if (((const uint8_t *)one->data)[k] != given_byte(id, k) || ((const uint8_t *)two->data)[k] != given_byte(id, k))
				fail_msg("byte %zu of sample %d differs", k, id);
	}
	return handed_over;
}

static void test_bytes_are_handed_over(void **state)
{
	(void)state;
	/* The largest object is less than twice as large as the smallest one. Otherwise a small sample might be read into a large buffer of an earlier read, and
	* would then be copied, because the buffer is mostly empty. */
	struct given_source s = {.base = 40000, .more = 977};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_given(&s, &ctx);
	for (int k = 0; k < 4 * N / BATCH; k++) {
		struct stk_batch *b = next_batch(p);
		assert_int_equal(check_batch(b, &s), BATCH);
		for (int i = 0; i < BATCH; i++) { /* the consumer may write to its batch; this must not change the second output */
			memset(sample_of(b, 0, i)->data, 0xaa, (size_t)sample_of(b, 0, i)->desc.shape[0]);
			assert_int_equal(((uint8_t *)sample_of(b, 1, i)->data)[0], given_byte((int)stk_batch_sample(b, i)->id, 0));
		}
		stk_batch_unref(&b);
	}
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

static void test_they_outlive_pipeline_and_sources(void **state)
{
	(void)state;
	struct given_source s = {.base = 30000, .more = 501};
	struct stk_context *ctx;
	struct stk_batch *kept[2 * N / BATCH], *output;
	struct stk_pipeline *p = open_given(&s, &ctx);
	for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
		kept[k] = next_batch(p);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
		check_batch(kept[k], &s);
		output = stk_batch_ref_output(kept[k], 0);
		stk_batch_unref(&kept[k]);
		assert_int_equal(*(uint8_t *)sample_of(output, 0, 0)->data, given_byte((int)(k * BATCH % N), 0));
		stk_batch_unref_output(&output, 0);
	}
}

static void test_small_ones_are_copied(void **state)
{
	(void)state;
	struct given_source s = {.base = 100, .more = 10};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_given(&s, &ctx);
	for (int k = 0; k < N / BATCH; k++) {
		struct stk_batch *b = next_batch(p);
		assert_int_equal(check_batch(b, &s), 0);
		stk_batch_unref(&b);
	}
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

static void test_those_of_one_size_lie_dense(void **state)
{
	(void)state;
	struct given_source s = {.base = 40000, .more = 0};
	struct stk_context *ctx;
	struct stk_pipeline *p = open_given(&s, &ctx);
	for (int k = 0; k < 2 * N / BATCH; k++) {
		struct stk_batch *b = next_batch(p);
		check_batch(b, &s);
		assert_true(stk_batch_output(b, 0)->dense);
		for (int i = 1; i < BATCH; i++)
			assert_ptr_equal(sample_of(b, 0, i)->data, (uint8_t *)sample_of(b, 0, 0)->data + (size_t)i * s.base);
		stk_batch_unref(&b);
	}
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_are_handed_over),
		cmocka_unit_test(test_they_outlive_pipeline_and_sources),
		cmocka_unit_test(test_small_ones_are_copied),
		cmocka_unit_test(test_those_of_one_size_lie_dense),
	};
	return cmocka_run_group_tests_name("raw_outputs", tests, NULL, NULL);
}
