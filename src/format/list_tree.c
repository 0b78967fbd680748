/* SPDX-License-Identifier: Apache-2.0
 * Reads class folders and their files with getdents64, which also gives the types of entries. Only links and entries of unknown type need a stat. */
#include "format/list_census.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_SIZE = 128 << 10 };

enum { DEEPEST = 64 }; /* maximum depth of folders; deeper trees most likely come from a link to a folder that contains it */

struct walk {
	struct stk_file_list *list;
	struct stk_file_list
		subfolders;     /* folders below the current class, as paths relative to it, in the order in which they were found */
	const char *path;       /* path of the current folder, relative to its class folder; "" for the class folder itself */
	int root, class_folder; /* descriptors of the root and of the current class folder */
	const char *class_name;
	const struct stk_file_list_options *options;
	struct stk_list_census census;
	char *entries; /* memory for getdents64 */
	struct stk_error *err;
};

/* KIND_LOST: a link to a missing target, or an entry that was removed meanwhile. */
enum kind { KIND_FILE, KIND_FOLDER, KIND_OTHER, KIND_LOST };

static enum kind kind_of(int folder, const struct dirent64 *e)
{
	if (e->d_type == DT_REG)
		return KIND_FILE;
	if (e->d_type == DT_DIR)
		return KIND_FOLDER;
	if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)
		return KIND_OTHER;
	struct stat st;
	if (fstatat(folder, e->d_name, &st, 0))
		return KIND_LOST;
	return S_ISREG(st.st_mode) ? KIND_FILE : S_ISDIR(st.st_mode) ? KIND_FOLDER : KIND_OTHER;
}

/* Calls `visit` with `name` for each entry of `folder` except . and .. . path, name: the two parts of the folder's path, for messages. */
static enum stk_status for_each_entry(struct walk *w, int folder, const char *path, const char *name,
	enum stk_status (*visit)(struct walk *w, int folder, const char *folder_name, const struct dirent64 *e))
{
	for (;;) {
		ssize_t n = stk__fault(STK_FAULT_READ) ? (errno = EIO, -1) : stk__getdents(folder, w->entries, ENTRIES_SIZE);
		if (n == 0)
			return STK_OK;
		if (n < 0)
			return stk__fail_errno(w->err, errno, "%s%s%s: cannot list it", path, *name ? "/" : "", name);
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e = (const void *)(w->entries + at);
			at += e->d_reclen;
			if (e->d_name[0] == '.' && (!e->d_name[1] || (e->d_name[1] == '.' && !e->d_name[2])))
				continue;
			enum stk_status status = visit(w, folder, name, e);
			if (status)
				return status;
		}
	}
}

/* Visits an entry of the root: adds class folders to the list, and counts files, and folders that dir_filters leave out. A link to a missing target is an
 * error, since the target may be a class, and all later labels would change. */
static enum stk_status visit_root(struct walk *w, int folder, const char *name, const struct dirent64 *e)
{
	(void)name;
	switch (kind_of(folder, e)) {
	case KIND_FOLDER:
		if (!stk__list_wants_class(w->options, e->d_name)) {
			w->census.left_out++;
			return STK_OK;
		}
		return stk__list_add_file(w->list, e->d_name, strlen(e->d_name), w->err);
	case KIND_LOST:
		return stk__fail_missing(
			w->err, "%s/%s: a link that leads nowhere, so that classes cannot be numbered", w->options->file_root, e->d_name);
	case KIND_FILE:
		stk__census_loose(&w->census, w->options, e->d_name);
		return STK_OK;
	default:
		return STK_OK;
	}
}

/* Appends an entry of the current folder to the list `to`, with its path from the class folder. */
static enum stk_status add_entry(struct walk *w, struct stk_file_list *to, const char *name)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof path, "%s%s%s", w->path, *w->path ? "/" : "", name);
	if (n < 0 || (size_t)n >= sizeof path)
		return stk__fail(w->err, STK_LIMIT, "%s/%s/%s: the path is too long", w->list->root, w->path, name);
	return stk__list_add_file(to, path, (size_t)n, w->err);
}

static bool is_folder(int at, const char *path, const struct stat *st)
{
	struct stat other;
	return fstatat(at, path, &other, *path ? 0 : AT_EMPTY_PATH) == 0 && other.st_dev == st->st_dev && other.st_ino == st->st_ino;
}

/* Returns whether an entry, if it is a link to a folder, leads to the current folder or to one that contains it. Two such links would otherwise be followed
 * 2^DEEPEST times. */
static bool leads_back(const struct walk *w, int folder, const struct dirent64 *e)
{
	struct stat st;
	char path[PATH_MAX];
	if (fstatat(folder, e->d_name, &st, 0))
		return false;
	if (is_folder(w->root, "", &st) || is_folder(w->class_folder, "", &st))
		return true;
	snprintf(path, sizeof path, "%s", w->path);
	for (char *end = path + strlen(path); end && end > path; end = strrchr(path, '/')) {
		*end = '\0';
		if (is_folder(w->class_folder, path, &st))
			return true;
	}
	return false;
}

