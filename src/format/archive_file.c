/* SPDX-License-Identifier: Apache-2.0 */
#include "format/archive_file.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST = 4096 }; /* what a read of a few bytes brings along: small members follow each other */

enum stk_status stk__archive_open(struct stk_archive_file *f, const char *path, const char *maker, struct stk_error *err)
{
	struct stat st;
	*f = (struct stk_archive_file){.path = path, .fd = -1};
	if (strncmp(path, "file://", 7) == 0)
		path += 7;
	if (stk__is_uri(path))
		return stk__fail(err, STK_UNSUPPORTED,
			"%.*s: only a local archive is searched for its samples: make an index of it with %s, and give index_paths",
			stk__uri_shown(path), path, maker);
	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (f->fd < 0)
		return stk__fail_errno(err, errno, "%s: cannot open it", path);
	enum stk_status s = STK_OK;
	if (fstat(f->fd, &st))
		s = stk__fail_errno(err, errno, "%s: cannot stat it", path);
	else if (!S_ISREG(st.st_mode))
		s = stk__fail(err, STK_INVALID, "%s: not a file", path);
	else if (!(f->buffer = stk__alloc(STK_ARCHIVE_PIECE)))
		s = stk__fail(err, STK_NO_MEMORY, "out of memory to search %s", path);
	f->size = s ? 0 : st.st_size;
	if (s)
		stk__archive_close(f);
	else
		posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM); /* reading ahead would bring the members themselves */
	return s;
}

void stk__archive_close(struct stk_archive_file *f)
{
	if (f->fd >= 0) {
		close(f->fd);
		stk__free(f->buffer);
	}
	f->fd = -1;
	f->buffer = NULL;
}

const uint8_t *stk__archive_read(struct stk_archive_file *f, int64_t offset, size_t n, struct stk_error *err)
{
	if (f->fd < 0)
		return f->buffer + offset;
	if (offset >= f->at && offset + (int64_t)n <= f->at + (int64_t)f->held)
		return f->buffer + (offset - f->at);
	size_t want = n > FIRST ? n : FIRST;
	f->at = offset;
	f->held = 0;
	while (f->held < n) {
		ssize_t got = stk__fault(STK_FAULT_READ) ? (errno = EIO, -1)
							 : pread(f->fd, f->buffer + f->held, want - f->held, offset + (off_t)f->held);
		if (got > 0) {
			f->held += (size_t)got;
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
