/* SPDX-License-Identifier: Apache-2.0
 * An index of a tree, as a file: names with what they share with the one before left out, some 15 bytes a file for names like ImageNet's. It holds all files
 * at any depth; a reader's filters and `nested` choose among them as they do in a tree.
 *
 *   "STKINDEX"  version (1)  flags                      one byte each
 *   root                                                text
 *   number of classes                                   number
 *   for each class: name, number of files               text, number
 *   for each file of a class: bytes shared with the name before, the rest of the name, its size where sizes are known
 *   hash of all before                                  8 bytes, little endian
 *
 * A number is seven bits a byte, the lowest first, the last byte below 128; a text is its length and its bytes. */
#include "stoker/index.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/list_census.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, SIZED = 1, MAGIC = 8, HASH = 8, LONGEST_NAME = 4096 };

/* ---- writing ---- */

struct out {
	uint8_t *data;
	size_t n, capacity;
	bool failed;
};

static void put(struct out *o, const void *bytes, size_t n)
{
	if (!o->failed && o->n + n > o->capacity) {
		size_t capacity = 2 * (o->n + n) + 4096;
		uint8_t *data = stk__realloc(o->data, capacity);
		o->failed = !data;
		o->data = data ? data : o->data;
		o->capacity = data ? capacity : o->capacity;
	}
	if (o->failed)
		return;
	memcpy(o->data + o->n, bytes, n);
	o->n += n;
}

static void put_number(struct out *o, uint64_t v)
{
	uint8_t bytes[10];
	size_t n = 0;
	for (; v >= 128; v >>= 7)
		bytes[n++] = (uint8_t)(v | 128);
	bytes[n++] = (uint8_t)v;
	put(o, bytes, n);
}

static void put_text(struct out *o, const char *s, size_t n)
{
	put_number(o, n);
	put(o, s, n);
}

static void put_files(struct out *o, const struct stk_file_list *l, int64_t first, int64_t end)
{
	const char *before = "";
	for (int64_t i = first; i < end; i++) {
		const char *name = l->names + l->files[i];
		size_t shared = 0;
		while (name[shared] && name[shared] == before[shared])
			shared++;
		put_number(o, shared);
		put_text(o, name + shared, strlen(name + shared));
		if (l->sized)
			put_number(o, (uint64_t)stk__list_file_size(l, i));
		before = name;
	}
}

static void put_list(struct out *o, const struct stk_file_list *l, const char *root)
{
	const uint8_t head[] = {VERSION, l->sized ? SIZED : 0};
	put(o, STK_INDEX_MAGIC, MAGIC);
	put(o, head, sizeof head);
	put_text(o, root, strlen(root));
	put_number(o, (uint64_t)l->folder_count);
	for (int64_t f = 0; f < l->folder_count; f++) {
		const char *name = l->names + l->folders[f].name;
		int64_t end = f + 1 < l->folder_count ? l->folders[f + 1].first : l->size;
		put_text(o, name, strlen(name));
		put_number(o, (uint64_t)(end - l->folders[f].first));
		put_files(o, l, l->folders[f].first, end);
	}
	uint64_t hash = o->failed ? 0 : stk__hash_bytes(0, o->data, o->n);
	uint8_t bytes[HASH];
	for (int i = 0; i < HASH; i++)
		bytes[i] = (uint8_t)(hash >> 8 * i);
	put(o, bytes, sizeof bytes);
}

static bool write_all(int fd, const uint8_t *data, size_t n)
{
	while (n) {
		ssize_t k = write(fd, data, n);
		if (k < 0 && errno != EINTR)
			return false;
		data += k > 0 ? k : 0;
		n -= k > 0 ? (size_t)k : 0;
	}
	return true;
}

/* Under another name first, so that nobody meets half an index. */
static enum stk_status write_file(const char *path, const struct out *o, struct stk_error *err)
{
	char temporary[4200];
	if (snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)getpid()) >= (int)sizeof temporary)
		return stk__fail(err, STK_INVALID, "%.100s...: the path is too long", path);
	int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	bool good = fd >= 0 && write_all(fd, o->data, o->n);
	int e = errno;
	if (fd >= 0 && close(fd) && good) {
		good = false;
		e = errno;
	}
	if (good && !rename(temporary, path))
		return STK_OK;
	e = good ? errno : e;
	if (fd >= 0)
		unlink(temporary);
	return stk__fail_errno(err, e, "%s: cannot write the index", path);
}

enum stk_status stk_index_write(const char *root, const char *path, struct stk_index_info *info, struct stk_error *err)
{
	struct stk_file_list *l = NULL;
	struct out o = {0};
	if (info && info->size != sizeof *info)
		return stk__fail(err, STK_INVALID, "stk_index_info.size is %zu; this library expects %zu", info->size, sizeof *info);
	enum stk_status status =
		stk__file_list_create(&(struct stk_file_list_options){.file_root = root, .nested = true, .everything = true}, &l, err);
	if (status)
		return status;
	char *whole = stk__is_uri(l->root) ? NULL : realpath(l->root, NULL); /* it is good from any folder */
	put_list(&o, l, whole ? whole : l->root);
	free(whole);
	if (o.failed)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory for the index of %s", root);
	else
		status = write_file(path, &o, err);
	if (!status && info) {
		*info = (struct stk_index_info){sizeof *info, l->size, l->folder_count, l->sized ? 0 : -1, (int64_t)o.n};
		for (int64_t i = 0; i < l->size && l->sized; i++)
			info->bytes += stk__list_file_size(l, i);
	}
	stk__free(o.data);
	stk__file_list_destroy(l);
	return status;
}

