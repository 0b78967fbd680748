/* SPDX-License-Identifier: Apache-2.0
 * The annotations' JSON, read once from end to end: a tree of it would take ten times the file's size. */
#include "base/error.h"
#include "base/memory.h"
#include "format/coco.h"
#include "format/number.h"

#include <math.h>
#include <string.h>

enum { DEPTH = 64, KEY = 64, NAME = 4096 };

struct json {
	const char *at, *end, *begin, *path;
	const struct stk_coco_options *options;
	struct stk_coco *out;
	struct stk_error *err;
};

static enum stk_status bad(const struct json *j, const char *what)
{
	enum stk_status s = stk__fail(j->err, STK_CORRUPT, "%.300s, at byte %lld: %s", j->path, (long long)(j->at - j->begin), what);
	if (j->err)
		j->err->offset = j->at - j->begin;
	return s;
}

static enum stk_status no_memory(const struct json *j)
{
	return stk__fail(j->err, STK_NO_MEMORY, "out of memory for the annotations of %.300s", j->path);
}

static void *append(struct stk_coco_list *l, size_t element)
{
	if (l->count == l->room) {
		int64_t room = l->room + l->room / 2 + 64;
		void *at = stk__realloc(l->at, (size_t)room * element);
		if (!at)
			return NULL;
		l->at = at;
		l->room = room;
	}
	return memset((char *)l->at + (size_t)l->count++ * element, 0, element);
}

/* ---- JSON ---- */

static void skip_blanks(struct json *j)
{
	while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\r' || *j->at == '\n'))
		j->at++;
}

static bool take(struct json *j, char c)
{
	skip_blanks(j);
	bool found = j->at < j->end && *j->at == c;
	j->at += found;
	return found;
}

static int hex_of(const char *at)
{
	int value = 0;
	for (int i = 0; i < 4; i++) {
		char c = at[i];
		int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	return value;
}

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	size_t n = c < 0x10000 ? 3 : 4;
	out[0] = (char)(n == 3 ? 0xe0 | c >> 12 : 0xf0 | c >> 18);
	for (size_t i = 1; i < n; i++)
		out[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 63));
	return n;
}

/* Behind a backslash. */
static bool take_escape(struct json *j, char *out, size_t *n)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = j->at < j->end && *j->at ? strchr(from, *j->at) : NULL;
	if (at) {
		j->at++;
		out[(*n)++] = to[at - from];
		return true;
	}
	if (j->end - j->at < 5 || *j->at != 'u')
		return false;
	int high = hex_of(j->at + 1), low = -1;
	j->at += 5;
	if (high >= 0xd800 && high < 0xdc00 && j->end - j->at >= 6 && j->at[0] == '\\' && j->at[1] == 'u') {
		low = hex_of(j->at + 2);
		j->at += 6;
	}
	if (high <= 0 || (high >= 0xd800 && high < 0xe000 && (high >= 0xdc00 || low < 0xdc00 || low >= 0xe000)))
		return false;
	*n += put_utf8(out + *n, low < 0 ? (uint32_t)high : 0x10000u + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
	return true;
}

/* out: NULL: passed over, as is what does not fit. */
static enum stk_status take_string(struct json *j, char *out, size_t capacity)
{
	char piece[8];
	size_t used = 0;
	if (!take(j, '"'))
		return bad(j, "a string is expected");
	while (j->at < j->end && *j->at != '"') {
		size_t n = 0;
		if (*j->at == '\\') {
			j->at++;
			if (!take_escape(j, piece, &n))
				return bad(j, "a string with an escape that JSON has not");
		} else {
			piece[n++] = *j->at++;
		}
		if (out && used + n >= capacity)
			return bad(j, "a string that is too long");
		if (out)
			memcpy(out + used, piece, n);
		used += n;
	}
	if (j->at == j->end)
		return bad(j, "a string without end");
	j->at++;
	if (out)
		out[used] = '\0';
	return out && strlen(out) != used ? bad(j, "a string with a zero byte") : STK_OK;
}

static enum stk_status take_real(struct json *j, double *out)
{
	skip_blanks(j);
	return stk__take_real(&j->at, j->end, out) ? STK_OK : bad(j, "a number is expected");
}

