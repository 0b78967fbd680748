/* SPDX-License-Identifier: Apache-2.0
 * Parses options and prints help, both from a command's table of options. */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DIGITS = 16 }; /* number of digits with which limits are printed: enough to print them without an exponent */

char *format_safe(const char *fmt, va_list list)
{
	enum { LONGEST = 4 }; /* a character that controls a terminal becomes four characters */
	va_list copy;
	va_copy(copy, list);
	const int size = vsnprintf(NULL, 0, fmt, copy);
	va_end(copy);
	const size_t capacity = size < 0 ? 0 : (size_t)size * LONGEST + 8;
	char *text = capacity ? malloc(capacity) : NULL;
	if (!text)
		return NULL;
	vsnprintf(text, capacity, fmt, list);
	stk_text_make_safe(text, capacity);
	return text;
}

void print_safe(const char *fmt, ...)
{
	va_list list;
	va_start(list, fmt);
	print_without_secrets(stdout, fmt, list);
	va_end(list);
}

void print_without_secrets(FILE *to, const char *fmt, va_list list)
{
	char *text = format_safe(fmt, list);
	if (text)
		fputs(text, to);
	free(text);
}

int usage_error(const struct command *command, const char *fmt, ...)
{
	va_list list;
	fprintf(stderr, "stoker %s: ", command->name);
	va_start(list, fmt);
	print_without_secrets(stderr, fmt, list);
	va_end(list);
	fprintf(stderr, "\nusage: stoker %s %s (--help says more)\n", command->name, command->usage);
	return EXIT_USAGE;
}

size_t letters_apart(const char *a, const char *b)
{
	enum { LONGEST = 32 };
	size_t row[LONGEST + 1], n = strlen(b);
	if (n > LONGEST)
		return LONGEST;
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];
		row[0] = i + 1;
		for (size_t j = 1; j <= n; j++) {
			size_t best = diagonal + (a[i] != b[j - 1]);
			best = best < row[j] + 1 ? best : row[j] + 1;
			diagonal = row[j];
			row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
		}
	}
	return row[n];
}

/* Returns the command's option for "--name", "--name=value" or "-n"; NULL if it has no such option. *value: set to the text after '=', or NULL. */
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

/* Returns false if a text begins with a blank or is a hexadecimal number: strtod accepts both, and the options do not. */
static bool is_decimal(const char *text)
{
	return !isspace((unsigned char)text[0]) && !strpbrk(text, "xX");
}

static bool store_number(const struct option *o, const char *text, char *field)
{
	char *end;
	errno = 0;
	double number = strtod(text, &end);
	if (!is_decimal(text) || end == text || *end || errno || !(number >= o->min && number <= o->max))
		return false;
	if (o->kind == OPTION_FLOAT) {
		memcpy(field, &number, sizeof(number));
		return true;
	}
	int64_t integer = (int64_t)number;
	memcpy(field, &integer, sizeof(integer));
	return (double)integer == number;
}

static int no_option(const struct command *command, const char *arg)
{
	const struct option *suggestion = NULL;
	const int length = (int)strcspn(arg, "=");
	char name[32] = "";
	size_t least = 3; /* a name that differs in three or more letters is not a misspelling */
	snprintf(name, sizeof(name), "%.*s", length, arg + strspn(arg, "-"));
	name[strcspn(name, "=")] = '\0';
	for (const struct option *o = command->options; o->name; o++) {
		const size_t distance = letters_apart(name, o->name);
		const size_t least_size = strlen(name) < strlen(o->name) ? strlen(name) : strlen(o->name);
		/* One name begins with the other, as "thread" for --threads or "batch-size" for --batch. */
		const bool begins = least_size >= 3 && !strncmp(o->name, name, least_size);
		if ((distance < least && distance < strlen(name)) || (begins && !suggestion)) {
			least = distance < least ? distance : least;
			suggestion = o;
		}
	}
	if (suggestion)
		return usage_error(command, "no option %.*s; did you mean --%s?", length, arg, suggestion->name);
	return usage_error(command, "no option %.*s", length, arg);
}

/* Returns the path that a file:// URI names, which may name the host "localhost" (RFC 8089). Returns other texts as they are. */
static const char *path_of(const char *text)
{
	static const char host[] = "localhost";
	const size_t length = sizeof(host) - 1;
	if (strncmp(text, "file://", 7))
		return text;
	const char *path = text + 7 + (strncasecmp(text + 7, host, length) ? 0 : length);
	return *path == '/' ? path : text;
}

/* Stores the option at argv[*i] with its value in *out, and moves *i to the last argument that belongs to it. Returns EXIT_FINE, or EXIT_USAGE after
 * printing the reason. */
