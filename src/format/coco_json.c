/* SPDX-License-Identifier: Apache-2.0
 * Reads the annotations' JSON, without building a tree. */
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/coco.h"
#include "format/json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 4096 };

struct reading {
	const struct stk_coco_options *options;
	struct stk_coco *out;
};

static struct stk_coco *set_of(const struct stk_json *j)
{
	return ((const struct reading *)j->user)->out;
}

static const struct stk_coco_options *options_of(const struct stk_json *j)
{
	return ((const struct reading *)j->user)->options;
}

static enum stk_status no_memory(const struct stk_json *j)
{
	return stk__fail(j->err, STK_NO_MEMORY, "out of memory for the annotations of %.300s", j->path);
}

static void *append(struct stk_coco_list *l, size_t element)
{
	if (l->count == l->capacity) {
		int64_t capacity = l->capacity + l->capacity / 2 + 64;
		void *at = stk__realloc(l->at, (size_t)capacity * element);
		if (!at)
			return NULL;
		l->at = at;
		l->capacity = capacity;
	}
	return memset((char *)l->at + (size_t)l->count++ * element, 0, element);
}

static enum stk_status take_size(struct stk_json *j, int32_t *out)
{
	int64_t value = 0;
	enum stk_status s = stk__json_whole(j, &value);
	if (!s && (value < 1 || value > INT32_MAX))
		return stk__json_bad(j, "an image's extent is out of range");
	*out = s ? 0 : (int32_t)value;
	return s;
}

static enum stk_status take_name(struct stk_json *j, uint32_t *out)
{
	char unescaped[NAME];
	const char *name = NULL;
	size_t n = 0;
	struct stk_coco *c = set_of(j);
	enum stk_status s = stk__json_view(j, unescaped, sizeof unescaped, &name, &n);
	if (s)
		return s;
	if (n >= NAME)
		return stk__json_bad(j, "a string that is too long");
	if (c->names_capacity - c->names_size <= n) {
		uint64_t capacity = c->names_capacity + c->names_capacity / 2 + NAME;
		char *names = stk__realloc(c->names, capacity);
		if (!names)
			return no_memory(j);
		c->names = names;
		c->names_capacity = capacity;
	}
	if (c->names_size + n + 1 >= UINT32_MAX)
		return stk__fail(j->err, STK_LIMIT, "%.300s: the names of its images take more than 4 GiB", j->path);
	*out = (uint32_t)c->names_size + 1; /* the offset plus 1; 0: not given */
	memcpy(c->names + c->names_size, name, n);
	c->names[c->names_size + n] = '\0';
	c->names_size += n + 1;
	return STK_OK;
}

/* ---- ids for messages ---- */

/* Reads an id that is a whole number. Skips a value of another type, and leaves *id as it is. */
static enum stk_status take_id(struct stk_json *j, int64_t *id)
{
	struct stk_json probe = *j;
	probe.err = NULL;
	if (stk__json_whole(&probe, id))
		return stk__json_skip(j);
	j->at = probe.at;
	return STK_OK;
}

static enum stk_status id_entry(struct stk_json *j, const char *key, void *user)
{
	return strcmp(key, "id") == 0 ? take_id(j, user) : stk__json_skip(j);
}

/* Adds an id to the message about an image or annotation that was refused. from: the beginning of its text, which is searched for the id, since in most
 * files the id comes after the wrong field. Returns s. */
static enum stk_status name_refused(const struct stk_json *j, enum stk_status s, const char *from, const char *kind)
{
	int64_t id = STK_COCO_NO_ID;
	struct stk_json copy = *j;
	copy.at = from;
	copy.err = NULL;
	enum stk_status broken = s == STK_CORRUPT && j->err ? stk__json_each(&copy, '{', id_entry, &id) : STK_OK;
	(void)broken;
	if (id != STK_COCO_NO_ID) {
		size_t n = strlen(j->err->message);
		snprintf(j->err->message + n, sizeof j->err->message - n, ", in the %s with the id %lld", kind, (long long)id);
	}
	return s;
}

/* ---- images and categories ---- */

static enum stk_status image_entry(struct stk_json *j, const char *key, void *user)
{
	struct stk_coco_image *image = user;
	if (strcmp(key, "id") == 0)
		return stk__json_whole(j, &image->id);
	if (options_of(j)->sizes && strcmp(key, "width") == 0)
		return take_size(j, &image->width);
	if (options_of(j)->sizes && strcmp(key, "height") == 0)
		return take_size(j, &image->height);
	if (strcmp(key, "file_name") == 0)
		return take_name(j, &image->name);
	return stk__json_skip(j);
}

