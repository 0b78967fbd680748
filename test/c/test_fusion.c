/* SPDX-License-Identifier: Apache-2.0
 * Fusion: spellings of the usual work each compile to one pass (read off stk_pipeline_explain, and counted while it runs), what must stay apart
 * stays apart, and no choice of fusion or instruction set changes a bit. */
#include "test.h"

#include "pipelines.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 23, MAX_OPS = 8 };
static char *folder;

static int set_up(void **state)
{
	(void)state;
	folder = make_folder(FILES, 31);
	return folder == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	remove_folder(folder);
	return 0;
}

/* ---- spellings ---- */

#define READER "{\"op\": \"readers.file\", \"args\": {\"file_root\": \"%s\", \"random_shuffle\": true, \"tail\": \"keep\"}}"
#define COIN "{\"op\": \"random.coin_flip\", \"name\": \"Flip\"}"
#define OP(name, args) ", {\"op\": \"" name "\", " args "}"
#define FROM(i) "\"inputs\": [[" #i ", 0]], \"args\": "
#define SIZE "\"size\": [24, 32]"
#define NORM "\"mean\": [123.5, 116.25, 103.0], \"std\": [58.0, 57.0, 57.5]"
#define MIRROR "\"mirror\": {\"node\": [1, 0]}"
#define GRAPHS(ops, outputs) "{\"stoker_graph\": 1, \"operators\": [" READER ", " COIN ops "], \"outputs\": [" outputs ", [0, 1]]}"
#define GRAPH(ops, last) GRAPHS(ops, "[" last ", 0]")

struct spelling {
	const char *what, *json;
	const char *pass[MAX_OPS]; /* "operator: step" in order */
};

static const struct spelling spellings[] = {
	{"image_random_crop, resize, crop_mirror_normalize",
		GRAPH(OP("decoders.image_random_crop", "\"name\": \"Crop\", " FROM(0) "{}") OP("resize", FROM(2) "{" SIZE "}")
				OP("crop_mirror_normalize", FROM(3) "{" MIRROR ", " NORM "}"),
			"4"),
		{"decoders.image_random_crop: decode the window", "resize: sample", "crop_mirror_normalize: pointwise"}},
	{"image, random_resized_crop, flip, normalize, transpose",
		GRAPH(OP("decoders.image", FROM(0) "{}") OP("random_resized_crop", "\"name\": \"Crop\", " FROM(2) "{" SIZE "}")
				OP("flip", FROM(3) "{\"horizontal\": {\"node\": [1, 0]}}")
					OP("normalize", FROM(4) "{\"axes\": [0, 1], \"mean\": "
								"[123.5, 116.25, 103.0], \"stddev\": [58.0, 57.0, 57.5]}")
						OP("transpose", FROM(5) "{\"perm\": [2, 0, 1]}"),
			"6"),
		{"decoders.image: decode the window", "random_resized_crop: sample", "flip: geometry", "normalize: pointwise",
			"transpose: geometry"}},
	{"color_twist between",
		GRAPH(OP("decoders.image_random_crop", "\"name\": \"Crop\", " FROM(0) "{}") OP("resize", FROM(2) "{" SIZE "}")
				OP("color_twist", FROM(3) "{\"brightness\": 1.2, \"hue\": 20.0, \"saturation\": 0.8}")
					OP("crop_mirror_normalize", FROM(4) "{" MIRROR ", " NORM "}"),
			"5"),
		{"decoders.image_random_crop: decode the window", "resize: sample", "color_twist: pointwise",
			"crop_mirror_normalize: pointwise"}},
	{"crop only",
		GRAPH(OP("decoders.image", FROM(0) "{}")
				OP("crop_mirror_normalize", FROM(2) "{\"crop\": [24, 32], \"crop_pos_x\": 0.25, " MIRROR ", " NORM "}"),
			"3"),
		{"decoders.image: decode the window", "crop_mirror_normalize: pointwise"}},
	{"random_crop with padding",
		GRAPH(OP("decoders.image", FROM(0) "{}") OP("random_crop",
			      "\"name\": \"Crop\", " FROM(2) "{" SIZE ", \"padding\": [20, 11, 9, 5], \"fill_values\": [9, 8, 7]}")
				OP("flip", FROM(3) "{\"horizontal\": {\"node\": [1, 0]}}")
					OP("crop_mirror_normalize", FROM(4) "{" NORM "}"),
			"5"),
		{"decoders.image: decode the window", "random_crop: window, fill", "flip: geometry", "crop_mirror_normalize: pointwise"}},
	{"warp_affine",
		GRAPH(OP("decoders.image", FROM(0) "{}")
				OP("warp_affine", FROM(2) "{\"matrix\": [0.9, 0.2, 3.0, -0.2, 0.9, 5.0], " SIZE ", \"fill_value\": 7.0}")
					OP("crop_mirror_normalize", FROM(3) "{" MIRROR ", " NORM "}"),
			"4"),
		{"decoders.image: decode the window", "warp_affine: sample", "crop_mirror_normalize: pointwise"}},
};
enum { SPELLINGS = sizeof spellings / sizeof *spellings };

