/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- reading ---- */

const struct dirent *stk__next_entry(DIR *dir)
{
	const struct dirent *e;
	do {
		errno = 0;
		e = stk__fault(STK_FAULT_READ) ? (errno = EIO, NULL) : readdir(dir);
	} while (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0));
	return e;
}

bool stk__is_system_folder(const char *name)
{
	return strcmp(name, "lost+found") == 0;
}

const char *stk__file_kind(mode_t mode)
{
	if (S_ISDIR(mode))
		return "a directory";
	if (S_ISFIFO(mode))
		return "a FIFO";
	return S_ISSOCK(mode) ? "a socket" : "a device";
}

/* Opens a file for reading after open() with O_NONBLOCK has failed with EAGAIN because of a lease. First opens the path with O_PATH and checks that it is a
 * regular file, then opens the file through that descriptor, so that no FIFO can replace it in between. Returns a descriptor, or -1 with errno set. */
static int open_leased(const char *path)
{
	struct stat st;
	char name[40];
	int fd = -1, path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return -1;
	errno = EAGAIN;
	if (!fstat(path_fd, &st) && S_ISREG(st.st_mode)) {
		snprintf(name, sizeof name, "/proc/self/fd/%d", path_fd);
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	}
	int e = errno;
	close(path_fd);
	errno = e;
	return fd;
}

int stk__file_open_any(const char *path)
{
	int fd;
	do {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd < 0 && errno == EAGAIN)
			fd = open_leased(path);
	} while (fd < 0 && errno == EINTR);
	return fd;
}

int stk__file_open(const char *path, struct stat *st)
{
	memset(st, 0, sizeof *st);
	int fd = stk__file_open_any(path);
	if (fd < 0)
		return -1;
	if (!fstat(fd, st) && S_ISREG(st->st_mode))
		return fd;
	int e = !st->st_mode ? errno : S_ISDIR(st->st_mode) ? EISDIR : EINVAL;
	close(fd);
	errno = e;
	return -1;
}

const char *stk__file_path(const char *path)
{
	static const char host[] = "localhost";
	if (strncmp(path, "file://", 7) != 0)
		return path;
	path += 7;
	return strncasecmp(path, host, sizeof host - 1) == 0 && path[sizeof host - 1] == '/' ? path + sizeof host - 1 : path;
}

/* Returns advice on a path that looks like a URI of another kind than file://; "" for other paths. */
static const char *remote_uri_hint(const char *path)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	const size_t n = strspn(path, letters);
	if (n < 2 || strncmp(path + n, ":/", 2) != 0)
		return "";
	return path[n + 2] != '/'
		       ? " (URIs are written as in s3://bucket/prefix, in small letters; pathlib.Path removes one of the slashes)"
		       : " (URIs are written as in s3://bucket/prefix, in small letters)";
}

const char *stk__uri_hint(const char *path)
{
	if (*path == '~')
		return " (only a shell replaces ~ by the home folder; in Python, os.path.expanduser does)";
	if (strncasecmp(path, "file:/", 6) != 0)
		return remote_uri_hint(path);
	if (strncmp(path, "file://", 7) != 0)
		return " (a URI of a local file is written as in file:///data/train, in small letters)";
	const char *local = stk__file_path(path);
	if (*local != '/')
		return " (a URI of a local file is written as in file:///data/train; files of another host are not read)";
	return strchr(local, '%') ? " (%20 and the like are not decoded in file:// URIs: write the name as it is)" : "";
}

enum stk_status stk__file_not_opened(const char *path, const struct stat *st, struct stk_error *err)
{
	const int e = errno;
	if (st->st_mode)
		return stk__fail(err, STK_INVALID, "%s: %s, not a file", path, stk__file_kind(st->st_mode));
	if (e == ENXIO)
		return stk__fail(err, STK_INVALID, "%s: a socket or a device, not a file", path);
	return stk__fail_errno(err, e, "%s: cannot open it%s", path, stk__uri_hint(path));
}

/* ---- writing ---- */

uint64_t stk__random_name(void)
{
	uint64_t bits = 0;
	if (syscall(SYS_getrandom, &bits, sizeof bits, 1 /* GRND_NONBLOCK */) !=
		sizeof bits) /* O_EXCL protects the file even if another process guesses its name */
		bits = ((uint64_t)stk__clock_ns() + (uint64_t)(uintptr_t)&bits) * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid() << 32;
	return bits;
}

bool stk__write_bytes(int fd, const void *data, size_t n)
{
	for (const uint8_t *at = data; n;) {
		ssize_t k = write(fd, at, n);
		if (k < 0 && errno != EINTR)
			return false;
		at += k > 0 ? k : 0;
		n -= k > 0 ? (size_t)k : 0;
	}
	return true;
}

