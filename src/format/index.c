/* SPDX-License-Identifier: Apache-2.0
 * An index of a tree, as a file: names with what they share with the one before left out, some 15 bytes a file for names like ImageNet's. It holds all files
 * at any depth; a reader's filters and `nested` choose among them as they do in a tree. */
#include "stoker/index.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/index_format.h"
#include "format/list_census.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	const uint8_t head[] = {STK_INDEX_VERSION, l->sized ? STK_INDEX_SIZED : 0};
	put(o, STK_INDEX_MAGIC, STK_INDEX_MAGIC_BYTES);
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
	uint8_t bytes[STK_INDEX_HASH];
	for (int i = 0; i < STK_INDEX_HASH; i++)
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
