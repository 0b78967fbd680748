/* SPDX-License-Identifier: Apache-2.0
 * Paints masks. Polygons and run lengths both become runs of pixels, counted down the columns: positions at which outside turns to inside, or inside to
 * outside. A polygon's border is sampled at five times the resolution, as pycocotools does (see rleFrPoly in maskApi.c). The border begins or ends a run only
 * where it crosses the middle of a column of pixels, so only these samples are computed. Two turns at the same pixel cancel each other, so one bit for each
 * pixel is enough to store them.
 *
 * Objects are painted from the largest label down, each pixel once. A hostile file of a few MB could still cause hours of work, for example by polygons that
 * zigzag over a large image: struct painter limits the work. */
#include "format/coco_mask.h"

#include "base/error.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCALE = 5, MIDDLE = SCALE / 2, EDGES_AT_ONCE = 256 };
/* Limits of the number of times that outlines cross columns of pixels, and of the area that objects cover, both relative to the image's pixels. FREE_WORK is
 * added to both limits, for small images. */
enum { CROSSINGS_A_PIXEL = 4, COVERS = 1024, FREE_WORK = 1 << 24 };

struct painter {
	const struct stk_coco_image *image;
	struct stk_arena *scratch;
	const struct stk_cancel *cancel;
	int32_t *mask;
	uint64_t *open; /* one bit for each pixel, down the columns: set while the pixel has no label */
	int64_t crossings_left, covers_left;
};

/* ---- the border of a polygon ---- */

/* The "turns" of an outline: the pixels at which outside changes to inside or back, counted down the columns. They are stored in the list `at`, or in
 * `bits`, one bit for each pixel from `first` on. If both are NULL, the turns are only counted. */
struct turns {
	int64_t *at;
	uint64_t *bits;
	int64_t first, count;
	int32_t width, height;
	int32_t x0, x1; /* turns are in the columns x0 to x1 - 1; set when turns are counted */
};

static void put_turn(struct turns *t, int32_t column, int v)
{
	double y = (v + .5) / SCALE - .5;
	y = ceil(y < 0 ? 0 : y > t->height ? t->height : y);
	int64_t at = (int64_t)column * t->height + (int64_t)y;
	if (t->bits)
		t->bits[(at - t->first) / 64] ^= UINT64_C(1) << (at - t->first) % 64;
	else
		t->at[t->count++] = at;
}

/* An edge of a polygon as a row of samples, with one sample for each step along the edge's longer direction. (xs, ys) is the first sample: the end with the
 * smaller coordinate in that direction. `flat`: x is the longer direction. `slope` is the change of the other coordinate from one sample to the next. */
struct edge {
	bool flat;
	int xs, ys, steps;
	double slope;
};

static struct edge edge_of(int x0, int y0, int x1, int y1)
{
	int dx = abs(x1 - x0), dy = abs(y1 - y0);
	bool flat = dx >= dy, flip = flat ? x0 > x1 : y0 > y1;
	struct edge e = {flat, flip ? x1 : x0, flip ? y1 : y0, flat ? dx : dy, 0};
	int rise = flat ? (flip ? y0 : y1) - e.ys : (flip ? x0 : x1) - e.xs;
	e.slope = e.steps ? (double)rise / e.steps : 0;
	return e;
}

/* Returns the coordinate of sample k in the edge's shorter direction. */
static int sample_of(const struct edge *e, int k)
{
	return (int)((e->flat ? e->ys : e->xs) + e->slope * k + .5);
}

/* Returns the step k of a steep edge at which its samples cross from column u to column u + 1, or back: sample k is the last one before the crossing. No
 * step changes the column by more than 1. */
static int step_over(const struct edge *e, int u)
{
	bool up = e->slope > 0;
	double guess = (u + .5 - e->xs) / e->slope;
	int k = guess < 0 ? 0 : guess > e->steps - 1 ? e->steps - 1 : (int)guess;
	while (k > 0 && (up ? sample_of(e, k) > u : sample_of(e, k) <= u))
		k--;
	while (k < e->steps - 1 && (up ? sample_of(e, k + 1) <= u : sample_of(e, k + 1) > u))
		k++;
	return k;
}

/* Finds the columns of pixels, *x0 to *x1 - 1, whose middle is crossed by an edge from sample column `from` to sample column `to`. */
static void columns_of(int from, int to, int32_t width, int32_t *x0, int32_t *x1)
{
	int low = from < to ? from : to, high = from < to ? to : from; /* the steps are low to low + 1, ..., high - 1 to high */
	*x0 = low <= MIDDLE ? 0 : (low - MIDDLE + SCALE - 1) / SCALE;
	*x1 = high <= MIDDLE ? 0 : (high - 1 - MIDDLE) / SCALE + 1;
	*x1 = *x1 > width ? width : *x1;
}

