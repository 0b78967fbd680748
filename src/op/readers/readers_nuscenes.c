/* SPDX-License-Identifier: Apache-2.0
 * readers.nuscenes: the cameras' images of NuScenes' samples, with matrices, poses and boxes. */
#include "format/nuscenes_fields.h"
#include "op/readers/reader_args.h"
#include "order/streams.h"

#include <stdio.h>
#include <string.h>

struct readers_nuscenes {
	const char *root, *version, *index;
	struct stk_strings fields, cameras, classes, scenes, exclude_scenes;
	int64_t split_scenes, streams;
	struct stk_ints sequence_order;
	struct stk_reader_args reader;
};

#define STRINGS(member, text) STK_ARG(struct readers_nuscenes, member, STK_ARG_STRINGS, NULL, STK_FREE, 0, text)

static const struct stk_arg_def readers_nuscenes_args[] = {
	STK_ARG(struct readers_nuscenes, root, STK_ARG_STRING, NULL, STK_FREE, STK_REQUIRED,
		"Folder of the data set, to which the tables' folder and the paths in the tables are relative."),
	STK_ARG(struct readers_nuscenes, version, STK_ARG_STRING, "\"v1.0-trainval\"", STK_FREE, 0, "Name of the tables' folder."),
	STK_ARG(struct readers_nuscenes, index, STK_ARG_STRING, NULL, STK_FREE, 0,
		"File in which the contents of the tables are kept, so that the next start is quick; it is rewritten if the tables change. "
		"Default: stoker.index next to the tables, if it can be written. \"\": no such file."),
	STRINGS(fields,
		"The outputs, in this order. For each camera one output: image, img_timestamp, intrinsics, extrinsics, lidar2img, bboxes2d, "
		"labels2d, centers2d, depths2d, num_lidar_points2d, num_radar_points2d, visibility2d. For the sample: ego_pose, "
		"ego_pose_inv, timestamp, prev_exists, scene, frame, sample_token, gt_bboxes_3d, gt_labels_3d, translations, sizes, "
		"orientations, velocities, num_lidar_points, num_radar_points, visibility, instances, points. Default: image."),
	STRINGS(cameras, "Channels of the cameras, in this order. Default: CAM_FRONT, CAM_FRONT_RIGHT, CAM_FRONT_LEFT, CAM_BACK, "
			 "CAM_BACK_LEFT, CAM_BACK_RIGHT."),
	STRINGS(classes, "Classes of NuScenes' detection task, which labels number from 0 on. Default: all ten, in StreamPETR's order."),
	STRINGS(scenes, "Names of the scenes to read. Default: all, in the order in which they begin."),
	STRINGS(exclude_scenes, "Names of scenes to leave out."),
	STK_ARG(struct readers_nuscenes, split_scenes, STK_ARG_INT, "1", (1, 1000), 0,
		"Number of sequences into which each scene is cut; prev_exists is 0 for the first sample of each."),
	STK_ARG(struct readers_nuscenes, streams, STK_ARG_INT, "0", (0, 0x1p20), 0,
		"The batch size times num_shards: each slot of a batch then follows one sequence after the other, from its first sample to "
		"its last, across epochs and restarts. random_shuffle draws the order of sequences. 0: samples come one by one, as from "
		"any reader."),
	STK_ARG(struct readers_nuscenes, sequence_order, STK_ARG_INTS, NULL, (0, 0x1p31), 0,
		"With streams: the order of the sequences in each cycle, cycle after cycle, instead of a drawn order; after the last cycle, "
		"the first is used again."),
	STK_ARG_GROUP(struct readers_nuscenes, reader, stk__reader_group),
	STK_ARG_END,
};

/* ---- fields and outputs ---- */

enum { USUAL_CAMERAS = 6 };

static int32_t cameras_of(const struct readers_nuscenes *a)
{
	return a->cameras.count < 0 ? USUAL_CAMERAS : a->cameras.count;
}

static int32_t field_count(const struct readers_nuscenes *a)
{
	return a->fields.count < 0 ? 1 : a->fields.count;
}

/* Returns the k-th field of the argument `fields`; -1: its name is not a field. If `fields` is not given, returns the field of images. */
static int32_t field_at(const struct readers_nuscenes *a, int32_t k)
{
	return a->fields.count < 0 ? STK_NUSC_IMAGE : stk__nuscenes_field_find(a->fields.v[k]);
}

