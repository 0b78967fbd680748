/* SPDX-License-Identifier: Apache-2.0
 * stoker: looks at data sets, pipelines and machines. This file knows the commands by their table and nothing of what they do. */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command *const commands[] = {&command_bench, &command_cache, &command_inspect, &command_index, &command_view,
	&command_explain, &command_ops, &command_pack, &command_run, &command_doctor};
static const size_t command_count = sizeof(commands) / sizeof(commands[0]);

static void print_help(FILE *to)
{
	fputs("Data pipelines that keep GPUs fed: looks at data sets, pipelines and machines.\n\nusage: stoker COMMAND "
	      "[options]\n\ncommands:\n",
		to);
	for (size_t i = 0; i < command_count; i++)
		fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n`stoker COMMAND --help` tells more; every command takes --json.\n\n"
	      "exit codes:\n  0  fine\n  1  a problem was found, or the work failed\n  2  the command line was wrong\n\n"
	      "example:\n  stoker inspect /data/train     # what is in a data set, and which files would fail\n",
		to);
}

/* The edit distance (Levenshtein) between a and b; names are short. */
static size_t letters_apart(const char *a, const char *b)
{
	enum { LONGEST = 32 };
	size_t row[LONGEST + 1], n = strlen(b);
	if (n > LONGEST)
		return LONGEST;
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t corner = row[0];
		row[0] = i + 1;
		for (size_t j = 1; j <= n; j++) {
			size_t best = corner + (a[i] != b[j - 1]);
			best = best < row[j] + 1 ? best : row[j] + 1;
			corner = row[j];
			row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
		}
	}
	return row[n];
}

/* The command that was meant, or NULL. */
static const struct command *nearest_command(const char *name)
{
	const struct command *nearest = NULL;
	size_t least = 3; /* at this distance it is another word */
	for (size_t i = 0; i < command_count; i++) {
		size_t apart = letters_apart(name, commands[i]->name);
		if (apart < least && apart < strlen(name)) {
			least = apart;
			nearest = commands[i];
		}
	}
	return nearest;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < command_count; i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	}
	return NULL;
}

static int no_command(const char *name)
{
	const struct command *meant = nearest_command(name);
	if (meant) {
		fprintf(stderr, "stoker: no command \"%s\"; did you mean \"%s\"? (stoker --help lists all)\n", name, meant->name);
	} else {
		fprintf(stderr, "stoker: no command \"%s\"\n\n", name);
		print_help(stderr);
	}
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("stoker %s\n", stk_version());
		return EXIT_FINE;
	}
	const bool help = !strcmp(argv[1], "help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || (help && argc == 2)) {
		print_help(stdout);
		return EXIT_FINE;
	}
	const struct command *command = find_command(argv[help ? 2 : 1]);
	if (!command)
		return no_command(argv[help ? 2 : 1]);
	if (help) {
		print_command_help(command);
		return EXIT_FINE;
	}
	const char **args = malloc((size_t)argc * sizeof(*args));
	if (!args)
		return fail_text(command->name, "out of memory");
	struct settings settings;
	int code;
	if (parse_settings(command, argc - 2, (const char *const *)argv + 2, args, &settings, &code))
		code = command->run(&settings);
	free(args);
	if (fflush(stdout) || ferror(stdout)) /* a full disk or a closed pipe behind --json must not look like success */
		return EXIT_PROBLEM;
	return code;
}
