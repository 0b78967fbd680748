/* SPDX-License-Identifier: Apache-2.0
 * Fusion: different ways to write the usual operations all compile to one pass (as stk_pipeline_explain shows, and counters confirm), operations that must
 * stay separate do, and neither fusion nor the instruction set changes a bit of the result. */
#include "test.h"

#include "graphs.h"
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

/* ---- different spellings of the usual operations ---- */

static struct stk_graph *crop_in_the_decoder(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image_random_crop", .name = "Crop", .in = {in.file});
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32)});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {resized}, .args = {stk_arg_node("mirror", in.flip.node), NORM});
	OUTPUTS(in.g, normalized, in.label);
	return in.g;
}

static struct stk_graph *crop_in_the_resize(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value resized = ADD(in.g, "random_resized_crop", .name = "Crop", .in = {image}, .args = {INTS("size", 24, 32)});
	struct value flipped = ADD(in.g, "flip", .in = {resized}, .args = {stk_arg_node("horizontal", in.flip.node)});
	struct value normalized = ADD(in.g, "normalize", .in = {flipped},
		.args = {INTS("axes", 0, 1), FLOATS("mean", 123.5, 116.25, 103.0), FLOATS("stddev", 58.0, 57.0, 57.5)});
	struct value planes = ADD(in.g, "transpose", .in = {normalized}, .args = {INTS("perm", 2, 0, 1)});
	OUTPUTS(in.g, planes, in.label);
	return in.g;
}

static struct stk_graph *twisted(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image_random_crop", .name = "Crop", .in = {in.file});
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32)});
	struct value twisted = ADD(in.g, "color_twist", .in = {resized},
		.args = {stk_arg_float("brightness", 1.2), stk_arg_float("hue", 20.0), stk_arg_float("saturation", 0.8)});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {twisted}, .args = {stk_arg_node("mirror", in.flip.node), NORM});
	OUTPUTS(in.g, normalized, in.label);
	return in.g;
}

static struct stk_graph *cropped(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {image},
		.args = {INTS("crop", 24, 32), stk_arg_float("crop_pos_x", 0.25), stk_arg_node("mirror", in.flip.node), NORM});
	OUTPUTS(in.g, normalized, in.label);
	return in.g;
}

static struct stk_graph *padded(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value window = ADD(in.g, "random_crop", .name = "Crop", .in = {image},
		.args = {INTS("size", 24, 32), INTS("padding", 20, 11, 9, 5), INTS("fill_values", 9, 8, 7)});
	struct value flipped = ADD(in.g, "flip", .in = {window}, .args = {stk_arg_node("horizontal", in.flip.node)});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {flipped}, .args = {NORM});
	OUTPUTS(in.g, normalized, in.label);
	return in.g;
}

static struct stk_graph *warped(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value warped = ADD(in.g, "warp_affine", .in = {image},
		.args = {FLOATS("matrix", 0.9, 0.2, 3.0, -0.2, 0.9, 5.0), INTS("size", 24, 32), stk_arg_float("fill_value", 7.0)});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {warped}, .args = {stk_arg_node("mirror", in.flip.node), NORM});
	OUTPUTS(in.g, normalized, in.label);
	return in.g;
}

static struct stk_graph *window_in_decoder(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image_random_crop", .name = "Crop", .in = {in.file});
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32), stk_arg_int("interp_type", 0)});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {resized}, .args = {stk_arg_node("mirror", in.flip.node), NORM});
	OUTPUTS(in.g, normalized, in.label);
	return in.g;
}

static struct stk_graph *window_in_resize(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value resized = ADD(
		in.g, "random_resized_crop", .name = "Crop", .in = {image}, .args = {INTS("size", 24, 32), stk_arg_int("interp_type", 0)});
	struct value flipped = ADD(in.g, "flip", .in = {resized}, .args = {stk_arg_node("horizontal", in.flip.node)});
	struct value normalized = ADD(in.g, "normalize", .in = {flipped},
		.args = {INTS("axes", 0, 1), FLOATS("mean", 123.5, 116.25, 103.0), FLOATS("stddev", 58.0, 57.0, 57.5)});
	struct value planes = ADD(in.g, "transpose", .in = {normalized}, .args = {INTS("perm", 2, 0, 1)});
	OUTPUTS(in.g, planes, in.label);
	return in.g;
}

static struct stk_graph *crop_in_decoder(void)
{
	struct begun in = begin_graph(folder);
	struct value image =
		ADD(in.g, "decoders.image_crop", .in = {in.file}, .args = {INTS("crop", 24, 32), stk_arg_float("crop_pos_x", 0.25)});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {image}, .args = {stk_arg_node("mirror", in.flip.node), NORM});
	OUTPUTS(in.g, normalized, in.label);
	return in.g;
}

static struct stk_graph *crop_apart(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value window = ADD(in.g, "crop", .in = {image}, .args = {INTS("crop", 24, 32), stk_arg_float("crop_pos_x", 0.25)});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {window}, .args = {stk_arg_node("mirror", in.flip.node), NORM});
	OUTPUTS(in.g, normalized, in.label);
	return in.g;
}

static struct stk_graph *read_twice(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image_random_crop", .in = {in.file});
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32)});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {resized}, .args = {NORM});
	struct value normalized_2 = ADD(in.g, "crop_mirror_normalize", .in = {resized}, .args = {stk_arg_int("mirror", 1), NORM});
	OUTPUTS(in.g, normalized, normalized_2, in.label);
	return in.g;
}

