/* SPDX-License-Identifier: Apache-2.0
 * Operators: the shapes and types that infer predicts for all samples agree with its result for one sample. Also tests the operators' helper functions. */
#include "test.h"

#include "graph/graph.h"
#include "op/geometry/random_crop_args.h"
#include "op/geometry/resize_args.h"
#include "op/op.h"
#include "op/tensor/arithmetic.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls by hand ---- */

struct bench {
	struct stk_graph *g;
	struct stk_arena arena;
	struct stk_tools tools;
	struct stk_tensor in[3], out[2];
	struct stk_call call;
	struct stk_error err;
	_Alignas(32) char state[4096];
};

static struct bench bench_open(const char *op, const struct stk_arg *args, size_t n)
{
	struct bench b = {0};
	const struct stk_op_def *def = stk__op_find(op);
	assert_non_null(def);
	assert_int_equal(stk_graph_create(&b.g, &b.err), STK_OK);
	void *values = stk__graph_alloc(b.g, def->args_size + 1);
	struct stk_arg_def a;
	for (int32_t k = 0; stk__op_arg_at(def, k, &a); k++) {
		enum stk_status s = stk__arg_set_default(b.g, &a, values, &b.err);
		for (size_t i = 0; i < n && s == STK_OK; i++)
			if (strcmp(args[i].name, a.name) == 0)
				s = stk__arg_set(b.g, &a, &args[i], values, &b.err);
		if (s)
			fail_msg("%s.%s: %s", op, a.name, b.err.message);
	}
	stk__arena_init(&b.arena);
	b.call = (struct stk_call){.def = def, .args = values, .n_out = def->outputs ? def->outputs : 1, .random = stk__random(5, 6, 7, 8)};
	return b;
}

static void bench_close(struct bench *b)
{
	stk__arena_destroy(&b->arena);
	stk_graph_destroy(b->g);
}

static enum stk_status bench_infer(struct bench *b, bool building)
{
	memset(b->state, 0, sizeof b->state);
	memset(b->out, 0, sizeof b->out);
	b->tools = (struct stk_tools){.arena = &b->arena, .cpu_jobs = {.arena = &b->arena}};
	b->call.in = b->in;
	b->call.out = b->out;
	b->call.state = b->state;
	b->call.tools = building ? NULL : &b->tools;
	return b->call.def->infer(&b->call, &b->err);
}

static enum stk_status bench_run(struct bench *b)
{
	enum stk_status s = bench_infer(b, false);
	if (s)
		return s;
	b->out[0].data = stk__arena_take(&b->arena, (size_t)stk_desc_bytes(&b->out[0].desc));
	return stk__op_run(&b->call, &b->err);
}

static void bench_input(struct bench *b, int i, void *data, enum stk_dtype dtype, const char *layout, int ndim, const int64_t *shape)
{
	b->in[i] = (struct stk_tensor){data, {.dtype = dtype, .ndim = ndim}};
	for (int d = 0; d < ndim; d++)
		b->in[i].desc.shape[d] = shape[d];
	strcpy(b->in[i].desc.layout, layout);
	b->call.n_in = b->call.n_in > i + 1 ? b->call.n_in : i + 1;
}

/* ---- predicted shapes and types agree with the results ---- */

#define INTS(name, ...) stk_arg_list(name, STK_VALUE_INTS, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)
#define FLOATS(name, ...) stk_arg_list(name, STK_VALUE_FLOATS, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / 8)
#define ARGS(...) (const struct stk_arg[]){__VA_ARGS__}, sizeof((const struct stk_arg[]){__VA_ARGS__}) / sizeof(struct stk_arg)

