/* SPDX-License-Identifier: Apache-2.0 */
#include "format/list_census.h"

#include "base/error.h"
#include "codec/codec.h"
#include "codec/foreign.h"
#include "format/archive_file.h"
#include "sound/sound.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_SEEN = 256 }; /* entries of a folder that are examined to find out whether it holds classes */

/* Returns whether a name passes DALI's default filters and this build decodes such files. */
static bool is_default(const char *name, bool case_sensitive)
{
	const char *dot = strrchr(name, '.');
	return dot && stk__image_ending(dot + 1, case_sensitive);
}

static bool matches_any(const char *name, const char *const *globs, size_t count, bool case_sensitive)
{
	for (size_t i = 0; i < count; i++)
		if (stk__glob_match(globs[i], name, case_sensitive))
			return true;
	return false;
}

bool stk__list_wants(const struct stk_file_list_options *o, const char *name)
{
	if (o->everything)
		return true;
	if (!o->file_filters)
		return is_default(name, o->case_sensitive);
	return matches_any(name, o->file_filters, o->filter_count, o->case_sensitive);
}

bool stk__list_wants_class(const struct stk_file_list_options *o, const char *name)
{
	return !o->dir_filters || matches_any(name, o->dir_filters, o->dir_filter_count, o->case_sensitive);
}

void stk__census_other(struct stk_list_census *c, const char *name)
{
	const char *dot = strrchr(name, '.');
	char cut[STK_CENSUS_ENDING];
	snprintf(cut, sizeof cut, "%s", dot && dot != name && strlen(dot) < STK_CENSUS_ENDING ? dot : "");
	c->files++;
	c->arrays |= strncmp(name, "data_batch_", 11) == 0 || strncmp(name, "test_batch", 10) == 0 || strstr(name, "-images-idx3-ubyte");
	for (int i = 0; i < STK_CENSUS_ENDINGS; i++)
		if (!c->endings[i].count || strcmp(c->endings[i].name, cut) == 0) {
			memcpy(c->endings[i].name, cut, sizeof cut);
			c->endings[i].count++;
			return;
		}
	c->other_endings++;
}

void stk__census_folder(struct stk_list_census *c, const char *class_name)
{
	if (c->folders++ == 0)
		snprintf(c->first_nested_class, sizeof c->first_nested_class, "%.*s", NAME_MAX, class_name);
}

void stk__census_loose(struct stk_list_census *c, const struct stk_file_list_options *o, const char *name)
{
	if (stk__list_wants(o, name))
		c->loose++;
	else
		stk__census_other(c, name);
}

static int by_name(const void *a, const void *b, void *names)
{
	return strcmp((const char *)names + *(const uint64_t *)a, (const char *)names + *(const uint64_t *)b);
}

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

void stk__list_sort(struct stk_file_list *l, int64_t first, bool folders)
{
	if (l->size - first > 1)
		qsort_r(l->files + first, (size_t)(l->size - first), sizeof *l->files, folders ? by_folder : by_name, l->names);
}

static const char *slash_behind(const char *root)
{
	return strcmp(root, "/") ? "/" : "";
}

static const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

/* Returns whether ending `a` comes before ending `b`: the more frequent one does, or of equally frequent ones the one that is smaller as a text, so that the
 * result does not depend on the file system's order. */
static bool stands_before(const struct stk_list_census *c, int a, int b)
{
	if (c->endings[a].count != c->endings[b].count)
		return c->endings[a].count > c->endings[b].count;
	return strcmp(c->endings[a].name, c->endings[b].name) < 0;
}

/* Returns the index of the next ending after ending `at` in the order of stands_before; at -1: the first ending. Returns -1 after the last one. */
static int ending_after(const struct stk_list_census *c, int at)
{
	int next = -1;
	for (int i = 0; i < STK_CENSUS_ENDINGS && c->endings[i].count; i++)
		if ((at < 0 || stands_before(c, at, i)) && (next < 0 || stands_before(c, i, next)))
			next = i;
	return next;
}

/* Writes the endings of the files that the list does not look for, such as ".txt (12), .npy (3), 1 without an ending". Adds advice if one of them is a kind
 * of picture that Stoker does not decode. Cuts the text if it does not fit. */
