/* SPDX-License-Identifier: Apache-2.0 */
#include "format/archive_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST = 4096 }; /* minimum size in bytes of a read from a local file, which then often contains the next header too */

bool stk__is_object(const char *path)
{
	return stk__is_uri(path) && strncmp(path, "file://", 7) != 0;
}

static enum stk_status open_object(struct stk_archive_file *f, size_t least, struct stk_error *err)
{
	enum stk_status s = stk__read_object(f->access, f->io, f->path, 0, (int64_t)least, 0, &f->first, &f->first_size, &f->object, err);
	if (s == STK_OK && f->object.size < 0)
		s = stk__listed_size(f->access, f->io, f->path, &f->object.size, err);
	f->size = f->object.size;
	if (s == STK_CORRUPT)
		s = stk__fail(err, STK_CORRUPT, "%.*s: it has fewer than %zu bytes: it is empty or cut short", stk__uri_shown(f->path),
			f->path, least);
	if (s == STK_OK && f->size < 0)
		s = stk__fail(err, STK_UNSUPPORTED,
			"%.*s: its size is unknown, but is needed to read parts of it: a fetch function needs a list as well "
			"(stoker.Storage(fetch=..., list=...))%s",
			stk__uri_shown(f->path), f->path, least > 1 ? ", or give index_paths" : "");
	return s;
}

static enum stk_status open_local(struct stk_archive_file *f, const char *path, struct stk_error *err)
{
	struct stat st;
	path = stk__file_path(path);
	f->fd = stk__file_open(path, &st);
	if (f->fd < 0)
		return stk__file_not_opened(path, &st, err);
	f->size = st.st_size;
	f->modified_ns = stk__file_ns(st.st_mtim);
	f->changed_ns = stk__file_ns(st.st_ctim);
	f->inode = st.st_ino >> 1;                     /* an index file stores numbers of at most 63 bits */
	posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM); /* without read-ahead, which would read the members themselves */
	return STK_OK;
}

enum stk_status stk__archive_open(struct stk_archive_file *f, const char *path, struct stk_io *io, const struct stk_access *access,
	struct stk_archive_pace pace, size_t least, struct stk_error *err)
{
	*f = (struct stk_archive_file){.path = path, .fd = -1, .io = io, .access = access, .pace = pace, .object = {.size = -1}};
	enum stk_status s = io ? open_object(f, least, err) : open_local(f, path, err);
	if (s)
		stk__archive_close(f);
	return s;
}

void stk__archive_close(struct stk_archive_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->fd >= 0 || f->io)
		stk__free(f->buffer);
	stk__archive_stream_destroy(f->stream);
	stk__free(f->first);
	*f = (struct stk_archive_file){.path = f->path, .fd = -1};
}

static const uint8_t *read_object(struct stk_archive_file *f, int64_t offset, size_t n, struct stk_error *err)
{
	if (offset + (int64_t)n <= (int64_t)f->first_size)
		return f->first + offset;
	if (!f->stream && stk__archive_stream_create(f->io, f->path, &f->object, f->pace, f->access, &f->stream, err))
		return NULL;
	return stk__archive_stream_read(f->stream, offset, n, err);
}

const uint8_t *stk__archive_read(struct stk_archive_file *f, int64_t offset, size_t n, struct stk_error *err)
{
	if (f->read)
		return f->read(f->read_user, offset, n, err);
	if (f->io)
		return read_object(f, offset, n, err);
	if (f->fd < 0)
		return f->buffer + offset;
	if (offset >= f->at && offset + (int64_t)n <= f->at + (int64_t)f->filled)
		return f->buffer + (offset - f->at);
	if (!f->buffer && !(f->buffer = stk__alloc(STK_ARCHIVE_PIECE))) {
		enum stk_status s = stk__fail(err, STK_NO_MEMORY, "out of memory to search %s", f->path);
		(void)s;
		return NULL;
	}
	size_t want = n > FIRST ? n : FIRST;
	f->at = offset;
	f->filled = 0;
	while (f->filled < n) {
		ssize_t got = stk__fault(STK_FAULT_READ) ? (errno = EIO, -1)
							 : pread(f->fd, f->buffer + f->filled, want - f->filled, offset + (off_t)f->filled);
		if (got > 0) {
			f->filled += (size_t)got;
			continue;
		}
		if (got < 0 && errno == EINTR)
			continue;
		enum stk_status s = got < 0 ? stk__fail_errno(err, errno, "%s: reading at byte %lld", f->path, (long long)offset)
					    : stk__fail(err, STK_IO, "%s: it became shorter while it was searched", f->path);
		(void)s;
		return NULL;
	}
	return f->buffer;
}

enum stk_status stk__archive_bad(
	const struct stk_archive_file *f, int64_t offset, struct stk_error *err, enum stk_status code, const char *fmt, ...)
{
	char what[300];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	enum stk_status s = stk__fail(err, code, "%.200s, at byte %lld: %s", f->path, (long long)offset, what);
	if (err)
		err->offset = offset;
	return s;
}
