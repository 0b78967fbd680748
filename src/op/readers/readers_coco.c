/* SPDX-License-Identifier: Apache-2.0
 * readers.coco: images with the boxes, categories and polygons of their objects. */
#include "format/coco_mask.h"
#include "format/list.h"
#include "op/readers/reader_files.h"

#include <string.h>

struct readers_coco {
	const char *file_root, *annotations_file, *preprocessed_annotations, *save_preprocessed_annotations_dir;
	struct stk_strings images;
	bool ltrb, ratio, skip_empty, include_iscrowd, avoid_class_remapping, image_ids, polygon_masks, pixelwise_masks,
		save_preprocessed_annotations;
	float size_threshold;
	struct stk_reader_args reader;
};

#define FLAG(member, dflt, text) STK_ARG(struct readers_coco, member, STK_ARG_BOOL, dflt, STK_FREE, 0, text)

static const struct stk_arg_def readers_coco_args[] = {
	STK_ARG(struct readers_coco, file_root, STK_ARG_STRING, NULL, STK_FREE, STK_REQUIRED,
		"Folder of the images, or s3://BUCKET/PREFIX."),
	STK_ARG(struct readers_coco, annotations_file, STK_ARG_STRING, NULL, STK_FREE, STK_REQUIRED, "COCO's JSON of objects."),
	STK_ARG(struct readers_coco, images, STK_ARG_STRINGS, NULL, STK_FREE, 0,
		"Names of the images to read, in this order. Default: all, by id."),
	FLAG(ltrb, "false", "Outputs boxes as left, top, right, bottom; otherwise as left, top, width, height."),
	FLAG(ratio, "false", "Divides coordinates by the image's extents."),
	FLAG(skip_empty, "false", "Leaves out images without objects."),
	STK_ARG(struct readers_coco, size_threshold, STK_ARG_FLOAT, "0.1", (0, HUGE_VAL), 0,
		"Leaves out objects whose box is narrower or lower than this, in pixels."),
	FLAG(include_iscrowd, "true", "Keeps objects that are crowds."),
	FLAG(avoid_class_remapping, "false", "Uses the categories' ids as labels; otherwise their numbers in the file, from 1 on."),
	FLAG(image_ids, "false", "Adds an output: the image's id."),
	FLAG(polygon_masks, "false",
		"Adds two outputs for the objects' polygons: for each polygon its object, its first vertex and the one after its last; and "
		"the vertices."),
	FLAG(pixelwise_masks, "false",
		"Adds an output: a mask with the image's extents, (height, width, 1). Each pixel has the label of its object, the largest "
		"label if objects overlap, and 0 outside of objects."),
	STK_ARG(struct readers_coco, preprocessed_annotations, STK_ARG_STRING, NULL, STK_FREE, 0, "Not supported: give annotations_file."),
	FLAG(save_preprocessed_annotations, "false", "Not supported: annotations are read in seconds."),
	STK_ARG(struct readers_coco, save_preprocessed_annotations_dir, STK_ARG_STRING, NULL, STK_FREE, STK_ACCEPTED, "Nothing is saved."),
	STK_ARG_GROUP(struct readers_coco, reader, stk__reader_group),
	STK_ARG_END,
};

enum { BYTES, BOXES, LABELS, POLYGONS, VERTICES, MASK = POLYGONS };

static int32_t readers_coco_outputs(const void *args)
{
	const struct readers_coco *a = args;
	return 3 + 2 * a->polygon_masks + a->pixelwise_masks + a->image_ids;
}

/* ---- the data set ---- */

struct coco {
	struct stk_file_list *files; /* files of the images */
	struct stk_coco coco;
};

static void readers_coco_teardown(void *shared)
{
	struct coco *c = shared;
	stk__file_list_destroy(c->files);
	stk__coco_free(&c->coco);
	stk__free(c);
}

static enum stk_status read_annotations(
	const struct readers_coco *a, const struct stk_access *access, struct stk_coco *out, struct stk_error *err)
{
	struct stk_coco_options o = {.size_threshold = a->size_threshold,
		.crowds = a->include_iscrowd,
		.polygons = a->polygon_masks || a->pixelwise_masks,
		.runs = a->pixelwise_masks,
		.sizes = a->polygon_masks || a->pixelwise_masks || a->ratio,
		.remap = !a->avoid_class_remapping,
		.skip_empty = a->skip_empty,
		.images = a->images.count > 0 ? a->images.v : NULL,
		.image_count = a->images.count};
	uint8_t *text = NULL;
	size_t size;
	enum stk_status s = stk__access_read(access, a->annotations_file, (size_t)1 << 40, &text, &size, err);
	if (!s)
		s = stk__coco_parse(&o, (const char *)text, size, a->annotations_file, out, err);
	stk__free(text);
	return s;
}

