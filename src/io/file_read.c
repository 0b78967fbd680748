/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads one file with few system calls: open, preadv2, a second preadv2 that reaches the end, close. Calls fstat only if the first buffer was too small,
 * if the read may block anyway, if a read has failed, or if the caller expects a version of the file. Never uses mmap, because a mapped file that is
 * truncated ends the process with SIGBUS. */
#include "io/file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/system.h"
#include "io/version.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	FIRST_SIZE = 128 << 10,
	SLACK = 64,
	MISSES = 16,    /* number of consecutive tries that must fail before most tries are skipped */
	TRY_EVERY = 32, /* while tries are skipped, one in 32 is made, to notice when the page cache is warm again */
};

struct file_read {
	struct stk_file_habits *habits;
	struct stk_io *io;
	struct stk_request *r;
	const char *path;
	int fd;
	bool may_block, blocked;   /* blocked: nothing was read, because that could block, or because the buffer was not admitted */
	size_t refused;            /* size of the buffer that was not admitted; 0: none was refused */
	struct stk_buffer *buffer; /* NULL if the request supplies the memory */
	uint8_t *data;
	size_t capacity, used;
	/* Memory of STK_IO_BEFORE bytes for r->check: the r->before bytes of the file that precede the offset. before_used: number of bytes so far. */
	uint8_t *before;
	size_t before_used;
	int64_t expected; /* number of bytes from the offset to the end of the file according to fstat; -1: fstat has not been called */
};

/* Opens a file without openat2. Uses O_NONBLOCK, because a FIFO named .jpg must be an error, not a wait for its writer. */
static int open_plain(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static int open_cached(struct stk_file_habits *h, const char *path)
{
	if (atomic_load_explicit(&h->no_cached_open, memory_order_relaxed))
		return open_plain(path);
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = RESOLVE_CACHED};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
	if (fd >= 0 || (errno != ENOSYS && errno != EINVAL && errno != EPERM))
		return fd;
	/* the kernel is older than 5.12, or a seccomp filter does not know the call */
	atomic_store_explicit(&h->no_cached_open, true, memory_order_relaxed);
	return open_plain(path);
}

/* Fills the error of a failed open, and returns its status. Errors that concern only this path give STK_NOT_FOUND or STK_INVALID. */
static enum stk_status open_failed(struct file_read *f, int e)
{
	enum stk_status s = stk__fail_errno(f->r->error, e, "%s: cannot open it%s", f->path, stk__uri_hint(f->r->uri));
	if (e == ELOOP || e == ENAMETOOLONG)
		s = STK_NOT_FOUND;
	else if (e == EACCES || e == EPERM || e == EISDIR)
		s = STK_INVALID;
	if (f->r->error)
		f->r->error->code = s;
	return s;
}

static enum stk_status open_file(struct file_read *f)
{
	do
		f->fd = f->may_block ? stk__file_open_any(f->path) : open_cached(f->habits, f->path);
	while (f->fd < 0 && errno == EINTR);
	if (f->fd >= 0)
		return STK_OK;
	if (errno == EAGAIN && !f->may_block) {
		f->blocked = true;
		return STK_OK;
	}
	struct stat link;
	int e = errno;
	if (e == ENOENT && lstat(f->path, &link) == 0 && S_ISLNK(link.st_mode))
		return stk__fail_missing(f->r->error, "%s: a link that leads nowhere", f->path);
	if (e == ENXIO)
		return stk__fail(f->r->error, STK_INVALID, "%s: a socket or a device, not a file", f->path);
	return open_failed(f, e);
}

static enum stk_status check_size(const struct file_read *f, size_t size)
{
	const struct stk_request *r = f->r;
	return r->max_bytes && size > r->max_bytes ? stk__fail_memory_limit(r->error, size, r->max_bytes) : STK_OK;
}

/* Sets f->expected. Fails if this is not a regular file, or if the requested bytes exceed the request's limit. */
static enum stk_status stat_file(struct file_read *f)
{
	struct stat st;
	if (fstat(f->fd, &st))
		return stk__fail_errno(f->r->error, errno, "%s: cannot stat it", f->path);
	if (!S_ISREG(st.st_mode))
		return stk__fail(f->r->error, STK_INVALID, "%s: %s, not a file", f->path, stk__file_kind(st.st_mode));
	f->expected = st.st_size > f->r->offset ? st.st_size - f->r->offset : 0;
	return check_size(f, f->r->length >= 0 && f->r->length < f->expected ? (size_t)f->r->length : (size_t)f->expected);
}

