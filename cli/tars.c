/* SPDX-License-Identifier: Apache-2.0 */
#include "tars.h"

#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PARTS_MAGIC "STKPARTS" /* the first bytes of an index that `stoker index` wrote for tars */

bool names_tar(const char *path)
{
	static const char *const endings[] = {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz"};
	const size_t n = strstr(path, "://") ? strcspn(path, "?") : strlen(path);
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		const size_t m = strlen(endings[i]);
		if (n > m && !strncasecmp(path + n - m, endings[i], m))
			return true;
	}
	return false;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds a path, of which the list becomes the owner; frees it on failure. Returns false if `path` is NULL or memory is short. */
static bool add_path(struct tars *t, char *path)
{
	char **grown = path ? realloc(t->paths, ((size_t)t->count + 1) * sizeof(*grown)) : NULL;
	if (!grown) {
		free(path);
		return false;
	}
	t->paths = grown;
	t->paths[t->count++] = path;
	return true;
}

/* Adds the path of an entry if it is a tar. Returns false if the entry is a folder or memory is short. */
static bool take_entry(struct tars *t, const char *folder, const char *name)
{
	const size_t capacity = strlen(folder) + strlen(name) + 2;
	char *path = malloc(capacity);
	if (path)
		snprintf(path, capacity, "%s/%s", folder, name);
	if (path && names_tar(name) && !is_folder(path))
		return add_path(t, path);
	const bool passed = path && !is_folder(path);
	free(path);
	return passed;
}

/* Lists the tars of a folder. Returns false if the folder contains folders or no tars, or cannot be read. */
static bool list_folder(struct tars *t, const char *folder)
{
	DIR *dir = opendir(folder);
	bool flat = dir != NULL;
	for (struct dirent *entry; flat && (errno = 0, entry = readdir(dir));)
		flat = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || take_entry(t, folder, entry->d_name);
	flat &= !errno;
	if (dir)
		closedir(dir);
	if (t->count > 1)
		qsort(t->paths, (size_t)t->count, sizeof(*t->paths), by_name);
	return flat && t->count > 0;
}

bool is_tars(const char *source)
{
	struct tars t = {.count = 0};
	bool found = is_folder(source) ? list_folder(&t, source) : names_tar(source) || file_begins(source, PARTS_MAGIC);
	tars_free(&t);
	return found;
}

struct search {
	struct tars *tars;
	char others[256]; /* endings of components that are not images, for a message */
};

static void append(char *list, size_t capacity, const char *separator, const char *ending)
{
	const size_t used = strlen(list);
	if (used + strlen(separator) + strlen(ending) < capacity)
		snprintf(list + used, capacity - used, "%s%s", used ? separator : "", ending);
}

static void on_component(void *user, const char *ending, int64_t files)
{
	struct search *s = user;
	char name[64];
	(void)files;
	snprintf(name, sizeof(name), ".%s", ending);
	if (!strchr(ending, '.') && stk_image_named(name))
		append(s->tars->images, sizeof(s->tars->images), ";", ending);
	else
		append(s->others, sizeof(s->others), ", ", ending);
	s->tars->labels |= !strcasecmp(ending, "cls");
}

enum stk_status tars_look(struct tars *t, const char *source, struct stk_storage *storage, struct stk_error *err)
{
	struct search s = {.tars = t};
	*t = (struct tars){.count = 0};
	if (is_folder(source) ? !list_folder(t, source) : !add_path(t, strdup(source))) {
		snprintf(err->message, sizeof(err->message), "%s: its tars cannot be listed", source);
		return err->code = STK_IO;
	}
	const struct stk_tar_index_options o = {.size = sizeof(o),
		.paths = (const char *const *)t->paths,
		.path_count = t->count,
		.storage = storage,
		.component = on_component,
		.user = &s};
	enum stk_status status = stk_tar_index(&o, NULL, err);
	if (status == STK_OK && !*t->images) {
		snprintf(err->message, sizeof(err->message), "%s: its samples have no image; they have %s", source,
			*s.others ? s.others : "nothing");
		status = err->code = STK_INVALID;
	}
	return status;
}

void tars_free(struct tars *t)
{
	for (int32_t i = 0; i < t->count; i++)
		free(t->paths[i]);
	free(t->paths);
	*t = (struct tars){.count = 0};
}