static void check_beforehand(const char *op, const struct stk_arg *args, size_t n, const char *layout, int known)
{
	static const int64_t extents[] = {12, 34, 3, 2};
	struct bench b = bench_open(op, args, n);
	int64_t shape[4], hidden[4];
	int ndim = (int)strlen(layout), found = 0;
	for (int d = 0; d < ndim; d++) {
		shape[d] = layout[d] == 'H' ? extents[0] : layout[d] == 'W' ? extents[1] : layout[d] == 'C' ? extents[2] : extents[3];
		hidden[d] = layout[d] == 'C' ? shape[d] : -1;
	}
	bench_input(&b, 0, NULL, STK_UINT8, layout, ndim, hidden);
	if (bench_infer(&b, true))
		fail_msg("%s of %s: %s", op, layout, b.err.message);
	struct stk_desc before = b.out[0].desc;
	uint8_t pixels[12 * 34 * 3 * 2] = {0};
	bench_input(&b, 0, pixels, STK_UINT8, layout, ndim, shape);
	if (bench_infer(&b, false))
		fail_msg("%s of %s: %s", op, layout, b.err.message);
	const struct stk_desc *after = &b.out[0].desc;
	assert_int_equal(before.dtype, after->dtype);
	assert_int_equal(before.ndim, after->ndim);
	assert_string_equal(before.layout, after->layout);
	for (int d = 0; d < after->ndim; d++) {
		found += before.shape[d] >= 0;
		if (before.shape[d] != after->shape[d] && before.shape[d] != -1)
			fail_msg("%s of %s: extent %d was %lld beforehand and is %lld", op, layout, d, (long long)before.shape[d],
				(long long)after->shape[d]);
	}
	if (found != known)
		fail_msg("%s of %s: %d extents are known beforehand, not %d", op, layout, found, known);
	bench_input(&b, 0, NULL, STK_NO_DTYPE, "", 0, NULL);
	b.in[0].desc.ndim = -1;
	if (bench_infer(&b, true))
		fail_msg("%s of a tensor that nothing is known of: %s", op, b.err.message);
	bench_close(&b);
}

static void test_beforehand_agrees(void **state)
{
	(void)state;
	static const char *const layouts[] = {"HWC", "FHWC"};
	for (int i = 0; i < 2; i++) {
		const char *l = layouts[i];
		check_beforehand("resize", ARGS(FLOATS("size", 20, 30)), l, 3);
		check_beforehand("resize", ARGS(stk_arg_float("resize_x", 7)), l, 1);
		check_beforehand("resize", ARGS(stk_arg_float("resize_x", 7), stk_arg_string("mode", "stretch")), l, 2);
		check_beforehand("resize", ARGS(stk_arg_float("resize_shorter", 7)), l, 1);
		check_beforehand("resize", ARGS(FLOATS("size", 20.5, 1000), FLOATS("max_size", 50)), l, 3);
		check_beforehand("random_resized_crop", ARGS(stk_arg_int("size", 24)), l, 3);
		check_beforehand("random_crop", ARGS(INTS("size", 24, 40), stk_arg_int("padding", 3)), l, 3);
		check_beforehand("crop", ARGS(FLOATS("crop", 5, 6)), l, 3);
		check_beforehand("crop", ARGS(stk_arg_float("crop_w", 5.9)), l, 2);
		check_beforehand("slice", ARGS(INTS("start", 1, 2), INTS("shape", 5, 6)), l, 3);
		check_beforehand("slice", ARGS(FLOATS("rel_start", .1, .2), INTS("shape", 5, 6)), l, 3);
		check_beforehand("slice", ARGS(FLOATS("rel_start", .1, .2), FLOATS("rel_end", .5, .6)), l, 1);
		check_beforehand("crop_mirror_normalize", ARGS(FLOATS("crop", 5, 6), stk_arg_bool("pad_output", true)), l, 3);
		check_beforehand("warp_affine", ARGS(FLOATS("matrix", 1, 0, 0, 0, 1, 0), FLOATS("size", 20, 30)), l, 3);
		check_beforehand("flip", NULL, 0, l, 1);
		check_beforehand("transpose", NULL, 0, l, 1);
		check_beforehand("color_twist", NULL, 0, l, 1);
		check_beforehand("brightness_contrast", ARGS(stk_arg_string("dtype", "float32")), l, 1);
		check_beforehand(
			"color_space_conversion", ARGS(stk_arg_string("image_type", "RGB"), stk_arg_string("output_type", "GRAY")), l, 1);
		check_beforehand("cast", ARGS(stk_arg_string("dtype", "float32")), l, 1);
		check_beforehand("normalize", NULL, 0, l, 1);
		check_beforehand("copy", NULL, 0, l, 1);
		check_beforehand("stack", NULL, 0, l, 2);
		check_beforehand("stack", ARGS(stk_arg_int("axis", -1), stk_arg_string("axis_name", "X")), l, 2);
		check_beforehand("cat", ARGS(stk_arg_string("axis_name", "W")), l, 1);
		check_beforehand("expand_dims", ARGS(INTS("axes", 1, 3), stk_arg_string("new_axis_names", "AB")), l, 3);
		check_beforehand("reinterpret", ARGS(FLOATS("rel_shape", -1), stk_arg_string("dtype", "uint8")), l, 0);
		check_beforehand("zeros_like", ARGS(stk_arg_string("dtype", "float32")), l, 1);
		check_beforehand("one_hot", ARGS(stk_arg_int("num_classes", 9)), l, 2);
		check_beforehand("shapes", NULL, 0, l, 1);
	}
	check_beforehand("pad", ARGS(INTS("axes", 0, 1), INTS("shape", 50, 50)), "HWC", 1);
	check_beforehand("reshape", ARGS(INTS("shape", -1, 3)), "HWC", 1);
	check_beforehand("_subscript", ARGS(INTS("kinds", 0, 1), INTS("lo", 1, 2), INTS("hi", INT64_MIN, 5), INTS("step", 1, 1)), "HWC", 1);
}

