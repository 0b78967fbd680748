/* SPDX-License-Identifier: Apache-2.0
 * readers.sound_windows: reads windows of sound files, with their rates and labels. From an object in a store, fetches only the bytes that a window needs.
 * Loader adds this reader to its graphs; users' graphs have readers.file and decoders.audio instead. */
#include "format/archive_file.h"
#include "op/audio/sound_fetch.h"
#include "op/readers/reader_files.h"

struct readers_sound {
	const char *file_root;
	struct stk_strings files, file_filters;
	struct stk_ints labels;
	bool downmix, nested, low_pass;
	int32_t dtype;
	double duration;
	float sample_rate, quality, low, high;
	struct stk_reader_args reader;
};

static const struct stk_arg_def readers_sound_args[] = {
	STK_ARG(struct readers_sound, file_root, STK_ARG_STRING, NULL, STK_FREE, 0, "Folder with one folder for each class."),
	STK_ARG(struct readers_sound, files, STK_ARG_STRINGS, NULL, STK_FREE, 0, "Paths, instead of a folder."),
	STK_ARG(struct readers_sound, labels, STK_ARG_INTS, NULL, (-0x1p31, 0x1p31 - 1), 0, "Labels of `files`. Default: 0, 1, 2, ..."),
	STK_ARG(struct readers_sound, file_filters, STK_ARG_STRINGS, NULL, STK_FREE, 0,
		"Glob patterns, one of which a file's name must match."),
	STK_ARG(struct readers_sound, nested, STK_ARG_BOOL, "false", STK_FREE, 0, "Reads class folders with all their subfolders."),
	STK_ARG(struct readers_sound, downmix, STK_ARG_BOOL, "false", STK_FREE, 0, "Outputs the mean of the channels."),
	STK_ARG(struct readers_sound, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0, "Type of the samples."),
	STK_ARG(struct readers_sound, sample_rate, STK_ARG_FLOAT, "-1.0", (-0x1p31, 0x1p31), 0, "Rate of the output in Hz."),
	STK_ARG(struct readers_sound, quality, STK_ARG_FLOAT, "50.0", (0, 100), 0, "Quality of resampling."),
	STK_ARG(struct readers_sound, low_pass, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Removes frequencies above half of a lower sample_rate first; otherwise they become aliases, as in DALI."),
	STK_ARG(struct readers_sound, duration, STK_ARG_FLOAT, NULL, (0, 0x1p31), STK_REQUIRED | STK_DOUBLE,
		"Length of the window in seconds."),
	STK_ARG(struct readers_sound, low, STK_ARG_FLOAT, "0.0", (0, 1), 0,
		"The place of the window in a longer file: 0 is its start, 1 its end."),
	STK_ARG(struct readers_sound, high, STK_ARG_FLOAT, "0.0", (0, 1), 0, "If it is above low: the place is drawn from low to high."),
	STK_ARG_GROUP(struct readers_sound, reader, stk__reader_group),
	STK_ARG_END,
};

struct sounds {
	struct stk_file_list *files;
	struct stk_sound_shared sound;
	struct stk_sound_objects objects;
};

static void readers_sound_teardown(void *shared)
{
	struct sounds *n = shared;
	stk__file_list_destroy(n->files);
	stk__sound_shared_clear(&n->sound);
	stk__free(n);
}

static enum stk_status readers_sound_open(const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	const struct readers_sound *a = args;
	struct stk_file_list_options o = {
		.access = access, .file_root = a->file_root, .labels = a->labels.count < 0 ? NULL : a->labels.v, .nested = a->nested};
	struct sounds *n = stk__calloc(1, sizeof *n);
	void *files = NULL;
	if (!n)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a reader");
	o.files = stk__strings_or_none(&a->files, &o.file_count);
	o.file_filters = stk__strings_or_none(&a->file_filters, &o.filter_count);
	enum stk_status s = stk__reader_files_open(&o, &a->reader, &files, err);
	n->files = files;
	n->objects.remote = true;
	if (s)
		readers_sound_teardown(n);
	else
		*shared = n;
	return s;
}

/* ---- a sample ---- */

static struct stk_sound_want want_of(const struct readers_sound *a, struct stk_random random)
{
	const float position = a->high > a->low ? a->low + (a->high - a->low) * stk__random_float(&random) : a->low;
	return (struct stk_sound_want){.rate = a->sample_rate,
		.quality = a->quality,
		.low_pass = a->low_pass,
		.mono = a->downmix,
		.dtype = a->dtype,
		.duration = a->duration,
		.nearest = true,
		.pad = true,
		.position = (double)position};
}

static enum stk_status readers_sound_infer(const struct stk_call *call, struct stk_error *err)
{
	struct stk_sound_parts parts;
	const struct stk_sound_want want = want_of(call->args, call->random);
	call->out[1].desc = (struct stk_desc){STK_FLOAT, 0, {0}, ""};
	call->out[2].desc = (struct stk_desc){STK_INT32, 1, {1}, ""};
	if (!call->bytes)
		return stk__sound_infer(call, NULL, &want, NULL, call->state, &call->out[0].desc, err);
	const struct stk_sound_bytes bytes = stk__sound_parts_begin(&parts, call);
	const enum stk_status s =
		stk__sound_infer(call, &((struct sounds *)call->shared)->sound, &want, &bytes, call->state, &call->out[0].desc, err);
	stk__sound_parts_end(&parts);
	return s;
}

static enum stk_status readers_sound_run(const struct stk_call *call, struct stk_error *err)
{
	struct stk_sound_parts parts;
	struct sounds *n = (struct sounds *)call->shared;
	const struct stk_sound_want want = want_of(call->args, call->random);
	*(float *)call->out[1].data = stk__sound_rate(&want, call->state);
	*(int32_t *)call->out[2].data = stk__file_list_label(n->files, call->place.sample);
	const struct stk_sound_bytes bytes = stk__sound_parts_begin(&parts, call);
	const enum stk_status s = stk__sound_run(call, &n->sound, &want, &bytes, call->state, &call->out[0], err);
	stk__sound_parts_end(&parts);
	return s;
}

/* ---- the reader ---- */

static int64_t readers_sound_size(const void *shared)
{
	return stk__file_list_size(((const struct sounds *)shared)->files);
}

static uint64_t readers_sound_fingerprint(const void *shared, enum stk_digest_form form)
{
	return stk__file_list_fingerprint(((const struct sounds *)shared)->files, form);
}

static uint64_t readers_sound_digest(const void *shared, int64_t first, int64_t count)
{
	return stk__file_list_digest(((const struct sounds *)shared)->files, first, count, STK_DIGEST_NOW);
}

static size_t readers_sound_uri(const void *shared, int64_t id, char *uri, size_t capacity)
{
	return stk__file_list_path(((const struct sounds *)shared)->files, id, uri, capacity);
}

static void readers_sound_object(const void *shared, int64_t uri, struct stk_known_object *out)
{
	stk__reader_files_object(((const struct sounds *)shared)->files, uri, out);
}

static void readers_sound_order(const void *args, const void *shared, struct stk_order *out)
{
	stk__reader_order(&((const struct readers_sound *)args)->reader, readers_sound_size(shared), out);
}

static int64_t readers_sound_classes(const void *shared)
{
	return stk__file_list_classes(((const struct sounds *)shared)->files);
}

static const char *readers_sound_class_name(const void *shared, int64_t label)
{
	return stk__file_list_class_name(((const struct sounds *)shared)->files, label);
}

static int64_t readers_sound_skipped(const void *shared, const char **text)
{
	return stk__file_list_skipped(((const struct sounds *)shared)->files, text);
}

static int32_t readers_sound_part_count(const void *args)
{
	(void)args;
	return STK_SOUND_PARTS;
}

static void readers_sound_parts(const void *shared, int64_t id, struct stk_part *out)
{
	const struct sounds *n = shared;
	const struct stk_sound_want window = {.duration = 0};
	struct stk_known_object known = {0};
	char path[4096];
	readers_sound_uri(shared, id, path, sizeof path);
	readers_sound_object(shared, id, &known);
	stk__sound_parts(&n->objects, &window, id, path, known.size, out);
}

static bool readers_sound_more(
	const void *args, const void *shared, int64_t id, struct stk_random random, const struct stk_bytes *bytes, struct stk_part *out)
{
	const struct stk_sound_want want = want_of(args, random);
	return stk__sound_more(&((struct sounds *)(uintptr_t)shared)->objects, &want, id, bytes, out);
}

static const struct stk_reader_def readers_sound_reader = {
	.open = readers_sound_open,
	.size = readers_sound_size,
	.fingerprint = readers_sound_fingerprint,
	.digest = readers_sound_digest,
	.order = readers_sound_order,
	.uri = readers_sound_uri,
	.object = readers_sound_object,
	.part_count = readers_sound_part_count,
	.parts = readers_sound_parts,
	.part_uri = readers_sound_uri,
	.more = readers_sound_more,
	.classes = readers_sound_classes,
	.class_name = readers_sound_class_name,
	.skipped = readers_sound_skipped,
};

const struct stk_op_def stk__op_readers_sound_windows = {
	.name = "readers.sound_windows",
	.doc = "Reads windows of sound files, with their rates and labels.",
	.outputs = 3,
	.args = readers_sound_args,
	.args_size = sizeof(struct readers_sound),
	.state_size = sizeof(struct stk_sound_state),
	.flags = STK_OP_CLONED | STK_OP_HIDDEN | STK_OP_RANDOM,
	.teardown = readers_sound_teardown,
	.infer = readers_sound_infer,
	.run_cpu = readers_sound_run,
	.reader = &readers_sound_reader,
};
