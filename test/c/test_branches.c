/* SPDX-License-Identifier: Apache-2.0
 * Branches: an operator in a branch only runs for the samples whose conditions hold, a merge writes each sample to the right place, and a graph is refused
 * if it reads a value that may not exist. */
#include "test.h"

#include "graphs.h"
#include "pipelines.h"

#include <stdlib.h>
#include <string.h>

enum { FILES = 23, BATCH = 7, SIDE = 500 };
static char *folder;

static int set_up(void **state)
{
	(void)state;
	folder = make_folder(FILES, 5);
	return folder == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

#define ON(value) .when = {{(value).node, true}}, .n_when = 1
#define OFF(value) .when = {{(value).node, false}}, .n_when = 1
#define TRUTH(g, value) ADD(g, "_truth", .in = {value})

/* ---- operators that run ---- */

struct opened {
	struct stk_context *ctx;
	struct stk_graph *g;
	struct stk_pipeline *p;
};

static struct opened open_graph(struct stk_graph *g, int32_t threads, bool no_fuse)
{
	struct opened o = {.g = g};
	struct stk_error err = {0};
	const struct stk_context_config cc = {.size = sizeof cc, .threads = threads};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = BATCH, .device_id = -1, .seed = 11, .no_fuse = no_fuse};
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

static struct value constant(struct stk_graph *g, int64_t value, const char *dtype)
{
	return ADD(g, "constant",
		.args = {INTS("idata", value), stk_arg_string("dtype", dtype), stk_arg_list("shape", STK_VALUE_INTS, NULL, 0)});
}

/* Makes a graph that gives a resized photograph if the coin is true, otherwise a black image. Outputs: the image, and the coin. */
static struct stk_graph *decodes_some(void)
{
	struct begun in = begin_graph(folder);
	struct value flip = TRUTH(in.g, in.flip);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file}, ON(flip));
	image = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", SIDE, SIDE)}, ON(flip));
	struct value black = ADD(in.g, "constant",
		.args = {INTS("idata", 0), INTS("shape", 1, 1, 3), stk_arg_string("dtype", "uint8"), stk_arg_string("layout", "HWC")},
		OFF(flip));
	black = ADD(in.g, "resize", .in = {black}, .args = {INTS("size", SIDE, SIDE)}, OFF(flip));
	OUTPUTS(in.g, ADD(in.g, "_merge", .in = {flip, image, black}), ADD(in.g, "copy", .in = {in.flip}));
	return in.g;
}

static void test_a_sample_runs_its_branch_alone(void **state)
{
	(void)state;
	struct opened o = open_graph(decodes_some(), 2, false);
	int taken = 0, count = 0;
	for (;;) {
		struct stk_batch *b = NULL;
		enum stk_status s = stk_pipeline_next(o.p, &b, NULL);
		if (s == STK_END)
			break;
		assert_int_equal(s, STK_OK);
		for (int32_t i = 0; i < stk_batch_size(b); i++, count++) {
			const struct stk_tensor *t = &stk_batch_output(b, 0)->samples[i];
			bool flip = *(int32_t *)stk_batch_output(b, 1)->samples[i].data, black = true;
			for (size_t k = 0; k < (size_t)SIDE * SIDE * 3 && black; k++)
				black = ((uint8_t *)t->data)[k] == 0;
			assert_int_equal(black, !flip);
			taken += flip;
		}
		stk_batch_unref(&b);
	}
	assert_int_equal(count, FILES);
	stk_pipeline_destroy(o.p); /* the counters include samples that were begun ahead of need, so run again without those */
	o.p = NULL;
	const struct stk_pipeline_config c = {
		.size = sizeof c, .batch_size = FILES, .device_id = -1, .seed = 11, .prefetch = 1, .max_batches = 1};
	assert_int_equal(stk_pipeline_create(o.ctx, o.g, &c, &o.p, NULL), STK_OK);
	struct stk_batch *b = NULL;
	assert_int_equal(stk_pipeline_next(o.p, &b, NULL), STK_OK);
	assert_true(taken > 0 && taken < FILES);
	assert_int_equal((int)pipeline_counter(o.p, "decodes"), taken);
	assert_true(pipeline_counter(o.p, "branch_skips") >= FILES);
	/* The scratch memory that was used is smaller than one image, so each branch has written its image directly into the batch. */
	assert_true(pipeline_counter(o.p, "scratch_bytes") < SIDE * SIDE * 3);
	stk_batch_unref(&b);
	close_opened(&o);
}

