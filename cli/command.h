/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands of stoker. Each has its own file and is one const struct command, listed in main.c; options and help are data. */
#ifndef STOKER_CLI_COMMAND_H
#define STOKER_CLI_COMMAND_H

#include "stoker/stoker.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Scripts may rely on these codes; `stoker --help` documents them. */
enum exit_code { EXIT_FINE = 0, EXIT_PROBLEM = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* The values of all options of all commands. A command accepts the options in its table. Zero or NULL means that an option was not given. */
struct settings {
	bool json, quiet, checksum, decode_only, versions, lossless;
	int64_t threads, batch, epochs, steps, seed, size, columns, augment, gop, quality;
	double seconds;
	const char *output, *device, *shard_size, *codec, *tables;
	const char *image_column, *label_column, *only_columns; /* options of `stoker pack` for tables, which the Python package packs */
	const char *storage_uri;
	int32_t retries; /* number of retries of a request; 0: the storage's default. Set by commands, not by an option */
	const char *endpoint, *region, *profile, *ca_bundle, *cache, *cache_limit; /* options of OPTION_STORAGE */
	bool anonymous, path_style;                                                /* options of OPTION_STORAGE */
	const char *const *args;                                                   /* arguments that are not options */
	int32_t arg_count;
	const struct command *const *commands; /* all commands, ended by NULL */
};

enum option_kind { OPTION_FLAG, OPTION_INT, OPTION_FLOAT, OPTION_TEXT };

struct option {
	const char *name; /* without the dashes; NULL ends a table */
	char letter;      /* letter of the short form, such as 'j' for -j; 0: there is none */
	enum option_kind kind;
	size_t offset;     /* offset of the option's member in struct settings */
	double min, max;   /* range of a number */
	const char *value; /* name of the value in the help text, such as "N"; NULL for flags */
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
/* Options that several commands share; every command accepts --json. */
#define OPTION_JSON OPTION_FLAG_OF("json", 'j', json, "Print JSON.")
#define OPTION_THREADS OPTION_INT_OF("threads", 't', threads, 1, 4096, "Worker threads (default: what the machine allows).")
#define OPTION_BATCH OPTION_INT_OF("batch", 'b', batch, 1, 65536, "Samples a batch.")
#define OPTION_DEVICE                                                                                                                      \
	OPTION_TEXT_OF("device", 'd', device, "N", "Run on this GPU: its number, cuda or cuda:N (default: cpu, the cores only).")
#define OPTION_QUIET OPTION_FLAG_OF("quiet", 'q', quiet, "No progress on the terminal.")

/* Options for reaching objects in buckets; they override the environment. No option takes a key, because other users can see command lines. */
#define OPTION_STORAGE                                                                                                                     \
	OPTION_TEXT_OF("endpoint", 0, endpoint, "URL", "Endpoint of a non-AWS store."),                                                    \
		OPTION_TEXT_OF("region", 0, region, "NAME", "Region of the bucket."),                                                      \
		OPTION_TEXT_OF("profile", 0, profile, "NAME", "Profile in AWS's files."),                                                  \
		OPTION_FLAG_OF("anonymous", 0, anonymous, "Sign no requests: public buckets."),                                            \
		OPTION_FLAG_OF("path-style", 0, path_style, "Name buckets in the path, not in the host's name."),                          \
		OPTION_TEXT_OF("ca-bundle", 0, ca_bundle, "FILE", "Certificates that are trusted."),                                       \
		OPTION_TEXT_OF("cache", 0, cache, "DIR", "Keep objects in this folder."),                                                  \
		OPTION_TEXT_OF(                                                                                                            \
			"cache-limit", 0, cache_limit, "SIZE", "Size limit of the cache, e.g. 200GB (default: 4/5 of what is free).")

struct command {
	const char *name;
	const char *summary; /* one line */
	const char *usage;   /* the arguments, e.g. "DIR" */
	const char *details;
	const char *example; /* a command line and its purpose */
	const struct option *options;
	const char *arg; /* name of the argument that is reported as missing if there are fewer than min_args; NULL if min_args is 0 */
	int32_t min_args, max_args;
	int (*run)(const struct settings *s); /* returns an enum exit_code */
};

/* Runs `stoker inspect nuscenes ROOT` (inspect_nuscenes.c). */
int inspect_nuscenes(const char *root, bool json);
/* Returns whether the folder `name` of ROOT holds NuScenes' tables, that is, has sample_data.json. */
bool holds_tables(const char *root, const char *name);
/* A command on a sound or a video. storage: settings for URIs; NULL: those of the environment. Returns an exit code. */
typedef int media_command(const struct settings *s, struct stk_storage *storage);
media_command inspect_sound, inspect_video; /* `stoker inspect FILE` */
media_command view_sound, view_video;       /* `stoker view FILE`; for videos, s->batch is the maximum number of frames to draw */
/* Opens the storage for the command's options, and runs `video` if the file's name is that of a video, else `sound`. Returns an exit code. */
int run_on_media(const char *command, const struct settings *s, media_command *video, media_command *sound);
bool is_video_name(const char *path);
/* Returns whether a file with a video's ending, which stk_video_open has refused with `status`, holds only a sound. */
bool holds_only_sound(const char *path, struct stk_storage *storage, enum stk_status status);
/* Returns whether a path is a video, or a folder of which most files are videos. Stores the videos for bench_video, so call it only once. */
bool holds_videos(const char *path);
/* Runs `stoker bench` for videos (bench_video.c). */
int bench_video(const struct settings *s);

extern const struct command command_bench, command_cache, command_completion, command_doctor, command_explain, command_index,
	command_inspect, command_ops, command_pack, command_pack_video, command_run, command_top, command_view;

/* Prints the message and the command's usage on stderr; returns EXIT_USAGE. */
int usage_error(const struct command *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Fills `out` from argv. Options and arguments may mix; "--" ends the options. Returns false if the command line is wrong, after printing the reason on
 * stderr, or if help was printed; *code is then the exit code. `args` has room for argc pointers and must live as long as `out`, which refers to it. */
bool parse_settings(const struct command *command, int argc, const char *const *argv, const char **args, struct settings *out, int *code);

/* Parses "256MB", "1GiB" or a number of bytes, from 1 to below 10^15 bytes; returns -1 for any other text. */
int64_t bytes_of(const char *text);

/* Writes "431 bytes", "12.3 KB" or "4.5 MB" to `text` and returns it. */
const char *size_text(int64_t bytes, char text[32]);

/* Returns `one` if n is 1, otherwise `many`. */
const char *noun(int64_t n, const char *one, const char *many);

/* Parses the name of a device: "1", "cuda" (GPU 0) and "cuda:1" are GPUs; "cpu" and NULL give -1. Returns false for any other text. */
bool device_of(const char *text, int32_t *device_id);

void print_command_help(const struct command *command);

/* Prints text with its lines broken between words to fit the terminal's width (COLUMNS, else the terminal's own width, else 80). `at` is the column of the
 * cursor. The rest of a broken line begins at column `indent`; after "word    meaning" with two or more blanks, it begins below the meaning. */
void print_wrapped(FILE *to, const char *text, int at, int indent);

/* Returns the edit distance (Levenshtein) between two names; 32 if `b` is longer than 32 bytes. */
size_t letters_apart(const char *a, const char *b);

/* Print "stoker COMMAND: message" on stderr and return EXIT_PROBLEM. */
int fail(const char *command, const struct stk_error *err);
int fail_text(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints "stoker COMMAND: interrupted: message" on stderr and returns EXIT_INTERRUPTED. */
int stopped_text(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints a message without secrets (stk_text_make_safe): any argument may be a URL that contains a signature. */
void print_without_secrets(FILE *to, const char *fmt, va_list list) __attribute__((format(printf, 2, 0)));

/* Prints a part of a line on stdout, without secrets, and with \n in place of each line break (stk_text_make_safe). */
void print_safe(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Formats a text, and removes secrets from it (stk_text_make_safe). The caller frees the result with free; it is NULL if memory is short. Secrets must be
 * removed before the caller shortens the text, because in half a URL the end of its password may be missing. */
char *format_safe(const char *fmt, va_list list) __attribute__((format(printf, 1, 0)));

#endif
