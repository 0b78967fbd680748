/* SPDX-License-Identifier: Apache-2.0
 * Compares recipes with passes that are drawn one by one, as operators do, and the kernel with the recipe on the CPU, byte by byte, for random windows,
 * coins, steps, layouts and tables. The kernel's half is skipped without a GPU. */
#include "gpu_setup.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "kernel/pass/pass_kernels.h"
#include "kernel/recipe/recipe_reference.h"
#include "order/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draws.h"

enum { IMAGES = 24, ROUNDS = 400, MAX_BATCH = 40, MAX_IMAGE = 24 * 20 * 4, MAX_OUT = 48 * 48 * 4 * 4, TABLE = 12, SLACK = 64 };

/* ---- random recipes: a list of actions, which gives both the recipe and each sample's pass ---- */

enum what { WINDOW, CROP, MIRROR, AFFINE, CAST, CHANNELS, WHATS };

struct action {
	enum what what;
	struct stk_recipe_window window; /* how the recipe draws the window, if the action is WINDOW */
	struct stk_rect crop;
	float fill[STK_PASS_MAX_CHANNELS], scale[STK_PASS_MAX_CHANNELS], bias[STK_PASS_MAX_CHANNELS];
	enum stk_dtype dtype;
	struct stk_recipe_coin coin[2]; /* the coins for x and for y, if the action is MIRROR */
	int32_t channels;
};

struct script {
	int32_t w, h, c, n;
	struct action actions[STK_RECIPE_MOVES];
};

static uint64_t any64(void)
{
	return (uint64_t)next() << 33 ^ (uint64_t)next() << 11 ^ next();
}

static void draw_window(struct action *a, const struct stk_pass *p, bool inside)
{
	struct stk_recipe_window *w = &a->window;
	*w = (struct stk_recipe_window){.key = any64()};
	int order = between(0, 1);
	int32_t size[2] = {p->w, p->h}, extent[2];
	for (int axis = 0; axis < 2; axis++) {
		int32_t after = inside ? 0 : between(0, 6);
		w->before[axis] = inside ? 0 : between(0, 6);
		extent[axis] = between(1, inside ? size[axis] : size[axis] + 8);
		int32_t positions = w->before[axis] + size[axis] + after - extent[axis] + 1;
		w->positions[axis] = (uint32_t)(positions > 1 ? positions : 1);
		w->draw[axis] = axis ^ order;
	}
	w->w = extent[0];
	w->h = extent[1];
}

/* Draws an action that a pass in this state still accepts. */
static struct action draw_action(const struct stk_pass *p, bool filled)
{
	static const enum stk_dtype types[] = {STK_UINT8, STK_FLOAT16, STK_BFLOAT16, STK_FLOAT};
	struct action a = {.what = (enum what)between(0, WHATS - 1), .dtype = types[between(0, 3)]};
	for (int c = 0; c < STK_PASS_MAX_CHANNELS; c++) {
		a.fill[c] = uniform(-10, 260);
		a.scale[c] = uniform(-1, 2);
		a.bias[c] = uniform(-100, 100);
	}
	switch (a.what) {
	case WINDOW:
		draw_window(&a, p, filled || between(0, 2) == 0);
		break;
	case CROP:
		a.crop = (struct stk_rect){.w = between(1, p->w), .h = between(1, p->h)};
		a.crop.x = between(0, p->w - a.crop.w);
		a.crop.y = between(0, p->h - a.crop.h);
		if (!filled && between(0, 1))
			a.crop = (struct stk_rect){between(-5, 5), between(-5, 5), between(1, p->w + 7), between(1, p->h + 7)};
		break;
	case MIRROR:
		for (int k = 0; k < 2; k++)
			a.coin[k] = (struct stk_recipe_coin){any64(), between(0, 4) / 4.0f};
		break;
	default:
		a.channels = between(p->c, STK_RECIPE_CHANNELS);
	}
	return a;
}