/* Makes a graph with nested branches, a value made before the branches that use it, operators in branches that need the whole batch, and a condition that is
 * computed late. */
static struct stk_graph *tangled(void)
{
	struct begun in = begin_graph(folder);
	struct stk_graph *g = in.g;
	struct value image = ADD(g, "decoders.image", .in = {in.file});
	image = ADD(g, "resize", .in = {image}, .args = {INTS("size", 24, 32)});
	struct value a = TRUTH(g, in.flip);
	struct value coin = ADD(g, "random.coin_flip", ON(a));
	struct value b = ADD(g, "_truth", .in = {coin}, ON(a));
	const struct stk_condition ab = {a.node, true}, bb = {b.node, true};
	struct value inner = ADD(g, "flip", .in = {image}, .when = {ab, bb}, .n_when = 2);
	inner = ADD(g, "_merge", .in = {b, inner, image}, ON(a));
	inner = ADD(g, "crop_mirror_normalize", .in = {inner}, .args = {INTS("crop", 9, 9), stk_arg_string("dtype", "uint8")}, ON(a));
	struct value angle = ADD(g, "random.uniform", .args = {FLOATS("range", 0.1, 0.9)}, OFF(a));
	struct value outer = ADD(g, "crop_mirror_normalize", .in = {image},
		.args = {INTS("crop", 9, 9), stk_arg_node("crop_pos_x", angle.node), stk_arg_string("dtype", "uint8")}, OFF(a));
	struct value merged = ADD(g, "_merge", .in = {a, inner, outer});
	struct value padded = ADD(g, "pad", .in = {merged}, .args = {INTS("align", 4)}, ON(a));
	OUTPUTS(g, ADD(g, "_merge", .in = {a, padded, merged}), ADD(g, "_merge", .in = {a, ADD(g, "flip", .in = {image}, ON(a)), image}));
	return g;
}

static void test_the_way_does_not_matter(void **state)
{
	(void)state;
	struct run want = {0};
	for (int k = 0; k < 4; k++) {
		struct opened o = open_graph(tangled(), 1 + k % 2 * 2, k >= 2);
		if (k == 3) { /* replaces the graph by one made from its JSON */
			char *json = NULL;
			struct stk_graph *again = NULL;
			assert_int_equal(stk_graph_serialize(o.g, &json, NULL), STK_OK);
			assert_int_equal(stk_graph_deserialize(json, strlen(json), &again, NULL), STK_OK);
			close_opened(&o);
			o = open_graph(again, 3, true);
			stk_text_free(json);
		}
		struct run got = drain_epochs(o.p, 2);
		close_opened(&o);
		if (!k) {
			want = got;
			continue;
		}
		assert_int_equal(want.count, got.count);
		for (size_t i = 0; i < got.count; i++)
			assert_true(want.samples[i].id == got.samples[i].id && want.samples[i].hash == got.samples[i].hash);
		free(got.samples);
	}
	free(want.samples);
}

static void test_explain_shows_conditions(void **state)
{
	(void)state;
	struct opened o = open_graph(tangled(), 1, false);
	char *text = NULL, *json = NULL;
	assert_int_equal(stk_pipeline_explain(o.p, false, &text, NULL), STK_OK);
	assert_int_equal(stk_pipeline_explain(o.p, true, &json, NULL), STK_OK);
	assert_non_null(strstr(text, ", when _truth and _truth\n"));
	assert_non_null(strstr(text, ", when not _truth\n"));
	assert_non_null(strstr(json, "\"wanted\": false"));
	stk_text_free(text);
	stk_text_free(json);
	close_opened(&o);
}

/* ---- graphs that are refused ---- */

