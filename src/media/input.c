/* SPDX-License-Identifier: Apache-2.0 */
#include "media/input.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum stk_status stk__media_check(const struct stk_media_input *in, struct stk_error *err)
{
	return in->interrupted && in->interrupted(in->interrupted_user) ? stk__fail(err, STK_CANCELLED, "interrupted") : STK_OK;
}

enum stk_status stk__media_read(const struct stk_media_input *in, int64_t offset, void *to, size_t n, struct stk_error *err)
{
	if (offset < 0 || offset > in->size || n > (uint64_t)(in->size - offset))
		return stk__fail(err, STK_CORRUPT, "the file ends before byte %lld + %zu: it has %lld bytes, and is cut short or damaged",
			(long long)offset, n, (long long)in->size);
	if (!in->data)
		return in->read(in->user, offset, to, n, err);
	memcpy(to, in->data + offset, n);
	return STK_OK;
}

struct file {
	int fd;
	int64_t size, modified_ns; /* from when the file was opened: size in bytes, and time of the last change */
};

static enum stk_status read_file(void *user, int64_t offset, void *to, size_t n, struct stk_error *err)
{
	const struct file *f = user;
	for (size_t used = 0; used < n;) {
		ssize_t n_read =
			stk__fault(STK_FAULT_READ) ? (errno = EIO, -1) : pread(f->fd, (char *)to + used, n - used, offset + (off_t)used);
		if (n_read == 0)
			return stk__fail(err, STK_IO, "the file has become shorter while it was read");
		if (n_read > 0)
			used += (size_t)n_read;
		else if (errno != EINTR)
			return stk__fail_errno(err, errno, "reading at byte %lld", (long long)offset);
	}
	struct stat now;
	if (fstat(f->fd, &now))
		return stk__fail_errno(err, errno, "cannot stat the file");
	if (now.st_size != f->size || stk__file_ns(now.st_mtim) != f->modified_ns)
		return stk__fail(err, STK_IO, "the file was changed after it had been opened: open it again");
	return STK_OK;
}

enum stk_status stk__media_file_open(struct stk_media_input *in, const char *path, struct stk_media_version *version, struct stk_error *err)
{
	struct stat st;
	struct file *f = stk__alloc(sizeof *f);
	if (!f)
		return stk__fail(err, STK_NO_MEMORY, "%s: out of memory", path);
	f->fd = stk__file_open(path, &st);
	if (f->fd < 0) {
		enum stk_status s = stk__file_not_opened(path, &st, err);
		stk__free(f);
		return s;
	}
	f->size = st.st_size;
	f->modified_ns = stk__file_ns(st.st_mtim);
	if (version)
		*version = (struct stk_media_version){.known = true,
			.size = st.st_size,
			.modified_ns = stk__file_ns(st.st_mtim),
			.changed_ns = stk__file_ns(st.st_ctim),
			.inode = st.st_ino};
	in->size = st.st_size;
	in->data = NULL;
	in->read = read_file;
	in->user = f;
	return STK_OK;
}

void stk__media_file_close(struct stk_media_input *in)
{
	struct file *f = in->user;
	if (f)
		close(f->fd);
	stk__free(f);
	in->user = NULL;
}