/* Applies an action to the pass of one sample. Each action has its own stream of random numbers. */
static void act(const struct action *a, struct stk_pass *p, int64_t epoch, int64_t position)
{
	struct stk_random r = {.position = (uint64_t)position, .epoch = (uint32_t)epoch};
	int64_t start[2], drawn[2];
	bool sides[2];
	switch (a->what) {
	case WINDOW:
		r.key = a->window.key;
		for (int k = 0; k < 2; k++) { /* draws both axes in the order in which the operator draws them */
			int axis = a->window.draw[0] == k ? 0 : 1;
			drawn[axis] = stk__random_below(&r, a->window.positions[axis]);
			start[axis] = drawn[axis] - a->window.before[axis];
		}
		stk__pass_window(
			p, (struct stk_rect){(int32_t)start[0], (int32_t)start[1], a->window.w, a->window.h}, p->has_fill ? NULL : a->fill);
		break;
	case CROP:
		stk__pass_window(p, a->crop, p->has_fill ? NULL : a->fill);
		break;
	case MIRROR:
		for (int k = 0; k < 2; k++) {
			r.key = a->coin[k].key;
			r.draw = 0;
			sides[k] = stk__random_float(&r) < a->coin[k].chance;
		}
		stk__pass_mirror(p, sides[0], sides[1]);
		break;
	case AFFINE:
		stk__pass_affine(p, a->scale, a->bias, a->dtype);
		break;
	case CAST:
		stk__pass_cast(p, a->dtype);
		break;
	default:
		stk__pass_channels(p, a->channels, a->fill);
	}
}

static void add(const struct action *a, struct stk_recipe *r)
{
	struct stk_pass variants[STK_RECIPE_VARIANTS];
	if (a->what == WINDOW) {
		assert_true(stk__recipe_window(r, &a->window, a->fill));
		return;
	}
	for (int v = 0; v < STK_RECIPE_VARIANTS; v++) {
		stk__recipe_next(r, &variants[v]);
		if (a->what == MIRROR)
			stk__pass_mirror(&variants[v], v & 1, v >> 1);
		else
			act(a, &variants[v], 0, 0);
	}
	assert_true(stk__recipe_move(r, a->coin, a->what == MIRROR ? 2 : 0, variants));
}

static void draw_script(struct script *s, struct stk_recipe *r)
{
	*s = (struct script){.w = between(1, 24), .h = between(1, 20), .c = between(1, 4)};
	if (between(0, 3) == 0)
		s->w = 16; /* a multiple of the vectors' width */
	stk__recipe_begin(r, s->w, s->h, s->c);
	int32_t wanted = between(1, STK_RECIPE_MOVES);
	for (; s->n < wanted; s->n++) {
		struct stk_pass now;
		stk__recipe_next(r, &now);
		s->actions[s->n] = draw_action(&now, r->pass.has_fill);
		add(&s->actions[s->n], r);
	}
}

/* ---- a batch ---- */

struct batch {
	struct stk_recipe_batch batch;
	int64_t indices[64];
	uint8_t images[IMAGES * MAX_IMAGE + SLACK], table[IMAGES * TABLE], labels[MAX_BATCH * TABLE];
	_Alignas(64) uint8_t out[MAX_BATCH * MAX_OUT];
};

static void draw_batch(struct batch *b, const struct stk_recipe *r, struct stk_order *o, int64_t *k)
{
	struct stk_order_run runs[STK_RECIPE_RUNS];
	for (size_t i = 0; i < sizeof b->images; i++)
		b->images[i] = (uint8_t)next();
	for (size_t i = 0; i < sizeof b->table; i++)
		b->table[i] = (uint8_t)next();
	bool listed = between(0, 1);
	*o = (struct stk_order){.size = listed ? between(8, 64) : IMAGES, .seed = any64(), .shuffle = between(0, 1)};
	for (int i = 0; i < 64; i++)
		b->indices[i] = between(0, IMAGES - 1);
	o->indices = listed ? b->indices : NULL;
	o->version_1 = between(0, 1);
	o->batch = between(1, (int32_t)o->size < MAX_BATCH ? (int32_t)o->size : MAX_BATCH);
	o->tail = (enum stk_tail)between(0, 1); /* some batches cross an epoch's end, or are padded */
	o->ranks = 1;
	o->start_epoch = between(0, 5);
	*k = between(0, 9);
	stk__recipe_layout(&b->batch, r, between(0, 1));
	b->batch.recipe = r;
	b->batch.images = b->images;
	b->batch.indices = o->indices;
	b->batch.to = b->out;
	b->batch.count = o->batch;
	b->batch.n_tables = 1;
	b->batch.tables[0] = (struct stk_recipe_table){b->table, b->labels, (uint32_t)between(1, TABLE), 0};
	b->batch.n_runs = stk__order_runs(o, *k, o->batch, runs, STK_RECIPE_RUNS);
	assert_true(b->batch.n_runs >= 1 && b->batch.n_runs <= STK_RECIPE_RUNS);
	for (int32_t i = 0; i < b->batch.n_runs; i++)
		b->batch.runs[i] = (struct stk_recipe_run){runs[i].first, runs[i].count, (uint32_t)runs[i].epoch, o->shuffle,
			runs[i].position, runs[i].step, runs[i].padded, stk__order_shuffle(o, runs[i].epoch)};
}