static void list_endings(const struct stk_list_census *c, char *text, size_t capacity)
{
	size_t used = 0;
	text[0] = 0;
	for (int i = ending_after(c, -1); i >= 0 && used < capacity; i = ending_after(c, i)) {
		const char *name = c->endings[i].name, *comma = used ? ", " : "";
		const long long n = (long long)c->endings[i].count;
		used += (size_t)(*name ? snprintf(text + used, capacity - used, "%s%s (%lld)", comma, name, n)
				       : snprintf(text + used, capacity - used, "%s%lld without an ending", comma, n));
	}
	if (c->other_endings && used < capacity)
		used += (size_t)snprintf(text + used, capacity - used, " and %lld more", (long long)c->other_endings);
	for (int i = ending_after(c, -1); i >= 0 && used < capacity; i = ending_after(c, i))
		if (stk__foreign_ending(c->endings[i].name + (c->endings[i].name[0] == '.'))) {
			snprintf(text + used, capacity - used, "; pictures that are called %s are not decoded: convert them to PNG or JPEG",
				c->endings[i].name);
			return;
		}
}

/* The words for the files that a list looks for, and for other files. A list looks for the first kind whose example passes its filters. */
static const struct wanted {
	const char *example, *one, *many, *other, *others;
} kinds[] = {
	{"a.jpg", "image", "images", "file that is no image", "files that are no images"},
	{"a.wav", "sound", "sounds", "file that is no sound", "files that are no sounds"},
	{"a.mp4", "video", "videos", "file that is no video", "files that are no videos"},
	{NULL, "file that matches file_filters", "files that match file_filters", "file that does not match file_filters",
		"files that do not match file_filters"},
};

/* The words for lists of files of any name. */
static const struct wanted any_file = {NULL, "file", "files", "other file", "other files"};

static const struct wanted *find_wanted(const struct stk_file_list_options *o)
{
	const struct wanted *w = kinds;
	if (o->everything)
		return &any_file;
	while (o->file_filters && w->example && !matches_any(w->example, o->file_filters, o->filter_count, o->case_sensitive))
		w++;
	return w;
}

static const char *kind_of_ending(const char *ending)
{
	if (stk__image_ending(ending, false))
		return "image";
	if (strcasecmp(ending, "parquet") == 0 || strcasecmp(ending, "pq") == 0)
		return "table";
	return stk__sound_ending(ending) ? "sound" : stk__video_ending(ending) ? "video" : "";
}

/* Returns the kind of most of the files that are not samples; "" if none of them has a known kind. */
static const char *kind_of_most(const struct stk_list_census *c)
{
	const char *found = "";
	for (int i = ending_after(c, -1); i >= 0 && !*found; i = ending_after(c, i))
		if (*c->endings[i].name)
			found = kind_of_ending(c->endings[i].name + 1);
	return found;
}

/* Returns whether most of the files are Parquet files, although the list looks for files of another kind. */
static bool found_tables(const struct stk_list_census *c, const struct wanted *w)
{
	return w->example && !c->arrays && strcmp(kind_of_most(c), "table") == 0;
}

/* Returns advice on how to read the files that were found instead of the wanted ones; "" if they are no images, sounds, videos, tables, or arrays of images. */
static const char *advise_kind(const struct stk_list_census *c, const struct wanted *w)
{
	const char *found = kind_of_most(c);
	if (c->arrays)
		return "; the files of CIFAR and MNIST are read by Loader(FOLDER) of the Python package";
	if (!w->example || strcmp(found, w->one) == 0)
		return "";
	switch (*found) {
	case 'i':
		return "; images are read by a Loader without frames or an Audio field";
	case 's':
		return "; sounds are read by Loader(fields={\"audio\": Audio()}) or decoders.audio, and one sound by `stoker inspect FILE`";
	case 't':
		return "; Parquet files are read by Loader(\"FOLDER/*.parquet\") of the Python package, or a list of such patterns";
	case 'v':
		return "; videos are read by Loader(frames=N) or readers.video, and one video by `stoker inspect FILE`";
	default:
		return "";
	}
}