/* Fails if image_ids is requested and an image's id does not fit into this output, which is int32 as in DALI. */
static enum stk_status check_ids(const struct readers_coco *a, const struct stk_coco *c, struct stk_error *err)
{
	for (int64_t i = 0; a->image_ids && i < c->images.count; i++) {
		int64_t id = stk__coco_image(c, i)->id;
		if (id < INT32_MIN || id > INT32_MAX)
			return stk__fail(err, STK_LIMIT,
				"%.300s: an image has the id %lld, which does not fit into the int32 of image_ids: leave out image_ids, or "
				"give the images other numbers",
				a->annotations_file, (long long)id);
	}
	return STK_OK;
}

static enum stk_status list_files(const struct readers_coco *a, const struct stk_access *access, struct coco *c, struct stk_error *err)
{
	const char **names = stk__alloc((size_t)c->coco.images.count * sizeof *names);
	if (!names)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld images", (long long)c->coco.images.count);
	for (int64_t i = 0; i < c->coco.images.count; i++)
		names[i] = c->coco.names + stk__coco_image(&c->coco, i)->name;
	const struct stk_file_list_options o = {
		.access = access, .file_root = a->file_root, .files = names, .file_count = (size_t)c->coco.images.count};
	enum stk_status s = stk__file_list_create(&o, &c->files, err);
	stk__free(names);
	stk__coco_free_names(&c->coco);
	return s;
}

static enum stk_status readers_coco_open(const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	const struct readers_coco *a = args;
	struct coco *c = stk__calloc(1, sizeof *c);
	if (!c)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a reader");
	enum stk_status s = read_annotations(a, access, &c->coco, err);
	if (!s)
		s = check_ids(a, &c->coco, err);
	if (!s)
		s = list_files(a, access, c, err);
	if (!s)
		s = stk__reader_check(&a->reader, c->coco.images.count, err);
	if (s)
		readers_coco_teardown(c);
	else
		*shared = c;
	return s;
}

/* ---- a sample ---- */

static enum stk_status refuse(const struct readers_coco *a, struct stk_error *err)
{
	if (a->pixelwise_masks && a->polygon_masks)
		return stk__fail(err, STK_INVALID, "polygon_masks and pixelwise_masks exclude each other: choose one");
	if (a->preprocessed_annotations || a->save_preprocessed_annotations)
		return stk__fail(err, STK_UNSUPPORTED,
			"preprocessed annotations are DALI's own format: give annotations_file, which is read in seconds");
	return STK_OK;
}

static enum stk_status readers_coco_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct readers_coco *a = call->args;
	const struct coco *c = call->bytes ? call->shared : NULL;
	const struct stk_coco_image *image = c ? stk__coco_image(&c->coco, call->place.sample) : NULL;
	int64_t polygons = 0, vertices = 0;
	for (int64_t k = 0; image && a->polygon_masks && k < image->count; k++) {
		const struct stk_coco_shape *shape = stk__coco_shape(&c->coco, image->first + k);
		polygons += shape->polygons;
		for (int32_t p = 0; p < shape->polygons; p++)
			vertices += ((const struct stk_coco_polygon *)c->coco.polygons.at)[shape->polygon + p].count;
	}
	struct stk_tensor *out = call->out;
	out[BYTES].desc = (struct stk_desc){STK_UINT8, 1, {c ? (int64_t)call->bytes->size : -1}, ""};
	out[BYTES].data = c ? (void *)(uintptr_t)call->bytes->data : NULL;
	out[BOXES].desc = (struct stk_desc){STK_FLOAT, 2, {image ? image->count : -1, 4}, ""};
	out[LABELS].desc = (struct stk_desc){STK_INT32, 1, {image ? image->count : -1}, ""};
	if (a->polygon_masks) {
		out[POLYGONS].desc = (struct stk_desc){STK_INT32, 2, {c ? polygons : -1, 3}, ""};
		out[VERTICES].desc = (struct stk_desc){STK_FLOAT, 2, {c ? vertices : -1, 2}, ""};
	}
	if (a->pixelwise_masks)
		out[MASK].desc = (struct stk_desc){STK_INT32, 3, {image ? image->height : -1, image ? image->width : -1, 1}, "HWC"};
	if (a->image_ids)
		out[call->n_out - 1].desc = (struct stk_desc){STK_INT32, 1, {1}, ""};
	return refuse(a, err);
}

static void write_box(const struct readers_coco *a, const struct stk_coco_image *image, const float *from, float *to)
{
	memcpy(to, from, 4 * sizeof *to);
	for (int i = 0; i < 2; i++) {
		to[2 + i] += a->ltrb ? to[i] : 0;
		float extent = (float)(i ? image->height : image->width);
		to[i] = a->ratio ? to[i] / extent : to[i];
		to[2 + i] = a->ratio ? to[2 + i] / extent : to[2 + i];
	}
}