static enum stk_status check_image(struct stk_json *j, const struct stk_coco_image *image)
{
	if (image->id == STK_COCO_NO_ID)
		return stk__json_bad(j, "an image lacks its id");
	if (!image->name)
		return stk__json_bad(j, "an image lacks its file_name");
	return !options_of(j)->sizes || (image->width && image->height)
		       ? STK_OK
		       : stk__json_bad(j, "an image lacks its width or height, which masks and ratio need");
}

static enum stk_status take_image(struct stk_json *j, const char *key, void *user)
{
	(void)key;
	(void)user;
	struct stk_coco_image image = {.id = STK_COCO_NO_ID}, *added;
	stk__json_blanks(j);
	const char *from = j->at;
	enum stk_status s = stk__json_each(j, '{', image_entry, &image);
	if (!s)
		s = check_image(j, &image);
	if (s)
		return name_refused(j, s, from, "image");
	image.name--;
	if (!(added = append(&set_of(j)->images, sizeof image)))
		return no_memory(j);
	*added = image;
	return STK_OK;
}

static enum stk_status category_entry(struct stk_json *j, const char *key, void *user)
{
	return strcmp(key, "id") == 0 ? stk__json_whole(j, user) : stk__json_skip(j);
}

static enum stk_status take_category(struct stk_json *j, const char *key, void *user)
{
	(void)key;
	(void)user;
	int64_t id = STK_COCO_NO_ID, *added;
	enum stk_status s = stk__json_each(j, '{', category_entry, &id);
	if (s)
		return s;
	if (id < INT32_MIN || id > INT32_MAX)
		return stk__json_bad(j, "a category lacks its id, or it is out of range");
	if (!(added = append(&set_of(j)->categories, sizeof id)))
		return no_memory(j);
	*added = id;
	return STK_OK;
}

struct annotation {
	struct stk_coco_annotation entry;
	int64_t category, crowd;
	int64_t vertices; /* length of the list `vertices` before this annotation */
	int box_numbers;  /* number of the box's four numbers that were read; -1: the annotation has no box */
};

/* Reads a coordinate. A value that is finite in the file must be finite as a float. */
static enum stk_status take_float(struct stk_json *j, float *out)
{
	double value;
	enum stk_status s = stk__json_real(j, &value);
	if (s)
		return s;
	if (!(fabs(value) <= (double)FLT_MAX))
		return stk__json_bad(j, "a coordinate that is out of range: coordinates are float32");
	*out = (float)value;
	return STK_OK;
}

static enum stk_status box_entry(struct stk_json *j, const char *key, void *user)
{
	(void)key;
	struct annotation *a = user;
	if (a->box_numbers == 4)
		return stk__json_bad(j, "a bbox of more than four numbers: left, top, width, height");
	return take_float(j, &a->entry.object.box[a->box_numbers++]);
}

static enum stk_status vertex_entry(struct stk_json *j, const char *key, void *user)
{
	(void)key;
	int64_t *numbers = user;
	float value = 0, *added;
	enum stk_status s = take_float(j, &value);
	if (s)
		return s;
	if (!(added = append(&set_of(j)->vertices, sizeof *added)))
		return no_memory(j);
	*added = value;
	++*numbers;
	return STK_OK;
}

static enum stk_status polygon_entry(struct stk_json *j, const char *key, void *user)
{
	(void)key;
	struct annotation *a = user;
	int64_t first = set_of(j)->vertices.count / 2, numbers = 0;
	struct stk_coco_polygon *added;
	enum stk_status s = stk__json_each(j, '[', vertex_entry, &numbers);
	if (s)
		return s;
	if (numbers % 2)
		return stk__json_bad(j, "a polygon with an odd count of coordinates");
	if (!(added = append(&set_of(j)->polygons, sizeof *added)))
		return no_memory(j);
	*added = (struct stk_coco_polygon){first, numbers / 2};
	a->entry.shape.polygons++;
	return STK_OK;
}

/* ---- runs of pixels ---- */

static enum stk_status put_run(struct stk_json *j, struct annotation *a, int64_t run)
{
	if (run < 0 || run > UINT32_MAX || a->entry.shape.runs == INT32_MAX)
		return stk__json_bad(j, "a run of pixels that is out of range");
	uint32_t *added = append(&set_of(j)->runs, sizeof *added);
	if (!added)
		return no_memory(j);
	*added = (uint32_t)run;
	a->entry.shape.runs++;
	return STK_OK;
}

