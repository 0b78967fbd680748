/* SPDX-License-Identifier: Apache-2.0
 * Keys from a program: a profile's credential_process. It may ask for a code or a touch, and so takes as long as it likes, but ends when the storage does. */
#include "io/aws_ask.h"

#include "base/error.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

enum { LONGEST_ANSWER = 1 << 20, LOOK_MS = 50 };

/* Without the library's threads' mask, which blocks all signals; in the same process group, so that it may ask on the terminal. Returns its id, or -1. */
static pid_t start(const char *command, int out)
{
	const char *const words[] = {"sh", "-c", command, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none;
	pid_t pid = -1;
	if (posix_spawn_file_actions_init(&files))
		return -1;
	if (!posix_spawnattr_init(&how)) {
		sigemptyset(&none);
		if (posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO) || posix_spawnattr_setsigmask(&how, &none) ||
			posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK) ||
			posix_spawn(&pid, "/bin/sh", &files, &how, (char *const *)(uintptr_t)words, environ))
			pid = -1;
		posix_spawnattr_destroy(&how);
	}
	posix_spawn_file_actions_destroy(&files);
	return pid;
}

/* What it prints, until it closes its output. False: the storage ends. */
static bool collect(int fd, const _Atomic bool *stop, struct stk_text *answer)
{
	char part[4096];
	bool on;
	for (struct pollfd p = {.fd = fd, .events = POLLIN}; (on = !atomic_load(stop)) && answer->length < LONGEST_ANSWER;) {
		int ready = poll(&p, 1, LOOK_MS);
		if (ready == 0 || (ready < 0 && errno == EINTR))
			continue;
		ssize_t n = ready < 0 ? -1 : read(fd, part, sizeof part);
		if (n <= 0)
			break;
		stk__text_add(answer, "%.*s", (int)n, part);
	}
	stk__erase(part, sizeof part);
	return on;
}

enum stk_status stk__aws_ask_process(const struct stk_aws_issuer *i, const struct stk_aws_asking *how, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	int ends[2], ended = 0;
	if (pipe2(ends, O_CLOEXEC))
		return stk__fail_errno(err, errno, "no credentials: the profile's credential_process can't be started");
	pid_t pid = start(i->where, ends[1]);
	close(ends[1]);
	bool on = pid > 0 && collect(ends[0], how->stop, answer);
	close(ends[0]);
	if (pid <= 0)
		return stk__fail(err, STK_IO, "no credentials: the profile's credential_process can't be started");
	while (on && waitpid(pid, &ended, WNOHANG) == 0) { /* it has closed its output, and goes on */
		poll(NULL, 0, LOOK_MS);
		on = !atomic_load(how->stop);
	}
	if (!on) {
		kill(pid, SIGKILL);
		waitpid(pid, &ended, 0);
		return stk__fail(err, STK_CANCELLED, "no credentials: the storage ended before the profile's credential_process did");
	}
	if (WIFSIGNALED(ended))
		return stk__fail(err, STK_IO, "no credentials: the profile's credential_process was ended by signal %d", WTERMSIG(ended));
	if (WEXITSTATUS(ended))
		return stk__fail(
			err, STK_IO, "no credentials: the profile's credential_process failed with exit status %d", WEXITSTATUS(ended));
	if (!stk__aws_take_json(out, answer))
		return stk__fail(err, STK_IO,
			"no credentials: the profile's credential_process prints no JSON object with AccessKeyId, SecretAccessKey and a valid "
			"Expiration, if any");
	return STK_OK;
}