static enum stk_status take_whole(struct json *j, int64_t *out)
{
	double value;
	enum stk_status s = take_real(j, &value);
	if (s)
		return s;
	if (!(fabs(value) <= 0x1p53) || value != (double)(int64_t)value)
		return bad(j, "a whole number is expected");
	*out = (int64_t)value;
	return STK_OK;
}

static enum stk_status skip_value(struct json *j, int depth)
{
	enum stk_status s = STK_OK;
	bool object = take(j, '{'), list = !object && take(j, '[');
	if (depth == DEPTH)
		return bad(j, "values are nested too deeply");
	if (object || list) {
		char close = object ? '}' : ']';
		if (take(j, close))
			return STK_OK;
		do {
			if (object && ((s = take_string(j, NULL, 0)) || !take(j, ':')))
				return s ? s : bad(j, "a colon is expected");
			s = skip_value(j, depth + 1);
		} while (s == STK_OK && take(j, ','));
		return s || take(j, close) ? s : bad(j, "a comma or the end of a list is expected");
	}
	if (j->at < j->end && *j->at == '"')
		return take_string(j, NULL, 0);
	static const char *const words[] = {"true", "false", "null", "NaN"};
	for (int i = 0; i < 4; i++) {
		size_t n = strlen(words[i]);
		if ((size_t)(j->end - j->at) >= n && memcmp(j->at, words[i], n) == 0) {
			j->at += n;
			return STK_OK;
		}
	}
	double value;
	return take_real(j, &value);
}

/* Calls `entry` for each entry of an object, behind its colon, or of a list, whose key is "". */
static enum stk_status each(struct json *j, char open, enum stk_status (*entry)(struct json *j, const char *key, void *user), void *user)
{
	char key[KEY] = "", close = open == '{' ? '}' : ']';
	enum stk_status s = STK_OK;
	if (!take(j, open))
		return bad(j, open == '{' ? "an object is expected" : "a list is expected");
	if (take(j, close))
		return STK_OK;
	do {
		if (open == '{' && ((s = take_string(j, key, sizeof key)) || !take(j, ':')))
			return s ? s : bad(j, "a colon is expected");
		s = entry(j, key, user);
	} while (s == STK_OK && take(j, ','));
	return s || take(j, close) ? s : bad(j, "a comma or the end of a list is expected");
}

/* ---- COCO ---- */

static enum stk_status take_size(struct json *j, int32_t *out)
{
	int64_t value = 0;
	enum stk_status s = take_whole(j, &value);
	if (!s && (value < 1 || value > INT32_MAX))
		return bad(j, "an image's extent is out of range");
	*out = s ? 0 : (int32_t)value;
	return s;
}

static enum stk_status take_name(struct json *j, uint64_t *out)
{
	char name[NAME];
	struct stk_coco *c = j->out;
	enum stk_status s = take_string(j, name, sizeof name);
	size_t n = s ? 0 : strlen(name) + 1;
	if (!s && c->names_room - c->names_size < n) {
		uint64_t room = c->names_room + c->names_room / 2 + NAME;
		char *names = stk__realloc(c->names, room);
		if (!names)
			return no_memory(j);
		c->names = names;
		c->names_room = room;
	}
	if (s)
		return s;
	*out = c->names_size + 1; /* 0: not given */
	memcpy(c->names + c->names_size, name, n);
	c->names_size += n;
	return STK_OK;
}

static enum stk_status image_entry(struct json *j, const char *key, void *user)
{
	struct stk_coco_image *image = user;
	if (strcmp(key, "id") == 0)
		return take_whole(j, &image->id);
	if (strcmp(key, "width") == 0)
		return take_size(j, &image->width);
	if (strcmp(key, "height") == 0)
		return take_size(j, &image->height);
	if (strcmp(key, "file_name") == 0)
		return take_name(j, &image->name);
	return skip_value(j, 0);
}

static enum stk_status take_image(struct json *j, const char *key, void *user)
{
	(void)key;
	(void)user;
	struct stk_coco_image image = {.id = INT64_MIN}, *kept;
	enum stk_status s = each(j, '{', image_entry, &image);
	if (s)
		return s;
	if (image.id == INT64_MIN || !image.name || !image.width || !image.height)
		return bad(j, "an image lacks its id, file_name, width or height");
	image.name--;
	if (!(kept = append(&j->out->images, sizeof image)))
		return no_memory(j);
	*kept = image;
	return STK_OK;
}