/* ---- running them ---- */

struct result {
	struct run run;
	char *plan;
	double passes, decodes;
};

static void free_result(struct result *r)
{
	free(r->run.samples);
	stk_text_free(r->plan);
}

static void keep_batch(struct result *r, struct stk_batch *b)
{
	size_t n = (size_t)stk_batch_size(b);
	r->run.samples = realloc(r->run.samples, (r->run.count + n) * sizeof *r->run.samples);
	for (int32_t i = 0; i < stk_batch_size(b); i++)
		r->run.samples[r->run.count++] = (struct run_sample){.id = stk_batch_sample(b, i)->id, .hash = hash_sample(b, i)};
}

static struct result run_json(const char *format)
{
	char json[4096];
	struct result r = {0};
	struct stk_error err = {0};
	struct stk_context *ctx;
	struct stk_graph *g;
	struct stk_pipeline *p;
	struct stk_batch *b;
	enum stk_status s;
	const struct stk_context_config cc = {.size = sizeof cc, .threads = 2};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = FILES, .device_id = -1, .seed = 3};
	snprintf(json, sizeof json, format, folder);
	assert_int_equal(stk_context_create(&cc, &ctx, NULL), STK_OK);
	if (stk_graph_deserialize(json, strlen(json), &g, &err) || stk_pipeline_create(ctx, g, &c, &p, &err))
		fail_msg("%s\n%s", err.message, json);
	assert_int_equal(stk_pipeline_explain(p, true, &r.plan, NULL), STK_OK);
	while ((s = stk_pipeline_next(p, &b, &err)) == STK_OK) {
		keep_batch(&r, b);
		stk_batch_unref(&b);
	}
	if (s != STK_END)
		fail_msg("%s", err.message);
	assert_int_equal(r.run.count, FILES);
	r.passes = pipeline_counter(p, "passes");
	r.decodes = pipeline_counter(p, "decodes");
	stk_pipeline_destroy(p);
	stk_graph_destroy(g);
	stk_context_unref(&ctx);
	return r;
}

static struct result run_with(const char *json, const char *variable, const char *value)
{
	setenv(variable, value, 1);
	struct result r = run_json(json);
	unsetenv(variable);
	return r;
}

static void assert_same(const struct result *a, const struct result *b, const char *spelling, const char *what)
{
	assert_int_equal(a->run.count, b->run.count);
	for (size_t i = 0; i < a->run.count; i++)
		if (a->run.samples[i].id != b->run.samples[i].id || a->run.samples[i].hash != b->run.samples[i].hash)
			fail_msg("%s: %s changes sample %zu (id %lld)", spelling, what, i, (long long)a->run.samples[i].id);
}

/* ---- plans ---- */

/* Groups of the plan that make a pass; *found: the first of them, borrowed. */
static int count_passes(const json_t *plan, const json_t **found)
{
	size_t l, c, k;
	json_t *level, *chain, *group;
	int n = 0;
	json_array_foreach (json_object_get(plan, "levels"), l, level)
		json_array_foreach (json_object_get(level, "chains"), c, chain)
			json_array_foreach (json_object_get(chain, "groups"), k, group)
				if (strstr(json_string_value(json_object_get(group, "kind")), "pass") && n++ == 0)
					*found = group;
	return n;
}

