/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/index.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/archive_file.h"
#include "format/archive_set.h"
#include "format/index_format.h"
#include "format/list.h"
#include "format/names.h"
#include "format/tar.h"
#include "format/webdataset.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum stk_status write_all(const struct stk_archives *a, const char *path, struct stk_error *err)
{
	struct stk_coded_out o = {0};
	char absolute[PATH_MAX];
	stk__archive_index_begin(&o, STK_ARCHIVE_TAR, a->count);
	for (int32_t i = 0; i < a->count; i++) {
		/* The index may be moved to any folder, so it names local tars by their absolute paths. */
		const char *tar = a->at[i].path, *real = stk__is_object(tar) ? NULL : realpath(stk__file_path(tar), absolute);
		stk__archive_index_put(&o, &a->at[i], real ? real : tar);
	}
	stk__put_hash(&o);
	enum stk_status s = o.failed ? stk__fail(err, STK_NO_MEMORY, "out of memory for the index %.300s", path)
				     : stk__write_whole(path, o.data, o.n, "index", err);
	stk__free(o.data);
	return s;
}

static enum stk_status count_file(void *user, const struct stk_archive_member *m, struct stk_error *err)
{
	(void)err;
	stk__components_count(user, m->name);
	return STK_OK;
}

static enum stk_status report_components(const struct stk_archives *a, const struct stk_tar_index_options *o, struct stk_error *err)
{
	struct stk_components *c = stk__calloc(1, sizeof *c);
	enum stk_status s = c ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for the components of tars");
	for (int32_t i = 0; i < a->count && s == STK_OK; i++)
		s = stk__archive_index_each(&a->at[i], count_file, c, err);
	for (int32_t i = 0; s == STK_OK && i < c->count; i++)
		o->component(o->user, c->at[i].ending, c->at[i].files);
	stk__free(c);
	return s;
}

static bool is_cancelled(void *user)
{
	const struct stk_tar_index_options *o = user;
	return o->progress && !o->progress(o->user, 0, o->path_count, 0);
}

static struct stk_access access_of(const struct stk_tar_index_options *o)
{
	return (struct stk_access){.storage = o->storage, .interrupted = is_cancelled, .user = (void *)(uintptr_t)o};
}

static enum stk_status check_options(const struct stk_tar_index_options *o, struct stk_error *err)
{
	if (o->size != sizeof *o)
		return stk__fail(err, STK_INVALID, "stk_tar_index_options.size is %zu; this library expects %zu", o->size, sizeof *o);
	if (o->path_count < 1 || !o->paths)
		return stk__fail(err, STK_INVALID, "paths is empty: name at least one tar");
	for (int32_t i = 0; i < o->path_count; i++)
		if (!o->paths[i])
			return stk__fail(err, STK_INVALID, "path %d is NULL", i);
	return STK_OK;
}

enum stk_status stk_tar_index(const struct stk_tar_index_options *o, struct stk_tar_index_info *info, struct stk_error *err)
{
	if (STK_NEED(err, o))
		return STK_INVALID;
	const struct stk_access access = access_of(o);
	struct stk_names tars;
	struct stk_archives archives;
	enum stk_status s = check_options(o, err);
	if (!s && info && info->size != sizeof *info)
		s = stk__fail(err, STK_INVALID, "stk_tar_index_info.size is %zu; this library expects %zu", info->size, sizeof *info);
	if (!s && o->output)
		s = stk__index_check_output(o->output, err);
	if (s)
		return s;
	s = stk__names_expand(&access, o->paths, o->path_count, &tars, err);
	if (s)
		return s;
	const struct stk_archive_watch watch = {o->progress, o->notice, o->user};
	s = stk__archives_open(STK_ARCHIVE_TAR, &access, tars.at, (int32_t)tars.count, &watch, &archives, err);
	stk__names_free(&tars);
	if (s)
		return s;
	if (info)
		*info = (struct stk_tar_index_info){.size = sizeof *info, .tars = archives.count};
	for (int32_t i = 0; info && i < archives.count; i++) {
		info->files += archives.at[i].members;
		info->bytes += archives.at[i].size;
		info->unended += !stk__tar_has_end(&archives.at[i]);
		info->unkept += archives.at[i].unkept;
	}
	if (o->output)
		s = write_all(&archives, o->output, err);
	if (!s && o->component)
		s = report_components(&archives, o, err);
	stk__archives_free(&archives);
	return s;
}

