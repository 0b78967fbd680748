/* SPDX-License-Identifier: Apache-2.0
 * Measures the fixed cost that each field adds to a sample, apart from the size of its data: takes batches of samples with many small fields, which a source
 * in C provides.
 *
 *     fields [FIELDS [BATCHES [BATCH]]]
 *
 * Prints processor time per sample and per field, for fields that the pipeline does not change, and for fields that each go through one operator.
 * To count the instructions per batch, compare two runs of different lengths under valgrind --tool=callgrind. */
#include "stoker/stoker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 999, VALUES = 32 };

struct source {
	int32_t fields;
	float values[VALUES];
};

static void check(enum stk_status s, const struct stk_error *err)
{
	if (s) {
		fprintf(stderr, "fields: %s\n", err->message);
		exit(1);
	}
}

static double processor_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum stk_status pull(void *user, const struct stk_feed_request *request, struct stk_feed *feed, struct stk_error *err)
{
	(void)err;
	struct source *s = user;
	for (int32_t i = 0; i < s->fields * request->count; i++)
		feed->tensors[i] = (struct stk_tensor){.desc = {STK_FLOAT, 2, {VALUES / 4, 4}, ""}, .data = s->values};
	feed->count = request->count;
	return STK_OK;
}

static void measure(struct stk_context *ctx, struct source *s, bool operators, int batches, int32_t batch)
{
	struct stk_error err = {0};
	struct stk_graph *g = NULL;
	struct stk_pipeline *p = NULL;
	struct stk_node source, out;
	const struct stk_arg args[] = {stk_arg_int("num_outputs", s->fields), stk_arg_int("dtype", STK_FLOAT), stk_arg_int("ndim", 2)};
	const struct stk_pipeline_config config = {.size = sizeof config, .batch_size = batch, .device_id = -1};
	check(stk_graph_create(&g, &err), &err);
	check(stk_graph_add(g, "external_source", NULL, 0, args, 3, NULL, &source, &err), &err);
	const struct stk_source_callbacks callbacks = {.pull = pull, .user = s};
	check(stk_graph_set_source(g, source, &callbacks, &err), &err);
	for (int32_t k = 0; k < s->fields; k++) {
		const struct stk_node field = {source.op, k};
		out = field;
		if (operators)
			check(stk_graph_add(g, "wrap_angle", &field, 1, NULL, 0, NULL, &out, &err), &err);
		check(stk_graph_output(g, out, &err), &err);
	}
	check(stk_pipeline_create(ctx, g, &config, &p, &err), &err);
	stk_graph_destroy(g);
	enum { WARM = 20 };
	double from = 0;
	for (int k = 0; k < WARM + batches; k++) {
		struct stk_batch *b = NULL;
		if (k == WARM)
			from = processor_seconds();
		check(stk_pipeline_next(p, &b, &err), &err);
		stk_batch_unref(&b);
	}
	double each = 1e6 * (processor_seconds() - from) / batches / batch;
	printf("%s: %.2f us a sample, %.3f us a field\n", operators ? "one operator a field" : "untouched           ", each,
		each / s->fields);
	stk_pipeline_destroy(p);
}

int main(int argc, char **argv)
{
	struct source s = {.fields = argc > 1 ? atoi(argv[1]) : 200};
	int batches = argc > 2 ? atoi(argv[2]) : 500, batch = argc > 3 ? atoi(argv[3]) : 8;
	struct stk_error err = {0};
	struct stk_context *ctx = NULL;
	const struct stk_context_config config = {.size = sizeof config, .threads = 2};
	if (s.fields < 1 || s.fields > MOST || batches < 1 || batch < 1) {
		fprintf(stderr, "usage: fields [FIELDS [BATCHES [BATCH]]], at most %d fields\n", MOST);
		return 2;
	}
	check(stk_context_create(&config, &ctx, &err), &err);
	printf("%d fields of %zu bytes, batches of %d\n", s.fields, sizeof s.values, batch);
	measure(ctx, &s, false, batches, batch);
	measure(ctx, &s, true, batches, batch);
	stk_context_unref(&ctx);
	return 0;
}
