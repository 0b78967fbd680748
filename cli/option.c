/* SPDX-License-Identifier: Apache-2.0
 * Options by table: parsing, and the help made from the same table. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 16 }; /* of a limit, so that it is written out */

int usage_error(const struct command *command, const char *fmt, ...)
{
	va_list list;
	fprintf(stderr, "stoker %s: ", command->name);
	va_start(list, fmt);
	vfprintf(stderr, fmt, list);
	va_end(list);
	fprintf(stderr, "\nusage: stoker %s %s (--help tells more)\n", command->name, command->usage);
	return EXIT_USAGE;
}

/* Finds "--name", "--name=value" or "-n"; *value is what stands behind '=', or NULL. */
static const struct option *find_option(const struct command *command, const char *arg, const char **value)
{
	*value = NULL;
	for (const struct option *o = command->options; o->name; o++) {
		if (arg[1] != '-') {
			if (o->letter && arg[1] == o->letter && arg[2] == '\0')
				return o;
			continue;
		}
		size_t length = strlen(o->name);
		if (strncmp(arg + 2, o->name, length))
			continue;
		if (arg[2 + length] == '\0')
			return o;
		if (arg[2 + length] == '=') {
			*value = arg + 2 + length + 1;
			return o;
		}
	}
	return NULL;
}

static bool store_number(const struct option *o, const char *text, char *field)
{
	char *end;
	errno = 0;
	double number = strtod(text, &end);
	if (end == text || *end || errno || !(number >= o->min && number <= o->max))
		return false;
	if (o->kind == OPTION_FLOAT) {
		memcpy(field, &number, sizeof(number));
		return true;
	}
	int64_t whole = (int64_t)number;
	memcpy(field, &whole, sizeof(whole));
	return (double)whole == number;
}

/* Takes one option at argv[*i] and its value; *i moves on past the value. */
static int take_option(const struct command *command, int argc, const char *const *argv, int *i, struct settings *out)
{
	const char *arg = argv[*i], *value;
	const struct option *o = find_option(command, arg, &value);
	if (!o)
		return usage_error(command, "no option %s", arg);
	char *field = (char *)out + o->offset;
	if (o->kind == OPTION_FLAG) {
		if (value)
			return usage_error(command, "--%s takes no value", o->name);
		*(bool *)field = true;
		return EXIT_FINE;
	}
	if (!value) {
		if (*i + 1 >= argc)
			return usage_error(command, "--%s needs a value", o->name);
		value = argv[++*i];
	}
	if (o->kind == OPTION_TEXT) {
		memcpy(field, &value, sizeof(value));
		return EXIT_FINE;
	}
	if (!store_number(o, value, field))
		return usage_error(command, "--%s takes a%s number from %.*g to %.*g, not \"%s\"", o->name,
			o->kind == OPTION_INT ? " whole" : "", DIGITS, o->min, DIGITS, o->max, value);
	return EXIT_FINE;
}

/* What a table of options cannot say: texts that have a form, and options that go together. */
static int check_values(const struct command *command, const struct settings *s)
{
	int32_t device_id;
	if (!device_of(s->device, &device_id))
		return usage_error(command, "--device is the number of a GPU, cuda, cuda:N or cpu, not \"%s\"", s->device);
	if (s->cache_limit && bytes_of(s->cache_limit) < 0)
		return usage_error(command, "--cache-limit takes a size, e.g. 200GB, not \"%s\"", s->cache_limit);
	if (s->cache_limit && !s->cache)
		return usage_error(command, "--cache-limit goes with --cache DIR");
	if (s->endpoint && strncmp(s->endpoint, "http://", 7) && strncmp(s->endpoint, "https://", 8))
		return usage_error(command, "--endpoint is http://HOST[:PORT][/PATH] or https://..., not \"%s\"", s->endpoint);
	for (int32_t i = 0; command->arg && i < s->arg_count; i++)
		if (!*s->args[i])
			return usage_error(command, "the path is empty");
	return s->output && !*s->output ? usage_error(command, "the path of --output is empty") : EXIT_FINE;
}

bool parse_settings(const struct command *command, int argc, const char *const *argv, const char **args, struct settings *out, int *code)
{
	bool only_args = false;
	memset(out, 0, sizeof(*out));
	out->args = args;
	for (int i = 0; i < argc; i++) {
		const char *arg = argv[i];
		if (!only_args && (!strcmp(arg, "--help") || !strcmp(arg, "-h"))) {
			print_command_help(command);
			*code = EXIT_FINE;
			return false;
		}
		if (!only_args && !strcmp(arg, "--")) {
			only_args = true;
		} else if (!only_args && arg[0] == '-' && arg[1]) {
			*code = take_option(command, argc, argv, &i, out);
			if (*code)
				return false;
		} else {
			args[out->arg_count++] = arg;
		}
	}
	if (out->arg_count < command->min_args)
		*code = usage_error(command, "%s is missing", command->arg);
	else if (out->arg_count > command->max_args)
		*code = usage_error(command, "too many arguments");
	else
		*code = check_values(command, out);
	return *code == EXIT_FINE;
}

void print_command_help(const struct command *command)
{
	printf("%s\n\nusage: stoker %s %s\n\n%s\n\noptions:\n", command->summary, command->name, command->usage, command->details);
	for (const struct option *o = command->options; o->name; o++) {
		char left[64];
		char letter[8] = "    ";
		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
		printf("  %-24s %s\n", left, o->doc);
	}
	printf("  %-24s %s\n\nexample:\n  %s\n", "-h, --help", "Print this.", command->example);
}

int64_t bytes_of(const char *text)
{
	static const struct {
		const char *name;
		double factor;
	} units[] = {{"", 1}, {"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20},
		{"GiB", 0x1p30}, {"TiB", 0x1p40}};
	char *end;
	const double number = strtod(text, &end);
	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(*units); i++) {
		if (!strcmp(end, units[i].name) && number * units[i].factor >= 1 && number * units[i].factor < 1e15)
			return (int64_t)(number * units[i].factor);
	}
	return -1;
}

const char *size_text(int64_t bytes, char text[32])
{
	if (bytes < 1000)
		snprintf(text, 32, "%" PRId64 " %s", bytes, noun(bytes, "byte", "bytes"));
	else
		snprintf(text, 32, "%.1f %s", (double)bytes / (bytes < 1000000 ? 1e3 : 1e6), bytes < 1000000 ? "KB" : "MB");
	return text;
}

const char *noun(int64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}

bool device_of(const char *text, int32_t *device_id)
{
	char *end;
	*device_id = -1;
	if (!text || !strcmp(text, "cpu"))
		return true;
	const char *number = !strncmp(text, "cuda:", 5) ? text + 5 : !strcmp(text, "cuda") ? "0" : text;
	long id = strtol(number, &end, 10);
	*device_id = (int32_t)id;
	return number[0] >= '0' && number[0] <= '9' && *end == '\0' && id < 4096;
}

int fail(const char *command, const struct stk_error *err)
{
	return fail_text(command, "%s", err->message[0] ? err->message : stk_status_text(err->code));
}

int fail_text(const char *command, const char *fmt, ...)
{
	va_list list;
	fprintf(stderr, "stoker %s: ", command);
	va_start(list, fmt);
	vfprintf(stderr, fmt, list);
	va_end(list);
	fputc('\n', stderr);
	return EXIT_PROBLEM;
}
