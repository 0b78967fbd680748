/* SPDX-License-Identifier: Apache-2.0
 * Stores indexes for later runs. The index of a local archive is stored in the archive's folder if that is writable. Otherwise, and for objects, it is stored
 * in the user's cache folder (format/kept.h), under a hash of the archive's path. Users may upload indexes along with their archives: the index
 * OBJECT.stoker of an object is read too. */
#include "format/archive_set.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/kept.h"
#include "format/list.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char ending[] = ".stoker";

bool stk__archive_is_kept(const char *path)
{
	size_t n = strlen(path);
	return n >= sizeof ending && strcmp(path + n - (sizeof ending - 1), ending) == 0;
}

static bool index_path(const char *archive, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s%s", stk__file_path(archive), ending) < PATH_MAX;
}

/* Returns whether the last parts of two names are equal, without the queries of URLs, which can contain a signature. */
static bool same_last_part(const char *a, const char *b)
{
	const char *last[2] = {a, b};
	size_t n[2];
	for (int i = 0; i < 2; i++) {
		const char *begin = last[i], *end = begin + stk__uri_shown(begin);
		for (const char *c = begin; c < end; c++)
			last[i] = *c == '/' ? c + 1 : last[i];
		n[i] = (size_t)(end - last[i]);
	}
	return n[0] == n[1] && memcmp(last[0], last[1], n[0]) == 0;
}

static void notify(const struct stk_archive_watch *watch, const char *index, const char *what)
{
	char text[PATH_MAX + 200];
	snprintf(text, sizeof text, "%s: %s", index, what);
	if (watch && watch->notice)
		watch->notice(watch->user, text);
}

/* Reads the archive's index from the bytes of an index file. Returns false if the file does not describe exactly one archive, if the last parts of that
 * archive's path and of f->path differ, or if the archive has changed since. (Only the last parts are compared, so that an archive may be moved together
 * with its index.) Notifies `watch` of a damaged file. */
static bool find_index(enum stk_archive_kind kind, const uint8_t *data, size_t n, const char *index, struct stk_archive_file *f,
	struct stk_archive_index *x, const struct stk_archive_watch *watch)
{
	struct stk_archive_index *found;
	int32_t count;
	if (stk__archive_index_parse(kind, data, n, index, &found, &count, NULL)) {
		notify(watch, index, "the index is damaged or cut off: it is made again");
		return false;
	}
	bool fits = count == 1 && same_last_part(found->path, f->path) && stk__archive_index_fits(kind, found, f);
	for (int32_t i = 0; i < count; i++)
		if (fits)
			*x = found[i];
		else
			stk__archive_index_free(&found[i]);
	stk__free(found);
	return fits;
}

/* Loads an index. Returns false if it cannot be read or does not fit the archive. Does not report failures to read it: a store answers 403 instead of 404 if
 * the bucket may not be listed. io: reads an index that is an object; NULL for a local file. */
static bool load(enum stk_archive_kind kind, const char *index, struct stk_io *io, struct stk_archive_file *f, struct stk_archive_index *x,
	const struct stk_archive_watch *watch)
{
	const size_t most = (size_t)1 << 32;
	uint8_t *data;
	size_t n;
	if (io ? stk__read_object(f->access, io, index, 0, -1, most, &data, &n, NULL, NULL)
	       : access(index, R_OK) || stk__read_whole(index, most, &data, &n, NULL))
		return false;
	bool ok = find_index(kind, data, n, index, f, x, watch);
	stk__free(data);
	return ok;
}

bool stk__archive_kept_load(
	enum stk_archive_kind kind, struct stk_archive_file *f, struct stk_archive_index *x, const struct stk_archive_watch *watch)
{
	char name[PATH_MAX], full_name[PATH_MAX];
	if (!f->io && index_path(f->path, name) && load(kind, name, NULL, f, x, watch))
		return true;
	if (stk__kept_name(f->path, full_name) && stk__kept_path(full_name, name) && load(kind, name, NULL, f, x, watch))
		return true;
	return f->io && !strpbrk(f->path, "?#") && index_path(f->path, name) && load(kind, name, f->io, f, x, watch);
}

bool stk__archive_kept_here(const char *archive)
{
	char name[PATH_MAX], full_name[PATH_MAX];
	if (!stk__is_object(archive) && index_path(archive, name) && !access(name, R_OK))
		return true;
	return stk__kept_name(archive, full_name) && stk__kept_path(full_name, name) && !access(name, R_OK);
}

void stk__archive_keep(enum stk_archive_kind kind, struct stk_archive_index *x, const struct stk_archive_watch *watch)
{
	char name[PATH_MAX], full_name[PATH_MAX], shown[PATH_MAX];
	struct stk_coded_out o = {0};
	if (!stk__kept_name(x->path, full_name))
		return;
	bool local = !stk__is_uri(full_name);
	snprintf(shown, sizeof shown, "%.*s", stk__uri_shown(full_name), full_name);
	stk__archive_index_begin(&o, kind, 1);
	stk__archive_index_put(&o, x, local ? strrchr(full_name, '/') + 1 : shown);
	stk__put_hash(&o);
	bool stored = !o.failed && local && index_path(x->path, name) && stk__write_whole(name, o.data, o.n, "index", NULL) == STK_OK;
	if (!o.failed && !stored)
		stored = stk__kept_path(full_name, name) && stk__kept_write(name, o.data, o.n);
	x->unkept = !stored;
	if (!stored)
		notify(watch, x->path,
			"its index could not be kept, neither next to it nor in ~/.cache/stoker: the next run makes it again");
	stk__free(o.data);
}