static json_t *load_plan(const char *text)
{
	json_error_t err;
	json_t *plan = json_loads(text, 0, &err);
	if (!plan)
		fail_msg("explain is no JSON: %s\n%s", err.text, text);
	return plan;
}

static void assert_one_pass(const struct spelling *s, const char *text)
{
	json_t *plan = load_plan(text);
	const json_t *pass = NULL;
	assert_true(json_is_true(json_object_get(plan, "fused")));
	if (count_passes(plan, &pass) != 1)
		fail_msg("%s: not one pass:\n%s", s->what, text);
	assert_string_equal(json_string_value(json_object_get(pass, "kind")), "decode + pass");
	const json_t *ops = json_object_get(pass, "operators");
	size_t n = 0;
	for (; n < MAX_OPS && s->pass[n]; n++) {
		char have[128];
		const json_t *op = json_array_get(ops, n);
		snprintf(have, sizeof have, "%s: %s", json_string_value(json_object_get(op, "name")),
			json_string_value(json_object_get(op, "step")));
		if (strcmp(have, s->pass[n]))
			fail_msg("%s: step %zu is \"%s\", not \"%s\"", s->what, n, have, s->pass[n]);
	}
	assert_int_equal(json_array_size(ops), n);
	json_decref(plan);
}

static void test_each_spelling_is_one_pass(void **state)
{
	(void)state;
	for (int i = 0; i < SPELLINGS; i++) {
		struct result r = run_json(spellings[i].json);
		assert_one_pass(&spellings[i], r.plan);
		/* what ran is what is shown: a pass for each decoded sample, whatever was begun ahead */
		assert_true(r.decodes >= FILES);
		assert_true(r.passes >= FILES && r.passes <= r.decodes);
		free_result(&r);
	}
}

static void test_no_choice_changes_a_bit(void **state)
{
	(void)state;
	for (int i = 0; i < SPELLINGS; i++) {
		const struct spelling *s = &spellings[i];
		struct result want = run_json(s->json);
		struct result apart = run_with(s->json, "STOKER_FUSE", "0");
		struct result plain = run_with(s->json, "STOKER_CPU", "c");
		assert_same(&want, &apart, s->what, "STOKER_FUSE=0");
		assert_same(&want, &plain, s->what, "STOKER_CPU=c");
		json_t *plan = load_plan(apart.plan);
		const json_t *pass;
		int passes = count_passes(plan, &pass);
		assert_true(json_is_false(json_object_get(plan, "fused")));
		assert_true(passes > 1);
		assert_true(apart.passes >= passes * FILES);
		json_decref(plan);
		free_result(&want);
		free_result(&apart);
		free_result(&plain);
	}
}

/* ---- spellings of the same work ---- */