static size_t out_bytes(const struct stk_recipe *r)
{
	return (size_t)(r->pass.w * r->pass.h * r->pass.c) * stk_dtype_size((enum stk_dtype)r->pass.dtype);
}

/* ---- tests ---- */

static void assert_sample(const struct script *s, const struct stk_recipe *r, const struct batch *b, const struct stk_order *o, int64_t k,
	int32_t i, uint64_t begun)
{
	static uint8_t want[MAX_OUT];
	struct stk_pass p;
	struct stk_place place = stk__order_place(o, k, i);
	stk__pass_begin(&p, STK_UINT8, s->w, s->h, s->c);
	for (int32_t n = 0; n < s->n; n++)
		act(&s->actions[n], &p, place.epoch, place.position);
	struct stk_image src =
		stk__image_hwc((uint8_t *)(uintptr_t)b->images + place.sample * s->w * s->h * s->c, STK_UINT8, s->w, s->h, s->c);
	struct stk_image dst = (b->batch.planar ? stk__image_chw : stk__image_hwc)(want, (enum stk_dtype)p.dtype, p.w, p.h, p.c);
	void *scratch = stk__alloc(stk__pass_scratch(&p));
	struct stk_pass_kernels kernels = stk__pass_kernels(0);
	stk__pass_run(&p, &kernels, &src, 0, 0, &dst, scratch);
	stk__free(scratch);
	assert_true(p.w == r->pass.w && p.h == r->pass.h && p.c == r->pass.c && p.dtype == r->pass.dtype);
	if (memcmp(want, b->out + (size_t)i * out_bytes(r), out_bytes(r)))
		fail_msg("sample %d of batch %lld differs, seed %llu", i, (long long)k, (unsigned long long)begun);
	uint32_t bytes = b->batch.tables[0].bytes;
	assert_memory_equal(b->labels + (uint32_t)i * bytes, b->table + (uint32_t)place.sample * bytes, bytes);
}

static void run_cores(struct batch *b, const struct stk_recipe *r, unsigned cpu)
{
	void *scratch = stk__alloc(stk__recipe_scratch(r));
	assert_non_null(scratch);
	struct stk_pass_kernels kernels = stk__pass_kernels(cpu);
	stk__recipe_run(&b->batch, &kernels, scratch);
	stk__free(scratch);
}

static void test_recipes_are_passes(void **state)
{
	(void)state;
	struct batch *b = stk__alloc(sizeof *b);
	assert_non_null(b);
	int finishes[2] = {0}, runs = 0;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begun = seed = (uint64_t)round * 7919 + 5;
		struct script s;
		struct stk_recipe r;
		struct stk_order o;
		int64_t k;
		draw_script(&s, &r);
		draw_batch(b, &r, &o, &k);
		run_cores(b, &r, stk__cpu_capabilities());
		for (int32_t i = 0; i < b->batch.count; i++)
			assert_sample(&s, &r, b, &o, k, i, begun);
		finishes[b->batch.finish]++;
		runs += b->batch.n_runs > 1;
	}
	assert_true(finishes[0] > 20 && finishes[1] > 20 && runs > 20);
	stk__free(b);
}

static stk_gpu_ptr send(struct gpu *g, const void *from, size_t size)
{
	stk_gpu_ptr to;
	ok(stk__gpu_alloc(g->dev, size, &to, &err));
	ok(stk__gpu_upload(g->dev, NULL, to, from, size, &err));
	return to;
}

