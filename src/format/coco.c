/* SPDX-License-Identifier: Apache-2.0 */
#include "format/coco.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stk__coco_free(struct stk_coco *c)
{
	stk__free(c->annotations.at);
	stk__free(c->images.at);
	stk__free(c->objects.at);
	stk__free(c->shapes.at);
	stk__free(c->polygons.at);
	stk__free(c->runs.at);
	stk__free(c->vertices.at);
	stk__free(c->categories.at);
	stk__free(c->names);
	*c = (struct stk_coco){0};
}

void stk__coco_free_names(struct stk_coco *c)
{
	stk__free(c->names);
	c->names = NULL;
	c->names_size = c->names_capacity = 0;
}

struct stk_coco_title stk__coco_title(int64_t id)
{
	struct stk_coco_title title = {"an annotation without an id"};
	if (id != STK_COCO_NO_ID)
		snprintf(title.text, sizeof title.text, "annotation %lld", (long long)id);
	return title;
}

static int by_id(const void *a, const void *b)
{
	const struct stk_coco_image *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_image(const void *a, const void *b)
{
	const struct stk_coco_annotation *x = a, *y = b;
	if (x->image != y->image)
		return x->image < y->image ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Sorts a list unless it is sorted already, as the images of most files are, and the annotations of many. */
static void sort(struct stk_coco_list *l, size_t element, int (*order)(const void *, const void *))
{
	const char *at = l->at;
	bool sorted = true;
	for (int64_t i = 1; i < l->count && sorted; i++, at += element)
		sorted = order(at, at + element) <= 0;
	if (!sorted)
		qsort(l->at, (size_t)l->count, element, order);
}

/* Assigns objects to images; both must be sorted by the image's id. Drops annotations of images that are not in the list, since users shorten the list of
 * images and keep all annotations. */
static enum stk_status join(struct stk_coco *c, const char *path, struct stk_error *err)
{
	int64_t k = 0, kept = 0, n = c->annotations.count;
	for (int64_t i = 0; i < c->images.count; i++) {
		struct stk_coco_image *image = stk__coco_image(c, i);
		if (i && image->id == image[-1].id)
			return stk__fail(err, STK_CORRUPT, "%.300s: two images have the id %lld", path, (long long)image->id);
		while (k < n && stk__coco_annotation(c, k)->image < image->id)
			k++;
		image->first = kept;
		for (; k < n && stk__coco_annotation(c, k)->image == image->id; k++, kept++)
			if (kept < k)
				*stk__coco_annotation(c, kept) = *stk__coco_annotation(c, k);
		image->count = (int32_t)(kept - image->first);
	}
	c->annotations.count = kept;
	return STK_OK;
}

/* Copies the objects from `annotations` to `objects`, which contain no image ids, and their shapes to `shapes`. */
static enum stk_status split(const struct stk_coco_options *o, struct stk_coco *c, const char *path, struct stk_error *err)
{
	int64_t n = c->annotations.count;
	bool shaped = o->polygons || o->runs;
	struct stk_coco_object *objects = stk__alloc(((size_t)n + 1) * sizeof *objects);
	struct stk_coco_shape *shapes = shaped ? stk__alloc(((size_t)n + 1) * sizeof *shapes) : NULL;
	c->objects = (struct stk_coco_list){objects, objects ? n : 0, n};
	c->shapes = (struct stk_coco_list){shapes, shapes ? n : 0, n};
	if (!objects || (shaped && !shapes))
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the objects of %.300s", path);
	for (int64_t i = 0; i < n; i++) {
		objects[i] = stk__coco_annotation(c, i)->object;
		if (shaped)
			shapes[i] = stk__coco_annotation(c, i)->shape;
	}
	stk__free(c->annotations.at);
	c->annotations = (struct stk_coco_list){0};
	return STK_OK;
}

/* Frees the memory that the growing list does not use. If realloc fails, nothing changes. */
static void shrink(struct stk_coco_list *l, size_t element)
{
	void *at = l->count ? stk__realloc(l->at, (size_t)l->count * element) : NULL;
	l->at = at ? at : l->at;
	l->capacity = at ? l->count : l->capacity;
}

/* Replaces each label, which is a category's id, by the position of that category in the file's list, from 1 on. STK_CORRUPT: the list does not contain it. */
static enum stk_status remap(struct stk_coco *c, const char *path, struct stk_error *err)
{
	for (int64_t k = 0; k < c->annotations.count; k++) {
		struct stk_coco_annotation *a = stk__coco_annotation(c, k);
		int64_t label = 0;
		while (label < c->categories.count && ((const int64_t *)c->categories.at)[label] != a->object.label)
			label++;
		if (label == c->categories.count)
			return stk__fail(err, STK_CORRUPT,
				"%.300s: %s is of category %d, which is not among the categories; with avoid_class_remapping=True labels are the ids "
				"themselves",
				path, stk__coco_title(a->shape.id).text, a->object.label);
		a->object.label = (int32_t)label + 1;
	}
	return STK_OK;
}

struct named {
	const char *name;
	int64_t image;
};

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	return strcmp(x->name, y->name);
}

/* Replaces the list of images by those of the options, in their order. */
static enum stk_status choose(const struct stk_coco_options *o, struct stk_coco *c, const char *path, struct stk_error *err)
{
	struct named *index = stk__alloc(((size_t)c->images.count + 1) * sizeof *index);
	struct stk_coco_image *chosen = stk__alloc(((size_t)o->image_count + 1) * sizeof *chosen);
	enum stk_status s = index && chosen ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for the images of %.300s", path);
	for (int64_t i = 0; i < c->images.count && s == STK_OK; i++)
		index[i] = (struct named){c->names + stk__coco_image(c, i)->name, i};
	if (!s)
		qsort(index, (size_t)c->images.count, sizeof *index, by_name);
	for (int32_t i = 0; i < o->image_count && s == STK_OK; i++) {
		const struct named key = {o->images[i], 0};
		const struct named *found = bsearch(&key, index, (size_t)c->images.count, sizeof *index, by_name);
		if (!found)
			s = stk__fail(err, STK_NOT_FOUND, "%.300s has no image \"%.200s\", which is named in images", path, o->images[i]);
		else if ((found > index && by_name(found - 1, found) == 0) ||
			 (found + 1 < index + c->images.count && by_name(found, found + 1) == 0))
			s = stk__fail(err, STK_CORRUPT, "%.300s: several images are called \"%.200s\", which is named in images", path,
				o->images[i]);
		else
			chosen[i] = *stk__coco_image(c, found->image);
	}
	stk__free(index);
	if (s) {
		stk__free(chosen);
		return s;
	}
	stk__free(c->images.at);
	c->images = (struct stk_coco_list){chosen, o->image_count, o->image_count};
	return STK_OK;
}

static void drop_empty(struct stk_coco *c)
{
	int64_t kept = 0;
	for (int64_t i = 0; i < c->images.count; i++)
		if (stk__coco_image(c, i)->count)
			*stk__coco_image(c, kept++) = *stk__coco_image(c, i);
	c->images.count = kept;
}

enum stk_status stk__coco_parse(
	const struct stk_coco_options *o, const char *text, size_t size, const char *path, struct stk_coco *out, struct stk_error *err)
{
	*out = (struct stk_coco){0};
	enum stk_status s = stk__coco_read_json(o, text, size, path, out, err);
	sort(&out->images, sizeof(struct stk_coco_image), by_id);
	sort(&out->annotations, sizeof(struct stk_coco_annotation), by_image);
	if (!s)
		s = join(out, path, err);
	if (!s && o->remap)
		s = remap(out, path, err);
	if (!s)
		s = split(o, out, path, err);
	if (!s && o->images)
		s = choose(o, out, path, err);
	if (!s && o->skip_empty)
		drop_empty(out);
	if (!s && !out->images.count)
		s = stk__fail(err, STK_NOT_FOUND, "%.300s: no images in it%s", path, o->skip_empty ? " that have objects" : "");
	if (s) {
		stk__coco_free(out);
		return s;
	}
	shrink(&out->images, sizeof(struct stk_coco_image));
	shrink(&out->polygons, sizeof(struct stk_coco_polygon));
	shrink(&out->vertices, sizeof(float));
	shrink(&out->runs, sizeof(uint32_t));
	return STK_OK;
}
