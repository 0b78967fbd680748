/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/index.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/archive_set.h"
#include "format/list.h"
#include "format/names.h"
#include "format/webdataset.h"

#include <limits.h>
#include <stdlib.h>

static enum stk_status write_all(const struct stk_archives *a, const char *path, struct stk_error *err)
{
	struct stk_coded_out o = {0};
	char whole[PATH_MAX];
	stk__archive_index_begin(&o, STK_ARCHIVE_TAR, a->count);
	for (int32_t i = 0; i < a->count; i++) {
		const char *tar = a->at[i].path, *real = stk__is_uri(tar) ? NULL : realpath(tar, whole); /* it is good from any folder */
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

static enum stk_status tell_components(const struct stk_archives *a, const struct stk_tar_index_options *o, struct stk_error *err)
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

enum stk_status stk_tar_index(const struct stk_tar_index_options *o, struct stk_tar_index_info *info, struct stk_error *err)
{
	const struct stk_access access = {.storage = o->storage};
	struct stk_names tars;
	struct stk_archives archives;
	if (o->size != sizeof *o || (info && info->size != sizeof *info))
		return stk__fail(err, STK_INVALID, "stk_tar_index_options.size is %zu; this library expects %zu", o->size, sizeof *o);
	if (o->path_count < 1)
		return stk__fail(err, STK_INVALID, "paths is empty: name at least one tar");
	enum stk_status s = stk__names_expand(&access, o->paths, o->path_count, &tars, err);
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
	}
	if (o->output)
		s = write_all(&archives, o->output, err);
	if (!s && o->component)
		s = tell_components(&archives, o, err);
	stk__archives_free(&archives);
	return s;
}
