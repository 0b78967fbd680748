/* SPDX-License-Identifier: Apache-2.0
 * readers.webdataset_unindexed: reads tars in a store in a Loader's first epoch, while their index is made. */
#include "format/survey.h"
#include "format/tar.h"
#include "op/readers/reader_samples.h"
#include "op/readers/reader_webdataset.h"

static enum stk_status open_survey(const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	struct stk_webdataset_request r;
	struct stk_survey *survey = NULL;
	enum stk_status s = stk__webdataset_request(args, access, &r, err);
	if (s)
		return s;
	s = stk__survey_create(&r.options, &survey, err);
	stk__archive_paths_free(&r.paths);
	*shared = survey;
	return s;
}

static void close_survey(void *shared)
{
	stk__survey_destroy(shared);
}

static struct stk_survey *survey_of(const void *shared)
{
	return (struct stk_survey *)(uintptr_t)shared; /* the cast removes const: the survey guards its changes by a lock of its own */
}

static int64_t size(const void *shared)
{
	(void)shared;
	return -1;
}

static uint64_t fingerprint(const void *shared, enum stk_digest_form form)
{
	return stk__survey_digest(shared, form);
}

static void order(const void *args, const void *shared, struct stk_order *out)
{
	const struct stk_webdataset_args *a = args;
	(void)shared;
	stk__reader_order(&a->reader, STK_ORDER_UNKNOWN, out);
	out->as_met = true;
	out->contiguous = false;
}

static size_t uri(const void *shared, int64_t id, char *out, size_t capacity)
{
	return stk__survey_uri(survey_of(shared), id, out, capacity);
}

static void parts(const void *shared, int64_t id, struct stk_part *out)
{
	struct stk_sample_part found[STK_MAX_PARTS];
	int32_t tar, n = stk__survey_parts(survey_of(shared), id, found, NULL, &tar);
	for (int32_t k = 0; k < n; k++)
		out[k] = (struct stk_part){.uri = tar, .offset = found[k].offset, .length = found[k].length};
}

static void object(const void *shared, int64_t tar, struct stk_known_object *out)
{
	const struct stk_samples_object known = stk__survey_object(survey_of(shared), tar);
	char uri[4096];
	stk__survey_tar(survey_of(shared), tar, uri, sizeof uri);
	*out = (struct stk_known_object){.size = known.size, .tag = known.tag, .pinned = true, .remote = stk__is_object(uri)};
}

static enum stk_status check(const void *shared, int64_t id, int32_t part, const uint8_t *header, struct stk_error *err)
{
	char tar[4096];
	struct stk_sample_part parts[STK_MAX_PARTS];
	uint32_t header_hashes[STK_MAX_PARTS];
	int32_t number;
	stk__survey_parts(survey_of(shared), id, parts, header_hashes, &number);
	stk__survey_tar(survey_of(shared), number, tar, sizeof tar);
	return stk__tar_part_check(tar, &parts[part], header_hashes[part], header, err);
}

static size_t part_uri(const void *shared, int64_t tar, char *out, size_t capacity)
{
	return stk__survey_tar(survey_of(shared), tar, out, capacity);
}

static const struct stk_reader_def reader = {
	.open = open_survey,
	.size = size,
	.survey = survey_of,
	.fingerprint = fingerprint,
	.order = order,
	.uri = uri,
	.part_count = stk__webdataset_outputs,
	.parts = parts,
	.object = object,
	.part_uri = part_uri,
	.header = STK_TAR_HEADER,
	.check = check,
};

const struct stk_op_def stk__op_readers_webdataset_unindexed = {
	.name = "readers.webdataset_unindexed",
	.doc = "Reads samples from tars while these are still searched for samples, for one epoch. Tars come one after the other, in a "
	       "drawn order with random_shuffle; the samples of a tar come in the order in which it holds them.",
	.output_count = stk__webdataset_outputs,
	.args = stk__webdataset_args,
	.args_size = sizeof(struct stk_webdataset_args),
	.flags = STK_OP_CLONED | STK_OP_HIDDEN,
	.teardown = close_survey,
	.infer = stk__webdataset_infer,
	.run_cpu = stk__webdataset_run,
	.reader = &reader,
};
