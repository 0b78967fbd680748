/* SPDX-License-Identifier: Apache-2.0
 * coco_mask: its masks equal those of a simple algorithm, which visits every sample of a border, sorts the crossings, and paints the objects in the order of
 * their labels. Its work is limited, and can be cancelled. */
#include "test.h"

#include "base/error.h"
#include "format/coco_mask.h"
#include "image_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCALE = 5, MOST_OBJECTS = 8, MOST_VERTICES = 24, MOST_EXTENT = 90 };

/* ---- the simple algorithm, for comparison ---- */

struct walk {
	int64_t at[1 << 16], count;
	int width, height, u, v;
	bool begun;
};

static void walk_to(struct walk *w, int u, int v)
{
	if (w->begun && u != w->u) {
		double x = ((u < w->u ? u : u - 1) + .5) / SCALE - .5, y = ((v < w->v ? v : w->v) + .5) / SCALE - .5;
		if (floor(x) == x && x >= 0 && x <= w->width - 1)
			w->at[w->count++] = (int64_t)x * w->height + (int64_t)ceil(fmin(fmax(y, 0), w->height));
	}
	w->begun = true;
	w->u = u;
	w->v = v;
}

static void walk_edge(struct walk *w, int x0, int y0, int x1, int y1)
{
	int dx = abs(x1 - x0), dy = abs(y1 - y0);
	bool flat = dx >= dy, flip = flat ? x0 > x1 : y0 > y1;
	int xs = flip ? x1 : x0, xe = flip ? x0 : x1, ys = flip ? y1 : y0, ye = flip ? y0 : y1, steps = flat ? dx : dy;
	double slope = steps == 0 ? 0 : flat ? (double)(ye - ys) / dx : (double)(xe - xs) / dy;
	for (int d = 0; d <= steps; d++) {
		int along = flip ? steps - d : d;
		if (flat)
			walk_to(w, along + xs, (int)(ys + slope * along + .5));
		else
			walk_to(w, (int)(xs + slope * along + .5), along + ys);
	}
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void paint_plainly(const float *vertices, int64_t count, int width, int height, int32_t label, int32_t *mask)
{
	static struct walk w;
	w = (struct walk){.width = width, .height = height};
	for (int64_t i = 0; i < count; i++) {
		const float *a = vertices + 2 * i, *b = vertices + 2 * ((i + 1) % count);
		walk_edge(&w, (int)(SCALE * (double)a[0] + .5), (int)(SCALE * (double)a[1] + .5), (int)(SCALE * (double)b[0] + .5),
			(int)(SCALE * (double)b[1] + .5));
	}
	qsort(w.at, (size_t)w.count, sizeof *w.at, ascending);
	w.at[w.count] = (int64_t)width * height;
	for (int64_t i = 0; i < w.count; i += 2)
		for (int64_t k = w.at[i]; k < w.at[i + 1]; k++)
			if (mask[k % height * width + k / height] < label)
				mask[k % height * width + k / height] = label;
}

/* ---- one image with a polygon for each object ---- */

struct scene {
	struct stk_coco_image image;
	struct stk_coco_object objects[MOST_OBJECTS];
	struct stk_coco_shape shapes[MOST_OBJECTS];
	struct stk_coco_polygon polygons[MOST_OBJECTS];
	float vertices[2 * MOST_OBJECTS * MOST_VERTICES];
	struct stk_coco coco;
};

static void set_up(struct scene *s, int width, int height, int objects)
{
	memset(s, 0, sizeof *s);
	s->image = (struct stk_coco_image){.width = width, .height = height, .count = objects};
	s->coco.images = (struct stk_coco_list){&s->image, 1, 1};
	s->coco.objects = (struct stk_coco_list){s->objects, objects, objects};
	s->coco.shapes = (struct stk_coco_list){s->shapes, objects, objects};
	s->coco.polygons = (struct stk_coco_list){s->polygons, objects, objects};
	s->coco.vertices = (struct stk_coco_list){s->vertices, 0, 0};
}

static float coordinate(uint64_t *r, int extent)
{
	switch (test_random_in(r, 0, 9)) {
	case 0:
		return 0;
	case 1:
		return (float)extent;
	case 2: /* outside of the image */
		return (float)test_random_in(r, -3 * extent, 4 * extent);
	case 3: /* at a multiple of 1/5, where the borders of masks are sampled */
		return (float)test_random_in(r, 0, 5 * extent) / 5;
	default:
		return (float)test_random_in(r, 0, 1000 * extent) / 1000;
	}
}

static void test_masks_equal_the_plain_algorithm(void **state)
{
	(void)state;
	static struct scene s;
	static int32_t got[MOST_EXTENT * MOST_EXTENT], want[MOST_EXTENT * MOST_EXTENT];
	uint64_t seed = test_seed();
	for (int n = 0; n < 4000; n++) {
		uint64_t r = seed + (uint64_t)n;
		int width = test_random_in(&r, 1, MOST_EXTENT), height = test_random_in(&r, 1, MOST_EXTENT);
		size_t pixels = (size_t)width * (size_t)height;
		set_up(&s, width, height, test_random_in(&r, 1, MOST_OBJECTS));
		memset(want, 0, sizeof want);
		int64_t vertex = 0;
		for (int k = 0; k < s.image.count; k++) {
			int count = test_random_in(&r, 1, MOST_VERTICES);
			s.objects[k].label = test_random_in(&r, 1, 4);
			s.shapes[k] = (struct stk_coco_shape){.id = k, .polygon = k, .polygons = 1};
			s.polygons[k] = (struct stk_coco_polygon){vertex, count};
			for (int i = 0; i < count; i++, vertex++) {
				s.vertices[2 * vertex] = coordinate(&r, width);
				s.vertices[2 * vertex + 1] = coordinate(&r, height);
			}
			paint_plainly(s.vertices + 2 * s.polygons[k].first, count, width, height, s.objects[k].label, want);
		}
		struct stk_arena scratch = {0};
		struct stk_error err = {0};
		assert_int_equal(stk__coco_paint(&s.coco, &s.image, &scratch, NULL, got, &err), STK_OK);
		if (memcmp(got, want, pixels * sizeof *got) != 0)
			fail_msg("seed %llu: %d objects in %d x %d pixels have another mask", (unsigned long long)(seed + (uint64_t)n),
				s.image.count, width, height);
		stk__arena_destroy(&scratch);
	}
}

/* ---- limits of the work for one image ---- */

enum { LARGE = 2000, ZIGZAG = 100000 };

static enum stk_status paint_zigzag(int64_t count, const struct stk_cancel *cancel, int32_t *mask, struct stk_error *err)
{
	static struct scene s;
	set_up(&s, LARGE, LARGE, 1);
	float *vertices = malloc(2 * (size_t)count * sizeof *vertices);
	assert_non_null(vertices);
	for (int64_t i = 0; i < count; i++) {
		vertices[2 * i] = (float)(i % 2 * (LARGE - 1));
		vertices[2 * i + 1] = (float)(i * 7 % LARGE);
	}
	s.objects[0].label = 1;
	s.shapes[0] = (struct stk_coco_shape){.id = 42, .polygons = 1};
	s.polygons[0] = (struct stk_coco_polygon){0, count};
	s.coco.vertices.at = vertices;
	struct stk_arena scratch = {0};
	stk__arena_limit(&scratch, (size_t)LARGE * LARGE);
	enum stk_status status = stk__coco_paint(&s.coco, &s.image, &scratch, cancel, mask, err);
	stk__arena_destroy(&scratch);
	free(vertices);
	return status;
}

static void test_outlines_are_bounded(void **state)
{
	(void)state;
	int32_t *mask = malloc((size_t)LARGE * LARGE * sizeof *mask);
	struct stk_error err = {0};
	assert_non_null(mask);
	assert_int_equal(paint_zigzag(4000, NULL, mask, &err), STK_OK); /* two crossings per pixel are allowed */
	assert_int_equal(paint_zigzag(ZIGZAG, NULL, mask, &err), STK_LIMIT);
	assert_non_null(strstr(err.message, "annotation 42"));
	free(mask);
}

/* Each object covers a whole image. However many objects there are, the work must stay below that for a thousand of them. */
static void test_covers_are_bounded(void **state)
{
	(void)state;
	enum { EXTENT = 1024, OBJECTS = 20000 };
	struct stk_coco_image image = {.width = EXTENT, .height = EXTENT, .count = OBJECTS};
	struct stk_coco_object *objects = calloc(OBJECTS, sizeof *objects);
	struct stk_coco_shape *shapes = calloc(OBJECTS, sizeof *shapes);
	int32_t *mask = malloc(EXTENT * EXTENT * sizeof *mask);
	uint32_t runs[2] = {0, EXTENT * EXTENT};
	assert_true(objects && shapes && mask);
	for (int k = 0; k < OBJECTS; k++) {
		objects[k].label = k;
		shapes[k] = (struct stk_coco_shape){.id = k, .runs = 2, .extent = {EXTENT, EXTENT}};
	}
	struct stk_coco c = {.objects = {objects, OBJECTS, OBJECTS}, .shapes = {shapes, OBJECTS, OBJECTS}, .runs = {runs, 2, 2}};
	struct stk_arena scratch = {0};
	assert_int_equal(stk__coco_paint(&c, &image, &scratch, NULL, mask, NULL), STK_LIMIT);
	image.count = 500;
	assert_int_equal(stk__coco_paint(&c, &image, &scratch, NULL, mask, NULL), STK_OK);
	for (int i = 0; i < EXTENT * EXTENT; i++)
		assert_int_equal(mask[i], 499);
	stk__arena_destroy(&scratch);
	free(objects);
	free(shapes);
	free(mask);
}

static void test_cancelled(void **state)
{
	(void)state;
	struct stk_cancel cancel = {true};
	int32_t *mask = malloc((size_t)LARGE * LARGE * sizeof *mask);
	assert_non_null(mask);
	assert_int_equal(paint_zigzag(4000, &cancel, mask, NULL), STK_CANCELLED);
	free(mask);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_masks_equal_the_plain_algorithm),
		cmocka_unit_test(test_outlines_are_bounded),
		cmocka_unit_test(test_covers_are_bounded),
		cmocka_unit_test(test_cancelled),
	};
	return cmocka_run_group_tests_name("coco_mask", tests, NULL, NULL);
}
