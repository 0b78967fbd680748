/* SPDX-License-Identifier: Apache-2.0
 * Selects scenes, cameras and classes of a data set. */
#include "base/error.h"
#include "base/memory.h"
#include "format/list.h"
#include "format/nuscenes_fields.h"

#include <stdio.h>
#include <string.h>

static const char *const CAMERAS[] = {"CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_FRONT_LEFT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT"};

/* The classes in StreamPETR's order: a class's index is its label if the options choose no classes. */
static const char *const CLASSES[] = {
	"car", "truck", "construction_vehicle", "bus", "trailer", "barrier", "motorcycle", "bicycle", "pedestrian", "traffic_cone"};

/* The categories and their classes in NuScenes' detection task; other categories have no class. */
static const char *const MAPPING[][2] = {
	{"movable_object.barrier", "barrier"},
	{"vehicle.bicycle", "bicycle"},
	{"vehicle.bus.bendy", "bus"},
	{"vehicle.bus.rigid", "bus"},
	{"vehicle.car", "car"},
	{"vehicle.construction", "construction_vehicle"},
	{"vehicle.motorcycle", "motorcycle"},
	{"human.pedestrian.adult", "pedestrian"},
	{"human.pedestrian.child", "pedestrian"},
	{"human.pedestrian.construction_worker", "pedestrian"},
	{"human.pedestrian.police_officer", "pedestrian"},
	{"movable_object.trafficcone", "traffic_cone"},
	{"vehicle.trailer", "trailer"},
	{"vehicle.truck", "truck"},
};

enum { CLASS_COUNT = sizeof CLASSES / sizeof *CLASSES };

static int32_t place_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return (int32_t)i;
	return -1;
}

static enum stk_status choose_cameras(struct stk_nuscenes_view *v, const struct stk_nuscenes_options *o, struct stk_error *err)
{
	const struct stk_nuscenes *n = v->set;
	const char *const *wanted = o->cameras ? o->cameras : CAMERAS;
	size_t count = o->cameras ? o->camera_count : sizeof CAMERAS / sizeof *CAMERAS;
	if (count > 63)
		return stk__fail(err, STK_LIMIT, "%zu cameras: there may be at most 63", count);
	for (size_t k = 0; k < count; k++) {
		int64_t camera = 0, all = n->count[STK_NUSC_CAMERAS];
		while (camera < all && strcmp(stk__nuscenes_camera(n, camera), wanted[k]) != 0)
			camera++;
		if (place_of(wanted[k], wanted, k) >= 0)
			return stk__fail(err, STK_INVALID, "cameras has %s twice", wanted[k]);
		if (camera == all) {
			char names[400] = "";
			for (int64_t i = 0; i < all; i++)
				snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
					stk__nuscenes_camera(n, i));
			return stk__fail(err, STK_INVALID, "%s is not a camera of %s; there are %s", wanted[k], o->root, names);
		}
		v->camera[v->cameras++] = (int32_t)camera;
	}
	return STK_OK;
}

static enum stk_status choose_classes(struct stk_nuscenes_view *v, const struct stk_nuscenes_options *o, struct stk_error *err)
{
	const char *const *wanted = o->classes ? o->classes : CLASSES;
	size_t count = o->classes ? o->class_count : CLASS_COUNT;
	for (size_t k = 0; k < count; k++)
		if (place_of(wanted[k], CLASSES, CLASS_COUNT) < 0)
			return stk__fail(err, STK_INVALID,
				"%s is not a class of NuScenes' detection task; there are car, truck, construction_vehicle, bus, "
				"trailer, barrier, motorcycle, bicycle, pedestrian, traffic_cone",
				wanted[k]);
	if (count > CLASS_COUNT)
		return stk__fail(err, STK_INVALID, "classes has %zu names; there are %d classes", count, CLASS_COUNT);
	for (size_t k = 0; k < count; k++)
		v->class_name[v->classes++] = CLASSES[place_of(wanted[k], CLASSES, CLASS_COUNT)];
	v->label = stk__alloc((size_t)v->set->count[STK_NUSC_CATEGORIES] * sizeof *v->label);
	if (!v->label)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a data set");
	for (int64_t i = 0; i < v->set->count[STK_NUSC_CATEGORIES]; i++) {
		const char *name = stk__nuscenes_category(v->set, i);
		v->label[i] = -1;
		for (size_t k = 0; k < sizeof MAPPING / sizeof *MAPPING; k++)
			if (strcmp(MAPPING[k][0], name) == 0)
				v->label[i] = place_of(MAPPING[k][1], wanted, count);
	}
	return STK_OK;
}

/* ---- scenes ---- */

static enum stk_status check_names(
	const struct stk_nuscenes *n, const char *argument, const char *const *names, size_t count, struct stk_error *err)
{
	for (size_t k = 0; k < count; k++) {
		int64_t i = 0;
		while (i < n->count[STK_NUSC_SCENES] && strcmp(stk__nuscenes_text(n, stk__nuscenes_scene(n, i)->name), names[k]) != 0)
			i++;
		if (i == n->count[STK_NUSC_SCENES])
			return stk__fail(err, STK_INVALID, "%s: the set has no scene %s; its first is %s", argument, names[k],
				stk__nuscenes_text(n, stk__nuscenes_scene(n, 0)->name));
	}
	return STK_OK;
}

/* Cuts a scene into at most `split` sequences as StreamPETR does: of equal length, rounded up, so the last may be shorter, and there may be fewer. */
static void add_scene(struct stk_nuscenes_view *v, const struct stk_nuscenes_scene *scene, int32_t split)
{
	int32_t length = scene->count / split + (scene->count % split > 0);
	for (int32_t k = 0; k < scene->count; k++) {
		v->starts[v->size] = k % length == 0;
		if (k % length == 0)
			v->sequences[v->sequence_count++] = (int32_t)v->size;
		v->sample[v->size++] = scene->first + k;
	}
	v->sequences[v->sequence_count] = (int32_t)v->size;
}

