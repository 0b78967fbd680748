/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

#include "files.h"

#include <stoker/audio.h>
#include <stoker/inspect.h>

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static struct {
	int32_t sounds, others;
} seen; /* numbers of files that ftw has visited; global, because ftw passes no user pointer to its callback */

static int count_file(const char *path, const struct stat *st, int kind)
{
	enum { ENOUGH = 200 };
	(void)st;
	if (kind == FTW_F && stk_audio_named(path))
		seen.sounds++;
	else if (kind == FTW_F)
		seen.others++;
	return seen.sounds + seen.others == ENOUGH;
}

bool holds_sounds(const char *folder)
{
	seen.sounds = seen.others = 0;
	return is_folder(folder) && ftw(folder, count_file, 16) >= 0 && seen.sounds > seen.others;
}

bool file_begins(const char *path, const char *magic)
{
	char begin[16];
	const size_t n = strlen(magic);
	struct stat st;
	int fd = n <= sizeof(begin) ? open_regular(path, &st) : -1;
	bool found = fd >= 0 && read(fd, begin, n) == (ssize_t)n && !memcmp(begin, magic, n);
	if (fd >= 0)
		close(fd);
	return found;
}

/* Adds the path of an image to f->paths, or counts another file in f->skipped. Returns false if the entry is a folder, so that the outer folder is not flat,
 * or if memory is short. */
static bool take_entry(const char *folder, const char *name, struct flat_folder *f)
{
	struct stat st;
	const size_t capacity = strlen(folder) + strlen(name) + 2;
	char *path = malloc(capacity);
	char **grown = realloc(f->paths, (f->count + 1) * sizeof(*grown));
	bool ok = path && grown;
	f->paths = grown ? grown : f->paths;
	if (ok)
		snprintf(path, capacity, "%s/%s", folder, name);
	ok = ok && !(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
	if (ok && stk_image_named(name)) {
		f->paths[f->count++] = path;
		return true;
	}
	f->skipped += ok;
	free(path);
	return ok;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool flat_folder_list(const char *folder, struct flat_folder *out)
{
	struct dirent *entry;
	bool flat = true;
	DIR *dir = opendir(folder);
	*out = (struct flat_folder){.count = 0};
	while (dir && flat && (errno = 0, entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			flat = take_entry(folder, entry->d_name, out);
	}
	flat &= !dir || !errno; /* the library lists it again, and reports the error */
	if (dir)
		closedir(dir);
	if (out->count > 1)
		qsort(out->paths, out->count, sizeof(*out->paths), by_name);
	return dir && flat && out->count > 0;
}

void flat_folder_free(struct flat_folder *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->paths[i]);
	free(f->paths);
	*f = (struct flat_folder){.count = 0};
}
