/* SPDX-License-Identifier: Apache-2.0
 * The list itself: names in one block, one offset for each file, and its fingerprints. */
#include "format/list.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/philox_hd.h"
#include "base/url.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static enum stk_status no_memory(struct stk_error *err, const struct stk_file_list *l)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory for the list of files, at %lld files", (long long)l->size);
}

/* Grows *array to at least `need` elements of `element` bytes, if necessary, by at least half its capacity. Returns false if memory is short. */
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

/* Appends n bytes of a name and a NUL to the names; *at: set to its offset. */
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

enum stk_status stk__list_add_sized(
	struct stk_file_list *l, const char *name, size_t n, struct stk_list_object object, struct stk_error *err)
{
	enum stk_status status = stk__list_add_file(l, name, n, err);
	if (status)
		return status;
	int64_t capacity = (int64_t)l->names_capacity;
	if (!reserve(&l->names, &capacity, (int64_t)(l->names_size + sizeof object), 1))
		return no_memory(err, l);
	l->names_capacity = (uint64_t)capacity;
	memcpy(l->names + l->names_size, &object, sizeof object);
	l->names_size += sizeof object;
	return STK_OK;
}

struct stk_list_object stk__list_object(const struct stk_file_list *l, int64_t i)
{
	const char *name = l->names + l->files[i];
	struct stk_list_object object;
	memcpy(&object, name + strlen(name) + 1, sizeof object);
	return object;
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

uint64_t stk__hash_archive_name(uint64_t h, const char *path, enum stk_digest_form form)
{
	char copy[STK_MAX_SIGNED];
	const struct stk_file_name name =
		form == STK_DIGEST_NOW ? stk__without_signature(path, copy) : (struct stk_file_name){path, strlen(path)};
	size_t begin = name.n;
	while (begin && name.text[begin - 1] != '/')
		begin--;
	return stk__hash_bytes(h, name.text + begin, name.n - begin);
}

static int64_t folder_of(const struct stk_file_list *l, int64_t i)
{
	int64_t low = 0, high = l->folder_count; /* finds the last folder with first <= i; others with the same `first` are empty */
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

struct stk_list_object stk__file_list_object(const struct stk_file_list *l, int64_t i)
{
	return l->sized ? stk__list_object(l, i) : (struct stk_list_object){0};
}

static bool has_queries(const struct stk_file_list *l)
{
	for (int64_t i = 0; i < l->size; i++)
		if (stk__has_query(l->names + l->files[i]))
			return true;
	return false;
}

/* Returns the name of file i as it enters digests, with the folder that all names share. `copy` may hold the result's text. */
static struct stk_file_name digested_name(const struct stk_file_list *l, int64_t i, enum stk_digest_form form, char copy[STK_MAX_SIGNED])
{
	const char *name = l->names + l->files[i];
	return form == STK_DIGEST_NOW ? stk__without_signature(name, copy) : (struct stk_file_name){name, strlen(name)};
}

static uint64_t hash_name(uint64_t h, const struct stk_file_list *l, int64_t i, enum stk_digest_form form)
{
	char copy[STK_MAX_SIGNED];
	const struct stk_file_name name = digested_name(l, i, form, copy);
	return stk__hash_bytes(h, name.text + l->root_length[form], name.n - l->root_length[form]);
}

/* Returns the length of the folder, with its slash, that starts the names of all files; 0 if a name is relative, since such names do not change when the
 * data are moved. */
static size_t folder_of_all(const struct stk_file_list *l, enum stk_digest_form form)
{
	char copies[2][STK_MAX_SIGNED];
	const struct stk_file_name first = digested_name(l, 0, form, copies[0]);
	size_t same = first.n;
	for (int64_t i = 0; i < l->size && same; i++) {
		const struct stk_file_name name = digested_name(l, i, form, copies[1]);
		if (name.text[0] != '/' && !stk__is_uri(l->names + l->files[i]))
			return 0;
		size_t k = 0;
		while (k < same && k < name.n && name.text[k] == first.text[k])
			k++;
		same = k;
	}
	while (same && first.text[same - 1] != '/')
		same--;
	return same;
}

static uint64_t fingerprint_of(const struct stk_file_list *l, enum stk_digest_form form)
{
	uint64_t h = stk__hash_bytes(0, &l->size, sizeof l->size);
	for (int64_t f = 0; f < l->folder_count; f++) {
		const char *name = l->names + l->folders[f].name;
		h = stk__hash_bytes(h, name, strlen(name));
		h = stk__hash_bytes(h, &l->folders[f].first, sizeof l->folders[f].first);
	}
	for (int64_t i = 0; i < l->size; i++)
		h = hash_name(h, l, i, form);
	return l->labels ? stk__hash_bytes(h, l->labels, (size_t)l->size * sizeof *l->labels) : h;
}

void stk__list_make_fingerprint(struct stk_file_list *l)
{
	if (!l->folder_count) {
		l->root_length[STK_DIGEST_SIGNED] = folder_of_all(l, STK_DIGEST_SIGNED);
		l->root_length[STK_DIGEST_NOW] = has_queries(l) ? folder_of_all(l, STK_DIGEST_NOW) : l->root_length[STK_DIGEST_SIGNED];
	}
	l->fingerprint = fingerprint_of(l, STK_DIGEST_NOW);
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

uint64_t stk__file_list_fingerprint(const struct stk_file_list *l, enum stk_digest_form form)
{
	return form == STK_DIGEST_NOW ? l->fingerprint : fingerprint_of(l, form);
}

uint64_t stk__file_list_digest(const struct stk_file_list *l, int64_t first, int64_t count, enum stk_digest_form form)
{
	uint64_t h = stk__hash_bytes(0, &count, sizeof count);
	int64_t folder = -1;
	for (int64_t i = first; i < first + count; i++) {
		if (l->folder_count && (folder < 0 || (folder + 1 < l->folder_count && l->folders[folder + 1].first <= i))) {
			folder = folder_of(l, i);
			const char *class_name = l->names + l->folders[folder].name;
			h = stk__hash_bytes(h, class_name, strlen(class_name));
			h = stk__hash_bytes(h, &folder, sizeof folder); /* the folder's number is the label */
		}
		h = hash_name(h, l, i, form);
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
