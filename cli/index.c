/* SPDX-License-Identifier: Apache-2.0
 * stoker index: lists a data set once, so that later runs begin without. */
#include "command.h"
#include "output.h"

#include <inttypes.h>
#include <stdio.h>

static int run_index(const struct settings *s)
{
	struct stk_index_info info = {.size = sizeof(info)};
	struct stk_error err = {0};
	const char *path = s->output ? s->output : "index.stoker";
	if (stk_index_write(s->args[0], path, &info, &err) != STK_OK)
		return fail("index", &err);
	if (s->json) {
		json_t *o = json_object();
		put_text(o, "index", path);
		put_int(o, "files", info.files);
		put_int(o, "classes", info.classes);
		if (info.bytes >= 0)
			put_int(o, "bytes", info.bytes);
		put_int(o, "index_bytes", info.index_bytes);
		return print_json(o);
	}
	printf("%s: %" PRId64 " files in %" PRId64 " classes", path, info.files, info.classes);
	if (info.bytes >= 0)
		printf(", %.1f MB", (double)info.bytes / 1e6);
	printf("; the index has %.1f KB\n", (double)info.index_bytes / 1e3);
	return EXIT_FINE;
}

static const struct option options[] = {
	OPTION_TEXT_OF("output", 'o', output, "FILE", "Where to write (default index.stoker)."), OPTION_JSON, {0}};

const struct command command_index = {
	.name = "index",
	.summary = "lists a data set once, so that later runs begin without",
	.usage = "DIR|s3://BUCKET/PREFIX",
	.details =
		"Writes the names of a folder of class folders, their labels and, of a bucket, their sizes. Loader takes the file as it takes the folder,\n"
		"readers.file as file_root or file_list.",
	.example = "stoker index s3://bucket/train -o train.stoker     # then Loader(\"train.stoker\", ...)",
	.options = options,
	.min_args = 1,
	.max_args = 1,
	.run = run_index,
};
