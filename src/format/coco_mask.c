/* SPDX-License-Identifier: Apache-2.0
 * Both kinds of masks are runs of pixels, counted down the columns: 0 for the first pixel, then where what is inside becomes outside and the other way
 * round. A polygon's border is sampled at five times the resolution, as pycocotools does (rleFrPoly in maskApi.c says how). */
#include "format/coco_mask.h"

#include "base/error.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCALE = 5 };

/* Pixels at which runs begin, as they are found. at NULL: they are only counted. */
struct turns {
	int64_t *at, count;
	int32_t width, height;
	int u, v; /* the last point of the border, in samples */
	bool begun;
};

/* A step of the border to another column of samples, where that is the middle of a column of pixels. */
static void put_turn(struct turns *t, int u, int v)
{
	double x = ((u < t->u ? u : u - 1) + .5) / SCALE - .5, y = ((v < t->v ? v : t->v) + .5) / SCALE - .5;
	if (floor(x) != x || x < 0 || x > t->width - 1)
		return;
	y = ceil(y < 0 ? 0 : y > t->height ? t->height : y);
	if (t->at)
		t->at[t->count] = (int64_t)x * t->height + (int64_t)y;
	t->count++;
}

static void put_point(struct turns *t, int u, int v)
{
	if (t->begun && u != t->u)
		put_turn(t, u, v);
	t->begun = true;
	t->u = u;
	t->v = v;
}

/* The samples from (x0, y0) to (x1, y1), one for each step along the longer side. Rounding depends on where it begins, so that an edge always begins at its lower end. */
static void put_edge(struct turns *t, int x0, int y0, int x1, int y1)
{
	int dx = abs(x1 - x0), dy = abs(y1 - y0);
	bool flat = dx >= dy, flip = flat ? x0 > x1 : y0 > y1;
	int xs = flip ? x1 : x0, xe = flip ? x0 : x1, ys = flip ? y1 : y0, ye = flip ? y0 : y1, steps = flat ? dx : dy;
	double slope = steps == 0 ? 0 : flat ? (double)(ye - ys) / dx : (double)(xe - xs) / dy;
	for (int d = 0; d <= steps; d++) {
		int along = flip ? steps - d : d;
		if (flat)
			put_point(t, along + xs, (int)(ys + slope * along + .5));
		else
			put_point(t, (int)(xs + slope * along + .5), along + ys);
	}
}

static void put_outline(struct turns *t, const float *vertices, int64_t count)
{
	t->count = 0;
	t->begun = false;
	for (int64_t i = 0; i < count; i++) {
		const float *a = vertices + 2 * i, *b = vertices + 2 * ((i + 1) % count);
		put_edge(t, (int)(SCALE * (double)a[0] + .5), (int)(SCALE * (double)a[1] + .5), (int)(SCALE * (double)b[0] + .5),
			(int)(SCALE * (double)b[1] + .5));
	}
}

/* Pixels from `first` to before `end`, down the columns. */
static void paint_run(const struct stk_coco_image *image, int64_t first, int64_t end, int32_t label, int32_t *mask)
{
	int64_t x = first / image->height, y = first % image->height;
	for (int64_t i = first; i < end; i++) {
		mask[y * image->width + x] = label;
		if (++y == image->height) {
			y = 0;
			x++;
		}
	}
}