static int32_t outputs_of(const struct readers_nuscenes *a, int32_t field)
{
	return field >= 0 && stk__nuscenes_field_of_camera((enum stk_nuscenes_field)field) ? cameras_of(a) : 1;
}

static int32_t readers_nuscenes_outputs(const void *args)
{
	const struct readers_nuscenes *a = args;
	int32_t n = 0;
	for (int32_t k = 0; k < field_count(a); k++)
		n += outputs_of(a, field_at(a, k));
	return n < 1 ? 1 : n < STK_MAX_OUTPUTS ? n : STK_MAX_OUTPUTS; /* if there are more, infer fails */
}

static bool gives(const struct readers_nuscenes *a, enum stk_nuscenes_field wanted)
{
	for (int32_t k = 0; k < field_count(a); k++)
		if (field_at(a, k) == (int32_t)wanted)
			return true;
	return false;
}

/* Returns the number of camera and lidar files that are read for a sample; if none is read, 1, for one empty part. */
static int32_t readers_nuscenes_part_count(const void *args)
{
	const struct readers_nuscenes *a = args;
	int32_t n = (gives(a, STK_NUSC_IMAGE) ? cameras_of(a) : 0) + gives(a, STK_NUSC_POINTS);
	return n ? n : 1;
}

static enum stk_status check_fields(const struct readers_nuscenes *a, struct stk_error *err)
{
	int32_t n = 0;
	if (a->fields.count == 0 || a->cameras.count == 0)
		return stk__fail(err, STK_INVALID, "%s is empty: name at least one", a->fields.count ? "cameras" : "fields");
	if (cameras_of(a) > 60)
		return stk__fail(err, STK_LIMIT, "%d cameras are too many: give at most 60", cameras_of(a));
	for (int32_t k = 0; k < a->fields.count; k++) {
		if (field_at(a, k) < 0)
			return stk__fail(err, STK_INVALID, "fields[%d]: NuScenes has no field %s", k, a->fields.v[k]);
		for (int32_t i = 0; i < k; i++)
			if (field_at(a, i) == field_at(a, k))
				return stk__fail(err, STK_INVALID, "fields has %s twice", a->fields.v[k]);
	}
	for (int32_t k = 0; k < field_count(a); k++)
		n += outputs_of(a, field_at(a, k));
	return n <= STK_MAX_OUTPUTS ? STK_OK
				    : stk__fail(err, STK_LIMIT, "these fields make %d outputs; a reader may have %d", n, STK_MAX_OUTPUTS);
}

/* ---- the data set ---- */

struct nuscenes {
	struct stk_nuscenes_view *view;
	struct stk_streams *streams; /* NULL: the samples are not read as streams */
	int32_t images;              /* number of camera files that are read for a sample */
	bool points;
	struct output_field {
		int32_t field, camera; /* camera: 0 if the field does not belong to a camera */
	} * outputs;
	int32_t n_outputs;
};

static void readers_nuscenes_teardown(void *shared)
{
	struct nuscenes *n = shared;
	stk__nuscenes_view_close(n->view);
	stk__streams_destroy(n->streams);
	stk__free(n->outputs);
	stk__free(n);
}

static enum stk_status make_streams(const struct readers_nuscenes *a, struct nuscenes *n, struct stk_error *err)
{
	struct stk_order order;
	if (a->streams == 0)
		return a->sequence_order.count < 0 ? STK_OK
						   : stk__fail(err, STK_INVALID, "sequence_order needs streams: give their number too");
	stk__reader_order(&a->reader, n->view->size, &order);
	if (a->reader.indices.count >= 0 || a->reader.stick_to_shard || order.tail != STK_TAIL_WRAP)
		return stk__fail(err, STK_INVALID,
			"streams do not end, so they exclude indices, stick_to_shard, pad_last_batch, and a tail other than \"wrap\"");
	const struct stk_streams_options o = {.sequences = n->view->sequences,
		.count = n->view->sequence_count,
		.slots = (int32_t)a->streams,
		.shuffle = order.shuffle,
		.seed = order.seed,
		.order = a->sequence_order.count < 0 ? NULL : a->sequence_order.v,
		.order_count = a->sequence_order.count < 0 ? 0 : a->sequence_order.count};
	return stk__streams_create(&o, &n->streams, err);
}

