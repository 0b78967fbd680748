/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/watch.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "exec/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_TEXT = 4 << 20, PATIENCE_S = 2 };

/* Returns whether the process at the other end is this user's. */
static bool is_ours(int fd)
{
	struct ucred who;
	socklen_t size = sizeof who;
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) && who.uid == geteuid();
}

/* Appends what the other end sends to *t, until it closes, nothing comes for PATIENCE_S seconds, or *t has more than MOST_TEXT bytes. */
static void read_all(int fd, struct stk_text *t)
{
	char buffer[16384];
	for (;;) {
		const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || t->length > MOST_TEXT)
			return;
		stk__text_append(t, buffer, (size_t)n);
	}
}

/* Returns the answer of one socket, or NULL. Removes a socket whose process has ended without doing so. */
static json_t *ask(const char *folder, int folder_fd, const char *name, int64_t pid)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stk_text t = {0};
	json_t *answer = NULL;
	const int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", folder, name);
	const int fd = n < (int)sizeof address.sun_path ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	if (fd < 0)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* for connect */
	if (!connect(fd, (const struct sockaddr *)&address, sizeof address)) {
		if (is_ours(fd))
			read_all(fd, &t);
	} else if (errno == ECONNREFUSED && kill((pid_t)pid, 0) && errno == ESRCH) {
		unlinkat(folder_fd, name, 0);
	}
	close(fd);
	if (t.s && !t.failed)
		answer = json_loadb(t.s, t.length, 0, NULL);
	stk__text_free(&t);
	return answer;
}

/* Parses PID.N; returns the pid, or 0 for any other name. */
static int64_t pid_of(const char *name)
{
	char *end;
	const long long pid = strtoll(name, &end, 10);
	if (name[0] < '1' || name[0] > '9' || *end != '.' || pid > INT32_MAX)
		return 0;
	return end[1] && strspn(end + 1, "0123456789") == strlen(end + 1) ? (int64_t)pid : 0;
}

static void ask_all(int64_t pid, json_t *answers)
{
	char path[96];
	const int fd = stk__watch_folder(path, false);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	while (d && (e = readdir(d))) {
		const int64_t owner = pid_of(e->d_name);
		json_t *answer = owner && (!pid || owner == pid) ? ask(path, fd, e->d_name, owner) : NULL;
		if (json_is_object(answer))
			json_array_append(answers, answer);
		json_decref(answer);
	}
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
	struct stk_text copy = {0}; /* in memory that stk_text_free takes */
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