static void refused(struct stk_graph *g, const char *op, const struct added_op *how, size_t n_in, const char *why)
{
	struct stk_node in[GRAPH_INPUTS], out;
	struct stk_error err = {0};
	const struct stk_graph_options options = {.when = how->when, .n_when = how->n_when, .where = "here.py:9"};
	for (size_t i = 0; i < n_in; i++)
		in[i] = how->in[i].node;
	assert_int_not_equal(stk_graph_add(g, op, in, n_in, NULL, 0, &options, &out, &err), STK_OK);
	if (!strstr(err.message, why))
		fail_msg("\"%s\" does not say \"%s\"", err.message, why);
}
#define REFUSED(g, op, n_in, why, ...) refused(g, op, &(struct added_op){__VA_ARGS__}, n_in, why)

static void test_what_may_not_exist_is_not_read(void **state)
{
	(void)state;
	struct begun in = begin_graph(folder);
	struct stk_graph *g = in.g;
	struct stk_error err = {0};
	struct value a = TRUTH(g, in.flip), b = TRUTH(g, ADD(g, "random.coin_flip", .gpu = false));
	struct value image = ADD(g, "decoders.image", .in = {in.file}, ON(a));
	REFUSED(g, "flip", 1, "read outside of that branch", .in = {image});
	REFUSED(g, "flip", 1, "read outside of that branch", .in = {image}, OFF(a));
	REFUSED(g, "flip", 1, "read outside of that branch", .in = {image}, ON(b));
	REFUSED(g, "flip", 1, "one bool a sample", .in = {image}, ON(in.flip));
	REFUSED(g, "flip", 1, "one bool a sample", .in = {image}, ON(in.file));
	REFUSED(g, "flip", 1, "not a value of this graph", .in = {image}, .when = {{{99, 0}, true}}, .n_when = 1);
	REFUSED(g, "_merge", 3, "read outside", .in = {a, in.label, image});
	REFUSED(g, "_merge", 3, "one bool", .in = {in.flip, in.label, in.label});
	REFUSED(g, "_merge", 3, "uint8 with 3 dims (HWC)", .in = {a, image, in.label});
	REFUSED(g, "_merge", 3, "the branches differ: constant gives int32 with 0 dims, constant gives float32 with 0 dims",
		.in = {a, constant(g, 1, "int32"), constant(g, 1, "float32")});
	REFUSED(g, "_truth", 1, "a scalar", .in = {image}, ON(a));
	struct value inside = ADD(g, "_truth", .in = {in.flip}, ON(a));
	REFUSED(g, "copy", 1, "read outside", .in = {in.label}, ON(inside));
	assert_int_equal(stk_graph_output(g, image.node, &err), STK_INVALID);
	OUTPUTS(g, ADD(g, "_merge", .in = {a, in.label, in.label}), ADD(g, "copy", .in = {in.flip}));
	stk_graph_destroy(g);
}

static void test_hostile_json(void **state)
{
	(void)state;
	static const char *const when[] = {"[1]", "[[0, 0]]", "[[0, 0, 1]]", "[[7, 0, true]]", "[[-1, 0, true]]", "{}",
		"[[0, 0, true], [0, 0, true]]", "[[1, 0, true]]"};
	for (size_t i = 0; i < sizeof when / sizeof *when; i++) {
		char text[512];
		struct stk_graph *g = NULL;
		snprintf(text, sizeof text,
			"{\"stoker_graph\": 1, \"operators\": [{\"op\": \"random.coin_flip\", \"inputs\": [], \"args\": {}}, {\"op\": \"copy\", \"inputs\": [[0, 0]], \"when\": %s, "
			"\"args\": {}}], \"outputs\": [[1, 0]]}",
			when[i]);
		assert_int_not_equal(stk_graph_deserialize(text, strlen(text), &g, NULL), STK_OK);
		assert_null(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_sample_runs_its_branch_alone),
		cmocka_unit_test(test_the_way_does_not_matter),
		cmocka_unit_test(test_explain_shows_conditions),
		cmocka_unit_test(test_what_may_not_exist_is_not_read),
		cmocka_unit_test(test_hostile_json),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
