/* SPDX-License-Identifier: Apache-2.0
 * Reads annotations: their categories and visibilities, and their velocities, computed from the same instance's previous and next annotation. */
#include "base/error.h"
#include "base/memory.h"
#include "format/nuscenes_load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum stk_status take_category(struct stk_row *row, void *user)
{
	struct stk_load *l = user;
	int64_t id;
	enum stk_status s = stk__load_own(l, row, &l->categories, &id);
	if (!s)
		s = stk__rows_grow(&l->out->part[STK_NUSC_CATEGORIES], &l->capacity[STK_NUSC_CATEGORIES], id + 1, sizeof(uint32_t), l->err);
	if (s)
		return s;
	l->out->count[STK_NUSC_CATEGORIES] = id + 1;
	return stk__load_text(l, row->cell[1].text, row->cell[1].n, (uint32_t *)l->out->part[STK_NUSC_CATEGORIES] + id);
}

static enum stk_status take_visibility(struct stk_row *row, void *user)
{
	static const char *const levels[] = {"v0-40", "v40-60", "v60-80", "v80-100"};
	struct stk_load *l = user;
	int64_t id;
	enum stk_status s = stk__load_own(l, row, &l->visibilities, &id);
	if (!s)
		s = stk__rows_grow(&l->visibility, &l->visibility_capacity, id + 1, sizeof *l->visibility, l->err);
	if (s)
		return s;
	for (int32_t k = 0; k < 4; k++)
		if (row->cell[1].n == strlen(levels[k]) && memcmp(row->cell[1].text, levels[k], row->cell[1].n) == 0)
			l->visibility[id] = k + 1;
	return l->visibility[id] ? STK_OK : stk__row_bad(row, "level is not one of v0-40, v40-60, v60-80, v80-100:", &row->cell[1]);
}

static enum stk_status take_instance(struct stk_row *row, void *user)
{
	struct stk_load *l = user;
	int64_t id, category;
	enum stk_status s = stk__load_own(l, row, &l->instances, &id);
	if (!s)
		s = stk__load_known(row, &row->cell[1], &l->categories, "category.json has no row", &category);
	if (!s)
		s = stk__rows_grow(&l->instance_category, &l->instance_capacity, id + 1, sizeof *l->instance_category, l->err);
	if (!s)
		l->instance_category[id] = (int32_t)category;
	return s;
}

enum { A_TOKEN, A_SAMPLE, A_INSTANCE, A_VISIBILITY, A_AT, A_SIZE, A_TURN, A_PREV, A_NEXT, A_LIDAR, A_RADAR, A_COLUMNS };

static enum stk_status take_count(const struct stk_row *row, const struct stk_cell *cell, int32_t *out)
{
	*out = (int32_t)cell->integer;
	return cell->integer >= 0 && cell->integer <= INT32_MAX ? STK_OK : stk__row_bad(row, "a number of points is out of range", NULL);
}

static enum stk_status fill_object(struct stk_load *l, const struct stk_row *row, struct stk_nuscenes_object *o)
{
	const struct stk_cell *cell = row->cell;
	int64_t instance, visibility = -1;
	enum stk_status s = stk__load_known(row, &cell[A_INSTANCE], &l->instances, "instance.json has no row", &instance);
	if (!s && cell[A_VISIBILITY].n)
		s = stk__load_known(row, &cell[A_VISIBILITY], &l->visibilities, "visibility.json has no row", &visibility);
	if (!s)
		s = stk__load_take_pose(row, &cell[A_AT], &cell[A_TURN], &o->pose);
	if (!s)
		s = take_count(row, &cell[A_LIDAR], &o->lidar);
	if (!s)
		s = take_count(row, &cell[A_RADAR], &o->radar);
	if (s)
		return s;
	for (int i = 0; i < 3; i++) {
		o->size[i] = (float)cell[A_SIZE].reals[i];
		if (!(o->size[i] > 0))
			return stk__row_bad(row, "its size is not positive", NULL);
	}
	o->instance = (int32_t)instance;
	o->category = l->instance_category[instance];
	o->visibility = visibility < 0 ? 0 : l->visibility[visibility];
	return STK_OK;
}

