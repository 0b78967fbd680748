/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/watch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "exec/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_TEXT = 4 << 20, MOST_ASKED = 128 /* maximum number of sockets that are asked at the same time */ };
static const int64_t PATIENCE_NS = 2000000000;

/* Returns whether the process at the other end of the socket belongs to this user. */
static bool is_ours(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid();
}

/* A process that is asked for its pipelines, through its socket. */
struct asked {
	int fd; /* -1: the socket was not opened, or was closed */
	bool connected;
	int64_t pid;
	char name[32];
	struct stk_text text; /* the answer so far */
};

/* Connects to the socket, if it accepts connections now. Closes `a` if it never will, or if another user answers. Removes a
 * socket whose process has ended without removing it. */
static void try_connect(struct asked *a, const char *folder, int folder_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", folder, a->name);
	const bool fits = n < (int)sizeof address.sun_path;
	const int failure = !fits ? ENAMETOOLONG : connect(a->fd, (const struct sockaddr *)&address, sizeof address) ? errno : 0;
	if (failure == EAGAIN || failure == EINTR)
		return; /* the socket's queue of connections is full, so try again later */
	a->connected = !failure && is_ours(a->fd);
	if (a->connected)
		return;
	if (failure == ECONNREFUSED && kill((pid_t)a->pid, 0) && errno == ESRCH)
		unlinkat(folder_fd, a->name, 0);
	close(a->fd);
	a->fd = -1;
}

/* Appends the bytes that have arrived to the answer. Closes `a` when the other end has closed, or after more than MOST_TEXT bytes. */
static void read_more(struct asked *a)
{
	char buffer[16384];
	const ssize_t n = recv(a->fd, buffer, sizeof buffer, 0);
	if (n > 0)
		stk__text_append(&a->text, buffer, (size_t)n);
	if ((n < 0 && (errno == EAGAIN || errno == EINTR)) || (n > 0 && a->text.length <= MOST_TEXT))
		return;
	close(a->fd);
	a->fd = -1;
}

/* Reads the answers of all sockets at the same time, and waits at most PATIENCE_NS: a process may be stopped, or send its answer byte by byte. */
static void read_answers(struct asked *connections, size_t count, const char *folder, int folder_fd)
{
	const int64_t end = stk__clock_ns() + PATIENCE_NS;
	for (int64_t left; (left = end - stk__clock_ns()) > 0;) {
		struct pollfd polled[MOST_ASKED];
		bool pending = false, queued = false;
		for (size_t i = 0; i < count; i++) {
			struct asked *a = &connections[i];
			if (a->fd >= 0 && !a->connected)
				try_connect(a, folder, folder_fd);
			polled[i] = (struct pollfd){.fd = a->connected ? a->fd : -1, .events = POLLIN};
			pending |= a->fd >= 0;
			queued |= a->fd >= 0 && !a->connected;
		}
		if (!pending)
			return;
		const int64_t most_ms = queued ? 20 : PATIENCE_NS / 1000000;
		poll(polled, count, (int)(left / 1000000 < most_ms ? left / 1000000 + 1 : most_ms));
		for (size_t i = 0; i < count; i++)
			if (polled[i].fd >= 0 && polled[i].revents)
				read_more(&connections[i]);
	}
}

/* Returns the pid in a name of the form PID.N, or 0 for any other name. */
static int64_t pid_of(const char *name)
{
	char *end;
	const long long pid = strtoll(name, &end, 10);
	if (name[0] < '1' || name[0] > '9' || *end != '.' || pid > INT32_MAX)
		return 0;
	return end[1] && strspn(end + 1, "0123456789") == strlen(end + 1) ? (int64_t)pid : 0;
}

/* Asks the sockets of `connections`, and appends their answers to the array `answers`. */
static void ask(struct asked *connections, size_t count, const char *folder, int folder_fd, json_t *answers)
{
	for (size_t i = 0; i < count; i++)
		connections[i].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	read_answers(connections, count, folder, folder_fd);
	for (size_t i = 0; i < count; i++) {
		struct asked *a = &connections[i];
		json_t *answer = a->text.s && !a->text.failed ? json_loadb(a->text.s, a->text.length, 0, NULL) : NULL;
		if (json_is_object(answer))
			json_array_append(answers, answer);
		json_decref(answer);
		if (a->fd >= 0)
			close(a->fd);
		stk__text_free(&a->text);
	}
}

static void ask_all(int64_t pid, json_t *answers)
{
	char path[96];
	const int fd = stk__watch_folder(path, false);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct asked *connections = d ? stk__calloc(MOST_ASKED, sizeof *connections) : NULL;
	size_t count = 0;
	const struct dirent *e;
	while (connections && (e = readdir(d))) {
		const int64_t owner = pid_of(e->d_name);
		if (!owner || (pid && owner != pid) || strlen(e->d_name) >= sizeof connections->name)
			continue;
		connections[count] = (struct asked){.pid = owner};
		memcpy(connections[count++].name, e->d_name, strlen(e->d_name) + 1);
		if (count == MOST_ASKED) {
			ask(connections, count, path, fd, answers);
			count = 0;
		}
	}
	if (count)
		ask(connections, count, path, fd, answers);
	stk__free(connections);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

enum stk_status stk_watch(int64_t pid, char **json, struct stk_error *err)
{
	if (STK_NEED(err, json))
		return STK_INVALID;
	*json = NULL;
	if (pid < 0)
		return stk__fail(err, STK_INVALID, "a process has an id above 0, not %lld", (long long)pid);
	json_t *answers = json_array();
	ask_all(pid, answers);
	const bool none = json_array_size(answers) == 0;
	char *text = json_dumps(answers, JSON_COMPACT);
	json_decref(answers);
	struct stk_text copy = {0}; /* in memory that stk_text_free frees */
	if (text)
		stk__text_add(&copy, "%s", text);
	free(text);
	if (!copy.s || copy.failed) {
		stk__text_free(&copy);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the counters of other processes");
	}
	if (pid && none) {
		stk__text_free(&copy);
		return stk__fail(err, STK_NOT_FOUND,
			"process %lld has no running pipeline that answers: it may have none, belong to another user, have STOKER_TOP=0, or use an older version",
			(long long)pid);
	}
	*json = copy.s;
	return STK_OK;
}