static struct stk_graph *an_output_too(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image_random_crop", .in = {in.file});
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32)});
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {resized}, .args = {NORM});
	OUTPUTS(in.g, normalized, resized, in.label);
	return in.g;
}

static struct stk_graph *measured_mean(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value resized = ADD(in.g, "random_resized_crop", .in = {image}, .args = {INTS("size", 24, 32)});
	struct value normalized = ADD(in.g, "normalize", .in = {resized}, .args = {INTS("axes", 0, 1)});
	struct value flipped = ADD(in.g, "flip", .in = {normalized});
	OUTPUTS(in.g, flipped, in.label);
	return in.g;
}

static struct stk_graph *two_samplers(void)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image_random_crop", .in = {in.file});
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 48, 40)});
	struct value warped = ADD(in.g, "warp_affine", .in = {resized},
		.args = {FLOATS("matrix", 0.9, 0.2, 3.0, -0.2, 0.9, 5.0), INTS("size", 24, 32), stk_arg_float("fill_value", 7.0)});
	OUTPUTS(in.g, warped, in.label);
	return in.g;
}

typedef struct stk_graph *graph_maker(void);

struct spelling {
	const char *what;
	graph_maker *make;
	const char *pass[MAX_OPS]; /* the expected pass: a text "operator: step" for each of its steps, in order */
};

static const struct spelling spellings[] = {
	{"image_random_crop, resize, crop_mirror_normalize", crop_in_the_decoder,
		{"decoders.image_random_crop: decode the window", "resize: sample", "crop_mirror_normalize: pointwise"}},
	{"image, random_resized_crop, flip, normalize, transpose", crop_in_the_resize,
		{"decoders.image: decode the window", "random_resized_crop: sample", "flip: geometry", "normalize: pointwise",
			"transpose: geometry"}},
	{"color_twist between", twisted,
		{"decoders.image_random_crop: decode the window", "resize: sample", "color_twist: pointwise",
			"crop_mirror_normalize: pointwise"}},
	{"crop only", cropped, {"decoders.image: decode the window", "crop_mirror_normalize: pointwise"}},
	{"random_crop with padding", padded,
		{"decoders.image: decode the window", "random_crop: window, fill", "flip: geometry", "crop_mirror_normalize: pointwise"}},
	{"warp_affine", warped, {"decoders.image: decode the window", "warp_affine: sample", "crop_mirror_normalize: pointwise"}},
};
enum { SPELLINGS = sizeof spellings / sizeof *spellings };

/* ---- running the spellings ---- */

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

static struct result run_graph(graph_maker *make)
{
	struct result r = {0};
	struct stk_error err = {0};
	struct stk_context *ctx;
	struct stk_graph *g = make();
	struct stk_pipeline *p;
	struct stk_batch *b;
	enum stk_status s;
	const struct stk_context_config cc = {.size = sizeof cc, .threads = 2};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = FILES, .device_id = -1, .seed = 3};
	assert_int_equal(stk_context_create(&cc, &ctx, NULL), STK_OK);
	if (stk_pipeline_create(ctx, g, &c, &p, &err))
		fail_msg("%s", err.message);
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

static struct result run_with(graph_maker *make, const char *variable, const char *value)
{
	setenv(variable, value, 1);
	struct result r = run_graph(make);
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

/* Returns the number of groups of the plan that form a pass. *found: set to the first of these groups, which belongs to the plan. */
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
		struct result r = run_graph(spellings[i].make);
		assert_one_pass(&spellings[i], r.plan);
		/* the counters agree with the plan: one pass per decoded sample, including samples that were begun ahead of need */
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
		struct result want = run_graph(s->make);
		struct result apart = run_with(s->make, "STOKER_FUSE", "0");
		struct result plain = run_with(s->make, "STOKER_CPU", "c");
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
	/* In both graphs the operator that draws windows is named "Crop", so both draw the same windows. As in DALI, the two operators differ in what a filter
	 * reads across a window's border: the image, or the border's pixel again. Sampling of the nearest pixel reads nothing outside the window. */
	struct result a = run_graph(window_in_decoder), b = run_graph(window_in_resize);
	/* Number of images that are equal in both graphs; others differ where a position is on a pixel's edge, since window and image have different origins. */
	int equal = 0;
	for (size_t i = 0; i < FILES; i++) {
		assert_int_equal(a.run.samples[i].id, b.run.samples[i].id);
		equal += a.run.samples[i].hash == b.run.samples[i].hash;
	}
	assert_true(equal >= FILES * 9 / 10);
	free_result(&a);
	free_result(&b);
	a = run_graph(spellings[3].make);
	b = run_graph(crop_in_decoder);
	assert_same(&a, &b, "crop only", "cropping in the decoder");
	free_result(&b);
	b = run_graph(crop_apart);
	assert_same(&a, &b, "crop only", "a crop of its own");
	free_result(&a);
	free_result(&b);
}

/* ---- operators that must not be fused ---- */

static void assert_apart(graph_maker *make, int passes, const char *what)
{
	struct result r = run_graph(make), apart = run_with(make, "STOKER_FUSE", "0");
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
	/* the resized image has two readers, and both need all of it */
	assert_apart(read_twice, 3, "a value read twice");
	/* the value is also an output */
	assert_apart(an_output_too, 2, "a value that is an output");
	/* the operator measures the sample itself, so it cannot be a step of a pass */
	assert_apart(measured_mean, 2, "a measured mean");
	/* a second sampler starts a second pass */
	assert_apart(two_samplers, 2, "two samplers");
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