/* With per_frame, a tensor's layout is known before its dimensions. Checks that no operator treats such a tensor as an image of known size.
 * UndefinedBehaviorSanitizer checks the values that `classify` reads. */
static void test_classes_of_a_layout_without_dims(void **state)
{
	(void)state;
	struct stk_desc frames = {.dtype = STK_UINT8, .ndim = -1, .layout = "F"}, nothing = {.dtype = STK_UINT8, .ndim = -1};
	for (size_t i = 0; i < stk__op_total; i++) {
		const struct stk_op_def *def = stk__ops[i];
		if (!def->lower || !def->inputs.max)
			continue;
		struct bench b = bench_open(def->name, NULL, 0);
		unsigned a = stk__op_classes(def, b.call.args, &frames), n = stk__op_classes(def, b.call.args, &nothing);
		if (a != n)
			fail_msg("%s: classes %u of a tensor of frames, %u of one that nothing is known of", def->name, a, n);
		bench_close(&b);
	}
}

static void test_perm_names_each_dim_once(void **state)
{
	(void)state;
	const int64_t shape[] = {5, 4, 3}, bad[][3] = {{0, 1, -1}, {-1, -2, -3}, {0, 1, 1}, {0, 1, 3}, {0, 1, 33}, {INT64_MIN, 0, 1}};
	uint8_t pixels[5 * 4 * 3] = {0};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct stk_graph *g = NULL;
		struct stk_node in, out;
		struct stk_error err = {0};
		const int64_t ndim = 3;
		assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
		const struct stk_arg source = stk_arg_list("ndim", STK_VALUE_INTS, &ndim, 1),
				     perm = stk_arg_list("perm", STK_VALUE_INTS, bad[i], 3);
		assert_int_equal(stk_graph_add(g, "external_source", NULL, 0, &source, 1, NULL, &in, NULL), STK_OK);
		assert_int_equal(stk_graph_add(g, "transpose", &in, 1, &perm, 1, NULL, &out, &err), STK_INVALID);
		assert_non_null(strstr(err.message, "perm"));
		stk_graph_destroy(g);
	}
	struct bench b = bench_open("transpose", ARGS(INTS("perm", 0, 1, 1)));
	bench_input(&b, 0, pixels, STK_UINT8, "HWC", 3, shape);
	assert_int_equal(bench_infer(&b, false), STK_INVALID);
	bench_close(&b);
}

/* ---- windows ---- */

static void test_random_windows_keep_their_bounds(void **state)
{
	(void)state;
	struct stk_random r = stk__random(21, 0, 0, 0);
	const float full[2] = {0.08f, 1}, ratio[2] = {0.75f, 1.333333f}, small[2] = {0.2f, 0.3f}, wide[2] = {3, 4};
	const float *const areas[] = {full, small}, *const ratios[] = {ratio, wide};
	for (int i = 0; i < 20000; i++) {
		int32_t w = 1 + (int32_t)stk__random_below(&r, 700), h = 1 + (int32_t)stk__random_below(&r, 700);
		const float *area = areas[i & 1], *aspect = ratios[i >> 1 & 1];
		const struct stk_random_crop_args a = {{2, area}, {2, aspect}, 10, -1};
		struct stk_random draw = stk__random(22, 0, 0, i), again = draw;
		struct stk_rect c = stk__random_crop(&a, &draw, w, h), same = stk__random_crop(&a, &again, w, h);
		assert_memory_equal(&c, &same, sizeof c);
		if (c.w < 1 || c.h < 1 || c.x < 0 || c.y < 0 || c.x + c.w > w || c.y + c.h > h)
			fail_msg("window %d,%d %dx%d of %dx%d (position %d)", c.x, c.y, c.w, c.h, w, h, i);
		double share = (double)c.w * c.h / ((double)w * h), got = (double)c.w / c.h;
		double slack = 1.0 / c.w + 1.0 / c.h; /* allowance for rounding to whole pixels */
		if (c.w > 30 && c.h > 30 &&
			(share > area[1] * (1 + slack) || got > aspect[1] * (1 + slack) || got < aspect[0] * (1 - slack)))
			fail_msg("window %dx%d of %dx%d: share %g, aspect %g (position %d)", c.w, c.h, w, h, share, got, i);
	}
}

