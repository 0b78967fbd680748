/* SPDX-License-Identifier: Apache-2.0
 * Describes the parts of a data set, and checks that all references refer to existing entries. */
#include "format/nuscenes.h"

const size_t stk__nuscenes_element[STK_NUSC_PARTS] = {
	[STK_NUSC_SCENES] = sizeof(struct stk_nuscenes_scene),
	[STK_NUSC_SAMPLES] = sizeof(struct stk_nuscenes_sample),
	[STK_NUSC_FRAMES] = sizeof(struct stk_nuscenes_frame),
	[STK_NUSC_CALIBRATIONS] = sizeof(struct stk_nuscenes_calibration),
	[STK_NUSC_OBJECTS] = sizeof(struct stk_nuscenes_object),
	[STK_NUSC_CATEGORIES] = sizeof(uint32_t),
	[STK_NUSC_CAMERAS] = sizeof(uint32_t),
	[STK_NUSC_TEXTS] = 1,
};

const char *const stk__nuscenes_tables[STK_NUSC_TABLES] = {"calibrated_sensor", "category", "ego_pose", "instance", "sample",
	"sample_annotation", "sample_data", "scene", "sensor", "visibility"};

static bool within(int64_t first, int64_t count, int64_t all)
{
	return first >= 0 && count >= 0 && first <= all - count;
}

static bool texts_sound(const struct stk_nuscenes *n)
{
	const uint32_t *names[] = {n->part[STK_NUSC_CATEGORIES], n->part[STK_NUSC_CAMERAS]};
	int64_t counts[] = {n->count[STK_NUSC_CATEGORIES], n->count[STK_NUSC_CAMERAS]}, size = n->count[STK_NUSC_TEXTS];
	if (size < 1 || ((const char *)n->part[STK_NUSC_TEXTS])[size - 1] != '\0')
		return false;
	for (int k = 0; k < 2; k++)
		for (int64_t i = 0; i < counts[k]; i++)
			if (names[k][i] >= size)
				return false;
	return true;
}

static bool frame_sound(const struct stk_nuscenes *n, int32_t calibration, uint32_t file)
{
	return calibration >= -1 && calibration < n->count[STK_NUSC_CALIBRATIONS] && file < n->count[STK_NUSC_TEXTS];
}

static bool samples_sound(const struct stk_nuscenes *n)
{
	const struct stk_nuscenes_frame *frames = n->part[STK_NUSC_FRAMES];
	for (int64_t i = 0; i < n->count[STK_NUSC_FRAMES]; i++)
		if (!frame_sound(n, frames[i].calibration, frames[i].file))
			return false;
	for (int64_t i = 0; i < n->count[STK_NUSC_SAMPLES]; i++) {
		const struct stk_nuscenes_sample *s = stk__nuscenes_sample(n, i);
		if (!within(s->first, s->count, n->count[STK_NUSC_OBJECTS]) || !within(s->scene, 1, n->count[STK_NUSC_SCENES]) ||
			s->token >= n->count[STK_NUSC_TEXTS] || !frame_sound(n, s->calibration, s->file))
			return false;
	}
	return true;
}

bool stk__nuscenes_sound(const struct stk_nuscenes *n)
{
	int64_t at = 0;
	if (!texts_sound(n) || n->count[STK_NUSC_CAMERAS] > 64 ||
		n->count[STK_NUSC_FRAMES] != n->count[STK_NUSC_SAMPLES] * n->count[STK_NUSC_CAMERAS] || !samples_sound(n))
		return false;
	for (int64_t i = 0; i < n->count[STK_NUSC_SCENES]; i++) {
		const struct stk_nuscenes_scene *s = stk__nuscenes_scene(n, i);
		if (s->first != at || s->count < 1 || s->name >= n->count[STK_NUSC_TEXTS] || s->token >= n->count[STK_NUSC_TEXTS])
			return false;
		for (int64_t k = 0; k < s->count; k++, at++)
			if (at >= n->count[STK_NUSC_SAMPLES] || stk__nuscenes_sample(n, at)->scene != i ||
				stk__nuscenes_sample(n, at)->frame != k)
				return false;
	}
	for (int64_t i = 0; i < n->count[STK_NUSC_OBJECTS]; i++) {
		const struct stk_nuscenes_object *o = stk__nuscenes_object(n, i);
		if (!within(o->category, 1, n->count[STK_NUSC_CATEGORIES]))
			return false;
	}
	return at == n->count[STK_NUSC_SAMPLES];
}
