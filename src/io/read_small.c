/* SPDX-License-Identifier: Apache-2.0 */
#include "io/read_small.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000 };

/* Reads at most n bytes, and returns their number; 0 at the end. Returns -1 after an error, or if no byte has arrived by `until_ns`. */
static ssize_t read_some(int fd, char *to, size_t n, int64_t until_ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t got;
	while ((got = read(fd, to, n)) < 0) {
		const int64_t left_ms = (until_ns - stk__clock_ns()) / 1000000;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN || left_ms <= 0 || poll(&p, 1, (int)left_ms) <= 0)
			return -1;
	}
	return got;
}

char *stk__read_small(const char *path, size_t most, size_t *size)
{
	const int64_t until_ns = stk__clock_ns() + (int64_t)PATIENCE_MS * 1000000;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = NULL;
	*size = 0;
	if (fd < 0)
		return NULL;
	const bool file = !fstat(fd, &st) && S_ISREG(st.st_mode);
	most = file && (size_t)st.st_size < most ? (size_t)st.st_size : most;
	if ((text = stk__alloc(most + 1))) {
		for (ssize_t n; *size < most && (n = read_some(fd, text + *size, most - *size, until_ns)) > 0;)
			*size += (size_t)n;
		text[*size] = 0;
	}
	close(fd);
	return text;
}
