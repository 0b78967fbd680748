/* SPDX-License-Identifier: Apache-2.0
 * Writes an index of a tree. Each name is stored without the part that it shares with the previous one, in some 12 bytes a file for names like ImageNet's, and
 * 8 more if ETags are known. The index has all files at any depth; a reader's filters and `nested` choose among them as in a tree. */
#include "stoker/index.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/archive_file.h"
#include "format/archive_index.h"
#include "format/coded.h"
#include "format/index_format.h"
#include "format/list_census.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_files(struct stk_coded_out *o, const struct stk_file_list *l, bool tagged, int64_t first, int64_t end)
{
	const char *previous = "";
	for (int64_t i = first; i < end; i++) {
		const char *name = l->names + l->files[i];
		stk__put_name(o, name, previous);
		if (l->sized) {
			const struct stk_list_object object = stk__list_object(l, i);
			stk__put_number(o, (uint64_t)object.size);
			if (tagged)
				stk__put(o, &object.tag, sizeof object.tag);
		}
		previous = name;
	}
}

static void put_list(struct stk_coded_out *o, const struct stk_file_list *l, const char *root)
{
	const bool tagged = l->sized && l->size && stk__list_object(l, 0).tag;
	const uint8_t head[] = {STK_INDEX_VERSION, (l->sized ? STK_INDEX_SIZED : 0) | (tagged ? STK_INDEX_TAGGED : 0)};
	stk__put(o, STK_INDEX_MAGIC, STK_INDEX_MAGIC_BYTES);
	stk__put(o, head, sizeof head);
	stk__put_text(o, root, strlen(root));
	stk__put_number(o, (uint64_t)l->folder_count);
	for (int64_t f = 0; f < l->folder_count; f++) {
		const char *name = l->names + l->folders[f].name;
		int64_t end = f + 1 < l->folder_count ? l->folders[f + 1].first : l->size;
		stk__put_text(o, name, strlen(name));
		stk__put_number(o, (uint64_t)(end - l->folders[f].first));
		put_files(o, l, tagged, l->folders[f].first, end);
	}
	stk__put_hash(o);
}

/* A listing that the caller watches and can stop. */
struct watched {
	const struct stk_index_options *options;
	bool ended;
};

static void report_entries(void *user, int64_t entries)
{
	struct watched *w = user;
	w->ended |= w->options->progress && !w->options->progress(w->options->user, entries);
}

static bool is_ended(void *user)
{
	return ((const struct watched *)user)->ended;
}

enum stk_status stk__index_check_output(const char *path, struct stk_error *err)
{
	char begin[STK_INDEX_MAGIC_BYTES];
	struct stat st;
	const int fd = stk__file_open(path, &st);
	/* Objects of other kinds, and missing folders, are reported when the index is written. */
	if (fd < 0)
		return errno == EACCES && stat(path, &st) == 0
			       ? stk__fail(err, STK_IO, "%s: a file that cannot be read to see whether it is an index: give another name",
					 path)
			       : STK_OK;
	const ssize_t n = pread(fd, begin, sizeof begin, 0);
	close(fd);
	if (n == 0 || (n > 0 && (stk__is_index(begin, (size_t)n) || stk__archive_index_is(begin, (size_t)n))))
		return STK_OK;
	return stk__fail(
		err, STK_INVALID, "%s: the file exists and is not an index, so it is not replaced: remove it, or give another name", path);
}

enum stk_status stk_index_write(const struct stk_index_options *options, struct stk_index_info *info, struct stk_error *err)
{
	if (STK_NEED(err, options) || STK_NEED(err, options->root, options->path))
		return STK_INVALID;
	struct stk_file_list *l = NULL;
	struct stk_coded_out o = {0};
	struct watched watched = {.options = options};
	const struct stk_access access = {.storage = options->storage, .interrupted = is_ended, .listed = report_entries, .user = &watched};
	if (options->size != sizeof *options)
		return stk__fail(
			err, STK_INVALID, "stk_index_options.size is %zu; this library expects %zu", options->size, sizeof *options);
	if (info && info->size != sizeof *info)
		return stk__fail(err, STK_INVALID, "stk_index_info.size is %zu; this library expects %zu", info->size, sizeof *info);
	enum stk_status status = stk__index_check_output(options->path, err);
	if (status)
		return status;
	status = stk__file_list_create(
		&(struct stk_file_list_options){.access = &access, .file_root = options->root, .nested = true, .everything = true}, &l,
		err);
	if (status)
		return status;
	/* The index names the root by its absolute path, since later runs may have another working directory. */
	char *real_path = stk__is_object(l->root) ? NULL : realpath(stk__file_path(l->root), NULL);
	put_list(&o, l, real_path ? real_path : l->root);
	free(real_path);
	if (o.failed)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory for the index of %s", options->root);
	else
		status = stk__write_whole(options->path, o.data, o.n, "index", err);
	if (!status && info) {
		*info = (struct stk_index_info){sizeof *info, l->size, l->folder_count, l->sized ? 0 : -1, (int64_t)o.n};
		for (int64_t i = 0; i < l->size && l->sized; i++)
			info->bytes += stk__list_object(l, i).size;
	}
	stk__free(o.data);
	stk__file_list_destroy(l);
	return status;
}
