/* SPDX-License-Identifier: Apache-2.0
 * Lists the class folders of a bucket: "folders" are common prefixes of keys up to a slash. All classes are listed at once (list_sweep.h). Classes and files
 * then get the order of a local tree. */
#include "format/list_census.h"
#include "format/list_sweep.h"
#include "format/s3_page.h"

#include "base/error.h"
#include "base/memory.h"
#include "http/s3.h"

#include <stdio.h>
#include <string.h>

struct bucket {
	const struct stk_file_list_options *options;
	struct stk_sweep sweep;
	char name[256];
	const char *prefix; /* the root's prefix in the bucket, without a slash at its end: "" or "a/b" */
	struct stk_list_census census;
	struct stk_file_list classes; /* the class folders that were found in the root */
	char *root;                   /* the root's prefix with a slash at its end, which begins all keys: "" or "a/b/" */
	char **prefixes;              /* the listed prefixes: at first the root's, later those of all classes */
	struct stk_file_list *files;  /* [class]: list of its files, named by their keys without the class's prefix */
};

/* ---- entries ---- */

static const char *last_part(const char *name)
{
	const char *slash = strrchr(name, '/');
	return slash ? slash + 1 : name;
}

/* Returns the part of the key after the prefix; NULL for the prefix itself. */
static const char *after_prefix(const char *prefix, const char *key)
{
	size_t n = strlen(prefix);
	return key[n] ? key + n : NULL;
}

static const char *class_name(const struct bucket *b, int64_t which)
{
	return b->classes.names + b->classes.files[which];
}

/* Returns whether a key is that of a file. A key that ends in a slash is a folder: some tools create such objects to make empty folders visible. */
static bool is_file(const char *name)
{
	return name && name[strlen(name) - 1] != '/';
}

static enum stk_status object_of_root(void *user, int64_t which, const char *key, struct stk_list_object object, struct stk_error *err)
{
	struct bucket *b = user;
	const char *name = after_prefix(b->prefixes[which], key);
	(void)object, (void)err;
	if (is_file(name))
		stk__census_loose(&b->census, b->options, name);
	return STK_OK;
}

static enum stk_status folder_of_root(void *user, int64_t which, const char *prefix, struct stk_error *err)
{
	struct bucket *b = user;
	char folder[STK_S3_LONGEST_KEY + 1];
	const char *name = after_prefix(b->prefixes[which], prefix);
	if (!name)
		return STK_OK;
	snprintf(folder, sizeof folder, "%.*s", (int)strlen(name) - (name[strlen(name) - 1] == '/'), name);
	if (stk__list_wants_class(b->options, folder) && !*folder)
		return stk__fail(err, STK_INVALID,
			"%s: keys begin with \"%s\", so that the folder of their class has no name: rename them, or give a list of files and labels",
			b->sweep.root, prefix);
	if (stk__list_wants_class(b->options, folder))
		return stk__list_add_file(&b->classes, folder, strlen(folder), err);
	b->census.left_out++;
	return STK_OK;
}

static enum stk_status object_of_class(void *user, int64_t which, const char *key, struct stk_list_object object, struct stk_error *err)
{
	struct bucket *b = user;
	const char *name = after_prefix(b->prefixes[which], key);
	if (!is_file(name))
		return STK_OK;
	if (stk__list_wants(b->options, last_part(name)))
		return stk__list_add_sized(&b->files[which], name, strlen(name), object, err);
	stk__census_other(&b->census, last_part(name));
	return STK_OK;
}

static enum stk_status folder_of_class(void *user, int64_t which, const char *prefix, struct stk_error *err)
{
	struct bucket *b = user;
	(void)err;
	if (after_prefix(b->prefixes[which], prefix))
		stk__census_folder(&b->census, class_name(b, which));
	return STK_OK;
}

/* ---- the tree ---- */

static char *make_prefix(const struct bucket *b, const char *folder)
{
	struct stk_text prefix = {0};
	stk__text_add(&prefix, "%s%s%s%s", b->prefix, *b->prefix ? "/" : "", folder ? folder : "", folder ? "/" : "");
	if (prefix.failed)
		stk__text_free(&prefix);
	return prefix.s;
}

