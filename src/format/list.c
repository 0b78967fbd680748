/* SPDX-License-Identifier: Apache-2.0
 * The list itself: names in one block, an offset a file, and its fingerprint. */
#include "format/list.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/philox_hd.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static enum stk_status no_memory(struct stk_error *err, const struct stk_file_list *l)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory for the list of files, at %lld files", (long long)l->size);
}

/* Room for `need` elements in *array, doubling. False: out of memory. */
static bool reserve(void *array, int64_t *capacity, int64_t need, size_t element)
{
	if (need <= *capacity)
		return true;
	int64_t more = *capacity + *capacity / 2 + 64;
	more = more > need ? more : need;
	void *p;
	memcpy(&p, array, sizeof p);
	p = stk__realloc(p, (size_t)more * element);
	if (!p)
		return false;
	memcpy(array, &p, sizeof p);
	*capacity = more;
	return true;
}

/* Appends n bytes of a name and a NUL; *at is its offset. */
static enum stk_status add_name(struct stk_file_list *l, const char *name, size_t n, uint64_t *at, struct stk_error *err)
{
	int64_t capacity = (int64_t)l->names_capacity;
	if (!reserve(&l->names, &capacity, (int64_t)(l->names_size + n + 1), 1))
		return no_memory(err, l);
	l->names_capacity = (uint64_t)capacity;
	*at = l->names_size;
	memcpy(l->names + *at, name, n);
	l->names[*at + n] = 0;
	l->names_size += n + 1;
	return STK_OK;
}

enum stk_status stk__list_add_file(struct stk_file_list *l, const char *name, size_t n, struct stk_error *err)
{
	if (!reserve(&l->files, &l->capacity, l->size + 1, sizeof *l->files))
		return no_memory(err, l);
	enum stk_status status = add_name(l, name, n, &l->files[l->size], err);
	if (!status)
		l->size++;
	return status;
}

enum stk_status stk__list_add_sized(struct stk_file_list *l, const char *name, size_t n, int64_t size, struct stk_error *err)
{
	enum stk_status status = stk__list_add_file(l, name, n, err);
	if (status)
		return status;
	int64_t capacity = (int64_t)l->names_capacity;
	if (!reserve(&l->names, &capacity, (int64_t)(l->names_size + sizeof size), 1))
		return no_memory(err, l);
	l->names_capacity = (uint64_t)capacity;
	memcpy(l->names + l->names_size, &size, sizeof size);
	l->names_size += sizeof size;
	return STK_OK;
}

int64_t stk__list_file_size(const struct stk_file_list *l, int64_t i)
{
	const char *name = l->names + l->files[i];
	int64_t size;
	memcpy(&size, name + strlen(name) + 1, sizeof size);
	return size;
}

enum stk_status stk__list_add_labelled(struct stk_file_list *l, const char *name, size_t n, int32_t label, struct stk_error *err)
{
	int64_t before = l->capacity;
	enum stk_status status = stk__list_add_file(l, name, n, err);
	if (status)
		return status;
	if (!l->labels || l->capacity != before) {
		int32_t *labels = stk__realloc(l->labels, (size_t)l->capacity * sizeof *labels);
		if (!labels)
			return no_memory(err, l);
		l->labels = labels;
	}
	l->labels[l->size - 1] = label;
	return STK_OK;
}

enum stk_status stk__list_add_folder(struct stk_file_list *l, const char *name, struct stk_error *err)
{
	if (!reserve(&l->folders, &l->folder_capacity, l->folder_count + 1, sizeof *l->folders))
		return no_memory(err, l);
	struct stk_list_folder *f = &l->folders[l->folder_count];
	f->first = l->size;
	enum stk_status status = add_name(l, name, strlen(name), &f->name, err);
	if (!status)
		l->folder_count++;
	return status;
}

uint64_t stk__hash_bytes(uint64_t h, const void *data, size_t n)
{
	const uint8_t *p = data;
	h ^= n * 0x9E3779B97F4A7C15u;
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t v;
		memcpy(&v, p, 8);
		h = stk__mix64_hd(h ^ v) + 0x9E3779B97F4A7C15u;
	}
	uint64_t v = 0;
	memcpy(&v, p, n);
	return stk__mix64_hd(h ^ v);
}

static int64_t folder_of(const struct stk_file_list *l, int64_t i)
{
	int64_t low = 0, high = l->folder_count; /* the last folder whose first is <= i: those of empty folders come before */
	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;
		if (l->folders[middle].first <= i)
			low = middle;
		else
			high = middle;
	}
	return low;
}

int32_t stk__file_list_label(const struct stk_file_list *l, int64_t i)
{
	return l->labels ? l->labels[i] : (int32_t)folder_of(l, i);
}

