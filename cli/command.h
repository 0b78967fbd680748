/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands of stoker. Each lives in a file of its own and is one const struct command, listed in main.c; options and help are data. */
#ifndef STOKER_CLI_COMMAND_H
#define STOKER_CLI_COMMAND_H

#include "stoker/stoker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What scripts may rely on; `stoker --help` documents them. */
enum exit_code { EXIT_FINE = 0, EXIT_PROBLEM = 1, EXIT_USAGE = 2 };

/* Every option of every command; a command takes those that its table names. Zero or NULL: not given. */
struct settings {
	bool json, quiet, checksum, decode_only, versions;
	int64_t threads, batch, epochs, steps, seed, size, columns, augment;
	double seconds;
	const char *output, *device, *shard_size;
	const char *storage_uri;
	int32_t retries;                                                           /* of a storage; 0: its default. Not an option */
	const char *endpoint, *region, *profile, *ca_bundle, *cache, *cache_limit; /* OPTION_STORAGE */
	bool anonymous, path_style;
	const char *const *args; /* arguments that are not options */
	int32_t arg_count;
};

enum option_kind { OPTION_FLAG, OPTION_INT, OPTION_FLOAT, OPTION_TEXT };

struct option {
	const char *name; /* without the dashes; NULL ends a table */
	char letter;      /* "-j"; 0: none */
	enum option_kind kind;
	size_t offset;     /* in struct settings */
	double min, max;   /* of numbers */
	const char *value; /* "N", as help shows it; NULL for flags */
	const char *doc;
};

#define OPTION_FLAG_OF(name, letter, field, doc)                                                                                           \
	{                                                                                                                                  \
		name, letter, OPTION_FLAG, offsetof(struct settings, field), 0, 1, NULL, doc                                               \
	}
#define OPTION_INT_OF(name, letter, field, min, max, doc)                                                                                  \
	{                                                                                                                                  \
		name, letter, OPTION_INT, offsetof(struct settings, field), min, max, "N", doc                                             \
	}
#define OPTION_TEXT_OF(name, letter, field, value, doc)                                                                                    \
	{                                                                                                                                  \
		name, letter, OPTION_TEXT, offsetof(struct settings, field), 0, 0, value, doc                                              \
	}
/* Taken by every command. */
#define OPTION_JSON OPTION_FLAG_OF("json", 'j', json, "Print JSON.")
#define OPTION_THREADS OPTION_INT_OF("threads", 't', threads, 1, 4096, "Worker threads (default: what the machine allows).")
#define OPTION_BATCH OPTION_INT_OF("batch", 'b', batch, 1, 65536, "Samples a batch.")
#define OPTION_DEVICE                                                                                                                      \
	OPTION_TEXT_OF("device", 'd', device, "N", "Run on this GPU: its number, cuda or cuda:N (default: cpu, the cores alone).")
#define OPTION_QUIET OPTION_FLAG_OF("quiet", 'q', quiet, "No progress on the terminal.")

/* How objects in buckets are reached, where the environment does not say it. There is none for keys: other users see command lines. */
#define OPTION_STORAGE                                                                                                                     \
	OPTION_TEXT_OF("endpoint", 0, endpoint, "URL", "Endpoint of a non-AWS store."),                                                    \
		OPTION_TEXT_OF("region", 0, region, "NAME", "Region of the bucket."),                                                      \
		OPTION_TEXT_OF("profile", 0, profile, "NAME", "Profile in AWS's files."),                                                  \
		OPTION_FLAG_OF("anonymous", 0, anonymous, "Sign no requests: public buckets."),                                            \
		OPTION_FLAG_OF("path-style", 0, path_style, "Name buckets in the path, not in the host's name."),                          \
		OPTION_TEXT_OF("ca-bundle", 0, ca_bundle, "FILE", "Certificates that are trusted."),                                       \
		OPTION_TEXT_OF("cache", 0, cache, "DIR", "Keep objects there."),                                                           \
		OPTION_TEXT_OF(                                                                                                            \
			"cache-limit", 0, cache_limit, "SIZE", "Size limit of the cache, e.g. 200GB (default: 4/5 of what is free).")

struct command {
	const char *name;
	const char *summary; /* one line */
	const char *usage;   /* "DIR": what follows the name */
	const char *details;
	const char *example; /* a command line, and what it is for */
	const struct option *options;
	const char *arg; /* "DIR": what is missing where there are fewer than min_args; NULL where none is needed */
	int32_t min_args, max_args;
	int (*run)(const struct settings *s); /* returns an enum exit_code */
};

/* stoker inspect nuscenes ROOT (inspect_nuscenes.c) */
int inspect_nuscenes(const char *root, bool json);

extern const struct command command_bench, command_cache, command_doctor, command_explain, command_index, command_inspect, command_ops,
	command_pack, command_run, command_view;

/* Says what is wrong and how the command is used; returns EXIT_USAGE. */
int usage_error(const struct command *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Fills settings from argv (options and arguments may mix; "--" ends options). False: usage was wrong and said so on stderr, or help was printed;
 * *code is what to exit with. args has room for argc pointers and is referred to by settings. */
bool parse_settings(const struct command *command, int argc, const char *const *argv, const char **args, struct settings *out, int *code);

/* "256MB", "1GiB" or bytes; -1: neither. */
int64_t bytes_of(const char *text);

/* "431 bytes", "12.3 KB" or "4.5 MB". */
const char *size_text(int64_t bytes, char text[32]);

/* The word for n of them. */
const char *noun(int64_t n, const char *one, const char *many);

/* "1", "cuda" and "cuda:1" name a GPU, "cpu" and NULL none: -1. False: neither. */
bool device_of(const char *text, int32_t *device_id);

void print_command_help(const struct command *command);

/* Prints lines that fit the terminal's width (COLUMNS, else what it says, else 80), broken between words. at: the column where the cursor stands; indent: where
 * the rest of a line that was broken begins, unless the line is a word with what it means. */
void print_wrapped(FILE *to, const char *text, int at, int indent);

/* The edit distance (Levenshtein) between a and b; names are short. */
size_t letters_apart(const char *a, const char *b);

/* "stoker COMMAND: message" on stderr; returns EXIT_PROBLEM. */
int fail(const char *command, const struct stk_error *err);
int fail_text(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Bytes of a URI that are shown: of http:// and https:// neither the query, which may hold a signature, nor a password before the host. */
static inline int uri_shown(const char *uri)
{
	if (strncmp(uri, "http://", 7) != 0 && strncmp(uri, "https://", 8) != 0)
		return (int)strlen(uri);
	const char *host = strstr(uri, "://") + 3;
	const char *authority = host + strcspn(host, "/?#");
	return (int)(memchr(host, '@', (size_t)(authority - host)) ? (size_t)(host - uri) : strcspn(uri, "?#"));
}

#endif