static void write_polygons(
	const struct readers_coco *a, const struct stk_coco *c, const struct stk_coco_image *image, int32_t *row, float *to)
{
	int32_t vertex = 0;
	for (int64_t k = 0; k < image->count; k++) {
		const struct stk_coco_shape *shape = stk__coco_shape(c, image->first + k);
		for (int32_t p = 0; p < shape->polygons; p++, row += 3) {
			const struct stk_coco_polygon *polygon = &((const struct stk_coco_polygon *)c->polygons.at)[shape->polygon + p];
			const float *from = (const float *)c->vertices.at + 2 * polygon->first;
			row[0] = (int32_t)k;
			row[1] = vertex;
			row[2] = vertex += (int32_t)polygon->count;
			for (int64_t i = 0; i < 2 * polygon->count; i++)
				*to++ = a->ratio ? from[i] / (float)(i % 2 ? image->height : image->width) : from[i];
		}
	}
}

static enum stk_status readers_coco_run(const struct stk_call *call, struct stk_error *err)
{
	const struct readers_coco *a = call->args;
	const struct stk_coco *c = &((const struct coco *)call->shared)->coco;
	const struct stk_coco_image *image = stk__coco_image(c, call->place.sample);
	for (int64_t k = 0; k < image->count; k++) {
		const struct stk_coco_object *object = stk__coco_object(c, image->first + k);
		write_box(a, image, object->box, (float *)call->out[BOXES].data + 4 * k);
		((int32_t *)call->out[LABELS].data)[k] = object->label;
	}
	if (a->polygon_masks)
		write_polygons(a, c, image, call->out[POLYGONS].data, call->out[VERTICES].data);
	if (a->image_ids)
		*(int32_t *)call->out[call->n_out - 1].data = (int32_t)image->id;
	if (a->pixelwise_masks)
		return stk__coco_paint(c, image, call->tools->arena, call->tools->cancel, call->out[MASK].data, err);
	return STK_OK;
}

/* ---- the reader ---- */

static int64_t readers_coco_size(const void *shared)
{
	return ((const struct coco *)shared)->coco.images.count;
}

/* Returns a digest of the names of `count` images from `first` on, and of their objects' boxes and labels. */
static uint64_t digest_of(const void *shared, int64_t first, int64_t count, enum stk_digest_form form)
{
	const struct coco *c = shared;
	uint64_t h = stk__file_list_digest(c->files, first, count, form);
	for (int64_t i = first; i < first + count; i++) {
		const struct stk_coco_image *image = stk__coco_image(&c->coco, i);
		for (int64_t k = 0; k < image->count; k++) {
			const struct stk_coco_object *object = stk__coco_object(&c->coco, image->first + k);
			h = stk__hash_bytes(h, object->box, sizeof object->box);
			h = stk__hash_bytes(h, &object->label, sizeof object->label);
		}
	}
	return h;
}

static uint64_t readers_coco_digest(const void *shared, int64_t first, int64_t count)
{
	return digest_of(shared, first, count, STK_DIGEST_NOW);
}

static uint64_t readers_coco_fingerprint(const void *shared, enum stk_digest_form form)
{
	return digest_of(shared, 0, readers_coco_size(shared), form);
}

static size_t readers_coco_uri(const void *shared, int64_t id, char *uri, size_t capacity)
{
	return stk__file_list_path(((const struct coco *)shared)->files, id, uri, capacity);
}

static const char *readers_coco_listed_in(const void *args)
{
	return ((const struct readers_coco *)args)->annotations_file;
}

static void readers_coco_order(const void *args, const void *shared, struct stk_order *out)
{
	const struct readers_coco *a = args;
	stk__reader_order(&a->reader, readers_coco_size(shared), out);
}

static const struct stk_reader_def readers_coco_reader = {
	.open = readers_coco_open,
	.size = readers_coco_size,
	.fingerprint = readers_coco_fingerprint,
	.digest = readers_coco_digest,
	.order = readers_coco_order,
	.uri = readers_coco_uri,
	.listed_in = readers_coco_listed_in,
};

const struct stk_op_def stk__op_readers_coco = {
	.name = "readers.coco",
	.doc = "Reads images with the objects of COCO's annotations.\n\n"
	       "Outputs the bytes of an image, the boxes of its objects, of shape (objects, 4), and their labels; with polygon_masks "
	       "their polygons and\n"
	       "vertices, with pixelwise_masks a mask of labels, with image_ids the image's id. Images come in the order of their ids.",
	.tolerance =
		"If some objects of a label have polygons and others runs of pixels, masks contain all of them; DALI leaves out the runs, "
		"and uses only the last of several objects with runs. Runs that do not fit the image are errors. An object without "
		"segmentation is left out of the mask; DALI then leaves out those of larger labels too.",
	.output_count = readers_coco_outputs,
	.args = readers_coco_args,
	.args_size = sizeof(struct readers_coco),
	.flags = STK_OP_CLONED,
	.teardown = readers_coco_teardown,
	.infer = readers_coco_infer,
	.run_cpu = readers_coco_run,
	.reader = &readers_coco_reader,
};
