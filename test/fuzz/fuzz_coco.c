/* SPDX-License-Identifier: Apache-2.0
 * COCO's annotations. The first byte selects the options; accepted input must be consistent. */
#include "fuzz.h"

#include "base/error.h"
#include "format/coco_mask.h"

#include <stdlib.h>
#include <string.h>

static void check_image(const struct stk_coco *c, const struct stk_coco_image *image)
{
	if (image->name >= c->names_size || image->first < 0 || image->count < 0 || image->first + image->count > c->objects.count)
		abort();
	for (int64_t k = 0; c->shapes.count && k < image->count; k++) {
		const struct stk_coco_shape *shape = stk__coco_shape(c, image->first + k);
		if (shape->polygon < 0 || shape->polygon + shape->polygons > c->polygons.count || shape->run < 0 ||
			shape->run + shape->runs > c->runs.count)
			abort();
		for (int32_t p = 0; p < shape->polygons; p++) {
			const struct stk_coco_polygon *polygon = &((const struct stk_coco_polygon *)c->polygons.at)[shape->polygon + p];
			if (polygon->first < 0 || polygon->count < 0 || 2 * (polygon->first + polygon->count) > c->vertices.count)
				abort();
		}
	}
}

/* Paints into a buffer of exactly the mask's size, so that sanitizers detect a write outside of it. Skips images of more than MOST pixels. */
static void paint(const struct stk_coco *c, const struct stk_coco_image *image)
{
	enum { MOST = 1 << 16 };
	struct stk_arena scratch;
	if (image->width > MOST / image->height)
		return;
	int32_t *mask = malloc((size_t)image->width * (size_t)image->height * sizeof *mask);
	if (!mask)
		abort();
	stk__arena_init(&scratch);
	enum stk_status ignored = stk__coco_paint(c, image, &scratch, NULL, mask, NULL);
	(void)ignored;
	stk__arena_destroy(&scratch);
	free(mask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const images[] = {"1.jpg"};
	if (size == 0)
		return 0;
	struct stk_coco_options o = {.crowds = data[0] & 1,
		.polygons = data[0] & 2,
		.runs = data[0] & 32,
		.sizes = data[0] & 34, /* masks need sizes */
		.remap = data[0] & 4,
		.skip_empty = data[0] & 8,
		.images = data[0] & 16 ? images : NULL,
		.image_count = 1};
	struct stk_error err = {0};
	struct stk_coco c;
	if (stk__coco_parse(&o, (const char *)data + 1, size - 1, "fuzz", &c, &err)) {
		if (!strstr(err.message, "fuzz"))
			abort();
		return 0;
	}
	for (int64_t i = 0; i < c.images.count; i++) {
		check_image(&c, stk__coco_image(&c, i));
		if (o.polygons || o.runs)
			paint(&c, stk__coco_image(&c, i));
	}
	stk__coco_free(&c);
	return 0;
}