static void put_edge(struct turns *t, const struct edge *e)
{
	int32_t x0, x1;
	columns_of(e->flat ? e->xs : sample_of(e, 0), e->flat ? e->xs + e->steps : sample_of(e, e->steps), t->width, &x0, &x1);
	if (x0 >= x1)
		return;
	if (!t->at && !t->bits) {
		t->count += x1 - x0;
		t->x0 = x0 < t->x0 ? x0 : t->x0;
		t->x1 = x1 > t->x1 ? x1 : t->x1;
		return;
	}
	for (int32_t x = x0; x < x1; x++) {
		int u = x * SCALE + MIDDLE;
		if (e->flat) {
			int v = sample_of(e, u - e->xs), other = sample_of(e, u + 1 - e->xs);
			put_turn(t, x, v < other ? v : other);
		} else {
			put_turn(t, x, e->ys + step_over(e, u));
		}
	}
}

/* Adds the turns of a polygon's outline, edge by edge, or only counts them (struct turns). Returns false if `cancel` was set meanwhile. vertices: `count`
 * pairs of x and y. */
static bool put_outline(struct turns *t, const float *vertices, int64_t count, const struct stk_cancel *cancel)
{
	t->count = 0;
	for (int64_t i = 0; i < count; i++) {
		const float *a = vertices + 2 * i, *b = vertices + 2 * ((i + 1) % count);
		struct edge e = edge_of((int)(SCALE * (double)a[0] + .5), (int)(SCALE * (double)a[1] + .5),
			(int)(SCALE * (double)b[0] + .5), (int)(SCALE * (double)b[1] + .5));
		put_edge(t, &e);
		if (i % EDGES_AT_ONCE == 0 && stk__cancelled(cancel))
			return false;
	}
	return true;
}

/* ---- painting ---- */

/* Labels the pixels from `first` to end - 1, counted down the columns, except those that already have a label. */
static void paint_run(struct painter *p, int64_t first, int64_t end, int32_t label)
{
	const int64_t width = p->image->width, height = p->image->height;
	for (int64_t word = first / 64; word * 64 < end; word++) {
		int64_t base = word * 64;
		uint64_t bits = p->open[word];
		if (base < first)
			bits &= UINT64_MAX << (first - base);
		if (end - base < 64)
			bits &= (UINT64_C(1) << (end - base)) - 1;
		p->open[word] &= ~bits;
		if (!bits)
			continue;
		int skip = __builtin_ctzll(bits);
		int64_t x = (base + skip) / height, y = (base + skip) % height;
		for (bits >>= skip; bits; bits >>= 1) {
			if (bits & 1)
				p->mask[y * width + x] = label;
			if (++y == height) {
				y = 0;
				x++;
			}
		}
	}
}

static enum stk_status fail_work(const char *what, int64_t id, const struct stk_coco_image *image, struct stk_error *err)
{
	return stk__fail(err, STK_LIMIT,
		"%s: with it the objects of its image of %d x %d pixels have %s, which would take a very long time to paint: leave it out, or "
		"simplify its outline",
		stk__coco_title(id).text, image->width, image->height, what);
}

/* Counts the words of `open` that painting this number of pixels reads. Returns false above the limit. */
static bool cover(struct painter *p, int64_t pixels)
{
	p->covers_left -= pixels / 64 + 1;
	return p->covers_left >= 0;
}