static enum stk_status category_entry(struct json *j, const char *key, void *user)
{
	return strcmp(key, "id") == 0 ? take_whole(j, user) : skip_value(j, 0);
}

static enum stk_status take_category(struct json *j, const char *key, void *user)
{
	(void)key;
	(void)user;
	int64_t id = INT64_MIN, *kept;
	enum stk_status s = each(j, '{', category_entry, &id);
	if (s)
		return s;
	if (id < INT32_MIN || id > INT32_MAX)
		return bad(j, "a category lacks its id, or it is out of range");
	if (!(kept = append(&j->out->categories, sizeof id)))
		return no_memory(j);
	*kept = id;
	return STK_OK;
}

struct annotation {
	struct stk_coco_object object;
	int64_t category, crowd;
	int sides; /* of the box, so far */
};

static enum stk_status box_entry(struct json *j, const char *key, void *user)
{
	(void)key;
	struct annotation *a = user;
	double value;
	if (a->sides == 4)
		return bad(j, "a box of more than four numbers");
	enum stk_status s = take_real(j, &value);
	a->object.box[a->sides++] = (float)value;
	return s;
}

static enum stk_status vertex_entry(struct json *j, const char *key, void *user)
{
	(void)key;
	int64_t *numbers = user;
	double value;
	float *kept;
	enum stk_status s = take_real(j, &value);
	if (s)
		return s;
	if (!(kept = append(&j->out->vertices, sizeof *kept)))
		return no_memory(j);
	*kept = (float)value;
	++*numbers;
	return STK_OK;
}

static enum stk_status polygon_entry(struct json *j, const char *key, void *user)
{
	(void)key;
	struct annotation *a = user;
	int64_t first = j->out->vertices.count / 2, numbers = 0;
	struct stk_coco_polygon *kept;
	enum stk_status s = each(j, '[', vertex_entry, &numbers);
	if (s)
		return s;
	if (numbers % 2)
		return bad(j, "a polygon with an odd count of coordinates");
	if (!(kept = append(&j->out->polygons, sizeof *kept)))
		return no_memory(j);
	*kept = (struct stk_coco_polygon){first, numbers / 2};
	a->object.polygons++;
	return STK_OK;
}

/* ---- runs of pixels ---- */

static enum stk_status put_run(struct json *j, struct annotation *a, int64_t run)
{
	if (run < 0 || run > UINT32_MAX || a->object.runs == INT32_MAX)
		return bad(j, "a run of pixels that is out of range");
	uint32_t *kept = append(&j->out->runs, sizeof *kept);
	if (!kept)
		return no_memory(j);
	*kept = (uint32_t)run;
	a->object.runs++;
	return STK_OK;
}

static enum stk_status run_entry(struct json *j, const char *key, void *user)
{
	(void)key;
	int64_t run = 0;
	enum stk_status s = take_whole(j, &run);
	return s ? s : put_run(j, user, run);
}

/* The next five bits of runs in a string, a letter from '0' on, which may be a backslash, and then stands behind another. */
static bool take_letter(struct json *j, int *bits)
{
	if (j->at < j->end && *j->at == '\\')
		if (++j->at == j->end || *j->at != '\\')
			return false;
	*bits = j->at < j->end ? *j->at++ - '0' : -1;
	return *bits >= 0 && *bits < 64;
}

/* pycocotools' string: runs in groups of five bits, the lowest first, with a sign; from the fourth on the difference from the run before the last. */
static enum stk_status take_packed_runs(struct json *j, struct annotation *a)
{
	if (!take(j, '"'))
		return bad(j, "runs of pixels are a list or a string");
	while (j->at < j->end && *j->at != '"') {
		int64_t run = 0;
		int bits = 32;
		for (int shift = 0; bits & 32; shift += 5) {
			if (shift > 30 || !take_letter(j, &bits))
				return bad(j, "a string that holds no runs of pixels");
			run += (int64_t)(bits & 31) << shift;
			if (!(bits & 32) && (bits & 16))
				run -= INT64_C(1) << (shift + 5);
		}
		if (a->object.runs > 2)
			run += ((const uint32_t *)j->out->runs.at)[j->out->runs.count - 2];
		enum stk_status s = put_run(j, a, run);
		if (s)
			return s;
	}
	return take(j, '"') ? STK_OK : bad(j, "a string without end");
}

