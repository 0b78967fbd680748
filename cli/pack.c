/* SPDX-License-Identifier: Apache-2.0
 * stoker pack: writes a folder of class folders as tars. Tables are packed by the Python package's command (_table_pack.py); only its options and its help
 * text are in this file. */
#include "command.h"
#include "output.h"
#include "progress.h"
#include "session.h"

#include <inttypes.h>
#include <stdio.h>

struct packing {
	struct progress bar;
	int64_t done;
};

static bool on_progress(void *user, int64_t done, int64_t total)
{
	struct packing *packing = user;
	packing->done = done;
	packing->bar.total = total;
	progress_update(&packing->bar, done);
	return !interrupted();
}

static bool names_table(const char *path)
{
	static const char *const endings[] = {".parquet", ".pq"};
	const size_t n = strcspn(path, strstr(path, "://") ? "?" : "");
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		const size_t length = strlen(endings[i]);
		if (n > length && !strncmp(path + n - length, endings[i], length))
			return true;
	}
	return strncmp(path, "hf://", 5) == 0;
}

static int run_pack(const struct settings *s)
{
	struct stk_pack_info info = {.size = sizeof(info)};
	struct stk_error err = {0};
	struct packing packing = {.done = 0};
	char bytes[32];
	struct stk_pack_options o = {.size = sizeof(o),
		.source = s->args[0],
		.folder = s->output,
		.shard_bytes = s->shard_size ? bytes_of(s->shard_size) : 0,
		.seed = s->seed ? s->seed : -1,
		.threads = (int32_t)s->threads,
		.progress = on_progress,
		.user = &packing};
	if (names_table(s->args[0]))
		return fail_text(
			"pack", "%s: tables are packed by the command of the Python package, which reads them with pyarrow", s->args[0]);
	if (s->image_column || s->label_column || s->only_columns)
		return usage_error(&command_pack, "--image, --label and --columns are for tables, and %s is not a table", s->args[0]);
	if (!s->output) {
		return usage_error(&command_pack, "say where the tars go (-o DIR)");
	}
	if (o.shard_bytes < 0) {
		return usage_error(&command_pack, "--shard-size is a size with its unit, as 256MB or 1GiB, not \"%s\"", s->shard_size);
	}
	if (!open_storage("pack", s, &o.storage))
		return EXIT_PROBLEM;
	catch_interrupts();
	progress_begin(&packing.bar, "files", 0, s->quiet);
	const enum stk_status status = stk_pack(&o, &info, &err);
	progress_end(&packing.bar);
	stk_storage_unref(&o.storage);
	if (status == STK_CANCELLED)
		return stopped_text("pack", "%" PRId64 " of %" PRId64 " files packed: start the command again to continue", packing.done,
			packing.bar.total);
	if (status != STK_OK)
		return fail("pack", &err);
	if (s->json) {
		json_t *out = json_object();
		put_int(out, "tars", info.tars);
		put_int(out, "samples", info.samples);
		put_int(out, "files", info.files);
		put_int(out, "bytes", info.bytes);
		put_int(out, "kept", info.kept);
		put_int(out, "left_out", info.left_out);
		return print_json(out);
	}
	printf("%s: %" PRId64 " %s in %" PRId64 " %s, %s", s->output, info.samples, noun(info.samples, "sample", "samples"), info.tars,
		noun(info.tars, "tar", "tars"), size_text(info.bytes, bytes));
	if (info.kept)
		printf("; %" PRId64 " of them %s there already", info.kept, noun(info.kept, "was", "were"));
	if (info.left_out)
		printf("; left out %" PRId64 " %s and do not have the name of one", info.left_out,
			noun(info.left_out, "file that is not an image", "files that are not images"));
	printf("\n");
	return EXIT_FINE;
}

static const struct option options[] = {OPTION_TEXT_OF("output", 'o', output, "DIR", "Folder for the tars; created if it does not exist."),
	OPTION_TEXT_OF("shard-size", 's', shard_size, "SIZE", "Size limit of a tar: 256MB (the default), 1GiB."),
	OPTION_INT_OF(
		"seed", 0, seed, 1, 9007199254740992.0, "Shuffle the samples with this seed, for readers that shuffle only whole tars."),
	OPTION_TEXT_OF("image", 0, image_column, "COLUMN", "The table's column of images or sounds, if there are several."),
	OPTION_TEXT_OF("label", 0, label_column, "COLUMN", "The table's column of labels, which are whole numbers."),
	OPTION_TEXT_OF("columns", 0, only_columns, "A,B", "Pack only these columns of the table, in addition to image and label."),
	OPTION_THREADS, OPTION_STORAGE, OPTION_QUIET, OPTION_JSON, {0}};

const struct command command_pack = {
	.name = "pack",
	.summary = "packs a folder of class folders, or a table, as tars in WebDataset's format",
	.usage = "DIR|s3://BUCKET/PREFIX|TABLE... -o DIR",
	.details = "Writes shards-000000.tar and so on, with their indexes, and classes.txt. A sample is the unchanged image, its "
		   "label (NAME.cls) and the files next to it that have its name. The same folder gives the same bytes. If the "
		   "command was interrupted, start it again: it writes the tars that are missing, or whose files have changed. Upload the "
		   "folder as it is.\n\n"
		   "A table is a Parquet file, a pattern of them, a folder of them, or a folder that the package datasets saved. A sample "
		   "is then a row: the image or sound, the label (NUMBER.cls), and a file for each other column (NUMBER.caption.txt for "
		   "text; .npy for lists of numbers; .json for numbers and structs; .bin for bytes). A null has no file. The folder gets "
		   "its name when it is complete.",
	.example = "stoker pack data/train -o packed --shard-size 256MB     # then Loader(\"packed/shards-*.tar\", ...)\n"
		   "  stoker pack 'train-*.parquet' -o packed --label class --columns caption",
	.options = options,
	.arg = "DIR",
	.min_args = 1,
	.max_args = 1,
	.run = run_pack,
};
