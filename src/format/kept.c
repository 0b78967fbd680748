/* SPDX-License-Identifier: Apache-2.0 */
#include "format/kept.h"

#include "stoker/index.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool stk__kept_name(const char *path, char out[PATH_MAX])
{
	path = stk__file_path(path);
	if (stk__is_uri(path))
		return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
	return realpath(path, out) != NULL;
}

static bool is_ours(const struct stat *st)
{
	return st->st_uid == geteuid() || st->st_uid == 0;
}

/* Returns whether only this user and root can put files into the folder, or the folder does not exist yet. Otherwise another user could store an index with
 * wrong offsets in it. base: the folder contains all caches of the user; then its group may write to it, and so may all users if the sticky bit is set, as
 * in /tmp. */
static bool is_private(const char *folder, bool base)
{
	struct stat st;
	if (lstat(folder, &st))
		return errno == ENOENT;
	if (!is_ours(&st) || stat(folder, &st) || !S_ISDIR(st.st_mode) || !is_ours(&st))
		return false;
	if (base)
		return !(st.st_mode & S_IWOTH) || (st.st_mode & S_ISVTX);
	return !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Writes the path of the folder of indexes. Returns false if the environment does not name one, the path is too long, or
 * another user could put files into it. */
static bool kept_folder(char out[PATH_MAX])
{
	const char *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	const bool given = caches && caches[0] == '/';

	if (!given && !(home && home[0] == '/'))
		return false;
	const int base = snprintf(out, PATH_MAX, "%s%s", given ? caches : home, given ? "" : "/.cache");
	if (base >= PATH_MAX || !is_private(out, true))
		return false;
	static const char *const under[] = {"/stoker", "/indexes"};
	for (int k = 0, used = base; k < 2; k++) {
		const int n = snprintf(out + used, (size_t)(PATH_MAX - used), "%s", under[k]);
		if (n >= PATH_MAX - used || !is_private(out, false))
			return false;
		used += n;
	}
	return true;
}

enum stk_status stk_index_folder(char **out, struct stk_error *err)
{
	char folder[PATH_MAX];

	if (STK_NEED(err, out))
		return STK_INVALID;
	*out = NULL;
	if (!kept_folder(folder))
		return STK_OK;
	*out = stk__strdup(folder);
	return *out ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for the name of the folder of indexes");
}

bool stk__kept_path(const char *full_name, char out[PATH_MAX])
{
	const uint64_t hash = stk__hash_bytes(0, full_name, strlen(full_name));

	if (!kept_folder(out))
		return false;
	const size_t used = strlen(out), left = PATH_MAX - used;
	return (size_t)snprintf(out + used, left, "/%016llx.stoker", (unsigned long long)hash) < left;
}

static bool make_folder(char *path)
{
	for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		bool exists = !mkdir(path, 0700) || !access(path, F_OK);
		if (!exists) {
			*slash = '/';
			return false;
		}
	}
	return true;
}

bool stk__kept_write(char path[PATH_MAX], const void *data, size_t n)
{
	return make_folder(path) && stk__write_whole(path, data, n, "index", NULL) == STK_OK;
}
