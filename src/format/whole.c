/* SPDX-License-Identifier: Apache-2.0 */
#include "format/list.h"

#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* Of a file that has no size, as those of /proc: what it gives until it ends. */
static enum stk_status read_to_end(int fd, const char *path, size_t limit, uint8_t **data, size_t *size, struct stk_error *err)
{
	enum { FIRST = 4096 };
	for (size_t room = 0;;) {
		if (*size == room) {
			room = room ? 2 * room : FIRST;
			uint8_t *more = stk__realloc(*data, room + SLACK);
			if (!more)
				return stk__fail(err, STK_NO_MEMORY, "%s: no memory for its %zu bytes", path, room);
			*data = more;
		}
		ssize_t n = read(fd, *data + *size, room - *size);
		if (n == 0)
			return STK_OK;
		if (n > 0)
			*size += (size_t)n;
		else if (errno != EINTR)
			return stk__fail_errno(err, errno, "%s: reading %zu bytes in", path, *size);
		if (*size > limit)
			return stk__fail(err, STK_LIMIT, "%s: over the limit of %zu bytes", path, limit);
	}
}

bool stk__is_uri(const char *path)
{
	size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
	return n > 0 && strncmp(path + n, "://", 3) == 0;
}

const char *stk__uri_hint(const char *path)
{
	size_t n = strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-.");
	return n > 1 && strncmp(path + n, ":/", 2) == 0 ? " (URIs are written as in s3://bucket/prefix, in small letters)" : "";
}

struct reading {
	uint8_t *data, *before; /* before: what was given before, from which the bytes so far are copied */
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool ended;
};

static uint8_t *give_room(void *user, size_t size)
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

static void request_done(struct stk_request *r)
{
	struct reading *g = r->user;
	pthread_mutex_lock(&g->lock);
	g->ended = true;
	pthread_cond_signal(&g->done);
	pthread_mutex_unlock(&g->lock);
}

enum stk_status stk__read_object(const struct stk_access *access, struct stk_io *io, const char *uri, int64_t offset, int64_t length,
	size_t limit, uint8_t **out, size_t *size, struct stk_object *object, struct stk_error *err)
{
	struct reading g = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
	struct stk_request r = {.uri = uri,
		.offset = offset,
		.length = length,
		.uncached = true,
		.most = limit,
		.done = request_done,
		.user = &g,
		.room = give_room,
		.room_user = &g,
		.object = object,
		.error = err};
	*size = 0;
	*out = NULL;
	stk__io_submit(io, &r);
	pthread_mutex_lock(&g.lock);
	for (bool wanted = true; !g.ended;) {
		bool on = stk__access_wait(access, &g.done, &g.lock);
		if (on || !wanted)
			continue;
		wanted = false;
		pthread_mutex_unlock(&g.lock);
		stk__io_cancel(io, &r);
		pthread_mutex_lock(&g.lock);
	}
	pthread_mutex_unlock(&g.lock);
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
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return stk__fail_errno(err, errno, "%s: cannot open it", path);
	enum stk_status status = STK_OK;
	if (fstat(fd, &st))
		status = stk__fail_errno(err, errno, "%s: cannot stat it", path);
	else if (!S_ISREG(st.st_mode))
		status = stk__fail(err, STK_INVALID, "%s: not a file", path);
	else if ((uint64_t)st.st_size > limit)
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

/* Under another name first, so that nobody meets half of it. */
enum stk_status stk__write_whole(const char *path, const void *data, size_t n, const char *what, struct stk_error *err)
{
	char temporary[4200];
	if (snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)syscall(SYS_gettid)) >= (int)sizeof temporary)
		return stk__fail(err, STK_INVALID, "%.100s...: the path is too long", path);
	int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	bool good = fd >= 0 && write_all(fd, data, n);
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
	return stk__fail_errno(err, e, "%s: cannot write the %s", path, what);
}
