/* SPDX-License-Identifier: Apache-2.0
 * Operators whose result for a sample depends on all samples of its batch. The results must not depend on how the graph runs. These operators are fused in
 * passes like others, and a batch waits for all its samples only if an operator needs them. */
#include "test.h"

#include "graphs.h"
#include "pipelines.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 23 };
static char *folder;

static int set_up(void **state)
{
	(void)state;
	folder = make_folder(FILES, 77);
	return folder == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

/* Makes a graph with two outputs: the image, padded and then mapped to 2 x + 1; and the decoded image. */
static struct stk_graph *padded(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value out = ADD(in.g, "pad", .in = {image}, .args = {INTS("axes", 0, 1), stk_arg_int("fill_value", 9)});
	out = ADD(in.g, "crop_mirror_normalize", .in = {out},
		.args = {stk_arg_int("scale", 2), stk_arg_int("shift", 1), stk_arg_string("output_layout", "HWC")});
	OUTPUTS(in.g, out, image);
	return in.g;
}

/* Makes a graph with two operators in sequence that both need the whole batch. */
static struct stk_graph *twice(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value out = ADD(in.g, "pad", .in = {image}, .args = {INTS("axes", 0)});
	out = ADD(in.g, "pad", .in = {out}, .args = {INTS("axes", 1), INTS("align", 32)});
	out = ADD(in.g, "normalize", .in = {out}, .args = {stk_arg_bool("batch", true)});
	OUTPUTS(in.g, out, image);
	return in.g;
}

/* Makes a graph whose padded size is known in advance, so that no sample waits for the others. */
static struct stk_graph *known(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value out = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 30)});
	out = ADD(in.g, "pad", .in = {out}, .args = {INTS("align", 16, 16, 1)});
	out = ADD(in.g, "crop_mirror_normalize", .in = {out}, .args = {INTS("mean", 120)});
	OUTPUTS(in.g, out, image);
	return in.g;
}

/* ---- running ---- */

typedef struct stk_graph *graph_maker(void);

struct opened {
	struct stk_context *ctx;
	struct stk_graph *g;
	struct stk_pipeline *p;
};

static struct opened open_graph(graph_maker *make, int32_t threads, int32_t batch, bool no_fuse)
{
	struct opened o = {.g = make()};
	struct stk_error err = {0};
	const struct stk_context_config cc = {.size = sizeof cc, .threads = threads};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = batch, .device_id = -1, .seed = 3, .no_fuse = no_fuse};
	assert_int_equal(stk_context_create(&cc, &o.ctx, NULL), STK_OK);
	if (stk_pipeline_create(o.ctx, o.g, &c, &o.p, &err))
		fail_msg("%s", err.message);
	return o;
}

static void close_opened(struct opened *o)
{
	stk_pipeline_destroy(o->p);
	stk_graph_destroy(o->g);
	stk_context_unref(&o->ctx);
}

static struct run run_graph(graph_maker *make, int32_t threads, int32_t batch, bool no_fuse)
{
	struct opened o = open_graph(make, threads, batch, no_fuse);
	struct run r = drain_epochs(o.p, 2);
	close_opened(&o);
	return r;
}

static void assert_same(const struct run *want, struct run got, const char *what)
{
	assert_int_equal(want->count, got.count);
	for (size_t i = 0; i < got.count; i++)
		if (want->samples[i].id != got.samples[i].id || want->samples[i].hash != got.samples[i].hash)
			fail_msg("%s changes sample %zu", what, i);
	free(got.samples);
}

/* ---- tests ---- */

static void check_padded(const struct stk_tensor *t, const struct stk_tensor *from, const int64_t largest[2])
{
	assert_int_equal(t->desc.shape[0], largest[0]);
	assert_int_equal(t->desc.shape[1], largest[1]);
	const float *x = t->data;
	const uint8_t *y = from->data;
	for (int64_t h = 0; h < largest[0]; h++)
		for (int64_t w = 0; w < largest[1]; w++)
			for (int64_t c = 0; c < 3; c++) {
				bool inside = h < from->desc.shape[0] && w < from->desc.shape[1];
				float want = 2.f * (inside ? y[(h * from->desc.shape[1] + w) * 3 + c] : 9) + 1;
				if (*x++ != want)
					fail_msg("%g at %d, %d, %d, not %g", x[-1], (int)h, (int)w, (int)c, want);
			}
}