enum stk_status stk__list_end_class(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_list_census *c,
	int64_t first, const char *name, struct stk_error *err)
{
	stk__list_sort(l, first, o->nested);
	c->empty += l->size == first;
	if (o->nested && !o->everything && l->size == first) {
		char endings[240] = "";
		list_endings(c, endings, sizeof endings);
		const struct wanted *wanted = find_wanted(o);
		return stk__fail(err, STK_INVALID, "%s%s%s: a class folder without %s: %sgive a list of files and labels%s%s%s", l->root,
			slash_behind(l->root), name, wanted->many, found_tables(c, wanted) ? "" : "remove it, or ",
			c->files ? "; endings seen: " : "", endings, advise_kind(c, wanted));
	}
	return STK_OK;
}

/* Writes the path of the folder above a local root. Returns false if the root is remote, or the path does not fit. */
static bool find_parent(const char *root, char *parent, size_t capacity)
{
	if (stk__is_object(root))
		return false;
	const char *slash = strrchr(root, '/'), *last = slash ? slash + 1 : root;
	int written;
	if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
		written = snprintf(parent, capacity, "%s/..", root);
	else
		written = snprintf(parent, capacity, "%.*s", slash ? slash == root ? 1 : (int)(slash - root) : 1, slash ? root : ".");
	return written > 0 && (size_t)written < capacity;
}

static bool names_split(const char *name)
{
	static const char *const splits[] = {"train", "training", "val", "valid", "validation", "test", "testing"};
	for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
		if (strcasecmp(name, splits[i]) == 0)
			return true;
	return false;
}

/* Returns whether a folder is seen to hold a file that the list looks for. is_folder: false if `path` is no folder. */
static bool holds_wanted(const char *path, const struct stk_file_list_options *o, bool *is_folder)
{
	DIR *dir = opendir(path);
	*is_folder = dir != NULL;
	bool found = false;
	const struct dirent *e;
	for (int seen = 0; dir && !found && seen < MOST_SEEN && (e = readdir(dir)); seen++)
		found = *e->d_name != '.' && stk__list_wants(o, e->d_name);
	if (dir)
		closedir(dir);
	return found;
}

/* Returns whether a folder holds several folders, and they seem to be classes: each has files that the list looks for, and none has the name of a split.
 * Looks at the first MOST_SEEN entries only. */
static bool holds_classes(const char *folder, const struct stk_file_list_options *o)
{
	DIR *dir = opendir(folder);
	int classes = 0;
	bool all = true;
	const struct dirent *e;
	for (int seen = 0; dir && all && seen < MOST_SEEN && (e = readdir(dir)); seen++) {
		char path[PATH_MAX];
		bool is_folder;
		int written = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		if (*e->d_name == '.' || written < 0 || (size_t)written >= sizeof path)
			continue;
		bool wanted = holds_wanted(path, o, &is_folder);
		classes += is_folder;
		all = !is_folder || (wanted && !names_split(e->d_name));
	}
	if (dir)
		closedir(dir);
	return all && classes > 1;
}

enum stk_status stk__census_no_classes(
	const struct stk_list_census *c, const struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err)
{
	const char *root = l->root;
	const struct wanted *wanted = find_wanted(o);
	if (c->left_out)
		return stk__fail(err, STK_INVALID, "%s: dir_filters leave out all of its %lld folders", root, (long long)c->left_out);
	if (c->loose) {
		char parent[PATH_MAX] = "";
		bool named = find_parent(root, parent, sizeof parent) && holds_classes(parent, o);
		return stk__fail(err, STK_INVALID,
			"%s holds %lld %s but no class folders (ROOT/CLASS/FILE is what is read): for %s without classes give the list of the files, "
			"with labels if there are any%s%s%s",
			root, (long long)c->loose, c->loose == 1 ? wanted->one : wanted->many, wanted->many,
			named ? "; if this folder is one of several classes, give \"" : "", named ? parent : "", named ? "\"" : "");
	}
	if (found_tables(c, wanted))
		return stk__fail(err, STK_INVALID,
			"%s holds Parquet files but no class folders with %s: give a pattern for the files of one split, as %s%strain-*.parquet, or "
			"%s%s*.parquet for all of them",
			root, wanted->many, root, slash_behind(root), root, slash_behind(root));
	if (c->files)
		return stk__fail(err, STK_INVALID, "%s holds %lld file%s but no class folders with %s (ROOT/CLASS/FILE is what is read)%s",
			root, (long long)c->files, plural(c->files), wanted->many, advise_kind(c, wanted));
	return stk__fail(err, STK_INVALID, "%s: the folder is empty; it should hold a folder of files for each class", root);
}