/* ---- reading ---- */

struct in {
	const uint8_t *at, *end;
	bool failed;
};

static uint64_t take_number(struct in *in)
{
	uint64_t v = 0;
	for (int shift = 0; shift < 63; shift += 7) {
		if (in->at == in->end)
			break;
		uint8_t byte = *in->at++;
		v |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return v;
	}
	in->failed = true;
	return 0;
}

/* n bytes behind `name`, which has `used` already, and a NUL. */
static void take_bytes(struct in *in, char name[LONGEST_NAME], size_t used)
{
	uint64_t n = take_number(in);
	if (in->failed || n > (uint64_t)(in->end - in->at) || used + n >= LONGEST_NAME || memchr(in->at, 0, n)) {
		in->failed = true;
		return;
	}
	memcpy(name + used, in->at, n);
	name[used + n] = 0;
	in->at += n;
}

/* A tree that is read back: what a walk would have met, in its order. */
struct reading {
	struct in in;
	struct stk_file_list *list;
	const struct stk_file_list_options *options;
	struct stk_list_census census;
};

static enum stk_status take_file(struct reading *r, const char *class_name, const char *name, int64_t size, struct stk_error *err)
{
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	if (slash && !r->options->nested) {
		stk__census_folder(&r->census, class_name);
		return STK_OK;
	}
	if (!stk__list_wants(r->options, last)) {
		stk__census_other(&r->census, last);
		return STK_OK;
	}
	return r->list->sized ? stk__list_add_sized(r->list, name, strlen(name), size, err)
			      : stk__list_add_file(r->list, name, strlen(name), err);
}

static enum stk_status take_class(struct reading *r, struct stk_error *err)
{
	char class_name[LONGEST_NAME], name[LONGEST_NAME] = "";
	struct in *in = &r->in;
	int64_t first = r->list->size;
	take_bytes(in, class_name, 0);
	uint64_t count = take_number(in);
	bool wanted = !in->failed && stk__list_wants_class(r->options, class_name);
	r->census.left_out += !wanted;
	enum stk_status status = wanted ? stk__list_add_folder(r->list, class_name, err) : STK_OK;
	for (uint64_t i = 0; i < count && !in->failed && !status; i++) {
		uint64_t shared = take_number(in);
		in->failed |= shared > strlen(name);
		if (!in->failed)
			take_bytes(in, name, shared);
		int64_t size = r->list->sized ? (int64_t)take_number(in) : 0;
		if (!in->failed && wanted)
			status = take_file(r, class_name, name, size, err);
	}
	if (status || in->failed || !wanted)
		return status;
	return stk__list_end_class(r->list, r->options, &r->census, first, class_name, err);
}

bool stk__is_index(const void *data, size_t n)
{
	return n >= MAGIC && memcmp(data, STK_INDEX_MAGIC, MAGIC) == 0;
}

bool stk__is_index_file(const char *path)
{
	struct stat st;
	char magic[MAGIC];
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, magic, sizeof magic) : -1;
	if (fd >= 0)
		close(fd);
	return n > 0 && stk__is_index(magic, (size_t)n);
}

static enum stk_status check_hash(const uint8_t *data, size_t n, const char *path, struct stk_error *err)
{
	uint64_t hash = 0;
	if (n > MAGIC && data[MAGIC] != VERSION)
		return stk__fail(err, STK_UNSUPPORTED,
			"%s: an index of version %d; this library knows version %d: make it anew (stoker index)", path, data[MAGIC],
			VERSION);
	for (int i = 0; i < HASH && n >= MAGIC + 2 + HASH; i++)
		hash |= (uint64_t)data[n - HASH + (size_t)i] << 8 * i;
	if (n < MAGIC + 2 + HASH || hash != stk__hash_bytes(0, data, n - HASH))
		return stk__fail(err, STK_CORRUPT, "%s: the index is damaged or cut off: make it anew (stoker index)", path);
	return STK_OK;
}

/* The root is the index's, unless a folder was given beside it: the files may have moved. */
static enum stk_status take_root(struct reading *r, struct stk_error *err)
{
	char root[LONGEST_NAME];
	take_bytes(&r->in, root, 0);
	if (r->in.failed || (r->options->file_root && r->options->file_list))
		return STK_OK;
	char *copy = stk__strdup(root);
	if (!copy)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the index of %s", root);
	stk__free(r->list->root);
	r->list->root = copy;
	return STK_OK;
}

enum stk_status stk__index_parse(struct stk_file_list *l, const struct stk_file_list_options *o, const uint8_t *data, size_t n,
	const char *path, struct stk_error *err)
{
	enum stk_status status = check_hash(data, n, path, err);
	if (status)
		return status;
	struct reading r = {.in = {data + MAGIC + 2, data + n - HASH, false}, .list = l, .options = o};
	l->sized = data[MAGIC + 1] & SIZED;
	status = take_root(&r, err);
	uint64_t classes = take_number(&r.in);
	for (uint64_t c = 0; c < classes && !r.in.failed && !status; c++)
		status = take_class(&r, err);
	if (status)
		return status;
	if (r.in.failed || r.in.at != r.in.end || classes > INT32_MAX)
		return stk__fail(err, STK_CORRUPT, "%s: the index contradicts itself: make it anew (stoker index)", path);
	if (l->folder_count == 0)
		return stk__census_no_classes(&r.census, l, err);
	return stk__census_end(&r.census, l, o, 0, err);
}
