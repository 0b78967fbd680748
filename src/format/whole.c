/* SPDX-License-Identifier: Apache-2.0 */
#include "format/list.h"

#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
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

enum stk_status stk__read_whole(const char *path, size_t limit, uint8_t **out, size_t *size, struct stk_error *err)
{
	struct stat st;
	*out = NULL;
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
