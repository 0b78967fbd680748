/* SPDX-License-Identifier: Apache-2.0 */
#include "io/read_small.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000 };

/* -1: an error, or a writer that says nothing. */
static ssize_t read_some(int fd, char *to, size_t n)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t got;
	while ((got = read(fd, to, n)) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN || poll(&p, 1, PATIENCE_MS) <= 0)
			return -1;
	}
	return got;
}

char *stk__read_small(const char *path, size_t most, size_t *size)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = NULL;
	*size = 0;
	if (fd < 0)
		return NULL;
	const bool file = !fstat(fd, &st) && S_ISREG(st.st_mode);
	most = file && (size_t)st.st_size < most ? (size_t)st.st_size : most;
	if ((text = stk__alloc(most + 1))) {
		for (ssize_t n; *size < most && (n = read_some(fd, text + *size, most - *size)) > 0;)
			*size += (size_t)n;
		text[*size] = 0;
	}
	close(fd);
	return text;
}