/* Refuses a file that was replaced or changed after the caller had looked at it: the wanted bytes may be elsewhere in the new file. */
static enum stk_status check_version(const struct file_read *f)
{
	struct stat st;
	if (fstat(f->fd, &st))
		return stk__fail_errno(f->r->error, errno, "%s: cannot stat it", f->path);
	if (stk__file_version_hash(st.st_size, stk__file_ns(st.st_mtim)) == f->r->expected.tag)
		return STK_OK;
	f->r->no_retry = true;
	f->r->object_fails = true; /* other files can still be read */
	return stk__fail(f->r->error, STK_IO,
		"%s: it was replaced or changed after this run had opened it: start again, so that it is opened again", f->path);
}

/* Allocates memory for `size` bytes, and moves the bytes that were read so far to it. */
static enum stk_status reserve(struct file_read *f, size_t size)
{
	struct stk_buffer *b;
	uint8_t *data = stk__request_memory(f->io, f->r, size, &b);
	if (!data)
		return stk__fail(f->r->error, STK_NO_MEMORY, "%s: no memory for its %zu bytes", f->path, size);
	if (f->used)
		memmove(data, f->data, f->used);
	stk__buffer_release(f->buffer);
	f->buffer = b;
	f->data = data;
	f->capacity = b ? stk__buffer_capacity(b) : size;
	return STK_OK;
}

/* Returns whether the caller's limit admits the buffer of a whole file; if not, sets f->refused to its size. */
static bool admit(struct file_read *f, size_t size)
{
	const size_t bytes = stk__buffer_rounded(size);
	if (stk__request_admitted(f->r, bytes))
		return true;
	f->refused = bytes;
	return false;
}

static ssize_t read_some(struct file_read *f, size_t size)
{
	if (stk__fault(STK_FAULT_READ)) {
		errno = EIO;
		return -1;
	}
	const size_t lack = f->r->before - f->before_used;
	struct iovec v[2] = {{f->before + f->before_used, lack}, {f->data + f->used, size}};
	ssize_t n = stk__preadv2(
		f->fd, lack ? v : v + 1, lack ? 2 : 1, f->r->offset + (off_t)f->used - (off_t)lack, f->may_block ? 0 : RWF_NOWAIT);
	if (n <= 0 || !lack)
		return n;
	const size_t took = (size_t)n < lack ? (size_t)n : lack;
	f->before_used += took;
	if (took == (size_t)n)
		errno = EINTR; /* all bytes so far precede the offset: makes the caller read again */
	return took == (size_t)n ? -1 : n - (ssize_t)took;
}

static enum stk_status read_failed(struct file_read *f)
{
	int e = errno;
	if (!f->may_block && (e == EAGAIN || e == EOPNOTSUPP || e == ENOSYS)) {
		if (e != EAGAIN)
			atomic_store_explicit(&f->habits->misses, MISSES, memory_order_relaxed);
		f->blocked = true;
		return STK_OK;
	}
	/* Directories, FIFOs and devices cannot be read at an offset. stat_file names the kind of file. */
	if (e == EISDIR || e == ESPIPE || e == EAGAIN) {
		enum stk_status status = stat_file(f);
		if (status)
			return status;
	}
	f->r->object_fails = true; /* a bad sector concerns one file; if the disk fails, many reads in a row do */
	return stk__fail_errno(f->r->error, e, "%s: reading %zu bytes in", f->path, f->used);
}

static enum stk_status size_changed(const struct file_read *f, int64_t old_size, int64_t new_size)
{
	struct stk_request *r = f->r;
	r->object_fails = true;
	return stk__fail(r->error, STK_IO, "%s: it changed its size while it was read: %lld bytes before, %lld now", f->path,
		(long long)(r->offset + old_size), (long long)(r->offset + new_size));
}

/* Enlarges a full buffer when the end of the file has not been reached: to the size that fstat reports or, if that is too small, as for a file that grows or is
 * in /proc, by half. */
static enum stk_status grow(struct file_read *f)
{
	int64_t old_size = f->expected;
	enum stk_status status = stat_file(f);
	if (status)
		return status;
	if (old_size > 0 && f->expected != old_size)
		return size_changed(f, old_size, f->expected);
	if ((status = check_size(f, f->used))) /* a file may be longer than fstat reports */
		return status;
	if (f->expected == 0 && f->used > STK_FILE_UNSIZED_MOST)
		return stk__fail(
			f->r->error, STK_LIMIT, "%s: it reports a size of 0, and gives more than %d bytes", f->path, STK_FILE_UNSIZED_MOST);
	size_t capacity = f->used + f->used / 2 + 4096;
	return reserve(f, f->expected > (int64_t)f->used ? (size_t)f->expected + 1 : capacity);
}

static enum stk_status handle_end(struct file_read *f)
{
	enum stk_status status = check_size(f, f->used); /* a pooled buffer may be larger than `max_bytes` */
	if (status)
		return status;
	const struct stk_request *r = f->r;
	if (f->expected > 0 && (int64_t)f->used != f->expected && (r->length < 0 || f->expected >= r->length))
		return size_changed(f, f->expected, (int64_t)f->used);
	if (r->length >= 0)
		return stk__fail(r->error, STK_CORRUPT, "%s: it ends before byte %lld, where %lld bytes from byte %lld were asked for",
			f->path, (long long)(r->offset + r->length), (long long)r->length, (long long)r->offset);
	return STK_OK;
}

