/* SPDX-License-Identifier: Apache-2.0 */
#include "format/names.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/archive_file.h"
#include "format/list.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void stk__names_free(struct stk_names *n)
{
	stk__free(n->at);
	stk__free(n->text);
	*n = (struct stk_names){0};
}

/* Appends a name, and then `bytes` bytes from `extra`. While names are added, `at` contains offsets instead of addresses, since the text moves. */
static enum stk_status add(struct stk_names *n, const char *name, size_t length, const void *extra, size_t bytes, struct stk_error *err)
{
	if (n->count == n->capacity) {
		size_t capacity = 2 * n->capacity + 64;
		const char **at = stk__realloc(n->at, capacity * sizeof *at);
		if (!at)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for %zu names of files", n->count);
		n->at = at;
		n->capacity = capacity;
	}
	if (n->text_capacity - n->size <= length + bytes) {
		size_t capacity = 2 * n->text_capacity + length + bytes + 4096;
		char *text = stk__realloc(n->text, capacity);
		if (!text)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for %zu names of files", n->count);
		n->text = text;
		n->text_capacity = capacity;
	}
	memcpy(n->text + n->size, name, length);
	n->text[n->size + length] = '\0';
	n->at[n->count++] = (const char *)(uintptr_t)n->size;
	n->size += length + 1;
	if (bytes)
		memcpy(n->text + n->size, extra, bytes);
	n->size += bytes;
	return STK_OK;
}

enum stk_status stk__names_add(struct stk_names *n, const char *name, size_t length, struct stk_error *err)
{
	return add(n, name, length, NULL, 0, err);
}

enum stk_status stk__names_add_object(
	struct stk_names *n, const char *name, size_t length, struct stk_list_object object, struct stk_error *err)
{
	return add(n, name, length, &object, sizeof object, err);
}

struct stk_list_object stk__names_object(const char *name)
{
	struct stk_list_object object;
	memcpy(&object, name + strlen(name) + 1, sizeof object);
	return object;
}

void stk__names_settle(struct stk_names *n)
{
	for (size_t i = 0; i < n->count; i++)
		n->at[i] = n->text + (uintptr_t)n->at[i];
}

/* ---- lists ---- */

static enum stk_status add_lines(struct stk_names *n, const char *text, size_t size, const char *path, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	int64_t number = 1;
	for (const char *line = text + stk__byte_order_mark(text, size), *end = text + size, *stop; line < end && s == STK_OK;
		line = stop + 1, number++) {
		stop = memchr(line, '\n', (size_t)(end - line));
		stop = stop ? stop : end;
		const char *last = stop;
		while (last > line && strchr(" \t\r\v\f", last[-1]))
			last--;
		while (line < last && strchr(" \t", *line))
			line++;
		if (memchr(line, 0, (size_t)(last - line)))
			return stk__fail(
				err, STK_INVALID, "%s, line %lld: it holds a zero byte; is this a text file?", path, (long long)number);
		if (line < last)
			s = stk__names_add(n, line, (size_t)(last - line), err);
	}
	return s;
}

enum stk_status stk__names_read_list(const struct stk_access *access, const char *path, struct stk_names *out, struct stk_error *err)
{
	uint8_t *text = NULL;
	size_t size;
	*out = (struct stk_names){0};
	enum stk_status s = stk__access_read(access, path, (size_t)1 << 40, &text, &size, err);
	if (!s)
		s = add_lines(out, (const char *)text, size, path, err);
	stk__free(text);
	stk__names_settle(out);
	if (s)
		stk__names_free(out);
	return s;
}

/* ---- folders ---- */

struct walk {
	struct stk_names *names;
	const char *folder, *glob; /* folder: as the caller wrote it, for messages */
	bool case_sensitive;
	struct stk_error *err;
};

/* Returns whether an entry is a folder, or a link to one; false for a link to a missing target. Sets errno to 0, or to the reason why that is not known. */
static bool is_folder(int at, const struct dirent *e)
{
	struct stat st;
	errno = 0;
	if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
		return e->d_type == DT_DIR;
	if (fstatat(at, e->d_name, &st, 0) == 0)
		return S_ISDIR(st.st_mode);
	errno = errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : errno;
	return false;
}

/* Adds the files in the subfolder `below` of `root` whose names match. below "": adds those in `root` itself and in all its direct subfolders. */
static enum stk_status walk_folder(struct walk *w, const char *root, const char *below)
{
	char path[PATH_MAX];
	if ((size_t)snprintf(path, sizeof path, "%s%s%s", root, *below ? "/" : "", below) >= sizeof path)
		return stk__fail(w->err, STK_INVALID, "%.200s: the path is too long", root);
	DIR *dir = opendir(path);
	if (!dir)
		return stk__fail_errno(w->err, errno, "%s: cannot open the folder%s", path, stk__uri_hint(w->folder));
	enum stk_status s = STK_OK;
	const struct dirent *e;
	while (s == STK_OK && (e = stk__next_entry(dir))) {
		if (is_folder(dirfd(dir), e)) {
			s = *below ? STK_OK : walk_folder(w, root, e->d_name);
		} else if (stk__glob_match(w->glob, e->d_name, w->case_sensitive)) {
			char name[2 * NAME_MAX + 2];
			int n = snprintf(name, sizeof name, "%s%s%s", below, *below ? "/" : "", e->d_name);
			s = stk__names_add(w->names, name, (size_t)n, w->err);
		} else if (errno && !*below) {
			s = stk__fail_errno(w->err, errno, "%s/%s: cannot see whether it is a folder", path, e->d_name);
		}
	}
	if (s == STK_OK && errno)
		s = stk__fail_errno(w->err, errno, "%s: cannot list the folder", path);
	closedir(dir);
	return s;
}

/* Orders names by folder, then by name. The folder itself is ordered as "." among its subfolders, as in DALI. */
static int by_folder(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b, *in_x = strchr(*x, '/'), *in_y = strchr(*y, '/');
	const char *folder_x = in_x ? *x : ".", *folder_y = in_y ? *y : ".";
	size_t n_x = in_x ? (size_t)(in_x - *x) : 1, n_y = in_y ? (size_t)(in_y - *y) : 1, n = n_x < n_y ? n_x : n_y;
	int order = memcmp(folder_x, folder_y, n);
	if (order || n_x != n_y)
		return order ? order : n_x < n_y ? -1 : 1;
	return strcmp(in_x ? in_x + 1 : *x, in_y ? in_y + 1 : *y);
}

enum stk_status stk__names_read_folder(
	const char *folder, const char *glob, bool case_sensitive, struct stk_names *out, struct stk_error *err)
{
	*out = (struct stk_names){0};
	struct walk w = {out, folder, glob, case_sensitive, err};
	enum stk_status s = STK_OK;
	if (stk__is_object(folder))
		s = stk__fail(err, STK_UNSUPPORTED,
			"%.*s: only local folders are listed for such files: give files, or a file_list that names them",
			stk__uri_shown(folder), folder);
	else
		s = walk_folder(&w, stk__file_path(folder), "");
	stk__names_settle(out);
	if (!s && !out->count)
		s = stk__fail_missing(err, "%s: no file in it, or in a folder of it, matches \"%s\"", folder, glob);
	if (s)
		stk__names_free(out);
	else
		qsort(out->at, out->count, sizeof *out->at, by_folder);
	return s;
}