/* Lists the field and the camera of each output, so that samples need not find them in the arguments. */
static enum stk_status list_outputs(const struct readers_nuscenes *a, struct nuscenes *n, struct stk_error *err)
{
	n->outputs = stk__alloc((size_t)readers_nuscenes_outputs(a) * sizeof *n->outputs);
	if (!n->outputs)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a reader");
	for (int32_t k = 0; k < field_count(a); k++)
		for (int32_t field = field_at(a, k), camera = 0; camera < outputs_of(a, field); camera++)
			n->outputs[n->n_outputs++] = (struct output_field){field, camera};
	return STK_OK;
}

static enum stk_status readers_nuscenes_setup(const void *args, void **shared, struct stk_error *err)
{
	const struct readers_nuscenes *a = args;
	const struct stk_nuscenes_options o = {.size = sizeof o,
		.root = a->root,
		.version = a->version,
		.index = a->index,
		.cameras = a->cameras.count < 0 ? NULL : a->cameras.v,
		.camera_count = a->cameras.count < 0 ? 0 : (size_t)a->cameras.count,
		.classes = a->classes.count < 0 ? NULL : a->classes.v,
		.class_count = a->classes.count < 0 ? 0 : (size_t)a->classes.count,
		.scenes = a->scenes.count < 0 ? NULL : a->scenes.v,
		.scene_count = a->scenes.count < 0 ? 0 : (size_t)a->scenes.count,
		.exclude = a->exclude_scenes.count < 0 ? NULL : a->exclude_scenes.v,
		.exclude_count = a->exclude_scenes.count < 0 ? 0 : (size_t)a->exclude_scenes.count,
		.split = (int32_t)a->split_scenes};
	struct nuscenes *n = stk__calloc(1, sizeof *n);
	if (!n)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a reader");
	n->images = gives(a, STK_NUSC_IMAGE) ? cameras_of(a) : 0;
	n->points = gives(a, STK_NUSC_POINTS);
	enum stk_status s = check_fields(a, err);
	s = s ? s : list_outputs(a, n, err);
	s = s ? s : stk__nuscenes_view_open(&o, &n->view, err);
	s = s ? s : stk__reader_check(&a->reader, n->view->size, err);
	s = s ? s : make_streams(a, n, err);
	if (s)
		readers_nuscenes_teardown(n);
	else
		*shared = n;
	return s;
}

/* ---- a sample ---- */

/* The objects that each camera sees: infer computes them, since it needs their numbers, and passes them to run. */
struct state {
	struct stk_nuscenes_seen *seen[64];
	int32_t count[64];
};

static bool is_wanted(const struct stk_call *call, int32_t output)
{
	return !call->wanted || call->wanted[output];
}

static enum stk_status look(const struct stk_call *call, int32_t camera, struct stk_error *err)
{
	const struct nuscenes *n = call->shared;
	struct state *state = call->state;
	const struct stk_nuscenes_view *v = n->view;
	size_t objects = (size_t)stk__nuscenes_sample(v->set, v->sample[call->place.sample])->count;
	if (state->seen[camera])
		return STK_OK;
	state->seen[camera] = stk__arena_take(call->tools->arena, (objects + 1) * sizeof *state->seen[camera]);
	if (!state->seen[camera])
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the objects of a sample");
	state->count[camera] = stk__nuscenes_see(v, call->place.sample, camera, state->seen[camera]);
	return STK_OK;
}

static enum stk_status view_points(
	const struct stk_call *call, const struct stk_bytes *bytes, struct stk_tensor *out, struct stk_error *err)
{
	const struct nuscenes *n = call->shared;
	char path[512];
	if (bytes->size % (5 * sizeof(float))) {
		stk__nuscenes_path(n->view, call->place.sample, -1, path, sizeof path);
		return stk__fail(
			err, STK_CORRUPT, "LIDAR_TOP: %s has %zu bytes, which are not whole rows of five floats", path, bytes->size);
	}
	out->desc = stk__nuscenes_desc(STK_NUSC_POINTS, (int64_t)(bytes->size / (5 * sizeof(float))));
	out->data = (void *)(uintptr_t)bytes->data;
	return STK_OK;
}

