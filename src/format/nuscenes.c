/* SPDX-License-Identifier: Apache-2.0
 * Opens a data set: from its index if that is current, otherwise from its tables. */
#include "format/nuscenes_load.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the tables ---- */

static void free_load(struct stk_load *l)
{
	struct stk_tokens *tokens[] = {&l->sensors, &l->calibrations, &l->scenes, &l->samples, &l->poses, &l->categories, &l->visibilities,
		&l->instances, &l->objects};
	void *lists[] = {l->sensor_camera, l->calibration_camera, l->visibility, l->instance_category, l->scene, l->sample, l->object,
		l->pose, l->pose_given, l->frame_pose};
	for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
		stk__tokens_free(tokens[i]);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		stk__free(lists[i]);
}

enum stk_status stk__nuscenes_load(struct stk_nuscenes *n, const char *folder, struct stk_error *err)
{
	struct stk_load l = {.out = n, .folder = folder, .err = err};
	uint32_t empty;
	enum stk_status s = stk__load_text(&l, "", 0, &empty); /* reserves offset 0, which means that a text is missing */
	s = s ? s : stk__load_scenes(&l);
	s = s ? s : stk__load_frames(&l);
	s = s ? s : stk__load_objects(&l);
	free_load(&l);
	return s;
}

static void empty(struct stk_nuscenes *n)
{
	for (int i = 0; i < STK_NUSC_PARTS; i++) {
		stk__free(n->part[i]);
		n->part[i] = NULL;
		n->count[i] = 0;
	}
}

void stk__nuscenes_close(struct stk_nuscenes *n)
{
	if (!n)
		return;
	empty(n);
	stk__free(n->root);
	stk__free(n);
}

/* ---- opening ---- */

static enum stk_status stamp_tables(const char *folder, struct stk_nuscenes_stamp *stamps, struct stk_error *err)
{
	for (int i = 0; i < STK_NUSC_TABLES; i++) {
		char path[4096];
		struct stat st;
		if (snprintf(path, sizeof path, "%s/%s.json", folder, stk__nuscenes_tables[i]) >= (int)sizeof path)
			return stk__fail(err, STK_INVALID, "%.200s: the path is too long", folder);
		if (stat(path, &st))
			return stk__fail_errno(err, errno,
				"%s: cannot find this table of NuScenes; root and version must name a folder that holds it", path);
		stamps[i] = (struct stk_nuscenes_stamp){st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
	}
	return STK_OK;
}

static enum stk_status fill(struct stk_nuscenes *n, const char *folder, const char *index, struct stk_error *err)
{
	struct stk_nuscenes_stamp stamps[STK_NUSC_TABLES];
	char default_index[4200];
	bool keep = !stk__is_uri(folder) && !(index && index[0] == '\0');
	enum stk_status s = STK_OK;
	if (!keep)
		return stk__nuscenes_load(n, folder, err);
	if (snprintf(default_index, sizeof default_index, "%s/stoker.index", folder) >= (int)sizeof default_index)
		return stk__fail(err, STK_INVALID, "%.200s: the path is too long", folder);
	const char *path = index ? index : default_index;
	if ((s = stamp_tables(folder, stamps, err)) || (s = stk__nuscenes_index_read(n, path, stamps, &n->from_index, err)))
		return s;
	if (n->from_index)
		return STK_OK;
	empty(n);
	if ((s = stk__nuscenes_load(n, folder, err)))
		return s;
	s = stk__nuscenes_index_write(n, path, stamps, index ? err : NULL);
	return index ? s : STK_OK; /* a failed write is an error only for an index that the caller named */
}

enum stk_status stk__nuscenes_open(
	const char *root, const char *version, const char *index, struct stk_nuscenes **out, struct stk_error *err)
{
	char folder[4096];
	struct stk_nuscenes *n = stk__calloc(1, sizeof *n);
	enum stk_status s = n && (n->root = stk__strdup(root)) ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a data set");
	if (!s && snprintf(folder, sizeof folder, "%s/%s", root, version) >= (int)sizeof folder)
		s = stk__fail(err, STK_INVALID, "%.200s: the path is too long", root);
	if (!s)
		s = fill(n, folder, index, err);
	if (!s && n->count[STK_NUSC_SAMPLES] == 0)
		s = stk__fail(err, STK_NOT_FOUND, "%s: the tables have no samples", folder);
	if (s)
		stk__nuscenes_close(n);
	else
		*out = n;
	return s;
}
