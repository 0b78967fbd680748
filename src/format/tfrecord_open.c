/* SPDX-License-Identifier: Apache-2.0
 * Finds the records of TFRecord files. */
#include "format/tfrecord.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/archive_file.h"
#include "format/archive_set.h"
#include "format/list.h"
#include "format/number.h"

#include <string.h>

static enum stk_status add_record(struct stk_samples *t, int32_t file, int64_t offset, int64_t size, struct stk_error *err)
{
	struct stk_sample_part *part;
	enum stk_status s = stk__samples_add(t, file, "", 0, &part, err);
	if (!s)
		*part = (struct stk_sample_part){offset, size};
	return s;
}

enum stk_status stk__tfrecord_parse_index(
	int32_t file, const char *text, size_t size, const char *path, struct stk_samples *t, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	int64_t number = 1;
	for (const char *at = text + stk__byte_order_mark(text, size), *end = text + size, *stop; at < end && s == STK_OK;
		at = stop + 1, number++) {
		int64_t offset, length, last;
		stop = memchr(at, '\n', (size_t)(end - at));
		stop = stop ? stop : end;
		const char *p = at;
		if (stop == at || *at == '\r')
			continue;
		bool ok = stk__take_number(&p, stop, &offset) && p < stop && (*p == ' ' || *p == '\t');
		while (ok && p < stop && (*p == ' ' || *p == '\t'))
			p++;
		ok = ok && stk__take_number(&p, stop, &length) && (p == stop || *p == ' ' || *p == '\r');
		if (!ok || length < STK_TFRECORD_FRAME || __builtin_add_overflow(offset, length, &last))
			return stk__fail(err, STK_CORRUPT,
				"%.300s, line %lld: a line of such an index is the offset and the size of a record", path,
				(long long)number);
		s = add_record(t, file, offset, length, err);
	}
	return s;
}

/* Fails if the file at `path`, whose index has no records, is not empty: its records would be missing without a message. */
static enum stk_status check_empty(const struct stk_access *access, const char *index, const char *path, struct stk_error *err)
{
	uint8_t *data = NULL;
	size_t size = 0;
	const enum stk_status s = stk__access_read(access, path, 1, &data, &size, err);
	stk__free(data);
	if (s != STK_LIMIT && (s || size == 0))
		return s;
	return stk__fail(err, STK_CORRUPT,
		"%.300s: the index is empty, but %.300s is not an empty file; make the index again (tfrecord2idx), or leave index_path out",
		index, path);
}

static enum stk_status open_index(const struct stk_tfrecord_options *o, int32_t i, struct stk_samples *t, struct stk_error *err)
{
	uint8_t *text = NULL;
	size_t size;
	int64_t old_size = t->size;
	enum stk_status s = stk__access_read(o->access, o->index_paths[i], (size_t)1 << 40, &text, &size, err);
	if (!s)
		s = stk__tfrecord_parse_index(i, (const char *)text, size, o->index_paths[i], t, err);
	if (!s && t->size == old_size)
		s = check_empty(o->access, o->index_paths[i], o->paths[i], err);
	stk__free(text);
	return s;
}

static enum stk_status open_indexed(const struct stk_tfrecord_options *o, struct stk_samples *out, struct stk_error *err)
{
	enum stk_status s = stk__samples_init(out, o->paths, o->path_count, 1, err);
	for (int32_t i = 0; i < o->path_count && s == STK_OK; i++)
		s = open_index(o, i, out, err);
	return s;
}

struct filling {
	struct stk_samples *samples;
	int32_t file;
};

static enum stk_status found_record(void *user, const struct stk_archive_member *m, struct stk_error *err)
{
	struct filling *f = user;
	return add_record(f->samples, f->file, m->offset, m->size, err);
}

static enum stk_status open_searched(const struct stk_tfrecord_options *o, struct stk_samples *out, struct stk_error *err)
{
	struct stk_archives files;
	enum stk_status s = stk__archives_open(STK_ARCHIVE_TFRECORD, o->access, o->paths, o->path_count, NULL, &files, err);
	if (s)
		return s;
	s = stk__archives_samples(&files, 1, out, err);
	for (int32_t i = 0; i < files.count && s == STK_OK; i++)
		s = stk__archive_index_each(&files.at[i], found_record, &(struct filling){out, i}, err);
	stk__archives_free(&files);
	return s;
}

enum stk_status stk__tfrecord_open(const struct stk_tfrecord_options *o, struct stk_samples *out, struct stk_error *err)
{
	*out = (struct stk_samples){0};
	enum stk_status s = o->index_paths ? open_indexed(o, out, err) : open_searched(o, out, err);
	if (s)
		stk__samples_free(out);
	return s;
}
