/* SPDX-License-Identifier: Apache-2.0
 * Reads scenes and samples, and helps to read the other tables. */
#include "format/nuscenes_load.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- tokens and texts ---- */

enum stk_status stk__load_own(struct stk_load *l, const struct stk_row *row, struct stk_tokens *tokens, int64_t *out)
{
	const struct stk_cell *token = &row->cell[0];
	int64_t before = tokens->count;
	if (token->n == 0)
		return stk__row_bad(row, "its token is empty", NULL);
	enum stk_status s = stk__tokens_number(tokens, token->text, token->n, out, l->err);
	return s || tokens->count > before ? s : stk__row_bad(row, "another row has this token", NULL);
}

enum stk_status stk__load_known(
	const struct stk_row *row, const struct stk_cell *cell, const struct stk_tokens *tokens, const char *what, int64_t *out)
{
	*out = stk__tokens_find(tokens, cell->text, cell->n);
	return *out >= 0 ? STK_OK : stk__row_bad(row, what, cell);
}

enum stk_status stk__load_later(struct stk_load *l, const struct stk_cell *cell, struct stk_tokens *tokens, int64_t *out)
{
	*out = -1;
	return cell->n ? stk__tokens_number(tokens, cell->text, cell->n, out, l->err) : STK_OK;
}

enum stk_status stk__load_text(struct stk_load *l, const char *text, size_t n, uint32_t *out)
{
	int64_t *used = &l->out->count[STK_NUSC_TEXTS];
	if (*used + (int64_t)n + 1 > UINT32_MAX)
		return stk__fail(l->err, STK_LIMIT, "%.300s: names and tokens take more than 4 GB", l->folder);
	enum stk_status s = stk__rows_grow(&l->out->part[STK_NUSC_TEXTS], &l->capacity[STK_NUSC_TEXTS], *used + (int64_t)n + 1, 1, l->err);
	if (s)
		return s;
	*out = (uint32_t)*used;
	memcpy((char *)l->out->part[STK_NUSC_TEXTS] + *used, text, n);
	((char *)l->out->part[STK_NUSC_TEXTS])[*used + (int64_t)n] = '\0';
	*used += (int64_t)n + 1;
	return STK_OK;
}

enum stk_status stk__load_take_pose(const struct stk_row *row, const struct stk_cell *at, const struct stk_cell *turn, struct stk_pose *out)
{
	double square = 0;
	memcpy(out->translation, at->reals, sizeof out->translation);
	memcpy(out->rotation, turn->reals, sizeof out->rotation);
	for (int i = 0; i < 4; i++)
		square += out->rotation[i] * out->rotation[i];
	return square > 1e-12 ? STK_OK : stk__row_bad(row, "its rotation is a quaternion of length 0", NULL);
}

enum stk_status stk__load_bad_sample(const struct stk_load *l, int64_t sample, int32_t camera, const char *what, const char *token)
{
	const struct stk_nuscenes *n = l->out;
	const struct stk_nuscenes_sample *s = stk__nuscenes_sample(n, sample);
	return stk__fail(l->err, STK_CORRUPT, "%.300s: %s, sample %s%s%s: %s%s%s", l->folder,
		stk__nuscenes_text(n, stk__nuscenes_scene(n, s->scene)->name), stk__nuscenes_text(n, s->token),
		camera == STK_NO_CAMERA ? "" : ", ",
		camera >= 0           ? stk__nuscenes_camera(n, camera)
		: camera == STK_LIDAR ? "LIDAR_TOP"
				      : "",
		what, token ? " " : "", token ? token : "");
}

/* ---- scenes and samples ---- */