/* Sets the desc of one output of a sample; an output of images or points also becomes a view of the bytes that were read. */
static enum stk_status infer_output(
	const struct stk_call *call, int32_t field, int32_t camera, struct stk_tensor *out, struct stk_error *err)
{
	const struct nuscenes *n = call->shared;
	const struct stk_nuscenes_sample *s = stk__nuscenes_sample(n->view->set, n->view->sample[call->place.sample]);
	const struct state *state = call->state;
	int64_t count = s->count;
	enum stk_status status = stk__nuscenes_field_of_boxes((enum stk_nuscenes_field)field) ? look(call, camera, err) : STK_OK;
	if (status)
		return status;
	if (field == STK_NUSC_POINTS)
		return view_points(call, &call->bytes[n->images], out, err);
	if (field == STK_NUSC_IMAGE) {
		count = (int64_t)call->bytes[camera].size;
		out->data = (void *)(uintptr_t)call->bytes[camera].data;
	} else if (stk__nuscenes_field_of_boxes((enum stk_nuscenes_field)field)) {
		count = state->count[camera];
	} else if (field == STK_NUSC_SAMPLE_TOKEN) {
		count = (int64_t)strlen(stk__nuscenes_text(n->view->set, s->token));
	}
	out->desc = stk__nuscenes_desc((enum stk_nuscenes_field)field, count);
	return STK_OK;
}

static enum stk_status infer_types(const struct stk_call *call, struct stk_error *err)
{
	const struct readers_nuscenes *a = call->args;
	enum stk_status s = check_fields(a, err);
	for (int32_t k = 0, output = 0; k < field_count(a) && s == STK_OK; k++)
		for (int32_t field = field_at(a, k), camera = 0; camera < outputs_of(a, field); camera++)
			call->out[output++].desc = stk__nuscenes_desc((enum stk_nuscenes_field)field, -1);
	return s;
}

static enum stk_status readers_nuscenes_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct nuscenes *n = call->shared;
	enum stk_status s = STK_OK;
	if (!call->tools)
		return infer_types(call, err);
	for (int32_t k = 0; k < n->n_outputs && s == STK_OK; k++)
		if (is_wanted(call, k))
			s = infer_output(call, n->outputs[k].field, n->outputs[k].camera, &call->out[k], err);
		else
			call->out[k].data = call->state; /* nothing reads this output, so it may be a view of any memory */
	return s;
}

static enum stk_status readers_nuscenes_run(const struct stk_call *call, struct stk_error *err)
{
	const struct nuscenes *n = call->shared;
	const struct state *state = call->state;
	const struct stk_place *place = &call->place;
	/* a sample that replaces a bad one does not follow the sample before it, so a new sequence begins */
	bool begins = n->view->starts[place->sample] || place->from != place->position;
	(void)err;
	for (int32_t k = 0; k < n->n_outputs; k++) {
		int32_t field = n->outputs[k].field, camera = n->outputs[k].camera;
		if (field != STK_NUSC_IMAGE && field != STK_NUSC_POINTS && is_wanted(call, k))
			stk__nuscenes_value(n->view, (enum stk_nuscenes_field)field, place->sample, camera, state->seen[camera],
				state->count[camera], begins, call->out[k].data);
	}
	return STK_OK;
}

/* ---- the reader ---- */

static int64_t readers_nuscenes_size(const void *shared)
{
	return ((const struct nuscenes *)shared)->view->size;
}

static uint64_t readers_nuscenes_digest(const void *shared, int64_t first, int64_t count)
{
	return stk__nuscenes_digest(((const struct nuscenes *)shared)->view, first, count);
}

static uint64_t readers_nuscenes_fingerprint(const void *shared, enum stk_digest_form form)
{
	(void)form; /* no names of files are hashed */
	return readers_nuscenes_digest(shared, 0, readers_nuscenes_size(shared));
}

static size_t readers_nuscenes_uri(const void *shared, int64_t id, char *uri, size_t capacity)
{
	return stk__nuscenes_name(((const struct nuscenes *)shared)->view, id, uri, capacity);
}

static void readers_nuscenes_parts(const void *shared, int64_t id, struct stk_part *out)
{
	const struct nuscenes *n = shared;
	int32_t count = n->images + n->points;
	for (int32_t k = 0; k < count; k++)
		out[k] = (struct stk_part){.uri = id * count + k, .length = -1};
	if (count == 0)
		out[0] = (struct stk_part){.uri = id};
}

