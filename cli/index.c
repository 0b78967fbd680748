/* SPDX-License-Identifier: Apache-2.0
 * stoker index: lists a data set once, so that later runs need not list it again. */
#include "command.h"
#include "output.h"
#include "progress.h"
#include "session.h"
#include "tars.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct search {
	struct progress bar;
	int64_t done, files;
	json_t *components;
};

static bool on_progress(void *user, int64_t done, int64_t tars, int64_t files)
{
	struct search *search = user;
	search->done = done;
	search->files = files;
	search->bar.total = tars;
	progress_update(&search->bar, done);
	return !interrupted();
}

static void on_notice(void *user, const char *text)
{
	(void)user;
	fprintf(stderr, "stoker index: %s\n", text);
}

static void on_component(void *user, const char *ending, int64_t files)
{
	put_int(((struct search *)user)->components, ending, files);
}

static int print_tars(const struct settings *s, const struct stk_tar_index_info *info, json_t *components)
{
	const int code = !s->output && info->unkept ? EXIT_PROBLEM : EXIT_FINE;
	if (s->json) {
		json_t *o = json_object();
		if (s->output)
			put_text(o, "index", s->output);
		else
			put_int(o, "not_kept", info->unkept);
		put_int(o, "tars", info->tars);
		put_int(o, "files", info->files);
		put_int(o, "bytes", info->bytes);
		json_object_set_new(o, "components", components);
		return print_json(o) ? EXIT_PROBLEM : code;
	}
	char bytes[32], location[80] = "kept next to each tar or in ~/.cache/stoker";
	if (code)
		snprintf(location, sizeof(location), "not kept for %" PRId64 " %s (-o FILE stores one index for all)", info->unkept,
			noun(info->unkept, "tar", "tars"));
	printf("%s: %" PRId64 " %s in %" PRId64 " %s, %s:", s->output ? s->output : location, info->files,
		noun(info->files, "file", "files"), info->tars, noun(info->tars, "tar", "tars"), size_text(info->bytes, bytes));
	for (void *at = json_object_iter(components); at; at = json_object_iter_next(components, at)) {
		putchar(' ');
		print_key(json_object_iter_key(at));
		printf(" (%" PRId64 ")", (int64_t)json_integer_value(json_object_iter_value(at)));
	}
	printf("\n");
	json_decref(components);
	return code;
}

static int index_tars(const struct settings *s, struct stk_storage *storage)
{
	struct search search = {.components = json_object()};
	struct stk_tar_index_info info = {.size = sizeof(info)};
	struct stk_error err = {0};
	const struct stk_tar_index_options o = {.size = sizeof(o),
		.paths = s->args,
		.path_count = s->arg_count,
		.output = s->output,
		.storage = storage,
		.progress = on_progress,
		.notice = on_notice,
		.component = on_component,
		.user = &search};
	catch_interrupts();
	progress_begin(&search.bar, "tars", 0, s->quiet);
	const enum stk_status status = stk_tar_index(&o, &info, &err);
	progress_end(&search.bar);
	if (status == STK_OK && info.unended)
		fprintf(stderr,
			"stoker index: %" PRId64
			" of the tars end without the blocks of zeros that end a tar: if they were cut short, or are still "
			"being written, samples are missing\n",
			info.unended);
	if (status == STK_OK)
		return print_tars(s, &info, search.components);
	json_decref(search.components);
	if (status == STK_CANCELLED)
		return stopped_text("index", "%" PRId64 " of %" PRId64 " %s searched, %" PRId64 " %s found%s", search.done,
			search.bar.total, noun(search.bar.total, "tar", "tars"), search.files, noun(search.files, "file", "files"),
			s->output ? "" : "; indexes of finished tars are kept: start the command again to continue");
	return fail("index", &err);
}

static bool on_entries(void *user, int64_t entries)
{
	struct search *search = user;
	search->files = entries;
	progress_update(&search->bar, entries);
	return !interrupted();
}

static int index_tree(const struct settings *s, struct stk_storage *storage)
{
	struct stk_index_info info = {.size = sizeof(info)};
	struct stk_error err = {0};
	const char *path = s->output ? s->output : "index.stoker";
	struct search search = {.files = 0};
	const struct stk_index_options o = {
		.size = sizeof(o), .root = s->args[0], .path = path, .storage = storage, .progress = on_entries, .user = &search};
	/* While the library lists a local folder, it reports no progress, so only a Ctrl-C that is not caught can end the command. */
	if (strstr(s->args[0], "://"))
		catch_interrupts();
	progress_begin(&search.bar, "objects listed", 0, s->quiet);
	const enum stk_status status = stk_index_write(&o, &info, &err);
	progress_end(&search.bar);
	if (status == STK_CANCELLED)
		return stopped_text("index", "%" PRId64 " objects listed, and nothing was written", search.files);
	if (status != STK_OK)
		return fail("index", &err);
	if (s->json) {
		json_t *found = json_object();
		put_text(found, "index", path);
		put_int(found, "files", info.files);
		put_int(found, "classes", info.classes);
		if (info.bytes >= 0)
			put_int(found, "bytes", info.bytes);
		put_int(found, "index_bytes", info.index_bytes);
		return print_json(found);
	}
	char bytes[32];
	printf("%s: %" PRId64 " %s in %" PRId64 " %s", path, info.files, noun(info.files, "file", "files"), info.classes,
		noun(info.classes, "class", "classes"));
	if (info.bytes >= 0)
		printf(", %s", size_text(info.bytes, bytes));
	printf("; the index has %s\n", size_text(info.index_bytes, bytes));
	return EXIT_FINE;
}

static int run_index(const struct settings *s)
{
	struct stk_storage *storage;
	const bool tars = names_tar(s->args[0]);
	if (!tars && s->arg_count > 1)
		return fail_text("index", "all of several arguments must be tars; \"%s\" is not a tar", s->args[0]);
	if (!open_storage("index", s, &storage))
		return EXIT_PROBLEM;
	const int code = tars ? index_tars(s, storage) : index_tree(s, storage);
	stk_storage_unref(&storage);
	return code;
}

static const struct option options[] = {
	OPTION_TEXT_OF("output", 'o', output, "FILE", "File to write (default index.stoker; for tars, an index for each)."), OPTION_STORAGE,
	OPTION_QUIET, OPTION_JSON, {0}};

const struct command command_index = {
	.name = "index",
	.summary = "lists a data set once, so that later runs need not list it again",
	.usage = "DIR|s3://BUCKET/PREFIX|TAR...",
	.details = "Writes the names and labels of the files in a folder of class folders, and for a bucket also their sizes. "
		   "Loader accepts the index in place of the folder; readers.file accepts it as file_root or file_list. For tars "
		   "(local or not, also as \"shard-{000..127}.tar\" and \"shard-*.tar\") it finds the position of each file. With "
		   "-o one index covers all tars, and Loader and readers.webdataset accept it in their place. Without -o each tar "
		   "gets its own index, TAR.stoker next to it or in ~/.cache/stoker, where Loader and the reader find it.",
	.example = "stoker index s3://bucket/train -o train.stoker     # then Loader(\"train.stoker\", ...)",
	.options = options,
	.arg = "DIR",
	.min_args = 1,
	.max_args = 1 << 20,
	.run = run_index,
};