static enum stk_status take_object(struct stk_row *row, void *user)
{
	struct stk_load *l = user;
	struct stk_load_object object = {.row = row->number, .has_row = true};
	int64_t id, sample;
	enum stk_status s = stk__load_later(l, &row->cell[A_TOKEN], &l->objects, &id);
	if (!s && id < 0)
		return stk__row_bad(row, "its token is empty", NULL);
	if (!s)
		s = stk__load_known(row, &row->cell[A_SAMPLE], &l->samples, "sample.json has no row", &sample);
	if (!s)
		s = stk__load_later(l, &row->cell[A_PREV], &l->objects, &object.prev);
	if (!s)
		s = stk__load_later(l, &row->cell[A_NEXT], &l->objects, &object.next);
	if (!s)
		s = stk__rows_grow(&l->object, &l->object_capacity, l->objects.count, sizeof *l->object, l->err);
	if (!s)
		s = stk__rows_grow(&l->out->part[STK_NUSC_OBJECTS], &l->capacity[STK_NUSC_OBJECTS], l->objects.count,
			sizeof(struct stk_nuscenes_object), l->err);
	if (s)
		return s;
	if (l->object[id].has_row)
		return stk__row_bad(row, "another row has this token", NULL);
	object.sample = (int32_t)l->sample[sample].index;
	l->object[id] = object;
	return fill_object(l, row, (struct stk_nuscenes_object *)l->out->part[STK_NUSC_OBJECTS] + id);
}

/* ---- chains ---- */

static enum stk_status bad_object(const struct stk_load *l, int64_t id, const char *what)
{
	char text[256];
	snprintf(text, sizeof text, "sample_annotation.json: %.150s", what);
	return stk__load_bad_sample(l, l->object[id].sample, STK_NO_CAMERA, text, stk__tokens_text(&l->objects, id));
}

/* Checks an annotation and its neighbours in its chain: prev and next must agree, and times must increase, so that the chain is not a circle. */
static enum stk_status check_chain(const struct stk_load *l, int64_t id)
{
	const struct stk_load_object *o = &l->object[id];
	const struct stk_nuscenes_object *objects = l->out->part[STK_NUSC_OBJECTS];
	if (!o->has_row)
		return stk__fail(l->err, STK_CORRUPT, "%.300s: sample_annotation.json has no row %s, which prev or next of another names",
			l->folder, stk__tokens_text(&l->objects, id));
	if (o->prev >= 0 && (!l->object[o->prev].has_row || l->object[o->prev].next != id))
		return bad_object(l, id, "the one that its prev names has another next; it is");
	if (o->next < 0)
		return STK_OK;
	const struct stk_load_object *next = &l->object[o->next];
	if (!next->has_row || next->prev != id)
		return bad_object(l, id, "the one that its next names has another prev; it is");
	if (objects[id].instance != objects[o->next].instance)
		return bad_object(l, id, "its next is of another instance; it is");
	if (stk__nuscenes_sample(l->out, next->sample)->timestamp <= stk__nuscenes_sample(l->out, o->sample)->timestamp)
		return bad_object(l, id, "its next is not later; it is");
	return STK_OK;
}

/* Computes the velocity as NuScenes' devkit does: from the previous annotation to the next one. If one of these is missing, the annotation itself takes its
 * place. The velocity is unknown (NAN) if both are missing, or if the two annotations are more than 1.5 s apart (3 s if none is missing). */
static void find_velocity(const struct stk_load *l, int64_t id)
{
	const struct stk_load_object *o = &l->object[id];
	struct stk_nuscenes_object *objects = l->out->part[STK_NUSC_OBJECTS];
	int64_t first = o->prev >= 0 ? o->prev : id, last = o->next >= 0 ? o->next : id;
	double begin = 1e-6 * (double)stk__nuscenes_sample(l->out, l->object[first].sample)->timestamp;
	double end = 1e-6 * (double)stk__nuscenes_sample(l->out, l->object[last].sample)->timestamp;
	bool known = first != last && end - begin <= (o->prev >= 0 && o->next >= 0 ? 3.0 : 1.5);
	for (int i = 0; i < 2; i++)
		objects[id].velocity[i] =
			known ? (float)((objects[last].pose.translation[i] - objects[first].pose.translation[i]) / (end - begin)) : NAN;
}