static void test_spellings_of_the_same_windows_agree(void **state)
{
	(void)state;
	/* The operators that draw have one name, so they draw the same windows. Filters that reach over a window's border see the image there or the
	 * border, by spelling, as in DALI: the nearest pixel shows the window alone. */
	static const char window_in_decoder[] = GRAPH(OP("decoders.image_random_crop", "\"name\": \"Crop\", " FROM(0) "{}")
							      OP("resize", FROM(2) "{" SIZE ", \"interp_type\": 0}")
								      OP("crop_mirror_normalize", FROM(3) "{" MIRROR ", " NORM "}"),
		"4");
	static const char window_in_resize[] =
		GRAPH(OP("decoders.image", FROM(0) "{}")
				OP("random_resized_crop", "\"name\": \"Crop\", " FROM(2) "{" SIZE ", \"interp_type\": 0}")
					OP("flip", FROM(3) "{\"horizontal\": {\"node\": [1, 0]}}")
						OP("normalize", FROM(4) "{\"axes\": [0, 1], \"mean\": "
									"[123.5, 116.25, 103.0], \"stddev\": [58.0, 57.0, 57.5]}")
							OP("transpose", FROM(5) "{\"perm\": [2, 0, 1]}"),
			"6");
	struct result a = run_json(window_in_decoder), b = run_json(window_in_resize);
	int equal = 0; /* a position that falls on a pixel's edge may round to either side, since window and image have different origins */
	for (size_t i = 0; i < FILES; i++) {
		assert_int_equal(a.run.samples[i].id, b.run.samples[i].id);
		equal += a.run.samples[i].hash == b.run.samples[i].hash;
	}
	assert_true(equal >= FILES * 9 / 10);
	free_result(&a);
	free_result(&b);
	static const char crop_in_decoder[] = GRAPH(OP("decoders.image_crop", FROM(0) "{\"crop\": [24, 32], \"crop_pos_x\": 0.25}")
							    OP("crop_mirror_normalize", FROM(2) "{" MIRROR ", " NORM "}"),
		"3");
	static const char crop_apart[] =
		GRAPH(OP("decoders.image", FROM(0) "{}") OP("crop", FROM(2) "{\"crop\": [24, 32], \"crop_pos_x\": 0.25}")
				OP("crop_mirror_normalize", FROM(3) "{" MIRROR ", " NORM "}"),
			"4");
	a = run_json(spellings[3].json);
	b = run_json(crop_in_decoder);
	assert_same(&a, &b, "crop only", "cropping in the decoder");
	free_result(&b);
	b = run_json(crop_apart);
	assert_same(&a, &b, "crop only", "a crop of its own");
	free_result(&a);
	free_result(&b);
}

/* ---- what must stay apart ---- */

static void assert_apart(const char *json, int passes, const char *what)
{
	struct result r = run_json(json), apart = run_with(json, "STOKER_FUSE", "0");
	json_t *plan = load_plan(r.plan);
	const json_t *pass;
	if (count_passes(plan, &pass) != passes)
		fail_msg("%s: %d passes, not %d:\n%s", what, count_passes(plan, &pass), passes, r.plan);
	assert_same(&r, &apart, what, "STOKER_FUSE=0");
	json_decref(plan);
	free_result(&r);
	free_result(&apart);
}

static void test_what_must_stay_apart(void **state)
{
	(void)state;
	/* the resized image is read twice: both readers need it whole */
	assert_apart(GRAPHS(OP("decoders.image_random_crop", FROM(0) "{}") OP("resize", FROM(2) "{" SIZE "}") OP("crop_mirror_normalize",
				    FROM(3) "{" NORM "}") OP("crop_mirror_normalize", FROM(3) "{\"mirror\": 1, " NORM "}"),
			     "[4, 0], [5, 0]"),
		3, "a value read twice");
	/* it is an output too */
	assert_apart(GRAPHS(OP("decoders.image_random_crop", FROM(0) "{}") OP("resize", FROM(2) "{" SIZE "}")
				     OP("crop_mirror_normalize", FROM(3) "{" NORM "}"),
			     "[4, 0], [3, 0]"),
		2, "a value that is an output");
	/* measured on the sample itself: no step of a pass */
	assert_apart(GRAPH(OP("decoders.image", FROM(0) "{}") OP("random_resized_crop", FROM(2) "{" SIZE "}")
				     OP("normalize", FROM(3) "{\"axes\": [0, 1]}") OP("flip", FROM(4) "{}"),
			     "5"),
		2, "a measured mean");
	/* a second sampler starts a second pass */
	assert_apart(GRAPH(OP("decoders.image_random_crop", FROM(0) "{}") OP("resize", FROM(2) "{\"size\": [48, 40]}") OP(
				   "warp_affine", FROM(3) "{\"matrix\": [0.9, 0.2, 3.0, -0.2, 0.9, 5.0], " SIZE ", \"fill_value\": 7.0}"),
			     "4"),
		2, "two samplers");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_spelling_is_one_pass),
		cmocka_unit_test(test_no_choice_changes_a_bit),
		cmocka_unit_test(test_spellings_of_the_same_windows_agree),
		cmocka_unit_test(test_what_must_stay_apart),
	};
	return cmocka_run_group_tests_name("fusion", tests, set_up, tear_down);
}
