/* SPDX-License-Identifier: Apache-2.0
 *
 * Obtains keys from a program: a profile's credential_process. The program may ask the user for a code or a touch, and so take minutes; it is killed when the
 * storage ends, the user interrupts, or LONGEST_S seconds have passed. */
#include "aws/aws_ask.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { LONGEST_ANSWER = 1 << 20, LOOK_MS = 50, LONGEST_S = 120 };

/* Starts the program with an empty signal mask, because the library's threads block all signals. If standard input is a terminal, the program stays in this
 * process group, because only then may it read the user's answer from the terminal. Otherwise *own_group is set, and the program leads a group of its own, so
 * that its children can be killed with it. Returns its process id, or -1. */
static pid_t start(const char *command, int out, bool *own_group)
{
	const char *const arguments[] = {"sh", "-c", command, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t no_signals;
	pid_t pid = -1;
	*own_group = !isatty(STDIN_FILENO);
	if (posix_spawn_file_actions_init(&files))
		return -1;
	if (!posix_spawnattr_init(&attributes)) {
		sigemptyset(&no_signals);
		if (posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO) || posix_spawnattr_setsigmask(&attributes, &no_signals) ||
			posix_spawnattr_setpgroup(&attributes, 0) ||
			posix_spawnattr_setflags(&attributes, (short)(POSIX_SPAWN_SETSIGMASK | (*own_group ? POSIX_SPAWN_SETPGROUP : 0))) ||
			posix_spawn(&pid, "/bin/sh", &files, &attributes, (char *const *)(uintptr_t)arguments, environ))
			pid = -1;
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&files);
	return pid;
}

/* Whether to continue the wait for the program. GIVEN_UP: stk__aws_is_over says to end it; TOO_LONG: LONGEST_S seconds have passed. */
enum wait { ON, GIVEN_UP, TOO_LONG };
static enum wait check_wait(const struct stk_aws_asking *client, int64_t until_ns)
{
	return stk__aws_is_over(client) ? GIVEN_UP : stk__clock_ns() >= until_ns ? TOO_LONG : ON;
}

/* Appends the program's output to `answer` until the output is closed, cannot be read or has LONGEST_ANSWER bytes; returns ON. Returns another value if the
 * wait for the program must end before that. */
static enum wait collect(int fd, const struct stk_aws_asking *client, int64_t until_ns, struct stk_text *answer)
{
	char part[4096];
	enum wait on;
	for (struct pollfd p = {.fd = fd, .events = POLLIN};
		(on = check_wait(client, until_ns)) == ON && answer->length < LONGEST_ANSWER;) {
		int ready = poll(&p, 1, LOOK_MS);
		if (ready == 0 || (ready < 0 && errno == EINTR))
			continue;
		ssize_t n = ready < 0 ? -1 : read(fd, part, sizeof part);
		if (n <= 0)
			break;
		stk__text_append(answer, part, (size_t)n); /* the output may contain NULs; the JSON parser then refuses it */
	}
	stk__erase(part, sizeof part);
	return on;
}

/* Returns whether the text is a time with a time zone. Without one, keys could be renewed hours late. */
static bool is_zoned_time(const char *text)
{
	return text && stk__aws_time(text) && strpbrk(strchr(text, ':'), "ZU+-");
}

/* Returns what is wrong with the program's answer, which no message quotes, because it contains secrets; NULL if it is as botocore requires. */
static const char *fault_of(const struct stk_text *answer)
{
	json_t *o = json_loadb(answer->s ? answer->s : "", answer->length, 0, NULL);
	const json_t *expires = json_object_get(o, "Expiration");
	const char *fault = NULL;
	if (!json_is_object(o))
		fault = "prints no JSON object, which should have Version, AccessKeyId, SecretAccessKey and, if the keys end, Expiration";
	else if (json_number_value(json_object_get(o, "Version")) != 1)
		fault = "prints no \"Version\": 1, the only version that is understood";
	else if (!json_string_length(json_object_get(o, "AccessKeyId")))
		fault = "prints no AccessKeyId";
	else if (!json_string_length(json_object_get(o, "SecretAccessKey")))
		fault = "prints no SecretAccessKey";
	else if (expires && !json_is_null(expires) && !is_zoned_time(json_string_value(expires)))
		fault = "prints an Expiration that is not a time with a time zone, such as \"2030-01-31T12:00:00Z\"";
	json_decref(o);
	return fault;
}

enum stk_status stk__aws_ask_process(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	int pipe_ends[2], wait_status = 0;
	if (pipe2(pipe_ends, O_CLOEXEC))
		return stk__fail_errno(err, errno, "no credentials: the profile's credential_process can't be started");
	bool own_group;
	const int64_t until_ns = stk__clock_ns() + LONGEST_S * INT64_C(1000000000);
	pid_t pid = start(i->endpoint, pipe_ends[1], &own_group);
	close(pipe_ends[1]);
	enum wait on = pid > 0 ? collect(pipe_ends[0], client, until_ns, answer) : ON;
	close(pipe_ends[0]);
	if (pid <= 0)
		return stk__fail(err, STK_IO, "no credentials: the profile's credential_process can't be started");
	while (on == ON && waitpid(pid, &wait_status, WNOHANG) == 0) { /* the program has closed its output and still runs */
		poll(NULL, 0, LOOK_MS);
		on = check_wait(client, until_ns);
	}
	if (on != ON) {
		kill(own_group ? -pid : pid, SIGKILL);
		waitpid(pid, &wait_status, 0);
	}
	if (on == GIVEN_UP)
		return stk__fail(err, STK_CANCELLED, "no credentials: waiting for the profile's credential_process was cancelled");
	if (on == TOO_LONG)
		return stk__fail(err, STK_TIMEOUT,
			"no credentials: the profile's credential_process has not ended after %d s: run it by itself to see what it waits for",
			LONGEST_S);
	if (WIFSIGNALED(wait_status))
		return stk__fail(
			err, STK_IO, "no credentials: the profile's credential_process was ended by signal %d", WTERMSIG(wait_status));
	if (WEXITSTATUS(wait_status))
		return stk__fail(err, STK_IO, "no credentials: the profile's credential_process failed with exit status %d",
			WEXITSTATUS(wait_status));
	const char *fault = fault_of(answer);
	if (fault)
		return stk__fail(err, STK_IO, "no credentials: the profile's credential_process %s", fault);
	return stk__aws_take_json(out, answer) ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for keys of the object store");
}