static enum stk_status find_classes(struct bucket *b, const struct stk_file_list *l, struct stk_error *err)
{
	b->root = make_prefix(b, NULL);
	b->prefixes = &b->root;
	b->sweep.delimiter = "/";
	b->sweep.object = object_of_root;
	b->sweep.folder = folder_of_root;
	enum stk_status status = b->root ? stk__sweep(&b->sweep, (const char *const *)b->prefixes, 1, err)
					 : stk__fail(err, STK_NO_MEMORY, "out of memory to list %s", l->root);
	if (!status && !b->sweep.entries && !*b->prefix)
		status = stk__fail(err, STK_INVALID, "%s: the bucket is empty", l->root);
	if (!status && !b->sweep.entries)
		status = stk__fail(err, STK_INVALID, "%s: the bucket has no object whose key begins with this prefix", l->root);
	if (!status && b->classes.size == 0)
		status = stk__census_no_classes(&b->census, l, b->options, err);
	if (!status && b->classes.size > INT32_MAX)
		status = stk__fail(err, STK_LIMIT, "%s: %lld class folders", l->root, (long long)b->classes.size);
	stk__list_sort(&b->classes, 0, false);
	return status;
}

static enum stk_status add_class(struct stk_file_list *l, struct bucket *b, int64_t which, struct stk_error *err)
{
	const struct stk_file_list *files = &b->files[which];
	int64_t first = l->size;
	enum stk_status status = stk__list_add_folder(l, class_name(b, which), err);
	for (int64_t i = 0; i < files->size && !status; i++) {
		const char *name = files->names + files->files[i];
		status = stk__list_add_sized(l, name, strlen(name), stk__list_object(files, i), err);
	}
	return status ? status : stk__list_end_class(l, b->options, &b->census, first, class_name(b, which), err);
}

static enum stk_status list_classes(struct bucket *b, struct stk_file_list *l, struct stk_error *err)
{
	const int64_t n = b->classes.size, loose = b->census.loose;
	b->prefixes = stk__calloc((size_t)n, sizeof *b->prefixes);
	b->files = stk__calloc((size_t)n, sizeof *b->files);
	b->census = (struct stk_list_census){0};
	b->sweep.delimiter = b->options->nested ? "" : "/";
	b->sweep.object = object_of_class;
	b->sweep.folder = folder_of_class;
	l->sized = true;
	bool memory = b->prefixes && b->files;
	for (int64_t i = 0; i < n && memory; i++) {
		b->files[i].sized = true;
		memory = (b->prefixes[i] = make_prefix(b, class_name(b, i))) != NULL;
	}
	enum stk_status status = memory ? stk__sweep(&b->sweep, (const char *const *)b->prefixes, n, err)
					: stk__fail(err, STK_NO_MEMORY, "out of memory to list %s", l->root);
	for (int64_t i = 0; i < n && !status; i++)
		status = add_class(l, b, i, err);
	for (int64_t i = 0; i < n; i++) {
		if (b->prefixes)
			stk__free(b->prefixes[i]);
		if (b->files) {
			stk__free(b->files[i].names);
			stk__free(b->files[i].files);
		}
	}
	stk__free(b->prefixes);
	stk__free(b->files);
	return status ? status : stk__census_end(&b->census, l, b->options, loose, err);
}

enum stk_status stk__list_read_bucket(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err)
{
	struct bucket b = {.options = o};
	if (!stk__s3_bucket(l->root, b.name))
		return stk__fail(
			err, STK_INVALID, "%s: it names no bucket (%.*s://BUCKET/PREFIX)", l->root, (int)strcspn(l->root, ":"), l->root);
	b.prefix = strstr(l->root, "://") + 3 + strlen(b.name);
	b.prefix += *b.prefix == '/';
	struct stk_storage *storage;
	enum stk_status status = stk__access_open(o->access, l->root, &storage, err);
	if (status)
		return status;
	b.sweep = (struct stk_sweep){.io = stk__storage_io(storage), .access = o->access, .root = l->root, .bucket = b.name, .user = &b};
	status = find_classes(&b, l, err);
	if (!status)
		status = list_classes(&b, l, err);
	stk__free(b.root);
	stk__free(b.classes.names);
	stk__free(b.classes.files);
	stk_storage_unref(&storage);
	return status;
}