static enum stk_status add_folder(struct walk *w, int folder, const struct dirent64 *e)
{
	if (e->d_type != DT_DIR && leads_back(w, folder, e))
		return stk__fail(w->err, STK_LIMIT, "%s/%s%s%s/%s: a link that leads back to a folder which holds it: remove it",
			w->list->root, w->class_name, *w->path ? "/" : "", w->path, e->d_name);
	return add_entry(w, &w->subfolders, e->d_name);
}

static enum stk_status visit_class(struct walk *w, int folder, const char *name, const struct dirent64 *e)
{
	bool wanted = stk__list_wants(w->options, e->d_name);
	/* The kind of an entry that is not wanted, and is not a folder to count or to read, does not matter, so the entry needs no stat. */
	bool asks = wanted || e->d_type == DT_DIR || (w->options->nested && e->d_type != DT_REG);
	enum kind kind = asks ? kind_of(folder, e) : KIND_FILE;
	if (wanted && (kind == KIND_FILE || kind == KIND_LOST))
		return add_entry(w, w->list, e->d_name);
	if (wanted && kind == KIND_OTHER)
		w->census.special++;
	if (kind == KIND_FOLDER && w->options->nested)
		return add_folder(w, folder, e);
	if (kind == KIND_FOLDER)
		stk__census_folder(&w->census, name);
	if (kind == KIND_FILE)
		stk__census_other(&w->census, e->d_name);
	return STK_OK;
}

static int depth_of(const char *path)
{
	int depth = 0;
	for (; *path; path++)
		depth += *path == '/';
	return depth;
}

/* Reads the folders below a class folder, and the subfolders that are found meanwhile. */
static enum stk_status read_below(struct walk *w, int class_folder, const char *name)
{
	char path[PATH_MAX];
	enum stk_status status = STK_OK;
	for (int64_t i = 0; i < w->subfolders.size && !status; i++) {
		snprintf(path, sizeof path, "%s",
			w->subfolders.names + w->subfolders.files[i]); /* a copy: the names move when the list grows */
		if (depth_of(path) > DEEPEST)
			return stk__fail(w->err, STK_LIMIT,
				"%s/%s: more than %d folders inside each other; is one of them a link that leads back?", w->list->root,
				name, DEEPEST);
		int folder = openat(class_folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (folder < 0)
			return stk__fail_errno(w->err, errno, "%s/%s/%s: cannot open the folder", w->list->root, name, path);
		w->path = path;
		status = for_each_entry(w, folder, w->list->root, path, visit_class);
		w->path = "";
		close(folder);
	}
	w->subfolders.size = 0;
	w->subfolders.names_size = 0;
	return status;
}

static enum stk_status read_class(struct walk *w, int root, const char *name)
{
	enum stk_status status = stk__list_add_folder(w->list, name, w->err);
	if (status)
		return status;
	int folder = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return stk__fail_errno(w->err, errno, "%s/%s: cannot open the folder", w->list->root, name);
	w->class_folder = folder;
	w->class_name = name;
	int64_t first = w->list->size;
	status = for_each_entry(w, folder, w->list->root, name, visit_class);
	if (!status)
		status = read_below(w, folder, name);
	close(folder);
	return status ? status : stk__list_end_class(w->list, w->options, &w->census, first, name, w->err);
}

static enum stk_status read_classes(struct walk *w, int root, struct stk_file_list *classes)
{
	struct stk_file_list *files = w->list;
	w->list = classes;
	enum stk_status status = for_each_entry(w, root, files->root, "", visit_root);
	w->list = files;
	if (status)
		return status;
	if (classes->size == 0)
		return stk__census_no_classes(&w->census, files, w->options, w->err);
	if (classes->size > INT32_MAX)
		return stk__fail(w->err, STK_LIMIT, "%s: %lld class folders", files->root, (long long)classes->size);
	const int64_t loose = w->census.loose;
	memset(&w->census, 0, sizeof w->census);
	stk__list_sort(classes, 0, false);
	for (int64_t i = 0; i < classes->size && !status; i++)
		status = read_class(w, root, classes->names + classes->files[i]);
	return status ? status : stk__census_end(&w->census, files, w->options, loose, w->err);
}

enum stk_status stk__list_read_tree(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err)
{
	struct walk w = {.list = l, .path = "", .options = o, .err = err};
	struct stk_file_list classes = {0};
	const char *path = stk__file_path(o->file_root);
	int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 && errno == ENOTDIR) {
		struct stat st;
		if (stat(path, &st) == 0)
			return stk__fail(err, STK_INVALID,
				"%s: a file, not a folder of class folders; files are given as a list, with their labels", o->file_root);
		errno = ENOTDIR;
	}
	if (root < 0)
		return stk__fail_errno(err, errno, "%s: cannot open the folder%s", o->file_root,
			strpbrk(o->file_root, "*?[{") ? " (patterns of files are not expanded: give the list of the files)"
						      : stk__uri_hint(o->file_root));
	w.root = root;
	w.entries = stk__alloc(ENTRIES_SIZE);
	enum stk_status status = STK_OK;
	if (!w.entries)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory to list %s", o->file_root);
	else
		status = read_classes(&w, root, &classes);
	stk__free(w.entries);
	stk__free(w.subfolders.names);
	stk__free(w.subfolders.files);
	stk__free(classes.names);
	stk__free(classes.files);
	close(root);
	return status;
}
