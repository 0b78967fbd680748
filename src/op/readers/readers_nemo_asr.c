/* SPDX-License-Identifier: Apache-2.0
 * readers.nemo_asr: utterances and their transcripts, listed in manifests of NVIDIA NeMo. */
#include "format/archive_file.h"
#include "format/list.h"
#include "format/nemo.h"
#include "op/audio/sound_fetch.h"
#include "op/readers/reader_files.h"

#include <string.h>

struct readers_nemo {
	struct stk_strings manifest_filepaths;
	bool downmix, low_pass, read_idxs, read_sample_rate, read_text;
	bool normalize_text; /* accepted for compatibility with DALI, without effect */
	int32_t dtype;
	float sample_rate, quality, min_duration, max_duration;
	struct stk_reader_args reader;
};

#define FLAG(member, dflt, flags, text) STK_ARG(struct readers_nemo, member, STK_ARG_BOOL, dflt, STK_FREE, flags, text)

static const struct stk_arg_def readers_nemo_args[] = {
	STK_ARG(struct readers_nemo, manifest_filepaths, STK_ARG_STRINGS, NULL, STK_FREE, STK_REQUIRED | STK_SCALAR_OK,
		"Paths of manifests: one JSON object for each utterance, with audio_filepath, and offset, duration and text if there are "
		"any. A relative audio_filepath starts in the working directory."),
	STK_ARG(struct readers_nemo, sample_rate, STK_ARG_FLOAT, "-1.0", (-0x1p31, 0x1p31), 0,
		"Rate of the output in Hz, to which files are resampled. Default, and 0 or less: the file's."),
	STK_ARG(struct readers_nemo, quality, STK_ARG_FLOAT, "50.0", (0, 100), 0, "Quality of resampling, 0 to 100."),
	FLAG(low_pass, "false", 0,
		"Removes frequencies above half of a lower sample_rate first; otherwise they become aliases, as in DALI."),
	STK_ARG(struct readers_nemo, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the samples: FLOAT (-1 <= x < 1), INT16 or INT32."),
	FLAG(downmix, "true", 0,
		"Outputs the mean of the channels, a tensor of 1 dim; otherwise samples have the shape (frames, channels)."),
	STK_ARG(struct readers_nemo, min_duration, STK_ARG_FLOAT, "0.0", STK_FREE, 0,
		"Leaves out utterances whose duration is shorter, in seconds, or not given. 0 or less: keeps all."),
	STK_ARG(struct readers_nemo, max_duration, STK_ARG_FLOAT, "0.0", STK_FREE, 0,
		"Leaves out utterances whose duration is longer, in seconds. 0 or less: keeps all."),
	FLAG(read_sample_rate, "true", 0, "Adds an output: the rate of the samples in Hz."),
	FLAG(read_text, "true", 0, "Adds an output: the bytes of the transcript."),
	FLAG(read_idxs, "false", 0, "Adds an output: the utterance's number among those of its manifest that are read."),
	FLAG(normalize_text, "false", STK_ACCEPTED, "Accepted and ignored, as by DALI."),
	STK_ARG_GROUP(struct readers_nemo, reader, stk__reader_group),
	STK_ARG_END,
};

/* ---- the data set ---- */

struct nemo {
	struct stk_file_list *files; /* sound files of the utterances */
	struct stk_nemo manifests;
	struct stk_sound_shared sound;
	struct stk_sound_objects objects;
};

static void readers_nemo_teardown(void *shared)
{
	struct nemo *n = shared;
	stk__file_list_destroy(n->files);
	stk__nemo_free(&n->manifests);
	stk__sound_shared_clear(&n->sound);
	stk__free(n);
}

static enum stk_status read_manifests(
	const struct readers_nemo *a, const struct stk_access *access, struct stk_nemo *out, struct stk_error *err)
{
	const struct stk_nemo_limits limits = {(double)a->min_duration, (double)a->max_duration};
	enum stk_status s = STK_OK;
	for (int32_t i = 0; i < a->manifest_filepaths.count && s == STK_OK; i++) {
		const char *path = a->manifest_filepaths.v[i];
		uint8_t *text = NULL;
		size_t size;
		s = stk__access_read(access, path, (size_t)1 << 40, &text, &size, err);
		if (!s)
			s = stk__nemo_parse(out, &limits, (const char *)text, size, path, err);
		stk__free(text);
	}
	if (!s)
		stk__names_settle(&out->paths);
	return s;
}

static enum stk_status readers_nemo_open(const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	const struct readers_nemo *a = args;
	struct nemo *n = stk__calloc(1, sizeof *n);
	if (!n)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a reader");
	enum stk_status s = read_manifests(a, access, &n->manifests, err);
	if (!s && !n->manifests.count)
		s = stk__fail(err, STK_NOT_FOUND, "the manifests have no utterances%s",
			a->min_duration > 0 || a->max_duration > 0 ? " whose duration is between min_duration and max_duration" : "");
	for (size_t i = 0; i < n->manifests.count && !s; i++)
		n->objects.remote |= stk__is_object(n->manifests.paths.at[i]);
	const struct stk_file_list_options o = {.access = access, .files = n->manifests.paths.at, .file_count = n->manifests.count};
	if (!s)
		s = stk__file_list_create(&o, &n->files, err);
	stk__names_free(&n->manifests.paths);
	if (!s)
		s = stk__reader_check(&a->reader, (int64_t)n->manifests.count, err);
	if (s)
		readers_nemo_teardown(n);
	else
		*shared = n;
	return s;
}

/* ---- a sample ---- */

static int32_t readers_nemo_outputs(const void *args)
{
	const struct readers_nemo *a = args;
	return 1 + a->read_sample_rate + a->read_text + a->read_idxs;
}

static struct stk_sound_want want_of(const struct readers_nemo *a, const struct stk_nemo_entry *entry)
{
	return (struct stk_sound_want){.rate = a->sample_rate,
		.quality = a->quality,
		.low_pass = a->low_pass,
		.mono = a->downmix,
		.dtype = a->dtype,
		.start = entry ? entry->offset : 0,
		.duration = entry ? entry->duration : -1,
		.position = -1};
}

static const struct stk_nemo_entry *entry_of(const struct stk_call *call)
{
	return call->bytes ? &((const struct nemo *)call->shared)->manifests.entries[call->place.sample] : NULL;
}

static enum stk_status readers_nemo_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct readers_nemo *a = call->args;
	const struct stk_nemo_entry *entry = entry_of(call);
	const struct stk_sound_want want = want_of(a, entry);
	struct stk_tensor *out = call->out + 1;
	if (a->read_sample_rate)
		out++->desc = (struct stk_desc){STK_FLOAT, 0, {0}, ""};
	if (a->read_text) {
		out->desc = (struct stk_desc){STK_UINT8, 1, {entry ? (int64_t)entry->text_size : -1}, ""};
		if (entry)
			out->data = ((const struct nemo *)call->shared)->manifests.text + entry->text;
		out++;
	}
	if (a->read_idxs)
		out->desc = (struct stk_desc){STK_INT64, 1, {1}, ""};
	if (!entry)
		return stk__sound_infer(call, NULL, &want, NULL, call->state, &call->out[0].desc, err);
	struct stk_sound_parts parts;
	const struct stk_sound_bytes bytes = stk__sound_parts_begin(&parts, call);
	const enum stk_status s =
		stk__sound_infer(call, &((struct nemo *)call->shared)->sound, &want, &bytes, call->state, &call->out[0].desc, err);
	stk__sound_parts_end(&parts);
	return s;
}

