/* SPDX-License-Identifier: Apache-2.0
 * Makes a list of files from its source: given names, a text, an index, a tree or a bucket. */
#include "format/list.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/archive_file.h"

#include <string.h>

/* Frees the unused ends of the list's arrays. An array whose realloc fails keeps its size. */
static void shrink(struct stk_file_list *l)
{
	char *names = stk__realloc(l->names, l->names_size);
	uint64_t *files = stk__realloc(l->files, (size_t)l->size * sizeof *files);
	if (names) {
		l->names = names;
		l->names_capacity = l->names_size;
	}
	if (files) {
		l->files = files;
		l->capacity = l->size;
	}
	int32_t *labels = l->labels ? stk__realloc(l->labels, (size_t)l->capacity * sizeof *labels) : NULL;
	if (labels)
		l->labels = labels;
}

static enum stk_status add_given(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	for (size_t i = 0; i < o->file_count && !status; i++) {
		int64_t label = o->labels ? o->labels[i] : (int64_t)i;
		if (label < INT32_MIN || label > INT32_MAX)
			return stk__fail(err, STK_INVALID, "labels[%zu] is %lld: labels are 32 bits wide", i, (long long)label);
		status = stk__list_add_labelled(l, o->files[i], strlen(o->files[i]), (int32_t)label, err);
	}
	return status;
}

/* Reads the file_list at `path`: a text, or an index. */
static enum stk_status read_list(struct stk_file_list *l, const struct stk_file_list_options *o, const char *path, struct stk_error *err)
{
	uint8_t *text = NULL;
	size_t size;
	enum stk_status status = stk__access_read(o->access, path, (size_t)1 << 40, &text, &size, err);
	if (!status && stk__is_index(text, size))
		status = stk__index_parse(l, o, text, size, path, err);
	else if (!status)
		status = stk__list_parse(l, (const char *)text, size, path, err);
	stk__free(text);
	return status;
}

/* Returns a copy of the list's root, which the caller frees: file_root without slashes at its end or, if that is not given, the folder of file_list, as in
 * DALI. NULL: memory is short. */
static char *copy_root(const struct stk_file_list_options *o)
{
	const char *slash = o->file_list ? strrchr(o->file_list, '/') : NULL;
	const char *root = o->file_root ? o->file_root : slash ? o->file_list : "";
	size_t n = o->file_root ? strlen(root) : slash ? (size_t)(slash - root) + 1 : 0;
	while (n > 1 && root[n - 1] == '/' && !(n > 2 && root[n - 2] == '/' && root[n - 3] == ':')) /* "s3://" must stay a URI */
		n--;
	char *copy = stk__alloc(n + 1);
	if (copy) {
		memcpy(copy, root, n);
		copy[n] = 0;
	}
	return copy;
}

static enum stk_status read_tree(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err)
{
	if (stk__access_lists(o->access, l->root))
		return stk__list_read_bucket(l, o, err);
	if (stk__is_object(l->root)) {
		/* Storage(fetch=...) works for all schemes, so the message always names it. stk__azure_hint adds text only for Azure. */
		return stk__fail(err, STK_UNSUPPORTED,
			"%.*s: only s3://, gs:// and local folders can be listed; give files and labels, a file_list, or stoker.Storage(fetch=..., "
			"list=...), or fetch= an fsspec filesystem%s",
			stk__uri_shown(l->root), l->root, stk__azure_hint(l->root));
	}
	if (stk__is_index_file(l->root))
		return read_list(l, o, l->root, err);
	return stk__list_read_tree(l, o, err);
}

enum stk_status stk__file_list_create(const struct stk_file_list_options *o, struct stk_file_list **out, struct stk_error *err)
{
	*out = NULL;
	if (!o->files && !o->file_list && (!o->file_root || !*o->file_root))
		return stk__fail(err, STK_INVALID, "no files: give file_root, file_list or files");
	if (o->files && o->file_list)
		return stk__fail(err, STK_INVALID, "file_list and files exclude each other");
	struct stk_file_list *l = stk__calloc(1, sizeof *l);
	if (!l)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a list of files");
	enum stk_status status = STK_OK;
	l->root = copy_root(o);
	if (!l->root)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory for a list of files");
	else if (o->files)
		status = add_given(l, o, err);
	else if (o->file_list)
		status = read_list(l, o, o->file_list, err);
	else
		status = read_tree(l, o, err);
	if (!status && l->size == 0)
		status = stk__fail(err, STK_INVALID, o->files ? "the list of files is empty" : "%s: it names no files", o->file_list);
	if (status) {
		stk__file_list_destroy(l);
		return status;
	}
	shrink(l);
	stk__list_make_fingerprint(l);
	*out = l;
	return STK_OK;
}
