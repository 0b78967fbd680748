/* SPDX-License-Identifier: Apache-2.0 */
#include "format/media_source.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/archive_file.h"
#include "format/kept.h"
#include "format/list.h"
#include "io/version.h"
#include "storage/storage.h"

#include <string.h>

enum { BLOCK = 1 << 20, BLOCKS = 4, MOST_EXPECTED = 64 << 20 };

struct block {
	int64_t at; /* offset of the block in the object */
	size_t size;
	uint8_t *bytes;
	uint64_t used; /* value of the source's `clock` when the block was last used */
};

struct stk_media_source {
	struct stk_media_input input;
	char *path;
	bool local;
	struct stk_access access;
	struct stk_storage *storage;
	struct block blocks[BLOCKS];
	int64_t block;                  /* minimum number of bytes that a request reads */
	int64_t expected, expected_end; /* expected begin and end of the next reads, as offsets in the object */
	uint64_t clock;
	int64_t requests;
	struct stk_media_version version;
};

static bool is_interrupted(void *user)
{
	const struct stk_media_source *s = user;
	return s->access.interrupted && s->access.interrupted(s->access.user);
}

/* Reads n bytes of the object at `offset`, and counts the request. Fails if the object is no longer the version that was opened: packets of another version
 * would not fit the index of this one. The caller frees *bytes. */
static enum stk_status read_part(
	struct stk_media_source *s, int64_t offset, int64_t n, uint8_t **bytes, size_t *size, struct stk_error *err)
{
	struct stk_object now = {.size = -1};
	s->requests++;
	enum stk_status status = stk__read_object(&s->access, stk__storage_io(s->storage), s->path, offset, n, 0, bytes, size, &now, err);
	if (status)
		return status;
	struct stk_object was = {.size = s->version.size};
	_Static_assert(sizeof was.version == sizeof s->version.version, "both hold the same text");
	memcpy(was.version, s->version.known ? s->version.version : now.version, sizeof was.version);
	status = stk__check_same_object(s->path, "read", &was, &now, err);
	if (status) {
		stk__free(*bytes);
		*bytes = NULL;
	}
	return status;
}

/* Returns the block that contains the byte at `offset`. If no block does, reads one from the store, which replaces the least recently used block. NULL:
 * *err is filled. */
static const struct block *find_block(struct stk_media_source *s, int64_t offset, struct stk_error *err)
{
	struct block *oldest = &s->blocks[0];
	for (int i = 0; i < BLOCKS; i++) {
		struct block *b = &s->blocks[i];
		if (b->bytes && offset >= b->at && offset < b->at + (int64_t)b->size) {
			b->used = ++s->clock;
			return b;
		}
		oldest = b->used < oldest->used ? b : oldest;
	}
	const bool expected = offset >= s->expected && offset < s->expected_end;
	const int64_t at = expected ? offset : offset / s->block * s->block, left = s->input.size - at;
	int64_t n = expected && s->expected_end - at > s->block ? s->expected_end - at : s->block;
	n = n < left ? n : left;
	stk__free(oldest->bytes);
	*oldest = (struct block){.at = at, .used = ++s->clock};
	if (!read_part(s, at, n, &oldest->bytes, &oldest->size, err))
		return oldest;
	*oldest = (struct block){0};
	return NULL;
}

static void expect(void *user, int64_t offset, int64_t n)
{
	struct stk_media_source *s = user;
	s->expected = offset;
	s->expected_end = offset + (n < MOST_EXPECTED ? n : MOST_EXPECTED);
	for (int i = 0; i < BLOCKS && n == 0; i++)
		if ((int64_t)s->blocks[i].size > s->block) {
			stk__free(s->blocks[i].bytes);
			s->blocks[i] = (struct block){0};
		}
}

static enum stk_status read_object(void *user, int64_t offset, void *to, size_t n, struct stk_error *err)
{
	struct stk_media_source *s = user;
	struct stk_error failure = {0};
	if ((int64_t)n > s->block) { /* a large read bypasses the blocks */
		uint8_t *bytes;
		size_t size;
		enum stk_status status = read_part(s, offset, (int64_t)n, &bytes, &size, err);
		if (!status)
			memcpy(to, bytes, n);
		stk__free(bytes);
		return status;
	}
	for (size_t used = 0; used < n;) {
		const struct block *b = find_block(s, offset + (int64_t)used, &failure);
		if (!b) {
			if (err)
				*err = failure;
			return failure.code ? failure.code : STK_IO;
		}
		const size_t skip = (size_t)(offset + (int64_t)used - b->at),
			     n_copied = b->size - skip < n - used ? b->size - skip : n - used;
		memcpy((uint8_t *)to + used, b->bytes + skip, n_copied);
		used += n_copied;
	}
	return STK_OK;
}

/* Opens an object: finds its size and version, and sets the functions that read it. */
static enum stk_status open_object(struct stk_media_source *s, struct stk_error *err)
{
	struct stk_archive_file f;
	enum stk_status status = stk__access_open(&s->access, s->path, &s->storage, err);
	if (status)
		return status;
	s->requests++;
	status = stk__archive_open(&f, s->path, stk__storage_io(s->storage), &s->access, (struct stk_archive_pace){0}, 1, err);
	if (status)
		return status;
	s->input.size = f.size;
	s->version.known = f.object.version[0];
	s->version.size = f.size;
	memcpy(s->version.version, f.object.version, strnlen(f.object.version, sizeof s->version.version - 1));
	s->input.read = read_object;
	s->input.expect = expect;
	s->input.user = s;
	stk__archive_close(&f);
	return STK_OK;
}

enum stk_status stk__media_source_open(
	const char *path, const struct stk_access *access, struct stk_media_source **out, struct stk_error *err)
{
	*out = NULL;
	struct stk_media_source *s = stk__calloc(1, sizeof *s);
	if (s)
		s->path = stk__strdup(path);
	if (!s || !s->path) {
		stk__free(s);
		return stk__fail(err, STK_NO_MEMORY, "out of memory to open a video");
	}
	if (access)
		s->access = *access;
	s->block = BLOCK;
	s->local = !stk__is_object(path);
	s->input.interrupted = is_interrupted;
	s->input.interrupted_user = s;
	enum stk_status status = s->local ? stk__media_file_open(&s->input, stk__file_path(path), &s->version, err) : open_object(s, err);
	if (status) {
		stk__media_source_close(s);
		return status;
	}
	*out = s;
	return STK_OK;
}

void stk__media_source_close(struct stk_media_source *s)
{
	if (!s)
		return;
	if (s->local)
		stk__media_file_close(&s->input);
	for (int i = 0; i < BLOCKS; i++)
		stk__free(s->blocks[i].bytes);
	if (s->storage)
		stk_storage_unref(&s->storage);
	stk__free(s->path);
	stk__free(s);
}

void stk__media_source_read_least(struct stk_media_source *s, int64_t bytes)
{
	s->block = bytes;
}

const struct stk_media_input *stk__media_source_input(const struct stk_media_source *s)
{
	return &s->input;
}

const struct stk_media_version *stk__media_source_version(const struct stk_media_source *s)
{
	return &s->version;
}

int64_t stk__media_source_requests(const struct stk_media_source *s)
{
	return s->requests;
}
