/* SPDX-License-Identifier: Apache-2.0
 * Reads NuScenes' tables for callers without a pipeline (stoker/nuscenes.h). */
#include "stoker/nuscenes.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/nuscenes_fields.h"

#include <string.h>

enum stk_status stk_nuscenes_open(const struct stk_nuscenes_options *o, struct stk_nuscenes_view **out, struct stk_error *err)
{
	if (STK_NEED(err, o, out))
		return STK_INVALID;
	*out = NULL;
	if (o->size != sizeof *o)
		return stk__fail(err, STK_INVALID, "stk_nuscenes_options.size is %zu; this library expects %zu", o->size, sizeof *o);
	if (!o->root || !o->version)
		return stk__fail(err, STK_INVALID, "stk_nuscenes_options has no root or no version");
	if (o->split < 0)
		return stk__fail(err, STK_INVALID, "stk_nuscenes_options.split is %d; it must be at least 0", o->split);
	const struct {
		const char *const *names;
		size_t count;
	} lists[] = {
		{o->cameras, o->camera_count}, {o->classes, o->class_count}, {o->scenes, o->scene_count}, {o->exclude, o->exclude_count}};
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		for (size_t k = 0; lists[i].names && k < lists[i].count; k++)
			if (!lists[i].names[k])
				return stk__fail(err, STK_INVALID, "stk_nuscenes_options has a list whose name %zu is NULL", k);
	return stk__nuscenes_view_open(o, out, err);
}

void stk_nuscenes_close(struct stk_nuscenes_view *v)
{
	stk__nuscenes_view_close(v);
}

enum stk_status stk_nuscenes_describe(const struct stk_nuscenes_view *v, struct stk_nuscenes_info *info, struct stk_error *err)
{
	if (STK_NEED(err, v, info))
		return STK_INVALID;
	if (info->size != sizeof *info)
		return stk__fail(err, STK_INVALID, "stk_nuscenes_info.size is %zu; this library expects %zu", info->size, sizeof *info);
	*info = (struct stk_nuscenes_info){.size = sizeof *info,
		.samples = v->size,
		.sequences = v->sequence_count,
		.cameras = v->cameras,
		.classes = v->classes,
		.from_index = v->set->from_index};
	for (int64_t i = 0; i < v->size; i++) {
		const struct stk_nuscenes_sample *s = stk__nuscenes_sample(v->set, v->sample[i]);
		info->objects += s->count;
		info->scenes += s->frame == 0;
	}
	return STK_OK;
}

int64_t stk_nuscenes_sequence(const struct stk_nuscenes_view *v, int64_t i)
{
	if (!v || i < 0 || i > v->sequence_count) /* i may be the number of sequences, for which the result is the number of samples */
		return -1;
	return v->sequences[i];
}

const char *stk_nuscenes_scene(const struct stk_nuscenes_view *v, int64_t sample)
{
	if (!v || sample < 0 || sample >= v->size)
		return NULL;
	int32_t scene = stk__nuscenes_sample(v->set, v->sample[sample])->scene;
	return stk__nuscenes_text(v->set, stk__nuscenes_scene(v->set, scene)->name);
}

const char *stk_nuscenes_camera(const struct stk_nuscenes_view *v, int32_t camera)
{
	if (!v || camera < 0 || camera >= v->cameras)
		return NULL;
	return stk__nuscenes_camera(v->set, v->camera[camera]);
}

const char *stk_nuscenes_class(const struct stk_nuscenes_view *v, int32_t label)
{
	if (!v || label < 0 || label >= v->classes)
		return NULL;
	return v->class_name[label];
}

size_t stk_nuscenes_file(const struct stk_nuscenes_view *v, int64_t sample, int32_t camera, char *out, size_t capacity)
{
	if (!v || sample < 0 || sample >= v->size || camera >= v->cameras || (capacity && !out))
		return 0;
	return stk__nuscenes_path(v, sample, camera, out, capacity);
}

/* Sets *count to the number of the field's rows; for a token, to the number of its characters. If the field is about boxes in an image, *count is the number of
 * boxes that the camera sees, and *seen lists them; the caller frees *seen. */
static enum stk_status count_rows(const struct stk_nuscenes_view *v, int64_t id, int32_t camera, enum stk_nuscenes_field f, int64_t *count,
	struct stk_nuscenes_seen **seen, struct stk_error *err)
{
	const struct stk_nuscenes_sample *s = stk__nuscenes_sample(v->set, v->sample[id]);
	*count = s->count;
	if (f == STK_NUSC_SAMPLE_TOKEN)
		*count = (int64_t)strlen(stk__nuscenes_text(v->set, s->token));
	if (!stk__nuscenes_field_of_boxes(f))
		return STK_OK;
	*seen = stk__alloc(((size_t)s->count + 1) * sizeof **seen);
	if (!*seen)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the objects of a sample");
	*count = stk__nuscenes_see(v, id, camera, *seen);
	return STK_OK;
}

enum stk_status stk_nuscenes_field(const struct stk_nuscenes_view *v, int64_t sample, int32_t camera, const char *name,
	struct stk_desc *desc, void *out, size_t capacity, struct stk_error *err)
{
	if (STK_NEED(err, v, name, desc))
		return STK_INVALID;
	struct stk_nuscenes_seen *seen = NULL;
	int32_t found = stk__nuscenes_field_find(name);
	int64_t count;
	if (found < 0 || found == STK_NUSC_IMAGE || found == STK_NUSC_POINTS)
		return stk__fail(err, STK_INVALID, "there is no field %s in NuScenes' tables", name);
	if (sample < 0 || sample >= v->size)
		return stk__fail(
			err, STK_INVALID, "sample %lld: there are the samples 0 to %lld", (long long)sample, (long long)v->size - 1);
	enum stk_nuscenes_field f = (enum stk_nuscenes_field)found;
	if (stk__nuscenes_field_of_camera(f) && (camera < 0 || camera >= v->cameras))
		return stk__fail(err, STK_INVALID, "camera %d: there are the cameras 0 to %d", camera, v->cameras - 1);
	enum stk_status s = count_rows(v, sample, camera, f, &count, &seen, err);
	if (s)
		return s;
	*desc = stk__nuscenes_desc(f, count);
	if (out && (size_t)stk_desc_bytes(desc) > capacity)
		s = stk__fail(
			err, STK_INVALID, "%s has %lld bytes; there is room for %zu", name, (long long)stk_desc_bytes(desc), capacity);
	else if (out)
		stk__nuscenes_value(v, f, sample, camera, seen, (int32_t)count, v->starts[sample], out);
	stk__free(seen);
	return s;
}
