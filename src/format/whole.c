/* SPDX-License-Identifier: Apache-2.0 */
#include "format/list.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/http.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
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

bool stk__is_uri(const char *path)
{
	size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
	return n > 0 && strncmp(path + n, "://", 3) == 0;
}

enum stk_status stk__list_io(const char *uri, struct stk_io **out, struct stk_error *err)
{
	enum stk_status status = stk__io_create(1, out, err);
	if (!status && (status = stk__http_add(*out, NULL, err)))
		stk__io_destroy(*out);
	if (!status)
		stk__io_refresh(*out, uri);
	return status;
}

struct reading {
	uint8_t *data;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool ended;
};

static uint8_t *give_room(void *user, size_t size)
{
	struct reading *g = user;
	uint8_t *data = stk__realloc(g->data, size + SLACK);
	g->data = data ? data : g->data;
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

static enum stk_status read_uri(const char *uri, size_t limit, uint8_t **out, size_t *size, struct stk_error *err)
{
	struct stk_io *io;
	struct reading g = {NULL, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	struct stk_request r = {.uri = uri,
		.length = -1,
		.most = limit,
		.done = request_done,
		.user = &g,
		.room = give_room,
		.room_user = &g,
		.error = err};
	enum stk_status status = stk__list_io(uri, &io, err);
	*size = 0;
	if (status)
		return status;
	stk__io_submit(io, &r);
	pthread_mutex_lock(&g.lock);
	while (!g.ended)
		pthread_cond_wait(&g.done, &g.lock);
	pthread_mutex_unlock(&g.lock);
	if (!err)
		stk__free(r.error);
	stk__io_destroy(io);
	if (r.status) {
		stk__free(g.data);
		return r.status;
	}
	*out = g.data;
	*size = r.size;
	return STK_OK;
}

enum stk_status stk__read_whole(const char *path, size_t limit, uint8_t **out, size_t *size, struct stk_error *err)
{
	struct stat st;
	*out = NULL;
	if (stk__is_uri(path))
		return read_uri(path, limit, out, size, err);
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
	else if (!(*out = stk__alloc((size_t)st.st_size + SLACK)))
		status = stk__fail(err, STK_NO_MEMORY, "%s: no memory for its %lld bytes", path, (long long)st.st_size);
	else
		status = read_bytes(fd, path, *out, (size_t)st.st_size, err);
	close(fd);
	*size = status ? 0 : (size_t)st.st_size;
	if (status) {
		stk__free(*out);
		*out = NULL;
	}
	return status;
}