static enum stk_status choose_scenes(struct stk_nuscenes_view *v, const struct stk_nuscenes_options *o, struct stk_error *err)
{
	const struct stk_nuscenes *n = v->set;
	int64_t samples = n->count[STK_NUSC_SAMPLES];
	enum stk_status s = check_names(n, "scenes", o->scenes, o->scenes ? o->scene_count : 0, err);
	if (!s)
		s = check_names(n, "exclude_scenes", o->exclude, o->exclude ? o->exclude_count : 0, err);
	if (s)
		return s;
	v->sample = stk__alloc((size_t)samples * sizeof *v->sample);
	v->starts = stk__alloc((size_t)samples * sizeof *v->starts);
	v->sequences = stk__alloc(((size_t)samples + 1) * sizeof *v->sequences);
	if (!v->sample || !v->starts || !v->sequences)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld samples", (long long)samples);
	for (int64_t i = 0; i < n->count[STK_NUSC_SCENES]; i++) {
		const char *name = stk__nuscenes_text(n, stk__nuscenes_scene(n, i)->name);
		bool wanted = !o->scenes || place_of(name, o->scenes, o->scene_count) >= 0;
		if (wanted && !(o->exclude && place_of(name, o->exclude, o->exclude_count) >= 0))
			add_scene(v, stk__nuscenes_scene(n, i), o->split < 1 ? 1 : o->split);
	}
	return v->size ? STK_OK : stk__fail(err, STK_NOT_FOUND, "scenes and exclude_scenes leave no scene of %s", o->root);
}

static enum stk_status check_frames(const struct stk_nuscenes_view *v, const char *folder, struct stk_error *err)
{
	for (int64_t i = 0; i < v->size; i++) {
		const struct stk_nuscenes_sample *sample = stk__nuscenes_sample(v->set, v->sample[i]);
		const char *missing = sample->calibration < 0 ? "LIDAR_TOP" : NULL;
		for (int32_t k = 0; k < v->cameras && !missing; k++)
			if (stk__nuscenes_frame(v->set, v->sample[i], v->camera[k])->calibration < 0)
				missing = stk__nuscenes_camera(v->set, v->camera[k]);
		if (missing)
			return stk__fail(err, STK_CORRUPT, "%s: %s, sample %s, %s: sample_data.json has no key frame of it", folder,
				stk__nuscenes_text(v->set, stk__nuscenes_scene(v->set, sample->scene)->name),
				stk__nuscenes_text(v->set, sample->token), missing);
	}
	return STK_OK;
}

enum stk_status stk__nuscenes_view_open(const struct stk_nuscenes_options *o, struct stk_nuscenes_view **out, struct stk_error *err)
{
	char folder[4096];
	struct stk_nuscenes_view *v = stk__calloc(1, sizeof *v);
	if (!v)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a data set");
	snprintf(folder, sizeof folder, "%s/%s", o->root, o->version);
	enum stk_status s = stk__nuscenes_open(o->root, o->version, o->index, &v->set, err);
	s = s ? s : choose_cameras(v, o, err);
	s = s ? s : choose_classes(v, o, err);
	s = s ? s : choose_scenes(v, o, err);
	s = s ? s : check_frames(v, folder, err);
	if (s)
		stk__nuscenes_view_close(v);
	else
		*out = v;
	return s;
}

void stk__nuscenes_view_close(struct stk_nuscenes_view *v)
{
	if (!v)
		return;
	stk__nuscenes_close(v->set);
	stk__free(v->label);
	stk__free(v->sample);
	stk__free(v->starts);
	stk__free(v->sequences);
	stk__free(v);
}

/* ---- names ---- */

size_t stk__nuscenes_name(const struct stk_nuscenes_view *v, int64_t id, char *out, size_t capacity)
{
	const struct stk_nuscenes_sample *s = stk__nuscenes_sample(v->set, v->sample[id]);
	return (size_t)snprintf(out, capacity, "%s, sample %s", stk__nuscenes_text(v->set, stk__nuscenes_scene(v->set, s->scene)->name),
		stk__nuscenes_text(v->set, s->token));
}

size_t stk__nuscenes_path(const struct stk_nuscenes_view *v, int64_t id, int32_t camera, char *out, size_t capacity)
{
	int64_t sample = v->sample[id];
	uint32_t file =
		camera < 0 ? stk__nuscenes_sample(v->set, sample)->file : stk__nuscenes_frame(v->set, sample, v->camera[camera])->file;
	return (size_t)snprintf(out, capacity, "%s/%s", v->set->root, stk__nuscenes_text(v->set, file));
}

uint64_t stk__nuscenes_digest(const struct stk_nuscenes_view *v, int64_t first, int64_t count)
{
	uint64_t h = 0;
	for (int64_t i = first; i < first + count; i++) {
		const struct stk_nuscenes_sample *s = stk__nuscenes_sample(v->set, v->sample[i]);
		const char *token = stk__nuscenes_text(v->set, s->token);
		h = stk__hash_bytes(h, token, strlen(token));
		h = stk__hash_bytes(h, &s->timestamp, sizeof s->timestamp);
		for (int32_t k = 0; k < s->count; k++) {
			const struct stk_nuscenes_object *o = stk__nuscenes_object(v->set, s->first + k);
			int32_t label = v->label[o->category];
			h = stk__hash_bytes(h, &o->pose, sizeof o->pose);
			h = stk__hash_bytes(h, o->size, sizeof o->size);
			h = stk__hash_bytes(h, &label, sizeof label);
		}
	}
	return h;
}