static enum stk_status readers_nemo_run(const struct stk_call *call, struct stk_error *err)
{
	const struct readers_nemo *a = call->args;
	const struct stk_nemo_entry *entry = entry_of(call);
	const struct stk_sound_want want = want_of(a, entry);
	if (a->read_sample_rate)
		*(float *)call->out[1].data = stk__sound_rate(&want, call->state);
	if (a->read_idxs)
		*(int64_t *)call->out[call->n_out - 1].data = entry->index;
	struct stk_sound_parts parts;
	const struct stk_sound_bytes bytes = stk__sound_parts_begin(&parts, call);
	const enum stk_status s =
		stk__sound_run(call, &((struct nemo *)call->shared)->sound, &want, &bytes, call->state, &call->out[0], err);
	stk__sound_parts_end(&parts);
	return s;
}

/* ---- the reader ---- */

static int64_t readers_nemo_size(const void *shared)
{
	return (int64_t)((const struct nemo *)shared)->manifests.count;
}

static uint64_t digest_of(const void *shared, int64_t first, int64_t count, enum stk_digest_form form)
{
	const struct nemo *n = shared;
	uint64_t h = stk__file_list_digest(n->files, first, count, form);
	for (int64_t i = first; i < first + count; i++) {
		const struct stk_nemo_entry *e = &n->manifests.entries[i];
		h = stk__hash_bytes(h, &e->offset, sizeof e->offset);
		h = stk__hash_bytes(h, &e->duration, sizeof e->duration);
		h = stk__hash_bytes(h, n->manifests.text + e->text, e->text_size);
	}
	return h;
}

