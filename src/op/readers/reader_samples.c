/* SPDX-License-Identifier: Apache-2.0 */
#include "op/readers/reader_samples.h"

#include "base/error.h"
#include "format/archive_file.h"
#include "format/archive_index.h"
#include "format/tar.h"

#include <stdio.h>

enum stk_status stk__archive_paths(const struct stk_access *access, const char *archives_name, const struct stk_strings *archives,
	const char *indexes_name, const struct stk_strings *indexes, struct stk_archive_paths *out, struct stk_error *err)
{
	*out = (struct stk_archive_paths){0};
	if (archives->count < 1)
		return stk__fail(err, STK_INVALID, "%s is empty: name at least one file", archives_name);
	enum stk_status s = stk__names_expand(access, archives->v, archives->count, &out->archives, err);
	if (!s && indexes->count > 0)
		s = stk__names_expand(access, indexes->v, indexes->count, &out->indexes, err);
	if (!s && indexes->count > 0 && out->indexes.count != out->archives.count)
		s = stk__fail(err, STK_INVALID, "there are %zu files in %s and %zu indexes in %s: give one for each, or none",
			out->archives.count, archives_name, out->indexes.count, indexes_name);
	if (s)
		stk__archive_paths_free(out);
	return s;
}

void stk__archive_paths_free(struct stk_archive_paths *p)
{
	stk__names_free(&p->archives);
	stk__names_free(&p->indexes);
}

enum stk_status stk__reader_samples_keep(
	struct stk_samples *from, const struct stk_reader_args *reader, void **shared, struct stk_error *err)
{
	enum stk_status s = stk__reader_check(reader, from->size, err);
	struct stk_samples *t = s ? NULL : stk__alloc(sizeof *t);
	if (!s && !t)
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for a reader");
	if (s) {
		stk__samples_free(from);
		return s;
	}
	*t = *from;
	*shared = t;
	return STK_OK;
}

void stk__reader_samples_close(void *shared)
{
	stk__samples_free(shared);
	stk__free(shared);
}

int64_t stk__reader_samples_size(const void *shared)
{
	return ((const struct stk_samples *)shared)->size;
}

uint64_t stk__reader_samples_fingerprint(const void *shared, enum stk_digest_form form)
{
	return stk__samples_digest(shared, 0, stk__reader_samples_size(shared), form);
}

uint64_t stk__reader_samples_digest(const void *shared, int64_t first, int64_t count)
{
	return stk__samples_digest(shared, first, count, STK_DIGEST_NOW);
}

size_t stk__reader_samples_uri(const void *shared, int64_t id, char *uri, size_t capacity)
{
	return stk__samples_name(shared, id, uri, capacity);
}

void stk__reader_samples_parts(const void *shared, int64_t id, struct stk_part *out)
{
	const struct stk_samples *t = shared;
	for (int32_t k = 0; k < t->parts_each; k++) {
		const struct stk_sample_part *p = &t->parts[id * t->parts_each + k];
		out[k] = (struct stk_part){.uri = t->places[id].archive, .offset = p->offset, .length = p->length};
	}
}

void stk__reader_samples_object(const void *shared, int64_t uri, struct stk_known_object *out)
{
	const struct stk_samples *t = shared;
	*out = (struct stk_known_object){.size = t->objects[uri].size, .tag = t->objects[uri].tag, .pinned = true};
	out->remote = stk__is_object(t->archives[uri]);
}

enum stk_status stk__tar_part_check(
	const char *tar, const struct stk_sample_part *part, uint32_t header_hash, const uint8_t *header, struct stk_error *err)
{
	if (header_hash ? stk__header_hash(header, STK_TAR_HEADER) == header_hash : stk__tar_header_fits(header, part->length))
		return STK_OK;
	return stk__fail(err, STK_IO,
		"%.200s: at byte %lld is another file than the index of the tar says: the tar was changed or replaced: start again, with a "
		"new index if you gave one",
		tar, (long long)part->offset);
}

enum stk_status stk__reader_samples_check(const void *shared, int64_t id, int32_t part, const uint8_t *header, struct stk_error *err)
{
	const struct stk_samples *t = shared;
	const int64_t k = id * t->parts_each + part;
	return stk__tar_part_check(t->archives[t->places[id].archive], &t->parts[k], t->header_hashes[k], header, err);
}

size_t stk__reader_samples_part_uri(const void *shared, int64_t object, char *uri, size_t capacity)
{
	return (size_t)snprintf(uri, capacity, "%s", ((const struct stk_samples *)shared)->archives[object]);
}
