/* SPDX-License-Identifier: Apache-2.0
 * Class folders and their files, by getdents64 and the type that it gives: a stat for a link or an unknown type alone. */
#include "format/list.h"

#include "base/error.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_SIZE = 128 << 10, ENDINGS = 6, ENDING_SIZE = 12 };

/* What was met and not taken, for the error that says why the list is empty. */
struct census {
	struct {
		char name[ENDING_SIZE];
		int64_t count;
	} endings[ENDINGS];
	int64_t files, folders, other_endings;
	int64_t images;          /* in the root itself */
	int64_t empty;           /* class folders without a sample */
	int64_t left_out;        /* class folders that dir_filters refuse */
	char deep[NAME_MAX + 1]; /* a class folder that holds folders */
};

enum { DEEPEST = 64 }; /* folders inside each other: more are most likely a link that leads back */

struct walk {
	struct stk_file_list *list;
	struct stk_file_list below; /* folders below the class in hand, by their paths from it, as they are found */
	const char *path;           /* of the folder in hand, from its class folder; "" for that one itself */
	const struct stk_file_list_options *options;
	struct census census;
	char *entries; /* getdents64's buffer */
	struct stk_error *err;
};

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

static bool same_ignoring_case(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if ((*a | (*a >= 'A' && *a <= 'Z' ? 32 : 0)) != *b)
			return false;
	return !*a && !*b;
}

/* DALI's default filters, as endings in lower case. */
static bool is_default(const char *name, bool case_sensitive)
{
	static const char *const endings[] = {
		"jpg", "jpeg", "png", "bmp", "tif", "tiff", "pnm", "ppm", "pgm", "pbm", "jp2", "webp", "flac", "ogg", "wav"};
	const char *dot = strrchr(name, '.');
	for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
		if (case_sensitive ? strcmp(dot + 1, endings[i]) == 0 : same_ignoring_case(dot + 1, endings[i]))
			return true;
	return false;
}

static bool matches_any(const char *name, const char *const *globs, size_t count, bool case_sensitive)
{
	for (size_t i = 0; i < count; i++)
		if (stk__glob_match(globs[i], name, case_sensitive))
			return true;
	return false;
}

/* True if a name passes the file filters. */
static bool wants(const struct stk_file_list_options *o, const char *name)
{
	if (!o->file_filters)
		return is_default(name, o->case_sensitive);
	return matches_any(name, o->file_filters, o->filter_count, o->case_sensitive);
}

static void count_ending(struct census *c, const char *name)
{
	const char *dot = strrchr(name, '.');
	char cut[ENDING_SIZE];
	snprintf(cut, sizeof cut, "%s", dot && dot != name && strlen(dot) < ENDING_SIZE ? dot : "none");
	c->files++;
	for (int i = 0; i < ENDINGS; i++)
		if (!c->endings[i].count || strcmp(c->endings[i].name, cut) == 0) {
			memcpy(c->endings[i].name, cut, sizeof cut);
			c->endings[i].count++;
			return;
		}
	c->other_endings++;
}

/* Calls visit for each entry but . and .. . */
static enum stk_status for_each_entry(struct walk *w, int folder, const char *path, const char *name,
	enum stk_status (*visit)(struct walk *w, int folder, const char *folder_name, const struct dirent64 *e))
{
	for (;;) {
		ssize_t n = stk__fault(STK_FAULT_READ) ? (errno = EIO, -1) : getdents64(folder, w->entries, ENTRIES_SIZE);
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

/* In the root: class folders are kept, the rest counted. A lost link is an error, since what it should lead to may be a class, and all later
 * labels would move. */
static enum stk_status visit_root(struct walk *w, int folder, const char *name, const struct dirent64 *e)
{
	(void)name;
	switch (kind_of(folder, e)) {
	case KIND_FOLDER:
		if (w->options->dir_filters &&
			!matches_any(e->d_name, w->options->dir_filters, w->options->dir_filter_count, w->options->case_sensitive)) {
			w->census.left_out++;
			return STK_OK;
		}
		return stk__list_add_file(w->list, e->d_name, strlen(e->d_name), w->err);
	case KIND_LOST:
		return stk__fail(w->err, STK_NOT_FOUND, "%s/%s: a link that leads nowhere, so that classes cannot be numbered",
			w->options->file_root, e->d_name);
	case KIND_FILE:
		if (wants(w->options, e->d_name))
			w->census.images++;
		else
			count_ending(&w->census, e->d_name);
		return STK_OK;
	default:
		return STK_OK;
	}
}

/* Appends an entry of the folder in hand, with its path from the class folder. */
static enum stk_status add_entry(struct walk *w, struct stk_file_list *to, const char *name)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof path, "%s%s%s", w->path, *w->path ? "/" : "", name);
	if (n < 0 || (size_t)n >= sizeof path)
		return stk__fail(w->err, STK_LIMIT, "%s/%s/%s: the path is too long", w->list->root, w->path, name);
	return stk__list_add_file(to, path, (size_t)n, w->err);
}

