/* SPDX-License-Identifier: Apache-2.0 */
#include "format/kept.h"

#include "format/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *stk__kept_plain(const char *path)
{
	return strncmp(path, "file://", 7) == 0 ? path + 7 : path;
}

bool stk__kept_name(const char *path, char out[PATH_MAX])
{
	path = stk__kept_plain(path);
	if (stk__is_uri(path))
		return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
	return realpath(path, out) != NULL;
}

bool stk__kept_path(const char *whole, char out[PATH_MAX])
{
	const char *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	bool given = caches && caches[0] == '/';
	uint64_t hash = stk__hash_bytes(0, whole, strlen(whole));
	if (!given && !(home && home[0] == '/'))
		return false;
	int n = snprintf(out, PATH_MAX, "%s%s/stoker/indexes/%016llx.stoker", given ? caches : home, given ? "" : "/.cache",
		(unsigned long long)hash);
	return n < PATH_MAX;
}

static bool make_folder(char *path)
{
	for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		bool there = !mkdir(path, 0700) || !access(path, F_OK);
		if (!there) {
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