/* ---- tars without an index ---- */

struct first_sample {
	struct stk_components components;
	char first[STK_CODED_LONGEST]; /* name of the first file */
	bool complete;                 /* true if the first sample is complete, because a second one has begun */
};

/* Counts the files of the first sample by component, and the links before its end, too. Ends the search with STK_CANCELLED at the first file of the second
 * sample. */
static enum stk_status count_member(void *user, const struct stk_archive_member *m, struct stk_error *err)
{
	struct first_sample *g = user;
	const size_t stem = stk__webdataset_stem(m->name);
	if (stk__webdataset_is_link(m->name)) {
		stk__components_count(&g->components, m->name);
		return STK_OK;
	}
	if (!g->first[0])
		snprintf(g->first, sizeof g->first, "%s", m->name);
	g->complete = stk__webdataset_stem(g->first) != stem || strncmp(g->first, m->name, stem) != 0;
	if (g->complete)
		return stk__fail(err, STK_CANCELLED, "the first sample is over");
	stk__components_count(&g->components, m->name);
	return STK_OK;
}

static enum stk_status check_first_sample(const struct stk_tar_index_options *o, struct stk_archive_file *f, struct stk_error *err)
{
	struct first_sample *g = stk__calloc(1, sizeof *g);
	enum stk_status s =
		g ? stk__tar_scan(f, count_member, g, err) : stk__fail(err, STK_NO_MEMORY, "out of memory for the components of tars");
	if (g && g->complete)
		s = STK_OK;
	for (int32_t i = 0; s == STK_OK && o->component && i < g->components.count; i++)
		o->component(o->user, g->components.at[i].ending, g->components.at[i].files);
	stk__free(g);
	return s;
}

/* Returns the index of the first tar that has no index on this host; -1: all have one, or some tar is a local file. This tar stands for all: if the store
 * has an index for it, the others probably have one too. */
static int32_t first_without(const struct stk_names *tars)
{
	int32_t first = -1;
	for (int32_t i = 0; i < (int32_t)tars->count; i++) {
		if (!stk__is_object(tars->at[i]))
			return -1;
		if (first < 0 && !stk__archive_kept_here(tars->at[i]))
			first = i;
	}
	return first;
}

static enum stk_status open_tar(
	const char *tar, struct stk_io *io, const struct stk_access *access, struct stk_archive_file *f, struct stk_error *err)
{
	return stk__archive_open(
		f, tar, io, access, (struct stk_archive_pace){.max_requests = 1}, stk__archive_least(STK_ARCHIVE_TAR), err);
}

static enum stk_status find_unindexed(const struct stk_tar_index_options *o, const struct stk_access *access, const struct stk_names *tars,
	struct stk_io *io, int32_t first, int32_t *unindexed, struct stk_error *err)
{
	const struct stk_archive_watch watch = {.notice = o->notice, .user = o->user};
	struct stk_archive_file f;
	struct stk_archive_index index;
	enum stk_status s = open_tar(tars->at[first], io, access, &f, err);
	if (s)
		return s;
	*unindexed = stk__archive_kept_load(STK_ARCHIVE_TAR, &f, &index, &watch) ? 0 : (int32_t)tars->count;
	if (!*unindexed) {
		stk__archive_index_free(&index);
	} else if (first > 0) {
		stk__archive_close(&f);
		s = open_tar(tars->at[0], io, access, &f, err);
	}
	if (s)
		return s;
	if (*unindexed)
		s = check_first_sample(o, &f, err);
	stk__archive_close(&f);
	return s;
}

enum stk_status stk_tar_unindexed(const struct stk_tar_index_options *o, int32_t *unindexed, struct stk_error *err)
{
	if (STK_NEED(err, o, unindexed))
		return STK_INVALID;
	const struct stk_access access = access_of(o);
	struct stk_storage *storage = NULL;
	struct stk_names tars;
	*unindexed = 0;
	enum stk_status s = check_options(o, err);
	if (s || (s = stk__names_expand(&access, o->paths, o->path_count, &tars, err)))
		return s;
	int32_t first = first_without(&tars);
	if (first >= 0 && !(s = stk__access_open(&access, tars.at[first], &storage, err)))
		s = find_unindexed(o, &access, &tars, stk__storage_io(storage), first, unindexed, err);
	stk_storage_unref(&storage);
	stk__names_free(&tars);
	return s;
}