static enum stk_status visit_class(struct walk *w, int folder, const char *name, const struct dirent64 *e)
{
	bool wanted = wants(w->options, e->d_name);
	bool asks = wanted || e->d_type == DT_DIR || (w->options->nested && e->d_type != DT_REG); /* what else it is makes no difference */
	enum kind kind = asks ? kind_of(folder, e) : KIND_FILE;
	if (wanted && (kind == KIND_FILE || kind == KIND_LOST))
		return add_entry(w, w->list, e->d_name);
	if (kind == KIND_FOLDER && w->options->nested)
		return add_entry(w, &w->below, e->d_name);
	if (kind == KIND_FOLDER && w->census.folders++ == 0)
		snprintf(w->census.deep, sizeof w->census.deep, "%s", name);
	if (kind == KIND_FILE)
		count_ending(&w->census, e->d_name);
	return STK_OK;
}

static int by_name(const void *a, const void *b, void *names)
{
	return strcmp((const char *)names + *(const uint64_t *)a, (const char *)names + *(const uint64_t *)b);
}

/* By folder and then by name, as Python sorts what os.walk gives. */
static int by_folder(const void *a, const void *b, void *names)
{
	const char *x = (const char *)names + *(const uint64_t *)a, *y = (const char *)names + *(const uint64_t *)b;
	const char *x_name = strrchr(x, '/'), *y_name = strrchr(y, '/');
	size_t nx = x_name ? (size_t)(x_name - x) : 0, ny = y_name ? (size_t)(y_name - y) : 0;
	int order = memcmp(x, y, nx < ny ? nx : ny);
	if (order || nx != ny)
		return order ? order : nx < ny ? -1 : 1;
	return strcmp(x + nx, y + ny);
}

static void sort_files(struct stk_file_list *l, int64_t first, int (*order)(const void *, const void *, void *))
{
	if (l->size - first > 1)
		qsort_r(l->files + first, (size_t)(l->size - first), sizeof *l->files, order, l->names);
}

static int depth_of(const char *path)
{
	int depth = 0;
	for (; *path; path++)
		depth += *path == '/';
	return depth;
}