/* Sorts the n objects by sample, and inside each sample in the table's order. */
static enum stk_status sort_objects(struct stk_load *l, int64_t n)
{
	struct stk_nuscenes *out = l->out;
	int64_t samples = out->count[STK_NUSC_SAMPLES], at = 0;
	struct stk_nuscenes_sample *sample = out->part[STK_NUSC_SAMPLES];
	const struct stk_nuscenes_object *from = out->part[STK_NUSC_OBJECTS];
	struct stk_nuscenes_object *sorted = stk__alloc((size_t)n * sizeof *sorted);
	int32_t *by_row = stk__alloc((size_t)n * sizeof *by_row);
	enum stk_status s = sorted && by_row ? STK_OK : stk__fail(l->err, STK_NO_MEMORY, "out of memory for %lld objects", (long long)n);
	for (int64_t i = 0; i < n && s == STK_OK; i++) {
		by_row[l->object[i].row] = (int32_t)i;
		sample[l->object[i].sample].count++;
	}
	for (int64_t i = 0; i < samples && s == STK_OK; i++) {
		sample[i].first = at;
		at += sample[i].count;
		sample[i].count = 0;
	}
	for (int64_t row = 0; row < n && s == STK_OK; row++) {
		struct stk_nuscenes_sample *to = &sample[l->object[by_row[row]].sample];
		sorted[to->first + to->count++] = from[by_row[row]];
	}
	stk__free(by_row);
	stk__free(s ? sorted : out->part[STK_NUSC_OBJECTS]);
	if (s == STK_OK)
		out->part[STK_NUSC_OBJECTS] = sorted;
	return s;
}

static enum stk_status link_objects(struct stk_load *l)
{
	int64_t n = l->objects.count;
	enum stk_status s = stk__rows_grow(&l->object, &l->object_capacity, n, sizeof *l->object, l->err);
	if (!s)
		s = stk__rows_grow(
			&l->out->part[STK_NUSC_OBJECTS], &l->capacity[STK_NUSC_OBJECTS], n, sizeof(struct stk_nuscenes_object), l->err);
	for (int64_t i = 0; i < n && s == STK_OK; i++)
		s = check_chain(l, i);
	for (int64_t i = 0; i < n && s == STK_OK; i++)
		find_velocity(l, i);
	l->out->count[STK_NUSC_OBJECTS] = n;
	stk__tokens_free(&l->objects); /* the texts of millions of tokens, which later messages do not need */
	return s ? s : sort_objects(l, n);
}

enum stk_status stk__load_objects(struct stk_load *l)
{
	static const struct stk_column category[] = {{.name = "token"}, {.name = "name"}};
	static const struct stk_column visibility[] = {{.name = "token"}, {.name = "level"}};
	static const struct stk_column instance[] = {{.name = "token"}, {.name = "category_token"}};
	static const struct stk_column annotation[A_COLUMNS] = {[A_TOKEN] = {.name = "token"},
		[A_SAMPLE] = {.name = "sample_token"},
		[A_INSTANCE] = {.name = "instance_token"},
		[A_VISIBILITY] = {.name = "visibility_token"},
		[A_AT] = {.name = "translation", .kind = STK_COLUMN_REALS, .count = 3},
		[A_SIZE] = {.name = "size", .kind = STK_COLUMN_REALS, .count = 3},
		[A_TURN] = {.name = "rotation", .kind = STK_COLUMN_REALS, .count = 4},
		[A_PREV] = {.name = "prev"},
		[A_NEXT] = {.name = "next"},
		[A_LIDAR] = {.name = "num_lidar_pts", .kind = STK_COLUMN_WHOLE},
		[A_RADAR] = {.name = "num_radar_pts", .kind = STK_COLUMN_WHOLE}};
	enum stk_status s = stk__table_read(l->folder, "category", category, 2, take_category, l, l->err);
	if (!s)
		s = stk__table_read(l->folder, "visibility", visibility, 2, take_visibility, l, l->err);
	if (!s)
		s = stk__table_read(l->folder, "instance", instance, 2, take_instance, l, l->err);
	if (!s)
		s = stk__table_read(l->folder, "sample_annotation", annotation, A_COLUMNS, take_object, l, l->err);
	return s ? s : link_objects(l);
}
