/* SPDX-License-Identifier: Apache-2.0
 * readers.tfrecord: features of tf.train.Example from TFRecord files. */
#include "base/cpu.h"
#include "format/tfrecord.h"
#include "op/readers/reader_samples.h"

#include <stdio.h>
#include <string.h>

struct readers_tfrecord {
	struct stk_strings path, index_path, feature_names, features;
	struct stk_reader_args reader;
};

struct tfrecord_state {
	struct stk_feature_values values[STK_MAX_PARTS];
};

static const struct stk_arg_def readers_tfrecord_args[] = {
	STK_ARG(struct readers_tfrecord, path, STK_ARG_STRINGS, NULL, STK_FREE, STK_REQUIRED | STK_SCALAR_OK,
		"TFRecord files: local paths or URIs, with patterns such as \"train-{000..127}.tfrecord\" and \"train-*\". All of them are "
		"one data set, which is shuffled and divided among ranks as a whole."),
	STK_ARG(struct readers_tfrecord, index_path, STK_ARG_STRINGS, NULL, STK_FREE, STK_SCALAR_OK,
		"Indexes of DALI's tfrecord2idx, one for each file. Default: the lengths of each file's records are read once, and kept in "
		"an index next to the file, or in ~/.cache/stoker."),
	STK_ARG(struct readers_tfrecord, feature_names, STK_ARG_STRINGS, NULL, STK_FREE, 0, "Names of the features, one for each output."),
	STK_ARG(struct readers_tfrecord, features, STK_ARG_STRINGS, NULL, STK_FREE, STK_REQUIRED,
		"Type, shape and default of each feature: \"int64[3,2]=0\", \"string[]\", \"float32[*]\" (any number of values) or "
		"\"float32[*,4]\" (groups of four). In Python it is a dict of stoker.tfrecord's features by name, without "
		"feature_names."),
	STK_ARG_GROUP(struct readers_tfrecord, reader, stk__reader_group),
	STK_ARG_END,
};

static int32_t readers_tfrecord_outputs(const void *args)
{
	const struct readers_tfrecord *a = args;
	return a->features.count < 1 ? 1 : a->features.count < STK_MAX_PARTS ? a->features.count : STK_MAX_PARTS;
}

static int32_t readers_tfrecord_parts(const void *args)
{
	(void)args;
	return 1;
}

static enum stk_status parse_features(const struct readers_tfrecord *a, struct stk_feature *out, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	if (a->features.count < 1 || a->features.count > STK_MAX_PARTS)
		return stk__fail(err, STK_INVALID, "features has %d entries: name 1 to %d features", a->features.count, STK_MAX_PARTS);
	if (a->feature_names.count != a->features.count)
		return stk__fail(err, STK_INVALID, "there are %d feature_names and %d features", a->feature_names.count, a->features.count);
	for (int32_t k = 0; k < a->features.count && s == STK_OK; k++)
		s = stk__feature_parse(a->feature_names.v[k], a->features.v[k], &out[k], err);
	return s;
}

/* ---- the data set ---- */

struct tfrecord {
	struct stk_samples samples; /* first member, so that the functions of reader_samples.h accept the struct */
	struct stk_feature features[STK_MAX_PARTS];
	unsigned cpu;
	bool searched; /* true if the user gave no indexes: the files were searched, so the sizes of records are exact */
};

static enum stk_status readers_tfrecord_open(const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	const struct readers_tfrecord *a = args;
	struct stk_archive_paths paths;
	enum stk_status s = stk__archive_paths(access, "path", &a->path, "index_path", &a->index_path, &paths, err);
	if (s)
		return s;
	struct tfrecord *t = stk__calloc(1, sizeof *t);
	const struct stk_tfrecord_options o = {
		.access = access, .paths = paths.archives.at, .index_paths = paths.indexes.at, .path_count = (int32_t)paths.archives.count};
	s = t ? parse_features(a, t->features, err) : stk__fail(err, STK_NO_MEMORY, "out of memory for a reader");
	if (t) {
		t->cpu = stk__cpu_capabilities();
		t->searched = !o.index_paths;
	}
	if (!s)
		s = stk__tfrecord_open(&o, &t->samples, err);
	if (!s)
		s = stk__reader_check(&a->reader, t->samples.size, err);
	stk__archive_paths_free(&paths);
	if (!s)
		*shared = t;
	else if (t)
		stk__reader_samples_close(t);
	return s;
}

/* Writes the file of a sample and its offset there, in DALI's words. Returns the length of this text, also if `capacity` is too small. */
static size_t readers_tfrecord_uri(const void *shared, int64_t id, char *uri, size_t capacity)
{
	const struct stk_samples *t = shared;
	return (size_t)snprintf(uri, capacity, "%s at index %lld", t->archives[t->places[id].archive], (long long)t->parts[id].offset);
}

/* ---- a sample ---- */

/* Sets the extent that depends on the record: the size of a string, or the number of groups of a feature that varies. Makes a string's output a view of the
 * record's bytes or of the default. STK_CORRUPT: a feature of fixed shape has no values and no default, or the number of values does not fit the shape. */