/* Folders below a class folder, and those below them, which are found on the way. */
static enum stk_status read_below(struct walk *w, int class_folder, const char *name)
{
	char path[PATH_MAX];
	enum stk_status status = STK_OK;
	for (int64_t i = 0; i < w->below.size && !status; i++) {
		snprintf(path, sizeof path, "%s", w->below.names + w->below.files[i]); /* the list moves as it grows */
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
	w->below.size = 0;
	w->below.names_size = 0;
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
	int64_t first = w->list->size;
	status = for_each_entry(w, folder, w->list->root, name, visit_class);
	if (!status)
		status = read_below(w, folder, name);
	close(folder);
	sort_files(w->list, first, w->options->nested ? by_folder : by_name);
	w->census.empty += w->list->size == first;
	if (!status && w->options->nested && w->list->size == first)
		status = stk__fail(w->err, STK_INVALID,
			"%s/%s: a class folder without images: remove it, or give a list of files and labels", w->list->root, name);
	return status;
}

static const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

/* ".txt (12), .npy (3)" */
static void list_endings(const struct census *c, char *text, size_t capacity)
{
	size_t used = 0;
	text[0] = 0;
	for (int i = 0; i < ENDINGS && c->endings[i].count && used < capacity; i++)
		used += (size_t)snprintf(
			text + used, capacity - used, "%s%s (%lld)", i ? ", " : "", c->endings[i].name, (long long)c->endings[i].count);
	if (c->other_endings && used < capacity)
		snprintf(text + used, capacity - used, " and %lld more", (long long)c->other_endings);
}

static enum stk_status say_no_classes(const struct walk *w)
{
	const struct census *c = &w->census;
	const char *root = w->list->root;
	if (c->left_out)
		return stk__fail(w->err, STK_INVALID, "%s: dir_filters leave out all of its %lld folders", root, (long long)c->left_out);
	if (c->images) {
		const char *slash = strrchr(root, '/');
		int n = slash ? slash == root ? 1 : (int)(slash - root) : 1;
		return stk__fail(w->err, STK_INVALID, "%s holds %lld image%s but no class folders: did you mean %.*s?", root,
			(long long)c->images, plural(c->images), n, slash ? root : ".");
	}
	if (c->files)
		return stk__fail(w->err, STK_INVALID,
			"%s holds %lld file%s but no class folders with images (ROOT/CLASS/IMAGE is what is read)", root,
			(long long)c->files, plural(c->files));
	return stk__fail(w->err, STK_INVALID, "%s: the folder is empty", root);
}

static enum stk_status say_no_files(const struct walk *w)
{
	const struct census *c = &w->census;
	const char *root = w->list->root;
	char endings[160];
	list_endings(c, endings, sizeof endings);
	long long classes = (long long)w->list->folder_count;
	if (c->folders)
		return stk__fail(w->err, STK_INVALID, "%s: its %lld folder%s hold no images but further folders: did you mean %s/%s?", root,
			classes, plural(classes), root, c->deep);
	if (!c->files)
		return stk__fail(w->err, STK_INVALID, "%s: its %lld class folder%s %s empty", root, classes, plural(classes),
			classes == 1 ? "is" : "are");
	return stk__fail(w->err, STK_INVALID, "%s: no file in its %lld class folder%s matches %s; endings seen: %s", root, classes,
		plural(classes), w->options->file_filters ? "file_filters" : "an image's ending", endings);
}

/* For who wonders why there are fewer samples than files. */
static void tell_skipped(struct walk *w, int64_t beside)
{
	const struct census *c = &w->census;
	char endings[160], *text = w->list->skipped_text;
	const size_t room = sizeof w->list->skipped_text;
	list_endings(c, endings, sizeof endings);
	const struct {
		int64_t count;
		const char *one, *many, *more;
	} kinds[] = {{c->files, "file that is no image: ", "files that are no images: ", endings},
		{beside, "image beside the class folders", "images beside the class folders", ""},
		{c->folders, "folder inside a class folder", "folders inside class folders", ""},
		{c->empty, "class folder without images", "class folders without images", ""}};
	size_t used = 0;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (!kinds[i].count || used >= room)
			continue;
		w->list->skipped += kinds[i].count;
		used += (size_t)snprintf(text + used, room - used, "%s%lld %s%s", used ? "; " : "", (long long)kinds[i].count,
			kinds[i].count == 1 ? kinds[i].one : kinds[i].many, kinds[i].more);
	}
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
		return say_no_classes(w);
	if (classes->size > INT32_MAX)
		return stk__fail(w->err, STK_LIMIT, "%s: %lld class folders", files->root, (long long)classes->size);
	const int64_t beside = w->census.images;
	memset(&w->census, 0, sizeof w->census);
	sort_files(classes, 0, by_name);
	for (int64_t i = 0; i < classes->size && !status; i++)
		status = read_class(w, root, classes->names + classes->files[i]);
	if (!status && files->size == 0)
		status = say_no_files(w);
	if (!status)
		tell_skipped(w, beside);
	return status;
}

enum stk_status stk__list_read_tree(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err)
{
	struct walk w = {.list = l, .path = "", .options = o, .err = err};
	struct stk_file_list classes = {0};
	int root = open(o->file_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 && errno == ENOTDIR) {
		struct stat st;
		if (stat(o->file_root, &st) == 0)
			return stk__fail(err, STK_INVALID, "%s: a file, not a folder of class folders", o->file_root);
		errno = ENOTDIR;
	}
	if (root < 0)
		return stk__fail_errno(err, errno, "%s: cannot open the folder", o->file_root);
	w.entries = stk__alloc(ENTRIES_SIZE);
	enum stk_status status = STK_OK;
	if (!w.entries)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory to list %s", o->file_root);
	else
		status = read_classes(&w, root, &classes);
	stk__free(w.entries);
	stk__free(w.below.names);
	stk__free(w.below.files);
	stk__free(classes.names);
	stk__free(classes.files);
	close(root);
	return status;
}
