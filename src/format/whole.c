/* SPDX-License-Identifier: Apache-2.0 */
#include "format/list.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "io/wait.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLACK = 64 };

static enum stk_status read_bytes(int fd, const char *path, uint8_t *data, size_t size, struct stk_error *err)
{
	for (size_t used = 0; used < size;) {
		ssize_t n = stk__fault(STK_FAULT_READ) ? (errno = EIO, -1) : read(fd, data + used, size - used);
		if (n == 0)
			return stk__fail(
				err, STK_IO, "%s: it changed its size while it was read: %zu bytes before, %zu now", path, size, used);
		if (n > 0)
			used += (size_t)n;
		else if (errno != EINTR)
			return stk__fail_errno(err, errno, "%s: reading %zu bytes in", path, used);
	}
	return STK_OK;
}

/* Reads a file that reports a size of 0, like those of /proc, until it ends. Returns STK_LIMIT after STK_FILE_UNSIZED_MOST bytes, or after `limit` if that
 * is less, since some of these files never end. */
static enum stk_status read_to_end(int fd, const char *path, size_t limit, uint8_t **data, size_t *size, struct stk_error *err)
{
	enum { FIRST = 4096 };
	limit = limit < STK_FILE_UNSIZED_MOST ? limit : STK_FILE_UNSIZED_MOST;
	for (size_t capacity = 0;;) {
		if (*size == capacity) {
			capacity = capacity ? 2 * capacity : FIRST;
			uint8_t *more = stk__realloc(*data, capacity + SLACK);
			if (!more)
				return stk__fail(err, STK_NO_MEMORY, "%s: no memory for its %zu bytes", path, capacity);
			*data = more;
		}
		ssize_t n = read(fd, *data + *size, capacity - *size);
		if (n == 0)
			return STK_OK;
		if (n > 0)
			*size += (size_t)n;
		else if (errno != EINTR)
			return stk__fail_errno(err, errno, "%s: reading %zu bytes in", path, *size);
		if (*size > limit)
			return stk__fail(err, STK_LIMIT, "%s: it reports a size of 0, and gives more than %zu bytes", path, limit);
	}
}

bool stk__is_uri(const char *path)
{
	size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
	return n > 0 && strncmp(path + n, "://", 3) == 0;
}

struct reading {
	uint8_t *data, *before; /* before: the previous buffer, which must stay valid until its bytes were copied */
};

static uint8_t *grow_buffer(void *user, size_t size)
{
	struct reading *g = user;
	uint8_t *data = stk__alloc(size + SLACK);
	if (!data)
		return NULL;
	stk__free(g->before);
	g->before = g->data;
	g->data = data;
	return data;
}

enum stk_status stk__read_object(const struct stk_access *access, struct stk_io *io, const char *uri, int64_t offset, int64_t length,
	size_t limit, uint8_t **out, size_t *size, struct stk_object *object, struct stk_error *err)
{
	struct reading g = {0};
	struct stk_request r = {.uri = uri,
		.offset = offset,
		.length = length,
		.uncached = true,
		.max_bytes = limit,
		.allocate = grow_buffer,
		.allocate_user = &g,
		.object = object,
		.error = err};
	*size = 0;
	*out = NULL;
	stk__io_wait(io, &r, access);
	if (!err)
		stk__free(r.error);
	stk__free(g.before);
	if (r.status) {
		stk__free(g.data);
		return r.status;
	}
	*out = g.data;
	*size = r.size;
	return STK_OK;
}

static enum stk_status read_uri(
	const struct stk_access *access, const char *uri, size_t limit, uint8_t **out, size_t *size, struct stk_error *err)
{
	struct stk_storage *storage;
	enum stk_status status = stk__access_open(access, uri, &storage, err);
	if (status)
		return status;
	status = stk__read_object(access, stk__storage_io(storage), uri, 0, -1, limit, out, size, NULL, err);
	stk_storage_unref(&storage);
	return status;
}

enum stk_status stk__access_read(
	const struct stk_access *access, const char *path, size_t limit, uint8_t **out, size_t *size, struct stk_error *err)
{
	struct stat st;
	*out = NULL;
	*size = 0;
	if (stk__is_uri(path))
		return read_uri(access, path, limit, out, size, err);
	int fd = stk__file_open(path, &st);
	if (fd < 0)
		return stk__file_not_opened(path, &st, err);
	enum stk_status status = STK_OK;
	if ((uint64_t)st.st_size > limit)
		status = stk__fail(err, STK_LIMIT, "%s: %lld bytes, over the limit of %zu", path, (long long)st.st_size, limit);
	else if (st.st_size == 0)
		status = read_to_end(fd, path, limit, out, size, err);
	else if (!(*out = stk__alloc((size_t)st.st_size + SLACK)))
		status = stk__fail(err, STK_NO_MEMORY, "%s: no memory for its %lld bytes", path, (long long)st.st_size);
	else if (!(status = read_bytes(fd, path, *out, (size_t)st.st_size, err)))
		*size = (size_t)st.st_size;
	close(fd);
	if (status) {
		*size = 0;
		stk__free(*out);
		*out = NULL;
	}
	return status;
}

enum stk_status stk__read_whole(const char *path, size_t limit, uint8_t **out, size_t *size, struct stk_error *err)
{
	return stk__access_read(NULL, path, limit, out, size, err);
}

enum stk_status stk__write_whole(const char *path, const void *data, size_t n, const char *what, struct stk_error *err)
{
	struct stk_new_file f;
	bool ok = stk__new_file_begin(&f, path, 0666);
	if (ok)
		ok = stk__new_file_end(&f, stk__new_file_write(&f, data, n));
	return ok ? STK_OK : stk__file_not_written(path, what, err);
}