/* Returns whether the path is a device or pipe that the user names on purpose, such as /dev/null, /dev/stdout or a shell's /dev/fd/63. Files of /dev/shm do
 * not count, since every user may create files there. */
static bool is_written_directly(const char *path)
{
	struct stat st;
	bool special = (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0) || strncmp(path, "/proc/", 6) == 0;
	return special && !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISBLK(st.st_mode);
}

static bool open_directly(struct stk_new_file *f, const char *path)
{
	f->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int flags = f->fd < 0 ? -1 : fcntl(f->fd, F_GETFL);
	return flags >= 0 && !fcntl(f->fd, F_SETFL, flags & ~O_NONBLOCK);
}

/* Opens the folder of a path as f->folder, and copies the path's last part to f->name. Returns false and sets errno on failure. */
static bool open_folder(struct stk_new_file *f, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const size_t n = slash ? (size_t)(slash - path) : 0;
	char folder[4096];
	if (n >= sizeof folder || strlen(name) >= sizeof f->name) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (!*name) {
		errno = EISDIR;
		return false;
	}
	memcpy(folder, path, n);
	folder[n] = 0;
	strcpy(f->name, name);
	f->folder = open(slash ? n ? folder : "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return f->folder >= 0;
}

/* Returns whether a file may get the name f->name: the name is free, or it belongs to a regular file or a link, which the new file replaces. A link to a folder
 * counts as that folder. Otherwise returns false and sets errno. Sets *keeps if the new file replaces a regular file of this user, and then sets *mode to that
 * file's mode. */
static bool may_replace(const struct stk_new_file *f, mode_t *mode, bool *keeps)
{
	struct stat st;
	if (fstatat(f->folder, f->name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT;
	*keeps = S_ISREG(st.st_mode) && st.st_uid == geteuid();
	if (*keeps)
		*mode = st.st_mode & 0777;
	if (S_ISLNK(st.st_mode) && (fstatat(f->folder, f->name, &st, 0) || !S_ISDIR(st.st_mode)))
		return true;
	if (S_ISREG(st.st_mode))
		return true;
	errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	return false;
}

static bool create_part(struct stk_new_file *f, mode_t mode, bool keeps)
{
	for (int tries = 0; tries < 16; tries++) {
		snprintf(f->part, sizeof f->part, "%.200s.%016llx.part", f->name, (unsigned long long)stk__random_name());
		f->fd = openat(f->folder, f->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (f->fd >= 0 || errno != EEXIST)
			break;
	}
	if (f->fd >= 0 && keeps && fchmod(f->fd, mode))
		errno = 0; /* no failure: the file system may not have modes */
	return f->fd >= 0;
}

bool stk__new_file_begin(struct stk_new_file *f, const char *path, mode_t mode)
{
	bool keeps = false;
	*f = (struct stk_new_file){.fd = -1, .folder = -1};
	bool ok = is_written_directly(path) ? open_directly(f, path)
					    : open_folder(f, path) && may_replace(f, &mode, &keeps) && create_part(f, mode, keeps);
	int e = errno;
	if (!ok && f->fd >= 0)
		close(f->fd);
	if (!ok && f->folder >= 0)
		close(f->folder);
	errno = e;
	return ok;
}

bool stk__new_file_write(struct stk_new_file *f, const void *data, size_t n)
{
	return stk__write_bytes(f->fd, data, n);
}

bool stk__new_file_end(struct stk_new_file *f, bool ok)
{
	int e = errno;
	if (f->fd >= 0 && close(f->fd) && ok) {
		ok = false;
		e = errno;
	}
	if (f->folder >= 0 && ok && renameat(f->folder, f->part, f->folder, f->name)) {
		ok = false;
		e = errno;
	}
	if (f->folder >= 0 && !ok)
		unlinkat(f->folder, f->part, 0);
	if (f->folder >= 0)
		close(f->folder);
	*f = (struct stk_new_file){.fd = -1, .folder = -1};
	errno = e;
	return ok;
}

enum stk_status stk__file_not_written(const char *path, const char *what, struct stk_error *err)
{
	if (errno == EINVAL)
		return stk__fail(err, STK_INVALID, "%s: cannot write the %s: a FIFO, a socket or a device has this name", path, what);
	if (errno == ENOTDIR)
		return stk__fail(err, STK_IO, "%s: cannot write the %s: a file has the name of its folder; give another name", path, what);
	if (errno == ENOENT)
		return stk__fail_missing(err,
			"%s: cannot write the %s: its folder does not exist: make it first (mkdir -p), or give another name", path, what);
	if (errno == EISDIR)
		return stk__fail(err, STK_IO, "%s: cannot write the %s: this is a folder; give the name of a file", path, what);
	return stk__fail_errno(err, errno, "%s: cannot write the %s", path, what);
}
