/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a stored index:
 *   struct head
 *   the whole name of the video
 *   the index (media/index_bytes.c), which ends in a hash
 *   XXH64 of the head and the name */
#include "format/video_kept.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/xxhash.h"
#include "format/kept.h"
#include "format/list.h"

#include <stdio.h>
#include <string.h>

enum { VERSION = 1, HASH = 8 };
static const char magic[8] = "STKVKEPT";

struct head {
	char magic[8];
	uint32_t version;
	uint32_t name; /* size of the name in bytes */
	struct stk_media_version of;
	int32_t stream, unused;
};

/* The name of a video and the path of its index. */
struct names {
	char full_name[PATH_MAX], path[PATH_MAX];
};

static bool find_names(const char *video, int32_t stream, struct names *n)
{
	char key[PATH_MAX + 32];
	if (!stk__kept_name(video, n->full_name))
		return false;
	/* Only the file's name, which is a hash of the key, depends on the query of a URL: the query can contain a signature, which must not be stored. */
	snprintf(key, sizeof key, "video %d %s", stream, n->full_name);
	n->full_name[stk__uri_shown(n->full_name)] = '\0';
	return stk__kept_path(key, n->path);
}

static struct head make_head(const struct names *n, const struct stk_media_version *of, int32_t stream)
{
	struct head h = {.version = VERSION, .name = (uint32_t)strlen(n->full_name), .of = *of, .stream = stream};
	memcpy(h.magic, magic, sizeof magic);
	return h;
}

static uint64_t hash_of(const struct head *h, const char *name)
{
	return stk__xxh64(name, h->name, stk__xxh64(h, sizeof *h, 0));
}

/* Loads the stored index of a video. NULL: no index of this version of the video is stored, or it cannot be read. */
static struct stk_video_index *load(const struct names *n, const struct stk_media_version *of, int32_t stream)
{
	const size_t most = (size_t)1 << 32;
	const struct head expected = make_head(n, of, stream);
	const uint64_t hash = hash_of(&expected, n->full_name);
	const size_t header_size = sizeof expected + expected.name;
	struct stk_video_index *x = NULL;
	uint8_t *data;
	size_t size;
	if (stk__read_whole(n->path, most, &data, &size, NULL))
		return NULL;
	if (size > header_size + HASH && memcmp(data, &expected, sizeof expected) == 0 &&
		memcmp(data + sizeof expected, n->full_name, expected.name) == 0 && memcmp(data + size - HASH, &hash, HASH) == 0 &&
		stk__video_index_unpack(data + header_size, size - header_size - HASH, &x, NULL))
		x = NULL;
	stk__free(data);
	return x;
}

/* Returns whether the index may be stored: a file that has changed less than 0.1 s ago may change again without getting another time of change. */
static bool is_settled(const struct stk_media_version *of)
{
	const int64_t moment = 100000000;
	const int64_t now = stk__wall_ns();
	return of->version[0] || (of->modified_ns < now - moment && of->changed_ns < now - moment);
}

/* Stores an index. If that fails, the next run makes the index again. */
static void store(struct names *n, const struct stk_media_version *of, int32_t stream, const struct stk_video_index *x)
{
	const struct head h = make_head(n, of, stream);
	const uint64_t hash = hash_of(&h, n->full_name);
	const size_t header_size = sizeof h + h.name;
	uint8_t *index, *data;
	size_t size;
	if (stk__video_index_pack(x, &index, &size, NULL))
		return;
	data = stk__alloc(header_size + size + HASH);
	if (data) {
		memcpy(data, &h, sizeof h);
		memcpy(data + sizeof h, n->full_name, h.name);
		memcpy(data + header_size, index, size);
		memcpy(data + header_size + size, &hash, HASH);
		(void)stk__kept_write(n->path, data, header_size + size + HASH);
	}
	stk__free(data);
	stk__free(index);
}

enum stk_status stk__video_find_index(const char *path, struct stk_media_source *source, int32_t stream, struct stk_video_index **index,
	bool *stored, struct stk_error *err)
{
	const struct stk_media_input *in = stk__media_source_input(source);
	const struct stk_media_version *of = stk__media_source_version(source);
	struct names *n = of->known ? stk__alloc(sizeof *n) : NULL;
	const bool named = n && find_names(path, stream, n);
	enum stk_status s = STK_OK;
	*index = named ? load(n, of, stream) : NULL;
	if (stored)
		*stored = *index;
	if (!*index) {
		s = stk__video_index_create(in, stream, index, err);
		if (!s && named && is_settled(of) && !stk__video_index_is_copy(*index, in->size) &&
			(of->version[0] || stk__video_index_is_costly(*index, in->size)))
			store(n, of, stream, *index);
	}
	stk__free(n);
	return s;
}

enum stk_status stk__video_open(const char *path, const struct stk_access *access, int32_t stream, struct stk_video_index **index,
	struct stk_media_source **source, bool *stored, struct stk_error *err)
{
	struct stk_media_source *opened = NULL;
	*index = NULL;
	enum stk_status s = stk__media_source_open(path, access, &opened, err);
	if (!s)
		s = stk__video_find_index(path, opened, stream, index, stored, err);
	if (source && !s) {
		*source = opened;
		return STK_OK;
	}
	stk__media_source_close(opened);
	return s;
}