/* Runs the same batch on the GPU and compares the results with those of the CPU. */
static void run_gpu(struct gpu *g, const struct batch *b, const struct stk_recipe *r, uint64_t begun)
{
	static uint8_t back[MAX_BATCH * MAX_OUT];
	static const uint8_t junk[MAX_BATCH * MAX_OUT];
	struct stk_recipe_batch there = b->batch;
	size_t bytes = out_bytes(r) * (size_t)there.count, table = there.tables[0].bytes * (size_t)there.count;
	stk_gpu_kernel kernel;
	stk_gpu_ptr at[] = {send(g, r, sizeof *r), send(g, b->images, sizeof b->images), send(g, b->indices, sizeof b->indices),
		send(g, b->table, sizeof b->table), send(g, junk, bytes), send(g, junk, table)};
	there.recipe = (const void *)(uintptr_t)at[0];
	there.images = (const void *)(uintptr_t)at[1];
	there.indices = there.indices ? (const void *)(uintptr_t)at[2] : NULL;
	there.tables[0].from = (const void *)(uintptr_t)at[3];
	there.to = (void *)(uintptr_t)at[4];
	there.tables[0].to = (void *)(uintptr_t)at[5];
	ok(stk__recipe_gpu_load(g->dev, &kernel, &err));
	ok(stk__recipe_gpu_launch(g->dev, kernel, &there, NULL, &err));
	ok(stk__gpu_download(g->dev, NULL, back, at[4], bytes, &err));
	ok(stk__gpu_stream_sync(g->dev, NULL, &err));
	if (memcmp(back, b->out, bytes))
		fail_msg("images differ, seed %llu", (unsigned long long)begun);
	ok(stk__gpu_download(g->dev, NULL, back, at[5], table, &err));
	ok(stk__gpu_stream_sync(g->dev, NULL, &err));
	assert_memory_equal(back, b->labels, table);
	for (size_t i = 0; i < sizeof at / sizeof *at; i++)
		stk__gpu_free(g->dev, at[i]);
}

static void test_kernel_gives_the_same(void **state)
{
	struct gpu *g = *state;
	if (!g->dev)
		skip();
	struct batch *b = stk__alloc(sizeof *b);
	assert_non_null(b);
	int made = 0;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begun = seed = (uint64_t)round * 104729 + 11;
		struct script s;
		struct stk_recipe r;
		struct stk_order o;
		int64_t k;
		draw_script(&s, &r);
		draw_batch(b, &r, &o, &k);
		if (!stk__recipe_supports(&r))
			continue;
		run_cores(b, &r, stk__cpu_capabilities());
		run_gpu(g, b, &r, begun);
		made++;
	}
	assert_true(made > ROUNDS / 2);
	stk__free(b);
}

static void test_what_has_no_place_in_a_recipe(void **state)
{
	(void)state;
	struct stk_recipe r;
	struct stk_pass variants[STK_RECIPE_VARIANTS];
	const float weights[3] = {0.3f, 0.6f, 0.1f}, fill[3] = {0};
	const struct stk_recipe_window outside = {.w = 9, .h = 8, .before = {1, 0}, .positions = {1, 1}};
	stk__recipe_begin(&r, 8, 8, 3);
	stk__recipe_next(&r, &variants[0]);
	stk__pass_gray(&variants[0], weights, STK_UINT8);
	assert_true(stk__recipe_move(&r, NULL, 0, variants));
	assert_false(stk__recipe_supports(&r)); /* the recipe has a step that mixes channels */

	stk__recipe_begin(&r, 8, 8, 3);
	stk__recipe_next(&r, &variants[0]);
	stk__recipe_next(&r, &variants[1]);
	stk__pass_cast(&variants[1], STK_FLOAT);
	assert_false(stk__recipe_move(
		&r, &(struct stk_recipe_coin){1, 0.5f}, 1, variants)); /* refused, since the coin would change more than the geometry */

	stk__recipe_begin(&r, 8, 8, 3);
	assert_true(stk__recipe_window(&r, &outside, fill));
	assert_false(stk__recipe_window(&r, &outside, fill)); /* a pass has only one fill */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recipes_are_passes),
		cmocka_unit_test(test_kernel_gives_the_same),
		cmocka_unit_test(test_what_has_no_place_in_a_recipe),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