static int by_place(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* Paints the runs of a list of turns, which must have room for one more. */
static void paint_turns(struct painter *p, struct turns *t, int32_t label)
{
	qsort(t->at, (size_t)t->count, sizeof *t->at, by_place);
	t->at[t->count] = (int64_t)p->image->width * p->image->height;
	for (int64_t i = 0; i < t->count; i += 2)
		paint_run(p, t->at[i], t->at[i + 1], label);
}

/* Paints the runs of turns that are stored as bits in `words` words. */
static void paint_bits(struct painter *p, const struct turns *t, int64_t words, int32_t label)
{
	int64_t pixels = (int64_t)p->image->width * p->image->height, begin = -1;
	for (int64_t word = 0; word < words; word++)
		for (uint64_t bits = t->bits[word]; bits; bits &= bits - 1) {
			int64_t at = t->first + word * 64 + __builtin_ctzll(bits);
			if (begin >= 0)
				paint_run(p, begin, at, label);
			begin = begin >= 0 ? -1 : at;
		}
	if (begin >= 0)
		paint_run(p, begin, pixels, label);
}

static enum stk_status paint_polygon(
	struct painter *p, const float *vertices, int64_t count, int64_t id, int32_t label, struct stk_error *err)
{
	const struct stk_coco_image *image = p->image;
	struct turns t = {.width = image->width, .height = image->height, .x0 = image->width};
	/* The second limit makes the distance between any two samples fit in an int. */
	double farthest = fmin(1000 + 4.0 * (image->width > image->height ? image->width : image->height), INT_MAX / (2 * SCALE));
	for (int64_t i = 0; i < 2 * count; i++)
		if (!(fabs((double)vertices[i]) <= farthest))
			return stk__fail(err, STK_CORRUPT, "%s: a polygon's vertex lies at %g, far outside the image",
				stk__coco_title(id).text, (double)vertices[i]);
	if (!put_outline(&t, vertices, count, p->cancel) || t.count == 0)
		return STK_OK;
	p->crossings_left -= t.count;
	/* One more bit than pixels, since a run may end after the last pixel. */
	int64_t bits = (int64_t)(t.x1 - t.x0) * image->height + 1, words = bits / 64 + 1;
	if (p->crossings_left < 0)
		return fail_work("outlines that are several times as long as the image has pixels", id, image, err);
	if (!cover(p, bits))
		return fail_work("masks that cover it over a thousand times", id, image, err);
	struct stk_arena_mark mark = stk__arena_mark(p->scratch);
	bool sparse = t.count * 16 < words; /* sorting few turns takes less time than searching the bits */
	size_t size = sparse ? (size_t)(t.count + 1) * sizeof *t.at : (size_t)words * sizeof *t.bits;
	void *memory = stk__arena_take(p->scratch, size);
	if (!memory)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the mask of a polygon");
	t.first = (int64_t)t.x0 * image->height;
	if (sparse)
		t.at = memory;
	else
		t.bits = memset(memory, 0, size);
	if (!put_outline(&t, vertices, count, p->cancel))
		return STK_OK;
	if (sparse)
		paint_turns(p, &t, label);
	else
		paint_bits(p, &t, words, label);
	stk__arena_release(p->scratch, mark);
	return STK_OK;
}

static enum stk_status paint_runs(
	struct painter *p, const struct stk_coco *c, const struct stk_coco_shape *shape, int32_t label, struct stk_error *err)
{
	const struct stk_coco_image *image = p->image;
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
	if (!cover(p, pixels))
		return fail_work("masks that cover it over a thousand times", shape->id, image, err);
	at = 0;
	for (int32_t i = 0; i < shape->runs; at += run[i++])
		if (i & 1)
			paint_run(p, at, at + run[i], label);
	return STK_OK;
}

static enum stk_status paint_object(struct painter *p, const struct stk_coco *c, int64_t k, struct stk_error *err)
{
	const struct stk_coco_shape *shape = stk__coco_shape(c, k);
	int32_t label = stk__coco_object(c, k)->label;
	enum stk_status s = shape->runs ? paint_runs(p, c, shape, label, err) : STK_OK;
	for (int32_t i = 0; i < shape->polygons && s == STK_OK; i++) {
		const struct stk_coco_polygon *polygon = &((const struct stk_coco_polygon *)c->polygons.at)[shape->polygon + i];
		if (polygon->count) /* a polygon may have no vertices */
			s = paint_polygon(p, (const float *)c->vertices.at + 2 * polygon->first, polygon->count, shape->id, label, err);
	}
	return s;
}

/* An object of the image, for sorting. */
struct ranked {
	int32_t label;
	int64_t object;
};

static int by_label(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	return x->label != y->label ? (x->label < y->label) - (x->label > y->label) : (x->object > y->object) - (x->object < y->object);
}

enum stk_status stk__coco_paint(const struct stk_coco *c, const struct stk_coco_image *image, struct stk_arena *scratch,
	const struct stk_cancel *cancel, int32_t *mask, struct stk_error *err)
{
	int64_t pixels = (int64_t)image->width * image->height;
	struct painter p = {.image = image,
		.scratch = scratch,
		.cancel = cancel,
		.mask = mask,
		.crossings_left = FREE_WORK + CROSSINGS_A_PIXEL * pixels,
		.covers_left = FREE_WORK + COVERS * (pixels / 64)};
	memset(mask, 0, (size_t)pixels * sizeof *mask);
	if (image->count == 0)
		return STK_OK;
	size_t words = (size_t)pixels / 64 + 1;
	struct stk_arena_mark mark = stk__arena_mark(scratch);
	struct ranked *order = stk__arena_take(scratch, (size_t)image->count * sizeof *order);
	p.open = stk__arena_take(scratch, words * sizeof *p.open);
	if (!order || !p.open)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a mask of %d x %d pixels", image->width, image->height);
	memset(p.open, 0xff, words * sizeof *p.open);
	for (int64_t k = 0; k < image->count; k++)
		order[k] = (struct ranked){stk__coco_object(c, image->first + k)->label, image->first + k};
	qsort(order, (size_t)image->count, sizeof *order, by_label);
	enum stk_status s = STK_OK;
	for (int64_t k = 0; k < image->count && s == STK_OK && !stk__cancelled(cancel); k++)
		s = paint_object(&p, c, order[k].object, err);
	stk__arena_release(scratch, mark);
	return stk__cancelled(cancel) ? stk__fail(err, STK_CANCELLED, "the pipeline was cancelled") : s;
}