static void test_pads_to_the_largest_of_each_batch(void **state)
{
	(void)state;
	struct opened o = open_graph(padded, 2, 5, false);
	struct stk_batch *b;
	int batches = 0, differ = 0;
	int64_t before[2] = {0};
	while (stk_pipeline_next(o.p, &b, NULL) == STK_OK) {
		const struct stk_tensor_list *out = stk_batch_output(b, 0), *in = stk_batch_output(b, 1);
		int64_t largest[2] = {0};
		for (int32_t i = 0; i < in->count; i++)
			for (int d = 0; d < 2; d++)
				largest[d] = in->samples[i].desc.shape[d] > largest[d] ? in->samples[i].desc.shape[d] : largest[d];
		assert_true(out->dense);
		for (int32_t i = 0; i < in->count; i++)
			check_padded(&out->samples[i], &in->samples[i], largest);
		differ += batches++ && memcmp(before, largest, sizeof largest);
		memcpy(before, largest, sizeof largest);
		stk_batch_unref(&b);
	}
	assert_int_equal(batches, (FILES + 4) / 5);
	assert_true(differ); /* else the test would prove little: all samples have the same size */
	close_opened(&o);
}

static void test_results_do_not_depend_on_how(void **state)
{
	(void)state;
	graph_maker *const graphs[] = {padded, twice, known};
	for (int k = 0; k < 3; k++) {
		struct run want = run_graph(graphs[k], 1, 7, false);
		assert_int_equal(want.count, 2 * FILES);
		assert_same(&want, run_graph(graphs[k], 2, 7, false), "2 threads");
		assert_same(&want, run_graph(graphs[k], 5, 7, false), "5 threads");
		assert_same(&want, run_graph(graphs[k], 2, 7, true), "no fusion");
		setenv("STOKER_CPU", "c", 1);
		assert_same(&want, run_graph(graphs[k], 2, 7, false), "plain C");
		unsetenv("STOKER_CPU");
		free(want.samples);
	}
}

/* Reads the plan of a graph. gathers: the number of operators over the whole batch in each level, as "0 1 0"; last: the operators of the last group. */
static void read_plan(graph_maker *graph, char gathers[32], char last[128])
{
	struct opened o = open_graph(graph, 1, 4, false);
	char *text;
	json_error_t err;
	size_t l, k;
	json_t *level, *op;
	assert_int_equal(stk_pipeline_explain(o.p, true, &text, NULL), STK_OK);
	json_t *plan = json_loads(text, 0, &err);
	assert_non_null(plan);
	gathers[0] = last[0] = 0;
	json_array_foreach (json_object_get(plan, "levels"), l, level) {
		snprintf(gathers + strlen(gathers), 32 - strlen(gathers), "%s%d", l ? " " : "",
			(int)json_integer_value(json_object_get(level, "batch_operators")));
		const json_t *chains = json_object_get(level, "chains"), *chain = json_array_get(chains, json_array_size(chains) - 1);
		const json_t *groups = json_object_get(chain, "groups"), *group = json_array_get(groups, json_array_size(groups) - 1);
		last[0] = 0;
		json_array_foreach (json_object_get(group, "operators"), k, op)
			snprintf(last + strlen(last), 128 - strlen(last), "%s%s", k ? " " : "",
				json_string_value(json_object_get(op, "name")));
	}
	json_decref(plan);
	stk_text_free(text);
	close_opened(&o);
}

static void test_the_plan_shows_who_waits(void **state)
{
	(void)state;
	char gathers[32], last[128];
	read_plan(padded, gathers, last);
	assert_string_equal(gathers, "0 1 0");
	assert_string_equal(last, "pad crop_mirror_normalize");
	read_plan(twice, gathers, last);
	assert_string_equal(gathers, "0 1 0 1 0 1 0");
	read_plan(known, gathers, last);
	assert_string_equal(gathers, "0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pads_to_the_largest_of_each_batch),
		cmocka_unit_test(test_results_do_not_depend_on_how),
		cmocka_unit_test(test_the_plan_shows_who_waits),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
