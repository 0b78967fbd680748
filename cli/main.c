/* SPDX-License-Identifier: Apache-2.0
 * stoker: looks at data sets, pipelines and machines. This file only finds the command in a table and runs it. */
#include "command.h"
#include "progress.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The commands, in the order in which help lists them. */
static const struct command *const commands[] = {&command_bench, &command_cache, &command_inspect, &command_index, &command_view,
	&command_explain, &command_ops, &command_pack, &command_pack_video, &command_run, &command_top, &command_doctor,
	&command_completion, NULL};

static void print_help(FILE *to)
{
	static const char *const codes[] = {"fine", "a problem was found, or the work failed", "the command line was wrong"};
	print_wrapped(to, "Data pipelines that keep GPUs fed: looks at data sets, pipelines and machines.", 0, 0);
	fputs("\nusage: stoker COMMAND [options]\n\ncommands:\n", to);
	for (size_t i = 0; commands[i]; i++)
		print_wrapped(to, commands[i]->summary, fprintf(to, "  %-10s ", commands[i]->name), 13);
	fputc('\n', to);
	print_wrapped(to,
		"`stoker COMMAND --help` describes a command; every command accepts --json. `stoker --version` prints the version.", 0, 0);
	fputs("\nexit codes:\n", to);
	for (int i = 0; i < 3; i++)
		print_wrapped(to, codes[i], fprintf(to, "  %d    ", i), 7);
	print_wrapped(
		to, "interrupted by Ctrl-C; most commands first report what was done so far", fprintf(to, "  %d  ", EXIT_INTERRUPTED), 7);
	fputs("\nexample:\n  stoker inspect /data/train     # what is in a data set, and which files would fail\n", to);
}

/* Returns the command that the user probably meant, or NULL. */
static const struct command *nearest_command(const char *name)
{
	const struct command *nearest = NULL;
	char lower[32] = "";
	for (size_t i = 0; name[i] && i + 1 < sizeof lower; i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	size_t least = 3; /* a name that differs in three or more letters is not a misspelling */
	for (size_t i = 0; commands[i]; i++) {
		size_t distance = letters_apart(lower, commands[i]->name);
		if (distance < least && distance < strlen(lower)) {
			least = distance;
			nearest = commands[i];
		}
	}
	return nearest;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; commands[i]; i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	}
	return NULL;
}

static int __attribute__((format(printf, 1, 2))) refuse(const char *fmt, ...)
{
	va_list list;
	fputs("stoker: ", stderr);
	va_start(list, fmt);
	print_without_secrets(stderr, fmt, list);
	va_end(list);
	fputs(" (stoker --help lists all)\n", stderr);
	return EXIT_USAGE;
}

static int no_command(const char *name)
{
	if (name[0] == '-')
		return refuse("no option %s before a command; the command comes first, as in `stoker inspect DIR %s`", name, name);
	const struct command *suggestion = nearest_command(name);
	if (suggestion)
		return refuse("no command \"%s\"; did you mean \"%s\"?", name, suggestion->name);
	return refuse("no command \"%s\"", name);
}

/* Opens the standard files that are closed. Otherwise the first file that a command opens would become its stdout, and the command's output would be written
 * into that file. The stdout that is opened here cannot be written, so that finish() reports the loss. Returns false on failure. */
static bool open_standard_files(void)
{
	static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
	for (int i = 0; i < 3; i++) {
		if (fcntl(i, F_GETFD) < 0 && open("/dev/null", modes[i]) != i)
			return false;
	}
	return true;
}

/* Flushes stdout, and returns the exit code of a command that ended with `code`. Output lost to a full disk or a closed pipe is an error. */
static int finish(const char *name, int code)
{
	const bool failed = ferror(stdout);
	errno = 0;
	if (!fflush(stdout) && !failed)
		return code;
	if (errno != EPIPE) /* EPIPE: the program that reads the output has ended, for example `head`, which needs no message */
		fprintf(stderr, "stoker %s: the output could not be written%s%s\n", name, errno ? ": " : "", errno ? strerror(errno) : "");
	return EXIT_PROBLEM;
}

int main(int argc, char **argv)
{
	if (!open_standard_files())
		return EXIT_PROBLEM;
	signal(SIGXFSZ, SIG_IGN); /* a write past the limit of `ulimit -f` then fails with EFBIG, so that half-written files are removed */
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "version")) {
		printf("stoker %s\n", stk_version());
		return finish(argv[1], EXIT_FINE);
	}
	const bool help = !strcmp(argv[1], "help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || (help && argc == 2)) {
		print_help(stdout);
		return finish(argv[1], EXIT_FINE);
	}
	const struct command *command = find_command(argv[help ? 2 : 1]);
	if (!command)
		return no_command(argv[help ? 2 : 1]);
	if (help) {
		print_command_help(command);
		return finish(argv[1], EXIT_FINE);
	}
	const char **args = malloc((size_t)argc * sizeof(*args));
	if (!args)
		return fail_text(command->name, "out of memory");
	struct settings settings;
	int code;
	if (parse_settings(command, argc - 2, (const char *const *)argv + 2, args, &settings, &code)) {
		settings.commands = commands;
		code = command->run(&settings);
		if (code == EXIT_PROBLEM && interrupted())
			code = EXIT_INTERRUPTED;
	}
	free(args);
	return finish(command->name, code);
}