/* Returns whether files with any ending that Loader reads as an image pass the filters. */
static bool wants_all_images(const struct stk_file_list_options *o)
{
	bool all = true;
	for (size_t i = 0; o->file_filters && i < STK_IMAGE_GLOBS; i++)
		if (stk__image_ending(stk__image_globs[i] + 2, false))
			all &= matches_any(stk__image_globs[i], o->file_filters, o->filter_count, o->case_sensitive);
	return all;
}

static enum stk_status say_no_files(
	const struct stk_list_census *c, const struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err)
{
	const char *root = l->root;
	char endings[240];
	list_endings(c, endings, sizeof endings);
	const struct wanted *wanted = find_wanted(o);
	long long classes = (long long)l->folder_count;
	if (c->folders)
		return stk__fail(err, STK_INVALID, "%s: its %lld folder%s no %s but further folders: did you mean \"%s%s%s\"?", root,
			classes, classes == 1 ? " holds" : "s hold", wanted->many, root, slash_behind(root), c->first_nested_class);
	if (!c->files && c->special)
		return stk__fail(err, STK_INVALID, "%s: its %lld class folder%s no %s but %lld FIFO%s, socket%s or device%s", root, classes,
			classes == 1 ? " holds" : "s hold", wanted->many, (long long)c->special, plural(c->special), plural(c->special),
			plural(c->special));
	if (!c->files)
		return stk__fail(err, STK_INVALID, "%s: its %lld class folder%s %s empty", root, classes, plural(classes),
			classes == 1 ? "is" : "are");
	return stk__fail(err, STK_INVALID, "%s: no file in its %lld class folder%s matches %s; endings seen: %s%s", root, classes,
		plural(classes), wants_all_images(o) ? "an image's ending" : "file_filters", endings, advise_kind(c, wanted));
}

/* Writes a description of the files and folders that are not samples to l->skipped_text, and adds their number to l->skipped. loose: number of files
 * directly in the root that pass the filters of files. */
static void describe_skipped(const struct stk_list_census *c, struct stk_file_list *l, const struct stk_file_list_options *o, int64_t loose)
{
	char endings[240], *text = l->skipped_text;
	const size_t capacity = sizeof l->skipped_text;
	list_endings(c, endings, sizeof endings);
	const struct wanted *wanted = find_wanted(o);
	const struct {
		int64_t count;
		const char *one, *many, *after, *more;
	} parts[] = {{c->files, wanted->other, wanted->others, ": ", endings},
		{loose, wanted->one, wanted->many, " next to the class folders", ""},
		{c->folders, "folder inside a class folder", "folders inside class folders", "", ""},
		{c->special, "FIFO, socket or device", "FIFOs, sockets or devices", " with the name of a file to read", ""},
		{c->empty, "class folder without ", "class folders without ", wanted->many, ""}};
	size_t used = 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		if (!parts[i].count || used >= capacity)
			continue;
		l->skipped += parts[i].count;
		used += (size_t)snprintf(text + used, capacity - used, "%s%lld %s%s%s", used ? "; " : "", (long long)parts[i].count,
			parts[i].count == 1 ? parts[i].one : parts[i].many, parts[i].after, parts[i].more);
	}
}

enum stk_status stk__census_end(const struct stk_list_census *c, struct stk_file_list *l, const struct stk_file_list_options *o,
	int64_t loose, struct stk_error *err)
{
	if (l->size == 0)
		return say_no_files(c, l, o, err);
	describe_skipped(c, l, o, loose);
	return STK_OK;
}