static size_t readers_nuscenes_part_uri(const void *shared, int64_t object, char *uri, size_t capacity)
{
	const struct nuscenes *n = shared;
	int32_t count = n->images + n->points, k = (int32_t)(object % count);
	return stk__nuscenes_path(n->view, object / count, k < n->images ? k : -1, uri, capacity);
}

/* Writes "scene-0061, sample TOKEN, CAM_BACK (samples/CAM_BACK/NAME.jpg)", or LIDAR_TOP and its file for the last part; only scene and sample if no file is
 * read. */
static size_t readers_nuscenes_part_name(const void *shared, int64_t id, int32_t part, char *name, size_t capacity)
{
	const struct nuscenes *n = shared;
	char sample[512], path[4096];
	if (n->images + n->points == 0)
		return stk__nuscenes_name(n->view, id, name, capacity);
	int32_t camera = part < n->images ? part : -1;
	stk__nuscenes_name(n->view, id, sample, sizeof sample);
	stk__nuscenes_path(n->view, id, camera, path, sizeof path);
	return (size_t)snprintf(name, capacity, "%s, %s (%s)", sample,
		camera < 0 ? "LIDAR_TOP" : stk__nuscenes_camera(n->view->set, n->view->camera[camera]),
		path + strlen(n->view->set->root) + 1);
}

static int32_t readers_nuscenes_output_part(const void *args, int32_t output)
{
	const struct readers_nuscenes *a = args;
	int32_t images = gives(a, STK_NUSC_IMAGE) ? cameras_of(a) : 0;
	for (int32_t k = 0; k < field_count(a); k++) {
		int32_t field = field_at(a, k), n = outputs_of(a, field);
		if (output < n)
			return field == STK_NUSC_IMAGE ? output : field == STK_NUSC_POINTS ? images : -1;
		output -= n;
	}
	return -1;
}

static void readers_nuscenes_order(const void *args, const void *shared, struct stk_order *out)
{
	const struct readers_nuscenes *a = args;
	const struct nuscenes *n = shared;
	stk__reader_order(&a->reader, n->view->size, out);
	if (n->streams) {
		out->streams = n->streams;
		out->shuffle = out->contiguous = false;
	}
}

static const struct stk_reader_def readers_nuscenes_reader = {
	.size = readers_nuscenes_size,
	.fingerprint = readers_nuscenes_fingerprint,
	.digest = readers_nuscenes_digest,
	.order = readers_nuscenes_order,
	.uri = readers_nuscenes_uri,
	.part_count = readers_nuscenes_part_count,
	.parts = readers_nuscenes_parts,
	.part_uri = readers_nuscenes_part_uri,
	.part_name = readers_nuscenes_part_name,
	.output_part = readers_nuscenes_output_part,
};

const struct stk_op_def stk__op_readers_nuscenes = {
	.name = "readers.nuscenes",
	.doc = "Reads samples of NuScenes: the files of its cameras and its lidar, and the data about them in its tables.\n\n"
	       "Matrices, poses and boxes are those that mmdetection3d's and StreamPETR's converters compute, with two differences: "
	       "2-D boxes are cut to the size in\n"
	       "sample_data.json, and labels in images are those of 3-D boxes. 3-D boxes are their middle, length, width, height and "
	       "yaw; the\n"
	       "yaw turns x to y in the lidar's frame. Scenes come in the order in which they begin. An image that cannot be read or "
	       "decoded makes\n"
	       "the whole sample fail. With streams, on_error=\"skip\" would shift slots; on_error=\"replace\" puts another sample in "
	       "the place of\n"
	       "a bad one, with prev_exists 0.",
	.output_count = readers_nuscenes_outputs,
	.args = readers_nuscenes_args,
	.args_size = sizeof(struct readers_nuscenes),
	.state_size = sizeof(struct state),
	.flags = STK_OP_CLONED,
	.setup = readers_nuscenes_setup,
	.teardown = readers_nuscenes_teardown,
	.infer = readers_nuscenes_infer,
	.run_cpu = readers_nuscenes_run,
	.reader = &readers_nuscenes_reader,
};
