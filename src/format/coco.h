/* SPDX-License-Identifier: Apache-2.0
 * COCO's annotations of objects (cocodataset.org/#format-data): images, boxes, categories, polygons. */
#ifndef STK_FORMAT_COCO_H
#define STK_FORMAT_COCO_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_coco_image {
	int64_t id;
	int32_t width, height;
	uint32_t name; /* offset of the file's name in `names` */
	int32_t count; /* number of objects, from `first` on */
	int64_t first;
};

struct stk_coco_object {
	float box[4]; /* left, top, width, height */
	int32_t label;
};

#define STK_COCO_NO_ID INT64_MIN /* stands for a missing id of an image, a category or an annotation */

/* The data from which an object's mask is made. */
struct stk_coco_shape {
	int64_t id; /* the annotation's id, for messages; STK_COCO_NO_ID: the id is missing or not a whole number */
	int64_t polygon, run;
	int32_t polygons, runs; /* number of polygons, whose first is `polygon`, and number of runs, whose first is `run` */
	int32_t extent[2];      /* rows and columns of the mask that the runs describe */
};

/* An object as the file lists it; the file has one list for the objects of all images. */
struct stk_coco_annotation {
	int64_t image, order; /* id of the image; number that grows in the order of the file's list */
	struct stk_coco_object object;
	struct stk_coco_shape shape;
};

struct stk_coco_polygon {
	int64_t first; /* index of its first vertex; a vertex is two floats */
	int64_t count;
};

/* A growing array of `count` elements at `at`, with memory for `capacity` elements. */
struct stk_coco_list {
	void *at;
	int64_t count, capacity;
};

struct stk_coco_options {
	float size_threshold; /* minimum width and height of boxes in pixels; smaller ones are left out */
	/* crowds: annotations with iscrowd are read too. polygons, runs: read these parts of masks. remap: a label is the position of its category in the
	 * file's list, from 1 on, instead of the category's id. skip_empty: images without objects are left out. */
	bool crowds, polygons, runs, remap, skip_empty;
	bool sizes;                /* sizes of images are read; an image without a size is an error */
	const char *const *images; /* names of the images to read, in this order; NULL: all images, sorted by id */
	int32_t image_count;
};

struct stk_coco {
	struct stk_coco_list annotations; /* struct stk_coco_annotation; empty after the file was read */
	/* Elements are the structs above. Exceptions: those of `vertices` are floats, x and y of each vertex; those of `categories` are the ids, int64_t. */
	struct stk_coco_list images, objects, polygons, vertices, categories;
	struct stk_coco_list shapes; /* shapes of the objects, in the same order; empty if polygons and runs are not read */
	/* uint32_t: lengths of the runs of pixels that are outside and inside an object by turns, counted down the columns. */
	struct stk_coco_list runs;
	char *names;
	uint64_t names_size, names_capacity;
};

/* Parses a file. text: its contents; path: its name, for messages. Afterwards `images` are the selected ones, in their order, and `objects` those of the
 * first image, then those of the second, and so on. The caller frees *out with stk__coco_free. */
STK_MUST_USE enum stk_status stk__coco_parse(
	const struct stk_coco_options *o, const char *text, size_t size, const char *path, struct stk_coco *out, struct stk_error *err);
void stk__coco_free(struct stk_coco *c);
void stk__coco_free_names(struct stk_coco *c); /* frees only the names, when they are no longer needed */

/* coco_json.c: fills the lists in the order of the file; labels are still ids of categories. */
STK_MUST_USE enum stk_status stk__coco_read_json(
	const struct stk_coco_options *o, const char *text, size_t size, const char *path, struct stk_coco *out, struct stk_error *err);

/* The name of an annotation in messages: "annotation 42", or "an annotation without an id". */
struct stk_coco_title {
	char text[48];
};
struct stk_coco_title stk__coco_title(int64_t id);

static inline struct stk_coco_image *stk__coco_image(const struct stk_coco *c, int64_t i)
{
	return &((struct stk_coco_image *)c->images.at)[i];
}

static inline struct stk_coco_object *stk__coco_object(const struct stk_coco *c, int64_t i)
{
	return &((struct stk_coco_object *)c->objects.at)[i];
}

static inline struct stk_coco_annotation *stk__coco_annotation(const struct stk_coco *c, int64_t i)
{
	return &((struct stk_coco_annotation *)c->annotations.at)[i];
}

/* Returns the shape of object `i`; only valid if polygons or runs were read. */
static inline struct stk_coco_shape *stk__coco_shape(const struct stk_coco *c, int64_t i)
{
	return &((struct stk_coco_shape *)c->shapes.at)[i];
}

#endif
