/* SPDX-License-Identifier: Apache-2.0
 * stoker completion: scripts that complete commands and options in a shell, and the manual page. All are made from the tables that --help prints. */
#include "command.h"

#include <stdio.h>
#include <string.h>

/* Prints text with `prefix` before each character of `special`, and with a blank for each line end. */
static void print_escaped(const char *text, const char *special, const char *prefix)
{
	for (; *text; text++) {
		if (strchr(special, *text))
			fputs(prefix, stdout);
		putchar(*text == '\n' ? ' ' : *text);
	}
}

static void print_bash(const struct command *const *commands)
{
	puts("_stoker() {\n"
	     "\tlocal cur=${COMP_WORDS[COMP_CWORD]}\n"
	     "\tCOMPREPLY=()\n"
	     "\tif [ \"$COMP_CWORD\" = 1 ]; then");
	fputs("\t\tmapfile -t COMPREPLY < <(compgen -W '", stdout);
	for (size_t i = 0; commands[i]; i++)
		printf("%s ", commands[i]->name);
	puts("help --help --version' -- \"$cur\")\n"
	     "\telif [[ $cur == -* ]]; then\n"
	     "\t\tcase ${COMP_WORDS[1]} in");
	for (size_t i = 0; commands[i]; i++) {
		printf("\t\t%s) mapfile -t COMPREPLY < <(compgen -W '", commands[i]->name);
		for (const struct option *o = commands[i]->options; o->name; o++)
			printf("--%s ", o->name);
		puts("--help' -- \"$cur\") ;;");
	}
	puts("\t\tesac\n"
	     "\telse\n"
	     "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	     "\tfi\n"
	     "}\n"
	     "complete -o filenames -F _stoker stoker");
}

/* Prints 'name:description' in single quotes. Inside them zsh needs '\'' for a quote; _describe needs \: for a colon. */
static void print_zsh_entry(const char *dashes, const char *name, const char *doc)
{
	printf(" '%s%s:", dashes, name);
	for (; *doc; doc++) {
		if (*doc == '\'')
			fputs("'\\''", stdout);
		else if (*doc == ':')
			fputs("\\:", stdout);
		else
			putchar(*doc == '\n' ? ' ' : *doc);
	}
	putchar('\'');
}

static void print_zsh(const struct command *const *commands)
{
	fputs("#compdef stoker\n_stoker() {\n\tlocal -a names\n\tif (( CURRENT == 2 )); then\n\t\tnames=(", stdout);
	for (size_t i = 0; commands[i]; i++)
		print_zsh_entry("", commands[i]->name, commands[i]->summary);
	puts(")\n\t\t_describe command names\n\t\treturn\n\tfi\n\tcase $words[2] in");
	for (size_t i = 0; commands[i]; i++) {
		printf("\t%s) names=(", commands[i]->name);
		for (const struct option *o = commands[i]->options; o->name; o++)
			print_zsh_entry("--", o->name, o->doc);
		puts(") ;;");
	}
	puts("\tesac\n\tif [[ $PREFIX == -* ]]; then _describe option names; else _files; fi\n}\nif [[ $funcstack[1] == _stoker ]]; then _stoker \"$@\"; else "
	     "compdef _stoker stoker; fi");
}

static void print_fish(const struct command *const *commands)
{
	for (size_t i = 0; commands[i]; i++) {
		printf("complete -c stoker -n __fish_use_subcommand -f -a %s -d '", commands[i]->name);
		print_escaped(commands[i]->summary, "\\'", "\\");
		puts("'");
	}
	for (size_t i = 0; commands[i]; i++) {
		for (const struct option *o = commands[i]->options; o->name; o++) {
			printf("complete -c stoker -n '__fish_seen_subcommand_from %s' -l %s", commands[i]->name, o->name);
			if (o->letter)
				printf(" -s %c", o->letter);
			printf("%s -d '", o->kind == OPTION_FLAG ? "" : " -r");
			print_escaped(o->doc, "\\'", "\\");
			puts("'");
		}
	}
}

/* Prints text with its characters escaped for troff, and with a line break (.br) for each line end. */
static void print_troff(const char *text)
{
	for (bool begin = true; *text; text++) {
		if (begin && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		begin = *text == '\n';
		if (*text == '\\' || *text == '-')
			putchar('\\');
		if (*text == '\\')
			putchar('e');
		else if (begin)
			fputs("\n.br\n", stdout);
		else
			putchar(*text);
	}
	putchar('\n');
}

static void print_manual(const struct command *const *commands)
{
	printf(".TH STOKER 1 \"\" \"stoker %s\" \"User Commands\"\n", stk_version());
	puts(".SH NAME\nstoker \\- data pipelines that keep GPUs fed: look at data sets, pipelines and machines\n"
	     ".SH SYNOPSIS\n.B stoker\n.I COMMAND\n[options]\n.SH COMMANDS");
	for (size_t i = 0; commands[i]; i++) {
		const struct command *c = commands[i];
		printf(".SS \"stoker %s %s\"\n", c->name, c->usage);
		print_troff(c->details);
		for (const struct option *o = c->options; o->name; o++) {
			puts(".TP");
			if (o->letter)
				printf("\\fB\\-%c\\fR, ", o->letter);
			fputs("\\fB\\-\\-", stdout);
			print_escaped(o->name, "-", "\\");
			printf("\\fR%s%s\n", o->value ? " " : "", o->value ? o->value : "");
			print_troff(o->doc);
		}
		puts(".PP\nExample:\n.PP\n.nf");
		print_troff(c->example);
		puts(".fi");
	}
	puts(".SH EXIT STATUS\n0: fine.\n.br\n1: a problem was found, or the work failed.\n.br\n2: the command line was wrong.");
}

static int run_completion(const struct settings *s)
{
	static const struct {
		const char *name;
		void (*print)(const struct command *const *commands);
	} forms[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}, {"man", print_manual}};
	if (s->json)
		return usage_error(&command_completion, "scripts are not JSON; leave --json out");
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		if (!strcmp(s->args[0], forms[i].name)) {
			forms[i].print(s->commands);
			return EXIT_FINE;
		}
	}
	return usage_error(&command_completion, "no shell \"%s\"; there are bash, zsh and fish, and man for the manual page", s->args[0]);
}

static const struct option options[] = {OPTION_JSON, {.name = NULL}};

const struct command command_completion = {
	.name = "completion",
	.summary = "completion of commands and options in bash, zsh or fish; the manual page",
	.usage = "bash|zsh|fish|man",
	.details =
		"Prints a script that completes stoker's commands and options, or the manual page. `make install` installs all four. To try one:\n"
		"bash    source <(stoker completion bash)\n"
		"zsh     source <(stoker completion zsh)\n"
		"fish    stoker completion fish | source\n"
		"man     stoker completion man | man -l -",
	.example = "source <(stoker completion bash)     # in ~/.bashrc, for every new shell",
	.options = options,
	.arg = "the name of a shell",
	.min_args = 1,
	.max_args = 1,
	.run = run_completion,
};