static uint64_t fingerprint(const struct stk_file_list *l)
{
	uint64_t h = stk__hash_bytes(0, &l->size, sizeof l->size);
	for (int64_t f = 0; f < l->folder_count; f++) {
		const char *name = l->names + l->folders[f].name;
		h = stk__hash_bytes(h, name, strlen(name));
		h = stk__hash_bytes(h, &l->folders[f].first, sizeof l->folders[f].first);
	}
	for (int64_t i = 0; i < l->size; i++) {
		const char *name = l->names + l->files[i];
		h = stk__hash_bytes(h, name, strlen(name));
	}
	return l->labels ? stk__hash_bytes(h, l->labels, (size_t)l->size * sizeof *l->labels) : h;
}

/* Gives back what doubling took too much; a refusal changes nothing. */
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

/* A text, or an index. */
static enum stk_status read_list(struct stk_file_list *l, const struct stk_file_list_options *o, const char *path, struct stk_error *err)
{
	uint8_t *text = NULL;
	size_t size;
	enum stk_status status = stk__read_whole(path, (size_t)1 << 40, &text, &size, err);
	if (!status && stk__is_index(text, size))
		status = stk__index_parse(l, o, text, size, path, err);
	else if (!status)
		status = stk__list_parse(l, (const char *)text, size, path, err);
	stk__free(text);
	return status;
}

/* file_root without slashes at its end; a list without one is relative to its own folder, as in DALI. */
static char *copy_root(const struct stk_file_list_options *o)
{
	const char *slash = o->file_list ? strrchr(o->file_list, '/') : NULL;
	const char *root = o->file_root ? o->file_root : slash ? o->file_list : "";
	size_t n = o->file_root ? strlen(root) : slash ? (size_t)(slash - root) + 1 : 0;
	while (n > 1 && root[n - 1] == '/')
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
	if (strncmp(l->root, "s3://", 5) == 0)
		return stk__list_read_bucket(l, o, err);
	if (stk__is_uri(l->root) && strncmp(l->root, "file://", 7) != 0)
		return stk__fail(err, STK_UNSUPPORTED,
			"%.*s: only s3:// and local folders can be listed: give files and labels, or a file_list that names them",
			stk__uri_shown(l->root), l->root);
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
		status = no_memory(err, l);
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
	l->fingerprint = fingerprint(l);
	*out = l;
	return STK_OK;
}

void stk__file_list_destroy(struct stk_file_list *l)
{
	if (!l)
		return;
	stk__free(l->root);
	stk__free(l->names);
	stk__free(l->files);
	stk__free(l->labels);
	stk__free(l->folders);
	stk__free(l);
}

int64_t stk__file_list_size(const struct stk_file_list *l)
{
	return l->size;
}

size_t stk__file_list_path(const struct stk_file_list *l, int64_t i, char *path, size_t capacity)
{
	const char *name = l->names + l->files[i], *class_name = l->folder_count ? l->names + l->folders[folder_of(l, i)].name : "";
	bool rooted = l->root[0] && (l->folder_count || (name[0] != '/' && !stk__is_uri(name)));
	const char *root = rooted ? l->root : "", *slash = rooted && strcmp(root, "/") != 0 ? "/" : "";
	return (size_t)snprintf(path, capacity, "%s%s%s%s%s", root, slash, class_name, *class_name ? "/" : "", name);
}

int64_t stk__file_list_classes(const struct stk_file_list *l)
{
	return l->folder_count;
}

const char *stk__file_list_class_name(const struct stk_file_list *l, int64_t label)
{
	return label >= 0 && label < l->folder_count ? l->names + l->folders[label].name : NULL;
}

uint64_t stk__file_list_fingerprint(const struct stk_file_list *l)
{
	return l->fingerprint;
}

uint64_t stk__file_list_digest(const struct stk_file_list *l, int64_t first, int64_t count)
{
	uint64_t h = stk__hash_bytes(0, &count, sizeof count);
	int64_t folder = -1;
	for (int64_t i = first; i < first + count; i++) {
		const char *name = l->names + l->files[i];
		if (l->folder_count && (folder < 0 || (folder + 1 < l->folder_count && l->folders[folder + 1].first <= i))) {
			folder = folder_of(l, i);
			const char *class_name = l->names + l->folders[folder].name;
			h = stk__hash_bytes(h, class_name, strlen(class_name));
			h = stk__hash_bytes(h, &folder, sizeof folder); /* the label */
		}
		h = stk__hash_bytes(h, name, strlen(name));
		if (l->labels)
			h = stk__hash_bytes(h, &l->labels[i], sizeof l->labels[i]);
	}
	return h;
}

int64_t stk__file_list_skipped(const struct stk_file_list *list, const char **text)
{
	*text = list->skipped_text;
	return list->skipped;
}