static enum stk_status take_scene(struct stk_row *row, void *user)
{
	struct stk_load *l = user;
	struct stk_load_scene scene = {.row = row->number, .count = row->cell[2].integer};
	int64_t id;
	enum stk_status s = stk__load_own(l, row, &l->scenes, &id);
	if (!s && (scene.count < 1 || scene.count > INT32_MAX))
		return stk__row_bad(row, "nbr_samples is out of range", NULL);
	if (!s)
		s = stk__load_text(l, row->cell[0].text, row->cell[0].n, &scene.scene.token);
	if (!s)
		s = stk__load_text(l, row->cell[1].text, row->cell[1].n, &scene.scene.name);
	if (!s)
		s = stk__load_later(l, &row->cell[3], &l->samples, &scene.first);
	if (!s)
		s = stk__load_later(l, &row->cell[4], &l->samples, &scene.last);
	if (!s)
		s = stk__rows_grow(&l->scene, &l->scene_capacity, id + 1, sizeof *l->scene, l->err);
	if (s)
		return s;
	if (scene.first < 0 || scene.last < 0)
		return stk__row_bad(row, "it has no first or no last sample", NULL);
	l->scene[id] = scene;
	return STK_OK;
}

static enum stk_status take_sample(struct stk_row *row, void *user)
{
	struct stk_load *l = user;
	struct stk_load_sample sample = {.timestamp = row->cell[1].integer, .index = -1, .has_row = true};
	int64_t id, scene;
	enum stk_status s = stk__load_later(l, &row->cell[0], &l->samples, &id);
	if (!s && id < 0)
		return stk__row_bad(row, "its token is empty", NULL);
	if (!s)
		s = stk__load_known(row, &row->cell[4], &l->scenes, "scene.json has no row", &scene);
	if (!s)
		s = stk__load_later(l, &row->cell[2], &l->samples, &sample.prev);
	if (!s)
		s = stk__load_later(l, &row->cell[3], &l->samples, &sample.next);
	if (!s)
		s = stk__rows_grow(&l->sample, &l->sample_capacity, l->samples.count, sizeof *l->sample, l->err);
	if (s)
		return s;
	if (l->sample[id].has_row)
		return stk__row_bad(row, "another row has this token", NULL);
	sample.scene = (int32_t)scene;
	l->sample[id] = sample;
	return STK_OK;
}

static enum stk_status bad_chain(const struct stk_load *l, const struct stk_load_scene *scene, int64_t sample, const char *what)
{
	return stk__fail(l->err, STK_CORRUPT, "%.300s: %s, sample %s: %s", l->folder, stk__nuscenes_text(l->out, scene->scene.name),
		stk__tokens_text(&l->samples, sample), what);
}

/* Follows a scene's chain of samples, and assigns consecutive indices in the set to them, from *index on. */
static enum stk_status place_scene(struct stk_load *l, int32_t number, struct stk_load_scene *scene, int64_t *index)
{
	struct stk_nuscenes_scene *out = (struct stk_nuscenes_scene *)l->out->part[STK_NUSC_SCENES] + number;
	int64_t previous = -1, at = scene->first;
	*out = scene->scene;
	out->first = (int32_t)*index;
	out->count = (int32_t)scene->count;
	for (int64_t k = 0; k < scene->count; k++) {
		if (at < 0)
			return bad_chain(l, scene, previous, "its scene ends here, before as many samples as nbr_samples says");
		struct stk_load_sample *sample = &l->sample[at];
		if (!sample->has_row)
			return bad_chain(l, scene, at, "sample.json has no such row");
		if (sample->index >= 0)
			return bad_chain(l, scene, at, "the chain of next comes to it twice");
		if (&l->scene[sample->scene] != scene)
			return bad_chain(l, scene, at, "its row names another scene");
		if (sample->prev != previous)
			return bad_chain(l, scene, at, "its prev is not the sample before it");
		if (previous >= 0 && sample->timestamp <= l->sample[previous].timestamp)
			return bad_chain(l, scene, at, "it is not later than the sample before it");
		struct stk_nuscenes_sample *to = (struct stk_nuscenes_sample *)l->out->part[STK_NUSC_SAMPLES] + *index;
		const char *token = stk__tokens_text(&l->samples, at);
		enum stk_status s = stk__load_text(l, token, strlen(token), &to->token);
		if (s)
			return s;
		to->timestamp = sample->timestamp;
		to->scene = number;
		to->frame = (int32_t)k;
		to->calibration = -1;
		sample->index = (*index)++;
		previous = at;
		at = sample->next;
	}
	if (at >= 0)
		return bad_chain(l, scene, previous, "its next leads on, but by nbr_samples it is the last of its scene");
	if (previous != scene->last)
		return bad_chain(l, scene, previous, "it is the last of its scene by nbr_samples, but last_sample_token names another");
	return STK_OK;
}