static enum stk_status run_entry(struct stk_json *j, const char *key, void *user)
{
	(void)key;
	int64_t run = 0;
	enum stk_status s = stk__json_whole(j, &run);
	return s ? s : put_run(j, user, run);
}

/* Reads the next letter of a string of runs: six bits, counted from '0' on. A backslash is written as two. Returns false if no letter follows. */
static bool take_letter(struct stk_json *j, int *bits)
{
	if (j->at < j->end && *j->at == '\\')
		if (++j->at == j->end || *j->at != '\\')
			return false;
	*bits = j->at < j->end ? *j->at++ - '0' : -1;
	return *bits >= 0 && *bits < 64;
}

/* Reads a string of runs as pycocotools writes it: each run in groups of five bits, the lowest first, with a sign; from the fourth run on, the difference
 * from the run before the previous one. */
static enum stk_status take_packed_runs(struct stk_json *j, struct annotation *a)
{
	if (!stk__json_take(j, '"'))
		return stk__json_bad(j, "runs of pixels are a list or a string");
	while (j->at < j->end && *j->at != '"') {
		int64_t run = 0;
		int bits = 32;
		for (int shift = 0; bits & 32; shift += 5) {
			if (shift > 30 || !take_letter(j, &bits))
				return stk__json_bad(j, "a string that holds no runs of pixels");
			run += (int64_t)(bits & 31) << shift;
			if (!(bits & 32) && (bits & 16))
				run -= INT64_C(1) << (shift + 5);
		}
		if (a->entry.shape.runs > 2)
			run += ((const uint32_t *)set_of(j)->runs.at)[set_of(j)->runs.count - 2];
		enum stk_status s = put_run(j, a, run);
		if (s)
			return s;
	}
	return stk__json_take(j, '"') ? STK_OK : stk__json_bad(j, "a string without end");
}

struct extents {
	struct annotation *a;
	int count;
};

static enum stk_status extent_entry(struct stk_json *j, const char *key, void *user)
{
	(void)key;
	struct extents *e = user;
	if (e->count == 2)
		return stk__json_bad(j, "a size of more than two numbers");
	return take_size(j, &e->a->entry.shape.extent[e->count++]);
}

static enum stk_status segmentation_entry(struct stk_json *j, const char *key, void *user)
{
	struct annotation *a = user;
	struct extents e = {a, 0};
	if (strcmp(key, "size") == 0)
		return stk__json_each(j, '[', extent_entry, &e);
	if (strcmp(key, "counts") != 0)
		return stk__json_skip(j);
	set_of(j)->runs.count -= a->entry.shape.runs; /* an object may contain runs twice: the last ones count */
	a->entry.shape.runs = 0;
	bool list = stk__json_is(j, '[');
	return list ? stk__json_each(j, '[', run_entry, a) : take_packed_runs(j, a);
}

static enum stk_status take_runs(struct stk_json *j, struct annotation *a)
{
	enum stk_status s = stk__json_each(j, '{', segmentation_entry, a);
	if (!s && !a->entry.shape.runs)
		return stk__json_bad(j, "a segmentation by runs of pixels lacks its counts, or they are empty");
	if (!s && !a->entry.shape.extent[1])
		return stk__json_bad(j, "a segmentation by runs of pixels lacks its size: [height, width]");
	return s;
}

/* Removes the shape of an annotation from the lists. */
static void drop_shape(struct stk_coco *c, struct annotation *a)
{
	struct stk_coco_shape *shape = &a->entry.shape;
	c->polygons.count = shape->polygon;
	c->runs.count = shape->run;
	c->vertices.count = a->vertices;
	*shape = (struct stk_coco_shape){.id = shape->id, .polygon = shape->polygon, .run = shape->run};
}

/* Reads polygons, or the runs of pixels of crowds. Skips those that the options do not ask for. null means that there is no segmentation. An object may contain
 * a segmentation twice: the last one counts. */
static enum stk_status take_segmentation(struct stk_json *j, struct annotation *a)
{
	drop_shape(set_of(j), a);
	if (stk__json_null(j))
		return STK_OK;
	bool polygons = stk__json_is(j, '[');
	if (polygons)
		return options_of(j)->polygons ? stk__json_each(j, '[', polygon_entry, a) : stk__json_skip(j);
	if (!options_of(j)->runs)
		return stk__json_skip(j);
	return stk__json_is(j, '{')
		       ? take_runs(j, a)
		       : stk__json_bad(j, "a segmentation is a list of polygons, or an object with the counts of runs of pixels");
}

/* ---- annotations ---- */