static int take_option(const struct command *command, int argc, const char *const *argv, int *i, struct settings *out)
{
	const char *arg = argv[*i], *value;
	const struct option *o = find_option(command, arg, &value);
	if (!o)
		return no_option(command, arg);
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

/* Returns whether the text is a number below a million without a unit. It would mean that many bytes, and megabytes or gigabytes were probably meant. */
static bool lacks_unit(const char *text)
{
	const int64_t bytes = text ? bytes_of(text) : -1;
	return bytes >= 0 && bytes < 1000000 && strspn(text, "0123456789.") == strlen(text);
}

static int refuse_without_unit(const struct command *command, const char *option, const char *text)
{
	return usage_error(
		command, "--%s %s is %s bytes: add the unit that you mean, as in %sMB, %sGB or %sB", option, text, text, text, text, text);
}

/* Checks rules that the table cannot express: the form of texts, and options that depend on each other. */
static int check_values(const struct command *command, const struct settings *s)
{
	int32_t device_id;
	if (!device_of(s->device, &device_id))
		return usage_error(command, "--device is the number of a GPU, cuda, cuda:N or cpu, not \"%s\"", s->device);
	if (s->cache_limit && bytes_of(s->cache_limit) < 0)
		return usage_error(
			command, "--cache-limit is a size below 1000TB with its unit, as 200GB or 1.5TiB, not \"%s\"", s->cache_limit);
	if (lacks_unit(s->cache_limit))
		return refuse_without_unit(command, "cache-limit", s->cache_limit);
	if (lacks_unit(s->shard_size))
		return refuse_without_unit(command, "shard-size", s->shard_size);
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
			args[out->arg_count++] = path_of(arg);
		}
	}
	out->output = out->output ? path_of(out->output) : NULL;
	if (out->arg_count < command->min_args)
		*code = usage_error(command, "%s is missing", command->arg);
	else if (out->arg_count > command->max_args)
		*code = usage_error(command, "too many arguments, from \"%s\" on", args[command->max_args]);
	else
		*code = check_values(command, out);
	return *code == EXIT_FINE;
}

/* Returns the width of help in columns: COLUMNS, else the terminal's width, else 80; raised to 40 or lowered to 120, so that help is readable. */
static int help_width(void)
{
	enum { NARROWEST = 40, USUAL = 80, WIDEST = 120 };
	const char *setting = getenv("COLUMNS");
	struct winsize size;
	long columns = setting ? strtol(setting, NULL, 10) : 0;
	if (columns <= 0 && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		columns = size.ws_col;
	columns = columns > 0 ? columns : USUAL;
	return (int)(columns < NARROWEST ? NARROWEST : columns > WIDEST ? WIDEST : columns);
}

/* Returns the number of characters in n bytes of UTF-8. */
static int shown(const char *text, size_t n)
{
	int count = 0;
	for (size_t i = 0; i < n; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

/* Prints a line, broken between words. `at` is the column of the cursor, `indent` the column at which the following lines begin. */
static void print_line(FILE *to, const char *line, size_t length, int at, int indent, int width)
{
	bool first = true;
	for (size_t i = 0; i < length;) {
		size_t blanks = 0, word = 0;
		while (i + blanks < length && line[i + blanks] == ' ')
			blanks++;
		while (i + blanks + word < length && line[i + blanks + word] != ' ')
			word++;
		const int wide = shown(line + i + blanks, word);
		if (!first && at + (int)blanks + wide > width) {
			fprintf(to, "\n%*s", indent, "");
			at = indent;
			blanks = 0;
			while (line[i] == ' ')
				i++;
		}
		fprintf(to, "%*s%.*s", (int)blanks, "", (int)word, line + i + blanks);
		at += (int)blanks + wide;
		i += blanks + word;
		first = false;
	}
	fputc('\n', to);
}

void print_wrapped(FILE *to, const char *text, int at, int indent)
{
	const int width = help_width();
	for (bool more = true; more; at = 0) {
		const size_t length = strcspn(text, "\n");
		/* The length of the line's first word, which is a name if several blanks follow it; the text after the blanks is then a column of its own. */
		const size_t name = strcspn(text, " ");
		const size_t gap = name < length ? strspn(text + name, " ") : 0;
		print_line(to, text, length, at, gap > 1 ? (int)(name + gap) : indent, width);
		more = text[length] == '\n';
		text += length + more;
	}
}

void print_command_help(const struct command *command)
{
	enum { LEFT = 27 };
	print_wrapped(stdout, command->summary, 0, 0);
	const int at = printf("\nusage: stoker %s ", command->name) - 1;
	print_wrapped(stdout, command->usage, at, at < 24 ? at : 24);
	putchar('\n');
	print_wrapped(stdout, command->details, 0, 0);
	puts("\noptions:");
	for (const struct option *o = command->options; o->name; o++) {
		char left[64];
		char letter[8] = "    ";
		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
		print_wrapped(stdout, o->doc, printf("  %-24s ", left), LEFT);
	}
	print_wrapped(stdout, "Print this.", printf("  %-24s ", "-h, --help"), LEFT);
	printf("\nexample:\n  %s\n", command->example);
}

int64_t bytes_of(const char *text)
{
	static const struct {
		const char *name;
		double factor;
	} units[] = {{"", 1}, {"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20},
		{"GiB", 0x1p30}, {"TiB", 0x1p40}};
	char *end;
	const double number = is_decimal(text) ? strtod(text, &end) : -1;
	if (number < 0)
		return -1;
	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(*units); i++) {
		if (!strcasecmp(end, units[i].name) && number * units[i].factor >= 1 && number * units[i].factor < 1e15)
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

/* Prints a message on standard error after the command's name and `kind`, which is empty or a word such as "interrupted: ". */
static void print_message(const char *command, const char *kind, const char *fmt, va_list list)
{
	fprintf(stderr, "stoker %s: %s", command, kind);
	print_without_secrets(stderr, fmt, list);
	fputc('\n', stderr);
}

int fail_text(const char *command, const char *fmt, ...)
{
	va_list list;
	va_start(list, fmt);
	print_message(command, "", fmt, list);
	va_end(list);
	return EXIT_PROBLEM;
}

int stopped_text(const char *command, const char *fmt, ...)
{
	va_list list;
	va_start(list, fmt);
	print_message(command, "interrupted: ", fmt, list);
	va_end(list);
	return EXIT_INTERRUPTED;
}