static uint64_t readers_nemo_digest(const void *shared, int64_t first, int64_t count)
{
	return digest_of(shared, first, count, STK_DIGEST_NOW);
}

static uint64_t readers_nemo_fingerprint(const void *shared, enum stk_digest_form form)
{
	return digest_of(shared, 0, readers_nemo_size(shared), form);
}

static size_t readers_nemo_uri(const void *shared, int64_t id, char *uri, size_t capacity)
{
	return stk__file_list_path(((const struct nemo *)shared)->files, id, uri, capacity);
}

static int32_t readers_nemo_part_count(const void *args)
{
	(void)args;
	return STK_SOUND_PARTS;
}

static void readers_nemo_parts(const void *shared, int64_t id, struct stk_part *out)
{
	const struct nemo *n = shared;
	const struct stk_nemo_entry *entry = &n->manifests.entries[id];
	const struct stk_sound_want want = {.start = entry->offset, .duration = entry->duration, .position = -1};
	char path[4096] = "";
	if (n->objects.remote)
		stk__file_list_path(n->files, id, path, sizeof path);
	stk__sound_parts(&n->objects, &want, id, path, 0, out);
}

static bool readers_nemo_more(
	const void *args, const void *shared, int64_t id, struct stk_random random, const struct stk_bytes *bytes, struct stk_part *out)
{
	struct nemo *n = (struct nemo *)(uintptr_t)shared;
	const struct stk_sound_want want = want_of(args, &n->manifests.entries[id]);
	(void)random;
	return stk__sound_more(&n->objects, &want, id, bytes, out);
}

static const char *readers_nemo_listed_in(const void *args)
{
	return ((const struct readers_nemo *)args)->manifest_filepaths.v[0];
}

static void readers_nemo_order(const void *args, const void *shared, struct stk_order *out)
{
	stk__reader_order(&((const struct readers_nemo *)args)->reader, readers_nemo_size(shared), out);
}

static const struct stk_reader_def readers_nemo_reader = {
	.open = readers_nemo_open,
	.size = readers_nemo_size,
	.fingerprint = readers_nemo_fingerprint,
	.digest = readers_nemo_digest,
	.order = readers_nemo_order,
	.uri = readers_nemo_uri,
	.part_count = readers_nemo_part_count,
	.parts = readers_nemo_parts,
	.part_uri = readers_nemo_uri,
	.more = readers_nemo_more,
	.listed_in = readers_nemo_listed_in,
};

const struct stk_op_def stk__op_readers_nemo_asr = {
	.name = "readers.nemo_asr",
	.alias = "nemo_asr_reader",
	.doc = "Reads utterances with their transcripts, by manifests of NVIDIA NeMo.\n\n"
	       "Outputs the samples of an utterance, then, as the arguments say, its rate, its transcript and its number. An utterance "
	       "with offset or duration is that part of its file, and ends with the file at the latest.",
	.tolerance =
		"The output of read_sample_rate is the rate of the samples; DALI's is the file's rate, even if sample_rate resamples. An entry "
		"without audio_filepath is an error; DALI leaves it out. Floats become INT16 or INT32 as by decoders.audio.",
	.output_count = readers_nemo_outputs,
	.args = readers_nemo_args,
	.args_size = sizeof(struct readers_nemo),
	.state_size = sizeof(struct stk_sound_state),
	.flags = STK_OP_CLONED,
	.teardown = readers_nemo_teardown,
	.infer = readers_nemo_infer,
	.run_cpu = readers_nemo_run,
	.reader = &readers_nemo_reader,
};