/* Compares with recorded values, because a change of the draws would change every resumed run. */
static void test_random_windows_are_frozen(void **state)
{
	(void)state;
	static const float area[2] = {0.08f, 1}, aspect[2] = {0.75f, 1.333333f};
	static const struct stk_rect want[] = {{96, 20, 279, 265}, {5, 0, 310, 356}, {125, 45, 355, 323}, {240, 140, 237, 232}};
	const struct stk_random_crop_args a = {{2, area}, {2, aspect}, 10, -1};
	for (int i = 0; i < 4; i++) {
		struct stk_random r = stk__random(1, 2, 3, i);
		struct stk_rect got = stk__random_crop(&a, &r, 500, 375);
		if (memcmp(&got, &want[i], sizeof got))
			fail_msg("window %d is {%d, %d, %d, %d}", i, got.x, got.y, got.w, got.h);
	}
}

static void test_crop_positions_round_as_dali(void **state)
{
	(void)state;
	/* 0.7 as a float32 is less than 0.7: 5 times that is rounded to 3. Halves are rounded away from zero. */
	static const struct {
		double pos;
		int64_t start;
	} cases[] = {{0.7, 3}, {0.5, 3}, {0.1, 1}, {0, 0}, {1, 5}, {0.3, 2}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct bench b = bench_open("crop", ARGS(FLOATS("crop", 1, 3), stk_arg_float("crop_pos_x", cases[i].pos)));
		int16_t row[8] = {0, 1, 2, 3, 4, 5, 6, 7};
		bench_input(&b, 0, row, STK_INT16, "HW", 2, (const int64_t[]){1, 8});
		assert_int_equal(bench_run(&b), STK_OK);
		assert_int_equal(((int16_t *)b.out[0].data)[0], cases[i].start);
		bench_close(&b);
	}
}

static void test_windows_outside(void **state)
{
	(void)state;
	int16_t row[4] = {1, 2, 3, 4};
	const int64_t shape[] = {4};
	struct bench b = bench_open("slice", ARGS(INTS("start", -2), INTS("end", 6), INTS("axes", 0),
						     stk_arg_string("out_of_bounds_policy", "pad"), FLOATS("fill_values", 9)));
	bench_input(&b, 0, row, STK_INT16, "", 1, shape);
	assert_int_equal(bench_run(&b), STK_OK);
	assert_memory_equal(b.out[0].data, ((const int16_t[]){9, 9, 1, 2, 3, 4, 9, 9}), 16);
	bench_close(&b);
	b = bench_open(
		"slice", ARGS(INTS("start", 2), INTS("end", 6), INTS("axes", -1), stk_arg_string("out_of_bounds_policy", "trim_to_shape")));
	bench_input(&b, 0, row, STK_INT16, "", 1, shape);
	assert_int_equal(bench_run(&b), STK_OK);
	assert_int_equal(b.out[0].desc.shape[0], 2);
	bench_close(&b);
	b = bench_open("slice", ARGS(INTS("start", 2), INTS("end", 6), INTS("axes", 0)));
	bench_input(&b, 0, row, STK_INT16, "", 1, shape);
	assert_int_equal(bench_run(&b), STK_SHAPE);
	assert_non_null(strstr(b.err.message, "2 .. 6"));
	assert_non_null(strstr(b.err.message, "trim_to_shape"));
	bench_close(&b);
}

/* ---- resize: sizes and regions ---- */

