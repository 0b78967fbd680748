/* SPDX-License-Identifier: Apache-2.0
 * readers.webdataset: samples of several files each, from tars. */
#include "op/readers/reader_webdataset.h"

#include "format/tar.h"

const struct stk_arg_def stk__webdataset_args[] = {
	STK_ARG(struct stk_webdataset_args, paths, STK_ARG_STRINGS, NULL, STK_FREE, STK_REQUIRED | STK_SCALAR_OK,
		"Tars: local paths or URIs, with patterns such as \"shard-{000..127}.tar\" and \"*.tar\", or an index that stoker index "
		"made of tars. All of them are one data set, which is shuffled and divided among ranks as a whole."),
	STK_ARG(struct stk_webdataset_args, ext, STK_ARG_STRINGS, NULL, STK_FREE, STK_REQUIRED | STK_SCALAR_OK,
		"Ends of the components' names, after the first dot; one for each output. Semicolons separate alternatives: \"jpg;png\"."),
	STK_ARG(struct stk_webdataset_args, index_paths, STK_ARG_STRINGS, NULL, STK_FREE, STK_SCALAR_OK,
		"Indexes of DALI's wds2idx, one for each tar. Default: the headers of each tar are read once, and kept in an index next to "
		"the tar, or in ~/.cache/stoker."),
	STK_ARG(struct stk_webdataset_args, dtypes, STK_ARG_INTS, NULL, (0, STK_DTYPE_COUNT - 1), STK_SCALAR_OK,
		"Types of the elements in a component's bytes, one for each output. Default: uint8."),
	{.name = "missing_component_behavior",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_webdataset_args, missing_component_behavior),
		.choices = "|empty|skip|error",
		.doc = "If a sample lacks a component: make that output empty, leave the sample out, or fail. Default, "
		       "and for an empty text: make it empty, but fail if no sample has the component."},
	STK_ARG(struct stk_webdataset_args, case_sensitive_extensions, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Distinguishes capitals from small letters in ext."),
	STK_ARG(struct stk_webdataset_args, shuffle_shards, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Makes random_shuffle shuffle runs of as many samples as a tar has on average, and keep the order inside a run. Samples "
		"that are read together are then stored together, but the samples of a batch are neighbours in the tar."),
	STK_ARG_GROUP(struct stk_webdataset_args, reader, stk__reader_group),
	STK_ARG_END,
};

static enum stk_dtype dtype_of(const struct stk_webdataset_args *a, int32_t output)
{
	return output < a->dtypes.count ? (enum stk_dtype)a->dtypes.v[output] : STK_UINT8;
}

int32_t stk__webdataset_outputs(const void *args)
{
	const struct stk_webdataset_args *a = args;
	return a->ext.count < 1 ? 1 : a->ext.count < STK_MAX_PARTS ? a->ext.count : STK_MAX_PARTS;
}

static enum stk_status check(const struct stk_webdataset_args *a, struct stk_error *err)
{
	if (a->ext.count < 1 || a->ext.count > STK_MAX_PARTS)
		return stk__fail(err, STK_INVALID, "ext has %d values: name 1 to %d components", a->ext.count, STK_MAX_PARTS);
	if (a->dtypes.count >= 0 && a->dtypes.count != a->ext.count)
		return stk__fail(err, STK_INVALID, "there are %d components in ext and %d dtypes", a->ext.count, a->dtypes.count);
	for (int32_t k = 0; k < a->dtypes.count; k++)
		if (a->dtypes.v[k] == STK_BOOL)
			return stk__fail(err, STK_UNSUPPORTED,
				"dtypes[%d] is BOOL, and the bytes of a file can have other values than 0 and 1: read UINT8, and compare it with 0",
				k);
	return STK_OK;
}