struct start {
	int64_t timestamp, row;
	struct stk_load_scene *scene;
};

static int earlier(const void *a, const void *b)
{
	const struct start *x = a, *y = b;
	if (x->timestamp != y->timestamp)
		return x->timestamp < y->timestamp ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static enum stk_status place_samples(struct stk_load *l)
{
	int64_t n = l->scenes.count, index = 0, rows = 0;
	struct start *starts = stk__alloc((size_t)n * sizeof *starts);
	enum stk_status s = starts ? STK_OK : stk__fail(l->err, STK_NO_MEMORY, "out of memory for %lld scenes", (long long)n);
	for (int64_t i = 0; i < n && s == STK_OK; i++)
		starts[i] = (struct start){l->sample[l->scene[i].first].timestamp, l->scene[i].row, &l->scene[i]};
	if (s == STK_OK)
		qsort(starts, (size_t)n, sizeof *starts, earlier);
	for (int64_t i = 0; i < n && s == STK_OK; i++) {
		if (index + starts[i].scene->count > l->samples.count)
			s = bad_chain(l, starts[i].scene, starts[i].scene->first, "the first of more samples than sample.json has");
		else
			s = place_scene(l, (int32_t)i, starts[i].scene, &index);
	}
	for (int64_t i = 0; i < l->samples.count && s == STK_OK; i++) {
		rows += l->sample[i].has_row;
		if (l->sample[i].has_row && l->sample[i].index < 0)
			s = bad_chain(l, &l->scene[l->sample[i].scene], i, "the chain of its scene does not come to it");
		else if (!l->sample[i].has_row)
			s = stk__fail(l->err, STK_CORRUPT, "%.300s: sample.json has no row %s, which prev or next of another names",
				l->folder, stk__tokens_text(&l->samples, i));
	}
	l->out->count[STK_NUSC_SAMPLES] = rows;
	stk__free(starts);
	return s;
}

enum stk_status stk__load_scenes(struct stk_load *l)
{
	static const struct stk_column scene[] = {{.name = "token"}, {.name = "name"}, {.name = "nbr_samples", .kind = STK_COLUMN_WHOLE},
		{.name = "first_sample_token"}, {.name = "last_sample_token"}};
	static const struct stk_column sample[] = {{.name = "token"}, {.name = "timestamp", .kind = STK_COLUMN_WHOLE}, {.name = "prev"},
		{.name = "next"}, {.name = "scene_token"}};
	struct stk_nuscenes *out = l->out;
	enum stk_status s = stk__table_read(l->folder, "scene", scene, 5, take_scene, l, l->err);
	if (!s)
		s = stk__table_read(l->folder, "sample", sample, 5, take_sample, l, l->err);
	if (!s) /* for all tokens of samples, since rows may refer to samples that have no row of their own */
		s = stk__rows_grow(&l->sample, &l->sample_capacity, l->samples.count, sizeof *l->sample, l->err);
	if (!s)
		s = stk__rows_grow(&out->part[STK_NUSC_SCENES], &l->capacity[STK_NUSC_SCENES], l->scenes.count,
			stk__nuscenes_element[STK_NUSC_SCENES], l->err);
	if (!s)
		s = stk__rows_grow(&out->part[STK_NUSC_SAMPLES], &l->capacity[STK_NUSC_SAMPLES], l->samples.count,
			stk__nuscenes_element[STK_NUSC_SAMPLES], l->err);
	if (s)
		return s;
	out->count[STK_NUSC_SCENES] = l->scenes.count;
	return place_samples(l);
}