static enum stk_status read_all(struct file_read *f)
{
	const int64_t length = f->r->length;
	for (;;) {
		size_t capacity = length >= 0 ? (size_t)length - f->used : f->capacity - f->used;
		if (capacity == 0 && length >= 0)
			return STK_OK;
		if (capacity == 0) {
			enum stk_status status = grow(f);
			if (status)
				return status;
			continue;
		}
		ssize_t n = read_some(f, capacity);
		if (n == 0)
			return handle_end(f);
		if (n > 0)
			f->used += (size_t)n;
		else if (errno != EINTR)
			return read_failed(f);
	}
}

static enum stk_status open_and_read(struct file_read *f)
{
	uint8_t before[STK_IO_BEFORE];
	/* cppcheck-suppress autoVariables ; stk__file_read reads it only through the calls below */
	f->before = before;
	enum stk_status status = open_file(f);
	if (status || f->blocked)
		return status;
	if (f->may_block)
		status = stat_file(f);
	const bool pinned = f->r->expected.pin != STK_PIN_NONE && f->r->expected.tag;
	size_t size = atomic_load_explicit(&f->habits->size, memory_order_relaxed);
	if (f->r->length >= 0)
		size = (size_t)f->r->length;
	else if (f->expected >= 0)
		size = (size_t)f->expected + 1; /* one byte more than the file has, so that a read shows its end */
	else if (size == 0)
		size = FIRST_SIZE;
	if (f->r->length < 0 && f->r->max_bytes && size > f->r->max_bytes)
		size = f->r->max_bytes + 1;
	if (!status && f->r->length >= 0)
		status = check_size(f, size);
	if (!status && f->may_block && !admit(f, size))
		f->blocked = true;
	if (!status && !f->blocked)
		status = reserve(f, size);
	if (!status && !f->blocked)
		status = read_all(f);
	if (pinned && !f->blocked && (!status || status == STK_CORRUPT)) {
		const enum stk_status changed = check_version(f);
		status = changed ? changed : status;
	}
	if (!status && !f->blocked && f->r->check && (status = f->r->check(f->r, before, f->data, f->r->error)))
		f->r->no_retry = true;
	close(f->fd);
	return status;
}

/* Adapts the size of the first buffer for the next file, so that a file is usually read without fstat: raises it to one byte more than this file has, or lowers
 * it by a 64th of the unused part. */
static void update_first_buffer(struct stk_file_habits *h, size_t used)
{
	size_t size = atomic_load_explicit(&h->size, memory_order_relaxed);
	size = used + 1 > size ? used + 1 : size - (size - used) / 64;
	atomic_store_explicit(&h->size, size, memory_order_relaxed);
}

static enum stk_status finish(struct file_read *f, enum stk_status status)
{
	struct stk_request *r = f->r;
	if (status || f->blocked) {
		stk__buffer_release(f->buffer);
		return status;
	}
	r->buffer = f->buffer;
	r->data = f->data;
	r->size = f->used;
	memset(f->data + f->used, 0, SLACK);
	if (r->length < 0)
		update_first_buffer(f->habits, f->used);
	return STK_OK;
}

static struct file_read start(struct stk_file_habits *h, struct stk_io *io, struct stk_request *r, bool may_block)
{
	return (struct file_read){.habits = h, .io = io, .r = r, .path = stk__file_path(r->uri), .may_block = may_block, .expected = -1};
}

bool stk__file_read_now(struct stk_file_habits *h, struct stk_io *io, struct stk_request *r, enum stk_status *status)
{
	if (atomic_load_explicit(&h->misses, memory_order_relaxed) >= MISSES &&
		atomic_fetch_add_explicit(&h->skipped, 1, memory_order_relaxed) % TRY_EVERY)
		return false;
	struct file_read f = start(h, io, r, false);
	*status = finish(&f, open_and_read(&f));
	if (f.blocked) {
		if (atomic_load_explicit(&h->misses, memory_order_relaxed) < MISSES)
			atomic_fetch_add_explicit(&h->misses, 1, memory_order_relaxed);
		return false;
	}
	if (atomic_load_explicit(&h->misses, memory_order_relaxed))
		atomic_store_explicit(&h->misses, 0, memory_order_relaxed);
	return true;
}

enum stk_status stk__file_read(struct stk_file_habits *h, struct stk_io *io, struct stk_request *r, size_t *refused)
{
	struct file_read f = start(h, io, r, true);
	enum stk_status status = finish(&f, open_and_read(&f));
	*refused = f.refused;
	return status;
}