struct extents {
	struct annotation *a;
	int count;
};

static enum stk_status extent_entry(struct json *j, const char *key, void *user)
{
	(void)key;
	struct extents *e = user;
	if (e->count == 2)
		return bad(j, "a size of more than two numbers");
	return take_size(j, &e->a->object.extent[e->count++]);
}

static enum stk_status segmentation_entry(struct json *j, const char *key, void *user)
{
	struct annotation *a = user;
	struct extents e = {a, 0};
	if (strcmp(key, "size") == 0)
		return each(j, '[', extent_entry, &e);
	if (strcmp(key, "counts") != 0)
		return skip_value(j, 0);
	j->out->runs.count -= a->object.runs; /* of an object that names them twice the last count */
	a->object.runs = 0;
	bool list = take(j, '[');
	j->at -= list;
	return list ? each(j, '[', run_entry, a) : take_packed_runs(j, a);
}

/* Polygons, or runs of pixels, as crowds have them. */
static enum stk_status take_segmentation(struct json *j, struct annotation *a)
{
	bool polygons = take(j, '[');
	j->at -= polygons;
	if (polygons)
		return j->options->polygons ? each(j, '[', polygon_entry, a) : skip_value(j, 0);
	return j->options->runs ? each(j, '{', segmentation_entry, a) : skip_value(j, 0);
}

/* ---- annotations ---- */

static enum stk_status annotation_entry(struct json *j, const char *key, void *user)
{
	struct annotation *a = user;
	if (strcmp(key, "image_id") == 0)
		return take_whole(j, &a->object.image);
	if (strcmp(key, "category_id") == 0)
		return take_whole(j, &a->category);
	if (strcmp(key, "iscrowd") == 0)
		return take_whole(j, &a->crowd);
	if (strcmp(key, "bbox") == 0) {
		a->sides = 0;
		return each(j, '[', box_entry, a);
	}
	return strcmp(key, "segmentation") == 0 ? take_segmentation(j, a) : skip_value(j, 0);
}

static enum stk_status take_annotation(struct json *j, const char *key, void *user)
{
	(void)key;
	(void)user;
	struct stk_coco *c = j->out;
	struct annotation a = {.object = {.image = INT64_MIN, .polygon = c->polygons.count, .run = c->runs.count}, .category = INT64_MIN};
	int64_t vertices = c->vertices.count;
	enum stk_status s = each(j, '{', annotation_entry, &a);
	if (s)
		return s;
	if (a.object.image == INT64_MIN || a.category < INT32_MIN || a.category > INT32_MAX || a.sides != 4)
		return bad(j, "an annotation lacks its image_id, category_id or bbox");
	float least = j->options->size_threshold;
	if (a.object.box[2] < least || a.object.box[3] < least || (a.crowd && !j->options->crowds)) {
		c->polygons.count = a.object.polygon;
		c->runs.count = a.object.run;
		c->vertices.count = vertices;
		return STK_OK;
	}
	struct stk_coco_object *kept = append(&c->objects, sizeof *kept);
	if (!kept)
		return no_memory(j);
	*kept = a.object;
	kept->order = c->objects.count;
	kept->label = (int32_t)a.category;
	return STK_OK;
}

static enum stk_status top_entry(struct json *j, const char *key, void *user)
{
	(void)user;
	if (strcmp(key, "images") == 0)
		return each(j, '[', take_image, NULL);
	if (strcmp(key, "annotations") == 0)
		return each(j, '[', take_annotation, NULL);
	if (strcmp(key, "categories") == 0)
		return each(j, '[', take_category, NULL);
	return skip_value(j, 0);
}

enum stk_status stk__coco_read_json(
	const struct stk_coco_options *o, const char *text, size_t size, const char *path, struct stk_coco *out, struct stk_error *err)
{
	struct json j = {text, text + size, text, path, o, out, err};
	enum stk_status s = each(&j, '{', top_entry, NULL);
	if (s)
		return s;
	skip_blanks(&j);
	return j.at < j.end ? bad(&j, "something follows the annotations") : STK_OK;
}