static enum stk_status place_feature(
	const struct stk_feature *f, const struct stk_feature_values *v, struct stk_tensor *out, struct stk_error *err)
{
	bool missing = !v->data || (v->count == 0 && f->elements > 0 && !f->varies);
	if (missing && !f->varies && !f->has_default && f->elements > 0)
		return stk__fail(err, STK_CORRUPT, "the record has no feature \"%.100s\", and the feature has no default", f->name);
	if (f->dtype == STK_UINT8) {
		size_t size;
		const uint8_t *bytes = missing ? (const uint8_t *)f->text : stk__example_string(v, &size);
		size = missing ? strlen(f->text) : size;
		out->desc.shape[0] = (int64_t)size;
		out->data = (void *)(uintptr_t)bytes;
		return STK_OK;
	}
	if (!f->varies && !missing && v->count != f->elements)
		return stk__fail(err, STK_CORRUPT, "feature \"%.100s\" has %lld values in this record, but its shape needs %lld", f->name,
			(long long)v->count, (long long)f->elements);
	if (f->varies && v->count % f->elements)
		return stk__fail(err, STK_CORRUPT, "feature \"%.100s\" has %lld values in this record, which are not whole groups of %lld",
			f->name, (long long)v->count, (long long)f->elements);
	if (f->varies)
		out->desc.shape[0] = v->count / f->elements;
	return STK_OK;
}

static struct stk_desc desc_of(const struct stk_feature *f)
{
	struct stk_desc d = {.dtype = f->dtype, .ndim = f->dtype == STK_UINT8 ? 1 : f->ndim + f->varies, .shape = {-1}};
	if (f->dtype != STK_UINT8)
		memcpy(d.shape + f->varies, f->shape, (size_t)f->ndim * sizeof *f->shape);
	return d;
}

static enum stk_status readers_tfrecord_infer(const struct stk_call *call, struct stk_error *err)
{
	struct tfrecord_state *state = call->state;
	struct stk_feature given[STK_MAX_PARTS];
	const struct stk_feature *features = given;
	enum stk_status s = STK_OK;
	if (call->bytes) {
		const uint8_t *payload;
		size_t size;
		const struct tfrecord *t = call->shared;
		features = t->features;
		s = stk__tfrecord_payload(t->cpu, call->bytes->data, call->bytes->size, &payload, &size, err);
		if (!s && t->searched && size + STK_TFRECORD_FRAME != call->bytes->size)
			s = stk__fail(err, STK_CORRUPT,
				"the record has %zu bytes, and had %zu when the file was searched: the file was changed or replaced; start again",
				size, call->bytes->size - STK_TFRECORD_FRAME);
		if (!s)
			s = stk__example_find(payload, size, features, call->n_out, state->values, err);
	} else {
		s = parse_features(call->args, given, err);
	}
	for (int32_t k = 0; k < call->n_out && s == STK_OK; k++) {
		call->out[k].desc = desc_of(&features[k]);
		if (call->bytes)
			s = place_feature(&features[k], &state->values[k], &call->out[k], err);
	}
	return s;
}

static void fill(const struct stk_feature *f, void *out)
{
	for (int64_t i = 0; i < f->elements; i++)
		if (f->dtype == STK_FLOAT)
			((float *)out)[i] = f->real;
		else
			((int64_t *)out)[i] = f->integer;
}

static enum stk_status readers_tfrecord_run(const struct stk_call *call, struct stk_error *err)
{
	const struct tfrecord_state *state = call->state;
	const struct stk_feature *features = ((const struct tfrecord *)call->shared)->features;
	(void)err;
	for (int32_t k = 0; k < call->n_out; k++) {
		const struct stk_feature *f = &features[k];
		if (f->dtype == STK_UINT8)
			continue;
		if (state->values[k].count)
			stk__example_numbers(f, &state->values[k], call->out[k].data);
		else if (!f->varies)
			fill(f, call->out[k].data);
	}
	return STK_OK;
}

static void readers_tfrecord_order(const void *args, const void *shared, struct stk_order *out)
{
	const struct readers_tfrecord *a = args;
	stk__reader_order(&a->reader, stk__reader_samples_size(shared), out);
}

static const struct stk_reader_def readers_tfrecord_reader = {
	.open = readers_tfrecord_open,
	.size = stk__reader_samples_size,
	.fingerprint = stk__reader_samples_fingerprint,
	.digest = stk__reader_samples_digest,
	.order = readers_tfrecord_order,
	.uri = readers_tfrecord_uri,
	.part_count = readers_tfrecord_parts,
	.parts = stk__reader_samples_parts,
	.object = stk__reader_samples_object,
	.part_uri = stk__reader_samples_part_uri,
};

const struct stk_op_def stk__op_readers_tfrecord = {
	.name = "readers.tfrecord",
	.doc = "Reads features of TensorFlow's Examples from TFRecord files.\n\n"
	       "Outputs a tensor for each feature; in Python a dict of them by name. A string becomes its bytes, a tensor of one dim; "
	       "of several strings only the first is output, as in DALI.\n"
	       "If a record lacks a feature, the output is the feature's default, or empty if the number of values varies. A record is "
	       "a bad sample if it has another number of values than the\n"
	       "shape, or if its bytes do not match its checksum.",
	.output_count = readers_tfrecord_outputs,
	.args = readers_tfrecord_args,
	.args_size = sizeof(struct readers_tfrecord),
	.state_size = sizeof(struct tfrecord_state),
	.flags = STK_OP_CLONED,
	.teardown = stk__reader_samples_close,
	.infer = readers_tfrecord_infer,
	.run_cpu = readers_tfrecord_run,
	.reader = &readers_tfrecord_reader,
};
