/* SPDX-License-Identifier: Apache-2.0
 * readers.file: files and their labels. */
#include "op/readers/reader_files.h"

struct readers_file {
	const char *file_root, *file_list;
	struct stk_strings files, file_filters, dir_filters;
	struct stk_ints labels;
	bool case_sensitive_filter, nested;
	struct stk_reader_args reader;
};

static const struct stk_arg_def readers_file_args[] = {
	STK_ARG(struct readers_file, file_root, STK_ARG_STRING, NULL, STK_FREE, 0,
		"Folder with one folder for each class, whose sorted order gives the labels (s3://BUCKET/PREFIX too); or the folder to "
		"which the paths of file_list and files are relative."),
	STK_ARG(struct readers_file, file_list, STK_ARG_STRING, NULL, STK_FREE, 0, "Text file with one path and label a line."),
	STK_ARG(struct readers_file, files, STK_ARG_STRINGS, NULL, STK_FREE, 0, "Paths, instead of a folder or a list."),
	STK_ARG(struct readers_file, labels, STK_ARG_INTS, NULL, (-0x1p31, 0x1p31 - 1), 0, "Labels of `files`. Default: 0, 1, 2, ..."),
	STK_ARG(struct readers_file, file_filters, STK_ARG_STRINGS, NULL, STK_FREE, 0,
		"Glob patterns, one of which a file's name must match. Default: endings of the images that decoders.image decodes."),
	STK_ARG(struct readers_file, dir_filters, STK_ARG_STRINGS, NULL, STK_FREE, 0,
		"Glob patterns, one of which a class folder's name must match. Default: all folders."),
	STK_ARG(struct readers_file, case_sensitive_filter, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Distinguishes capitals from small letters in filters."),
	STK_ARG(struct readers_file, nested, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Reads class folders as torchvision's ImageFolder does: with all their subfolders; a class folder without files is an "
		"error."),
	STK_ARG_GROUP(struct readers_file, reader, stk__reader_group),
	STK_ARG_END,
};

static enum stk_status check(const struct readers_file *a, struct stk_error *err)
{
	if (a->labels.count >= 0 && a->files.count < 0)
		return stk__fail(err, STK_INVALID, "labels belong to files: give both, or only file_root or file_list");
	if (a->labels.count >= 0 && a->labels.count != a->files.count)
		return stk__fail(err, STK_INVALID, "there are %d files and %d labels", a->files.count, a->labels.count);
	if (!a->file_root && !a->file_list && a->files.count < 0)
		return stk__fail(err, STK_INVALID, "nothing to read: give file_root, file_list or files");
	if (a->file_list && a->files.count >= 0)
		return stk__fail(err, STK_INVALID, "file_list and files are both given: choose one");
	return STK_OK;
}

static enum stk_status readers_file_open(const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	const struct readers_file *a = args;
	enum stk_status s = check(a, err);
	if (s)
		return s;
	struct stk_file_list_options o = {
		.access = access,
		.file_root = a->file_root,
		.file_list = a->file_list,
		.labels = a->labels.count < 0 ? NULL : a->labels.v,
		.case_sensitive = a->case_sensitive_filter,
		.nested = a->nested,
	};
	o.files = stk__strings_or_none(&a->files, &o.file_count);
	o.file_filters = stk__strings_or_none(&a->file_filters, &o.filter_count);
	o.dir_filters = stk__strings_or_none(&a->dir_filters, &o.dir_filter_count);
	return stk__reader_files_open(&o, &a->reader, shared, err);
}

/* Makes output 0 a view of the bytes that io has read from the file. So they are not copied, unless the pipeline outputs them. Output 1 is the label. */
static enum stk_status readers_file_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	call->out[0].desc = (struct stk_desc){STK_UINT8, 1, {call->bytes ? (int64_t)call->bytes->size : -1}, ""};
	call->out[0].data = call->bytes ? (void *)(uintptr_t)call->bytes->data : NULL;
	call->out[1].desc = (struct stk_desc){STK_INT32, 1, {1}, ""};
	return STK_OK;
}

static enum stk_status readers_file_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	*(int32_t *)call->out[1].data = stk__file_list_label(call->shared, call->place.sample);
	return STK_OK;
}

static void readers_file_order(const void *args, const void *shared, struct stk_order *out)
{
	const struct readers_file *a = args;
	stk__reader_order(&a->reader, stk__file_list_size(shared), out);
}

static int64_t readers_file_classes(const void *shared)
{
	return stk__file_list_classes(shared);
}

static const char *readers_file_class_name(const void *shared, int64_t label)
{
	return stk__file_list_class_name(shared, label);
}

static int64_t readers_file_skipped(const void *shared, const char **text)
{
	return stk__file_list_skipped(shared, text);
}

static const char *readers_file_listed_in(const void *args)
{
	return ((const struct readers_file *)args)->file_list;
}

static const struct stk_reader_def readers_file_reader = {
	.open = readers_file_open,
	.size = stk__reader_files_size,
	.fingerprint = stk__reader_files_fingerprint,
	.digest = stk__reader_files_digest,
	.order = readers_file_order,
	.uri = stk__reader_files_uri,
	.listed_in = readers_file_listed_in,
	.object = stk__reader_files_object,
	.classes = readers_file_classes,
	.class_name = readers_file_class_name,
	.skipped = readers_file_skipped,
};

const struct stk_op_def stk__op_readers_file = {
	.name = "readers.file",
	.alias = "file_reader",
	.doc = "Reads files with their labels.\n\n"
	       "Outputs the bytes of a file and its label, an int32 of shape (1,). Files come from a folder of class folders, from a "
	       "list, or from the arguments.\n"
	       "With random_shuffle every epoch is a new permutation of the whole data set; ranks then take turns batch by batch and "
	       "have equal numbers of\n"
	       "steps. Otherwise the data set is divided into contiguous shards as in DALI, unless tail is given.",
	.outputs = 2,
	.args = readers_file_args,
	.args_size = sizeof(struct readers_file),
	.flags = STK_OP_CLONED,
	.teardown = stk__reader_files_close,
	.infer = readers_file_infer,
	.run_cpu = readers_file_run,
	.reader = &readers_file_reader,
};