/* Reads iscrowd, which is 0 or 1, or true or false as some programs write it. */
static enum stk_status take_crowd(struct stk_json *j, int64_t *out)
{
	bool crowd = false;
	*out = 0;
	if (stk__json_null(j))
		return STK_OK;
	if (!stk__json_is(j, 't') && !stk__json_is(j, 'f'))
		return stk__json_whole(j, out);
	enum stk_status s = stk__json_bool(j, &crowd);
	*out = crowd;
	return s;
}

static enum stk_status annotation_entry(struct stk_json *j, const char *key, void *user)
{
	struct annotation *a = user;
	if (strcmp(key, "image_id") == 0)
		return stk__json_whole(j, &a->entry.image);
	if (strcmp(key, "category_id") == 0)
		return stk__json_whole(j, &a->category);
	if (strcmp(key, "iscrowd") == 0)
		return take_crowd(j, &a->crowd);
	if (strcmp(key, "bbox") == 0) {
		a->box_numbers = 0;
		return stk__json_each(j, '[', box_entry, a);
	}
	if (strcmp(key, "id") == 0)
		return take_id(j, &a->entry.shape.id);
	return strcmp(key, "segmentation") == 0 ? take_segmentation(j, a) : stk__json_skip(j);
}

static enum stk_status check_annotation(struct stk_json *j, const struct annotation *a)
{
	char text[96];
	if (a->entry.image == STK_COCO_NO_ID)
		return stk__json_bad(j, "an annotation lacks its image_id");
	if (a->category == STK_COCO_NO_ID)
		return stk__json_bad(j, "an annotation lacks its category_id");
	if (a->category < INT32_MIN || a->category > INT32_MAX)
		return stk__json_bad(j, "a category_id that is out of range: labels are int32");
	if (a->box_numbers < 0)
		return stk__json_bad(j, "an annotation lacks its bbox");
	if (a->box_numbers == 4)
		return STK_OK;
	snprintf(text, sizeof text, "a bbox of %d number%s, where four are needed: left, top, width, height", a->box_numbers,
		a->box_numbers == 1 ? "" : "s");
	return stk__json_bad(j, text);
}

static enum stk_status take_annotation(struct stk_json *j, const char *key, void *user)
{
	(void)key;
	(void)user;
	struct stk_coco *c = set_of(j);
	struct annotation a = {
		.entry = {.image = STK_COCO_NO_ID, .shape = {.id = STK_COCO_NO_ID, .polygon = c->polygons.count, .run = c->runs.count}},
		.category = STK_COCO_NO_ID,
		.vertices = c->vertices.count,
		.box_numbers = -1};
	stk__json_blanks(j);
	const char *from = j->at;
	enum stk_status s = stk__json_each(j, '{', annotation_entry, &a);
	if (!s)
		s = check_annotation(j, &a);
	if (s)
		return name_refused(j, s, from, "annotation");
	float least = options_of(j)->size_threshold;
	if (a.entry.object.box[2] < least || a.entry.object.box[3] < least || (a.crowd && !options_of(j)->crowds)) {
		drop_shape(c, &a);
		return STK_OK;
	}
	struct stk_coco_annotation *added = append(&c->annotations, sizeof *added);
	if (!added)
		return no_memory(j);
	*added = a.entry;
	added->order = c->annotations.count;
	added->object.label = (int32_t)a.category;
	return STK_OK;
}

static enum stk_status top_entry(struct stk_json *j, const char *key, void *user)
{
	(void)user;
	if (strcmp(key, "images") == 0)
		return stk__json_each(j, '[', take_image, NULL);
	if (strcmp(key, "annotations") == 0)
		return stk__json_each(j, '[', take_annotation, NULL);
	if (strcmp(key, "categories") == 0)
		return stk__json_each(j, '[', take_category, NULL);
	return stk__json_skip(j);
}

enum stk_status stk__coco_read_json(
	const struct stk_coco_options *o, const char *text, size_t size, const char *path, struct stk_coco *out, struct stk_error *err)
{
	struct reading r = {o, out};
	if (size > 1 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
		return stk__fail(err, STK_CORRUPT, "%.300s is text in UTF-16: save it as UTF-8, which JSON is written in", path);
	struct stk_json j = {.at = text + stk__byte_order_mark(text, size),
		.end = text + size,
		.begin = text,
		.whole = true,
		.path = path,
		.user = &r,
		.err = err};
	enum stk_status s = stk__json_each(&j, '{', top_entry, NULL);
	if (s)
		return s;
	stk__json_blanks(&j);
	return j.at < j.end ? stk__json_bad(&j, "something follows the annotations") : STK_OK;
}