static int by_place(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static enum stk_status paint_polygon(const float *vertices, int64_t count, int64_t id, const struct stk_coco_image *image, int32_t label,
	struct stk_arena *scratch, int32_t *mask, struct stk_error *err)
{
	struct turns t = {.width = image->width, .height = image->height};
	/* Each pixel of a border takes time, and the distance of two of its samples is an int. */
	double farthest = fmin(1000 + 4.0 * (image->width > image->height ? image->width : image->height), INT_MAX / (2 * SCALE));
	for (int64_t i = 0; i < 2 * count; i++)
		if (!(fabs((double)vertices[i]) <= farthest))
			return stk__fail(err, STK_CORRUPT, "%s: a polygon's vertex lies at %g, far outside the image",
				stk__coco_title(id).text, (double)vertices[i]);
	put_outline(&t, vertices, count);
	struct stk_arena_mark mark = stk__arena_mark(scratch);
	t.at = stk__arena_take(scratch, (size_t)(t.count + 1) * sizeof *t.at);
	if (!t.at)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the mask of a polygon");
	put_outline(&t, vertices, count);
	qsort(t.at, (size_t)t.count, sizeof *t.at, by_place);
	t.at[t.count] = (int64_t)image->width * image->height;
	for (int64_t i = 0; i < t.count; i += 2)
		paint_run(image, t.at[i], t.at[i + 1], label, mask);
	stk__arena_release(scratch, mark);
	return STK_OK;
}

static enum stk_status paint_runs(const struct stk_coco *c, const struct stk_coco_shape *shape, int32_t label,
	const struct stk_coco_image *image, int32_t *mask, struct stk_error *err)
{
	const uint32_t *run = (const uint32_t *)c->runs.at + shape->run;
	int64_t at = 0, pixels = (int64_t)image->width * image->height;
	for (int32_t i = 0; i < shape->runs; i++)
		at += run[i];
	if (shape->extent[0] != image->height || shape->extent[1] != image->width)
		return stk__fail(err, STK_CORRUPT,
			"%s: its runs of pixels are of size [%d, %d], where the image is of size [%d, %d] (height, width)",
			stk__coco_title(shape->id).text, shape->extent[0], shape->extent[1], image->height, image->width);
	if (at != pixels)
		return stk__fail(err, STK_CORRUPT,
			"%s: its runs, outside and inside the object by turns, add up to %lld pixels, where the image of size [%d, %d] has %lld",
			stk__coco_title(shape->id).text, (long long)at, image->height, image->width, (long long)pixels);
	at = 0;
	for (int32_t i = 0; i < shape->runs; at += run[i++])
		if (i & 1)
			paint_run(image, at, at + run[i], label, mask);
	return STK_OK;
}

static enum stk_status paint_object(const struct stk_coco *c, int64_t k, const struct stk_coco_image *image, struct stk_arena *scratch,
	int32_t *mask, struct stk_error *err)
{
	const struct stk_coco_shape *shape = stk__coco_shape(c, k);
	int32_t label = stk__coco_object(c, k)->label;
	enum stk_status s = shape->runs ? paint_runs(c, shape, label, image, mask, err) : STK_OK;
	for (int32_t p = 0; p < shape->polygons && s == STK_OK; p++) {
		const struct stk_coco_polygon *polygon = &((const struct stk_coco_polygon *)c->polygons.at)[shape->polygon + p];
		if (polygon->count) /* else there may be no vertices at all, of any object */
			s = paint_polygon((const float *)c->vertices.at + 2 * polygon->first, polygon->count, shape->id, image, label,
				scratch, mask, err);
	}
	return s;
}

enum stk_status stk__coco_paint(
	const struct stk_coco *c, const struct stk_coco_image *image, struct stk_arena *scratch, int32_t *mask, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	memset(mask, 0, (size_t)image->width * (size_t)image->height * sizeof *mask);
	for (int64_t label = INT64_MIN; s == STK_OK;) {
		int64_t next = INT64_MAX; /* the least label above */
		for (int64_t k = 0; k < image->count; k++) {
			int64_t other = stk__coco_object(c, image->first + k)->label;
			next = other > label && other < next ? other : next;
		}
		if (next == INT64_MAX)
			break;
		label = next;
		for (int64_t k = image->first; k < image->first + image->count && s == STK_OK; k++)
			if (stk__coco_object(c, k)->label == label)
				s = paint_object(c, k, image, scratch, mask, err);
	}
	return s;
}
