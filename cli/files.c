/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool is_special(const char *path)
{
	return (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0) || strncmp(path, "/proc/", 6) == 0;
}

/* Opens a regular file on which another program has a lease, and waits until that program has ended the lease. Returns -1 with errno set if that fails:
 * EAGAIN if it is not a regular file. */
static int open_leased(const char *path)
{
	struct stat st;
	char name[40];
	int path_fd = open(path, O_PATH | O_CLOEXEC), fd = -1, e = EAGAIN;
	if (path_fd < 0)
		return -1;
	if (!fstat(path_fd, &st) && S_ISREG(st.st_mode)) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		e = errno;
	}
	close(path_fd);
	errno = e;
	return fd;
}

static int open_checked(const char *path, struct stat *st, bool pipes)
{
	memset(st, 0, sizeof(*st));
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 && errno == EAGAIN)
		fd = open_leased(path);
	if (fd < 0)
		return -1;
	int flags = fcntl(fd, F_GETFL);
	int e = fstat(fd, st) || flags < 0 ? errno : S_ISREG(st->st_mode) ? 0 : S_ISDIR(st->st_mode) ? EISDIR : pipes ? 0 : EINVAL;
	if (!e && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK))
		e = errno;
	if (!e)
		return fd;
	close(fd);
	errno = e;
	return -1;
}

int open_regular(const char *path, struct stat *st)
{
	return open_checked(path, st, false);
}

int open_text(const char *path)
{
	struct stat st;
	return open_checked(path, &st, is_special(path));
}

static bool write_all(int fd, const void *data, size_t size)
{
	for (const uint8_t *at = data; size;) {
		ssize_t n = write(fd, at, size);
		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* Creates a file with a random name in the folder of `path`, so that no other process can have placed a link there. Returns its descriptor, or -1 with errno
 * set. *part: set to its name, which the caller frees in either case. */
static int create_part(const char *path, mode_t mode, char **part)
{
	uint64_t bits = 0;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (syscall(SYS_getrandom, &bits, sizeof(bits), 1) != sizeof(bits))
		bits = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)getpid();
	if (asprintf(part, "%s.%016llx.part", path, (unsigned long long)bits) < 0) {
		*part = NULL;
		errno = ENOMEM;
		return -1;
	}
	return open(*part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

bool write_file(const char *path, const void *data, size_t size)
{
	struct stat st, target;
	char *part = NULL;
	const bool exists = lstat(path, &st) == 0, keeps_mode = exists && S_ISREG(st.st_mode) && st.st_uid == geteuid();
	const bool direct = is_special(path) && stat(path, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode));
	const bool folder = stat(path, &target) == 0 && S_ISDIR(target.st_mode); /* a link to a folder counts as that folder */
	if (folder || (exists && !direct && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))) {
		errno = folder ? EISDIR : EINVAL;
		return false;
	}
	int fd = direct ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY) : create_part(path, 0666, &part);
	if (fd >= 0 && keeps_mode && fchmod(fd, st.st_mode & 0777))
		errno = 0; /* not an error: some file systems have no modes */
	bool ok = fd >= 0 && write_all(fd, data, size);
	int e = errno;
	if (fd >= 0 && close(fd) && ok) {
		ok = false;
		e = errno;
	}
	if (ok && part && rename(part, path)) {
		ok = false;
		e = errno;
	}
	if (!ok && part && fd >= 0)
		unlink(part);
	free(part);
	errno = e;
	return ok;
}

void describe_unwritten(const char *path, int error, char *text, size_t capacity)
{
	const char *slash = strrchr(path, '/');
	if ((error == ENOENT || error == ENOTDIR) && slash)
		snprintf(text, capacity,
			"%s: cannot write the file: there is no folder %.*s: make it first (mkdir -p), or give another name", path,
			slash > path ? (int)(slash - path) : 1, path);
	else if (error == EISDIR)
		snprintf(text, capacity, "%s: cannot write the file: this is a folder; give the name of a file", path);
	else if (error == EACCES || error == EPERM || error == EROFS)
		snprintf(text, capacity, "%s: cannot write the file: %s: give a name in a folder that you may write to", path,
			strerror(error));
	else
		snprintf(text, capacity, "%s: cannot write the file: %s", path, strerror(error));
}
