/* SPDX-License-Identifier: Apache-2.0
 * Reads parts of remote objects, and finds the names of objects, for programs that understand a format themselves. */
#include "format/format.h"
#include "format/list.h"
#include "format/names.h"
#include "io/version.h"
#include "io/wait.h"
#include "storage/storage.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"

#include <string.h>

struct memory_target {
	uint8_t *data;
	size_t length;
};

static uint8_t *callers_memory(void *user, size_t size)
{
	struct memory_target *target = user;
	return size <= target->length ? target->data : NULL;
}

static enum stk_status check_object(const struct stk_storage_object *o, struct stk_error *err)
{
	if (!o || o->size == sizeof *o)
		return STK_OK;
	return stk__fail(err, STK_INVALID, "stk_storage_object.size is %zu; this library expects %zu", o->size, sizeof *o);
}

/* Does the work of stk_storage_read and stk_storage_read_again. known: may be NULL; then a cache is not used if `object` is wanted, since entries of a cache
 * lack the text of a version. object: may be NULL. */
static enum stk_status read_part(struct stk_storage *s, const char *uri, int64_t offset, size_t length, void *data,
	const struct stk_storage_object *known, struct stk_storage_object *object, struct stk_error *err)
{
	static const char untouched[] = "\1"; /* marks found.version as not set, since a cache does not set it */
	struct stk_object found = {.size = -1};
	if (STK_NEED(err, s, uri, data))
		return STK_INVALID;
	if (offset < 0 || length > INT64_MAX / 2 || offset > INT64_MAX / 2)
		return stk__fail(
			err, STK_INVALID, "%.*s: no object has %zu bytes at %lld", stk__uri_shown(uri), uri, length, (long long)offset);
	struct stk_io *io = stk__storage_io(s);
	if (!stk__io_remote(io, uri))
		return stk__fail(err, STK_UNSUPPORTED, "%.*s is not the address of a remote object%s", stk__uri_shown(uri), uri,
			stk__is_uri(uri) ? stk__scheme_hint(uri) : stk__uri_hint(uri));
	struct memory_target target = {data, length};
	struct stk_request r = {.uri = uri,
		.offset = offset,
		.length = (int64_t)length,
		.allocate = callers_memory,
		.allocate_user = &target,
		.object = &found,
		.expected.tag = known ? stk__etag_hash(known->version) : 0,
		.uncached = object && !known,
		.error = err};
	memcpy(found.version, untouched, sizeof untouched);
	stk__io_wait(io, &r, NULL);
	if (!err)
		stk__free(r.error);
	if (!r.status && r.data && r.data != data)
		memcpy(data, r.data, length);
	stk__buffer_release(r.buffer);
	if (r.status || !object)
		return r.status;
	if (strcmp(found.version, untouched) == 0) {
		if (known) {
			*object = *known;
			return STK_OK;
		}
		found.version[0] = '\0';
	}
	const struct stk_access access = {.storage = s};
	enum stk_status status = STK_OK;
	if (found.size < 0)
		status = stk__listed_size(&access, io, uri, &found.size, err);
	object->bytes = found.size;
	memcpy(object->version, found.version, sizeof object->version);
	return status;
}

enum stk_status stk_storage_read(struct stk_storage *s, const char *uri, int64_t offset, size_t length, void *data,
	struct stk_storage_object *object, struct stk_error *err)
{
	const enum stk_status status = check_object(object, err);
	return status ? status : read_part(s, uri, offset, length, data, NULL, object, err);
}

enum stk_status stk_storage_read_again(struct stk_storage *s, const char *uri, int64_t offset, size_t length, void *data,
	const struct stk_storage_object *known, struct stk_storage_object *object, struct stk_error *err)
{
	if (STK_NEED(err, known, object))
		return STK_INVALID;
	enum stk_status status = check_object(known, err);
	status = status ? status : check_object(object, err);
	return status ? status : read_part(s, uri, offset, length, data, known, object, err);
}

/* Returns the length of "SCHEME://BUCKET" at the beginning of a URI; 0 for a local path. */
static size_t store_length(const char *uri)
{
	const char *host = strstr(uri, "://");
	return host ? (size_t)(host - uri) + 3 + strcspn(host + 3, "/?#") : 0;
}

uint64_t stk_storage_tag(const char *version)
{
	return version ? stk__etag_hash(version) : 0;
}

enum stk_status stk_storage_find_entries(struct stk_storage *s, const char *const *paths, int32_t count,
	void (*found)(void *user, const struct stk_storage_entry *entry), void *user, struct stk_error *err)
{
	if (STK_NEED(err, s, paths))
		return STK_INVALID;
	if (!found)
		return stk__fail(err, STK_INVALID, "stk_storage_find: found is NULL");
	const struct stk_access access = {.storage = s};
	struct stk_names names;
	enum stk_status status = stk__names_expand(&access, paths, count, &names, err);
	if (status)
		return status;
	const char *previous = "";
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.at[i];
		size_t n = store_length(name);
		if (n && (n != store_length(previous) || strncmp(name, previous, n) != 0)) {
			status = stk__io_refresh(stk__storage_io(s), name, &access, err);
			previous = name;
		}
		if (status)
			break;
		const struct stk_list_object object = stk__names_object(name);
		found(user, &(struct stk_storage_entry){
				    .size = sizeof(struct stk_storage_entry), .path = name, .bytes = object.size, .tag = object.tag});
	}
	stk__names_free(&names);
	return status;
}

struct taker {
	void (*found)(void *user, const char *path);
	void *user;
};

static void take_path(void *user, const struct stk_storage_entry *entry)
{
	const struct taker *t = user;
	t->found(t->user, entry->path);
}

enum stk_status stk_storage_find(struct stk_storage *s, const char *const *paths, int32_t count,
	void (*found)(void *user, const char *path), void *user, struct stk_error *err)
{
	struct taker t = {found, user};
	return stk_storage_find_entries(s, paths, count, found ? take_path : NULL, &t, err);
}