enum stk_status stk__webdataset_request(
	const struct stk_webdataset_args *a, const struct stk_access *access, struct stk_webdataset_request *out, struct stk_error *err)
{
	const char *missing = a->missing_component_behavior;
	enum stk_status s = stk__archive_paths(access, "paths", &a->paths, "index_paths", &a->index_paths, &out->paths, err);
	for (int32_t k = 0; k < a->ext.count; k++)
		out->elements[k] = stk_dtype_size(dtype_of(a, k));
	out->options = (struct stk_webdataset_options){.access = access,
		.paths = out->paths.archives.at,
		.index_paths = out->paths.indexes.at,
		.path_count = (int32_t)out->paths.archives.count,
		.endings = a->ext.v,
		.part_count = a->ext.count,
		.ignore_case = !a->case_sensitive_extensions,
		.missing = !missing || !*missing ? STK_MISSING_DEFAULT
			   : missing[1] == 'k'   ? STK_MISSING_SKIP
			   : missing[1] == 'r'   ? STK_MISSING_ERROR
						 : STK_MISSING_EMPTY,
		.elements = out->elements};
	return s;
}

static enum stk_status readers_webdataset_open(const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	const struct stk_webdataset_args *a = args;
	struct stk_webdataset_request r;
	struct stk_samples samples;
	enum stk_status s = stk__webdataset_request(a, access, &r, err);
	if (s)
		return s;
	s = stk__webdataset_open(&r.options, &samples, err);
	stk__archive_paths_free(&r.paths);
	return s ? s : stk__reader_samples_keep(&samples, &a->reader, shared, err);
}

/* Makes the outputs views of the bytes that were read. They are aligned, since a tar's files begin at multiples of 512 bytes. */
enum stk_status stk__webdataset_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_webdataset_args *a = call->args;
	enum stk_status s = check(a, err);
	for (int32_t k = 0; k < call->n_out && s == STK_OK; k++) {
		enum stk_dtype dtype = dtype_of(a, k);
		int64_t n = call->bytes ? (int64_t)(call->bytes[k].size / stk_dtype_size(dtype)) : -1;
		call->out[k].desc = (struct stk_desc){dtype, 1, {n}, ""};
		call->out[k].data = call->bytes ? (void *)(uintptr_t)call->bytes[k].data : NULL;
	}
	return s;
}

/* Does nothing: the outputs are views, which infer has set. */
enum stk_status stk__webdataset_run(const struct stk_call *call, struct stk_error *err)
{
	(void)call;
	(void)err;
	return STK_OK;
}

static void readers_webdataset_order(const void *args, const void *shared, struct stk_order *out)
{
	const struct stk_webdataset_args *a = args;
	const struct stk_samples *samples = shared;
	stk__reader_order(&a->reader, samples->size, out);
	if (a->shuffle_shards && out->shuffle)
		out->block = out->size > samples->archive_count ? out->size / samples->archive_count : 1;
}

static const struct stk_reader_def readers_webdataset_reader = {
	.open = readers_webdataset_open,
	.size = stk__reader_samples_size,
	.fingerprint = stk__reader_samples_fingerprint,
	.digest = stk__reader_samples_digest,
	.order = readers_webdataset_order,
	.uri = stk__reader_samples_uri,
	.part_count = stk__webdataset_outputs,
	.parts = stk__reader_samples_parts,
	.object = stk__reader_samples_object,
	.part_uri = stk__reader_samples_part_uri,
	.header = STK_TAR_HEADER,
	.check = stk__reader_samples_check,
};

const struct stk_op_def stk__op_readers_webdataset = {
	.name = "readers.webdataset",
	.doc = "Reads samples of several files each from tars, in WebDataset's format.\n\n"
	       "Consecutive files of a tar that share their name up to its first dot form a sample; the rest of the name is the "
	       "component's.\n"
	       "Outputs the bytes of each component in ext, as a tensor of one dim. Samples are read at their offsets; those of all "
	       "tars are shuffled as one\n"
	       "data set, and neighbours are read in one request. A .tar.gz has to be unpacked first.",
	.output_count = stk__webdataset_outputs,
	.args = stk__webdataset_args,
	.args_size = sizeof(struct stk_webdataset_args),
	.flags = STK_OP_CLONED,
	.teardown = stk__reader_samples_close,
	.infer = stk__webdataset_infer,
	.run_cpu = stk__webdataset_run,
	.reader = &readers_webdataset_reader,
};