static void test_resize_extents(void **state)
{
	(void)state;
	static const struct {
		struct stk_arg args[3];
		int n, w, h; /* n: number of args; w, h: expected size for an image of 640 x 480 */
	} cases[] = {
		{{{"resize_x", STK_VALUE_FLOAT, {.f = 320}}}, 1, 320, 240},
		{{{"resize_shorter", STK_VALUE_FLOAT, {.f = 256}}}, 1, 341, 256},
		{{{"resize_longer", STK_VALUE_FLOAT, {.f = 256}}}, 1, 256, 192},
		{{{"resize_shorter", STK_VALUE_FLOAT, {.f = 256}}, {"max_size", STK_VALUE_FLOAT, {.f = 300}}}, 2, 300, 225},
		{{{"size", STK_VALUE_FLOAT, {.f = 100}}, {"mode", STK_VALUE_STRING, {.s = "not_larger"}}}, 2, 100, 75},
		{{{"size", STK_VALUE_FLOAT, {.f = 100}}, {"mode", STK_VALUE_STRING, {.s = "not_smaller"}}}, 2, 133, 100},
		{{{"resize_y", STK_VALUE_FLOAT, {.f = 100}}, {"mode", STK_VALUE_STRING, {.s = "stretch"}}}, 2, 640, 100},
		{{{"resize_y", STK_VALUE_FLOAT, {.f = 0.1}}}, 1, 1, 1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct bench b = bench_open("resize", cases[i].args, (size_t)cases[i].n);
		bench_input(&b, 0, NULL, STK_UINT8, "HWC", 3, (const int64_t[]){480, 640, 3});
		assert_int_equal(bench_infer(&b, false), STK_OK);
		if (b.out[0].desc.shape[1] != cases[i].w || b.out[0].desc.shape[0] != cases[i].h)
			fail_msg("case %zu: %lldx%lld, not %dx%d", i, (long long)b.out[0].desc.shape[1], (long long)b.out[0].desc.shape[0],
				cases[i].w, cases[i].h);
		bench_close(&b);
	}
}

static void test_resize_keeps_the_exact_scale(void **state)
{
	(void)state;
	struct bench b = bench_open("resize", ARGS(stk_arg_float("resize_shorter", 256)));
	bench_input(&b, 0, NULL, STK_UINT8, "HWC", 3, (const int64_t[]){480, 640, 3});
	assert_int_equal(bench_infer(&b, false), STK_OK);
	const struct stk_resize *r = (const void *)b.state;
	/* 640 * 256 / 480 is 341.33: the region shrinks about its centre by 341 / 341.33 */
	assert_float_equal(r->roi_x1 - r->roi_x0, 341 * 480. / 256, 1e-4);
	assert_float_equal(r->roi_x1 + r->roi_x0, 640, 1e-4);
	assert_float_equal(r->roi_y1, 480, 0);
	bench_close(&b);
	b = bench_open("resize", ARGS(FLOATS("size", -20, 30), FLOATS("roi_start", 10, 60), FLOATS("roi_end", 40, 20)));
	bench_input(&b, 0, NULL, STK_UINT8, "HWC", 3, (const int64_t[]){480, 640, 3});
	assert_int_equal(bench_infer(&b, false), STK_OK);
	r = (const void *)b.state;
	assert_true(r->roi_y0 == 40 && r->roi_y1 == 10 && r->roi_x0 == 60 && r->roi_x1 == 20);
	bench_close(&b);
}

/* ---- arithmetic ---- */

static void test_promotion(void **state)
{
	(void)state;
	static const enum stk_dtype cases[][3] = {{STK_UINT8, STK_INT8, STK_INT16}, {STK_UINT8, STK_INT32, STK_INT32},
		{STK_UINT16, STK_INT16, STK_INT32}, {STK_UINT32, STK_INT8, STK_INT64}, {STK_UINT64, STK_INT8, STK_INT64},
		{STK_UINT64, STK_UINT8, STK_UINT64}, {STK_BOOL, STK_UINT8, STK_UINT8}, {STK_BOOL, STK_BOOL, STK_BOOL},
		{STK_INT64, STK_FLOAT, STK_FLOAT}, {STK_FLOAT16, STK_INT32, STK_FLOAT16}, {STK_FLOAT64, STK_FLOAT, STK_FLOAT64},
		{STK_FLOAT16, STK_BFLOAT16, STK_FLOAT}, {STK_INT16, STK_UINT8, STK_INT16}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(stk__arith_promote(cases[i][0], cases[i][1]), cases[i][2]);
		assert_int_equal(stk__arith_promote(cases[i][1], cases[i][0]), cases[i][2]);
	}
}

static struct bench compute(const char *op, void *a, enum stk_dtype a_type, void *b, enum stk_dtype b_type, int64_t n)
{
	struct bench w = bench_open("_arithmetic", ARGS(stk_arg_string("op", op)));
	bench_input(&w, 0, a, a_type, "", 1, &n);
	if (b)
		bench_input(&w, 1, b, b_type, "", 1, &n);
	return w;
}

static void test_whole_numbers_wrap_and_truncate(void **state)
{
	(void)state;
	uint8_t a[2] = {200, 1}, b[2] = {100, 2};
	struct bench w = compute("add", a, STK_UINT8, b, STK_UINT8, 2);
	assert_int_equal(bench_run(&w), STK_OK);
	assert_memory_equal(w.out[0].data, ((const uint8_t[]){44, 3}), 2);
	bench_close(&w);
	int32_t x[4] = {7, -7, 7, INT32_MIN}, y[4] = {2, 2, -2, -1};
	w = compute("div", x, STK_INT32, y, STK_INT32, 4);
	assert_int_equal(bench_run(&w), STK_OK);
	assert_memory_equal(w.out[0].data, ((const int32_t[]){3, -3, -3, INT32_MIN}), 16);
	bench_close(&w);
	int64_t least[1] = {INT64_MIN}, minus[1] = {-1};
	w = compute("div", least, STK_INT64, minus, STK_INT64, 1);
	assert_int_equal(bench_run(&w), STK_OK);
	assert_int_equal(*(int64_t *)w.out[0].data, INT64_MIN);
	bench_close(&w);
	y[1] = 0;
	w = compute("mod", x, STK_INT32, y, STK_INT32, 4);
	assert_int_equal(bench_run(&w), STK_INVALID);
	bench_close(&w);
	uint64_t u[1] = {1};
	w = compute("lt", minus, STK_INT64, u, STK_UINT64, 1);
	assert_int_equal(bench_run(&w), STK_OK);
	assert_true(*(bool *)w.out[0].data);
	bench_close(&w);
	bool yes[1] = {true};
	w = compute("add", yes, STK_BOOL, yes, STK_BOOL, 1);
	assert_int_equal(bench_run(&w), STK_INVALID);
	bench_close(&w);
}

static void test_broadcasting(void **state)
{
	(void)state;
	enum { ROWS = 700, COLUMNS = 3 };
	static int32_t a[ROWS * COLUMNS];
	int32_t b[COLUMNS] = {10, 20, 30};
	for (int i = 0; i < ROWS * COLUMNS; i++)
		a[i] = i;
	struct bench w = bench_open("_arithmetic", ARGS(stk_arg_string("op", "sub")));
	bench_input(&w, 0, a, STK_INT32, "", 2, (const int64_t[]){ROWS, COLUMNS});
	bench_input(&w, 1, b, STK_INT32, "", 1, (const int64_t[]){COLUMNS});
	assert_int_equal(bench_run(&w), STK_OK);
	for (int i = 0; i < ROWS * COLUMNS; i++)
		assert_int_equal(((int32_t *)w.out[0].data)[i], i - b[i % COLUMNS]);
	bench_input(&w, 1, b, STK_INT32, "", 1, (const int64_t[]){2});
	assert_int_equal(bench_run(&w), STK_SHAPE);
	bench_close(&w);
}

/* ---- subscripts, compared with a longer version of the rule ---- */

static int expand(int64_t lo, int64_t hi, int64_t step, int64_t n, int64_t *out)
{
	int count = 0;
	if (lo == INT64_MIN)
		lo = step > 0 ? 0 : n - 1;
	else if (lo < 0)
		lo = lo + n < 0 ? (step > 0 ? 0 : -1) : lo + n;
	if (hi == INT64_MIN)
		hi = step > 0 ? n : -1;
	else if (hi < 0)
		hi = hi + n < 0 ? -1 : hi + n;
	if (step < 0 && lo >= n)
		lo = n - 1;
	for (int64_t i = lo; step > 0 ? i < hi && i < n : i > hi; i += step)
		out[count++] = i;
	return count;
}

static void test_subscripts(void **state)
{
	(void)state;
	struct stk_random r = stk__random(31, 0, 0, 0);
	int16_t row[12];
	for (int i = 0; i < 12; i++)
		row[i] = (int16_t)i;
	for (int trial = 0; trial < 3000; trial++) {
		int64_t n = stk__random_below(&r, 13), ends[2], step = (int64_t)stk__random_below(&r, 9) - 4, want[16];
		step += step == 0;
		for (int k = 0; k < 2; k++)
			ends[k] = stk__random_below(&r, 4) ? (int64_t)stk__random_below(&r, 40) - 20 : INT64_MIN;
		struct bench b =
			bench_open("_subscript", ARGS(INTS("kinds", 1), INTS("lo", ends[0]), INTS("hi", ends[1]), INTS("step", step)));
		bench_input(&b, 0, row, STK_INT16, "", 1, &n);
		assert_int_equal(bench_run(&b), STK_OK);
		int count = expand(ends[0], ends[1], step, n, want);
		bool same = b.out[0].desc.shape[0] == count;
		for (int i = 0; same && i < count; i++)
			same = ((int16_t *)b.out[0].data)[i] == want[i];
		if (!same)
			fail_msg("trial %d: [%lld:%lld:%lld] of %lld", trial, (long long)ends[0], (long long)ends[1], (long long)step,
				(long long)n);
		bench_close(&b);
	}
}

/* ---- random draws ---- */

static void test_normal_has_its_moments(void **state)
{
	(void)state;
	enum { N = 100001 };
	struct bench b = bench_open("random.normal", ARGS(INTS("shape", N), stk_arg_float("mean", 3), stk_arg_float("stddev", 2)));
	assert_int_equal(bench_run(&b), STK_OK);
	const float *x = b.out[0].data;
	double sum = 0, squares = 0, fourth = 0;
	for (int i = 0; i < N; i++)
		sum += x[i];
	for (int i = 0; i < N; i++) {
		double d = x[i] - sum / N;
		squares += d * d;
		fourth += d * d * d * d;
	}
	double variance = squares / N;
	assert_float_equal(sum / N, 3, 5 * 2 / sqrt(N));
	assert_float_equal(variance, 4, 5 * 4 * sqrt(2. / N));
	assert_float_equal(fourth / N / (variance * variance), 3, 5 * sqrt(24. / N));
	bench_close(&b);
}

static void test_choice_follows_its_chances(void **state)
{
	(void)state;
	enum { N = 60000 };
	int32_t three = 3;
	int count[3] = {0};
	struct bench b = bench_open("random.choice", ARGS(INTS("shape", N), FLOATS("p", 0.5, 0, 0.5)));
	bench_input(&b, 0, &three, STK_INT32, "", 0, NULL);
	assert_int_equal(bench_run(&b), STK_OK);
	for (int i = 0; i < N; i++)
		count[((int32_t *)b.out[0].data)[i]]++;
	assert_int_equal(count[1], 0);
	assert_float_equal(count[0], N / 2., 5 * sqrt(N) / 2);
	bench_close(&b);
}

static void test_choice_of_what_is_empty(void **state)
{
	(void)state;
	uint8_t nothing = 0;
	struct bench b = bench_open("random.choice", ARGS(INTS("shape", (int64_t)1 << 40, 9)));
	bench_input(&b, 0, &nothing, STK_UINT8, "", 2, (int64_t[]){7, 0});
	assert_int_equal(bench_run(&b), STK_OK);
	assert_int_equal(b.out[0].desc.ndim, 3);
	assert_int_equal(b.out[0].desc.shape[0], (int64_t)1 << 40);
	assert_int_equal(b.out[0].desc.shape[2], 0);
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beforehand_agrees),
		cmocka_unit_test(test_classes_of_a_layout_without_dims),
		cmocka_unit_test(test_perm_names_each_dim_once),
		cmocka_unit_test(test_random_windows_keep_their_bounds),
		cmocka_unit_test(test_random_windows_are_frozen),
		cmocka_unit_test(test_crop_positions_round_as_dali),
		cmocka_unit_test(test_windows_outside),
		cmocka_unit_test(test_resize_extents),
		cmocka_unit_test(test_resize_keeps_the_exact_scale),
		cmocka_unit_test(test_promotion),
		cmocka_unit_test(test_whole_numbers_wrap_and_truncate),
		cmocka_unit_test(test_broadcasting),
		cmocka_unit_test(test_subscripts),
		cmocka_unit_test(test_normal_has_its_moments),
		cmocka_unit_test(test_choice_follows_its_chances),
		cmocka_unit_test(test_choice_of_what_is_empty),
	};
	return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}
