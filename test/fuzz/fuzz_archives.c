/* SPDX-License-Identifier: Apache-2.0
 * Tar files, indexes of wds2idx and tfrecord2idx, TFRecord files and Examples. The first byte of the input selects the format. Accepted input
 * must be consistent. */
#include "fuzz.h"

#include "base/memory.h"
#include "format/tfrecord.h"
#include "format/webdataset.h"

#include <stdlib.h>
#include <string.h>

static const char *const archives[] = {"fuzz"};
static const char *const endings[] = {"jpg;png", "cls"};
static const size_t elements[] = {1, 1};

static void free_indexes(struct stk_archive_index *x, int32_t count)
{
	for (int32_t i = 0; i < count; i++)
		stk__archive_index_free(&x[i]);
	stk__free(x);
}

static void check_samples(const struct stk_samples *t)
{
	char name[64];
	for (int64_t i = 0; i < t->size; i++) {
		stk__samples_name(t, i, name, sizeof name);
		for (int32_t k = 0; k < t->parts_each; k++) {
			const struct stk_sample_part *p = &t->parts[i * t->parts_each + k];
			int64_t end;
			if (p->offset < 0 || p->length < 0 || __builtin_add_overflow(p->offset, p->length, &end))
				abort();
		}
	}
	stk__samples_digest(t, 0, t->size, STK_DIGEST_NOW);
}

/* Writes the entries that a search finds to an index file and reads them back. Also reads the input itself as an index file. */
static enum stk_status fuzz_archive(enum stk_archive_kind kind, const struct stk_webdataset_options *o, struct stk_archive_file *f,
	struct stk_samples *t, struct stk_error *err)
{
	struct stk_archive_index x, *back = NULL;
	struct stk_components have = {0};
	struct stk_coded_out out = {0};
	int32_t count = 0;
	if (!stk__archive_index_parse(kind, f->buffer, (size_t)f->size, "fuzz", &back, &count, NULL))
		free_indexes(back, count);
	enum stk_status s = stk__archive_index_scan(kind, f, NULL, NULL, &x, err);
	if (s)
		return s;
	x.path = strdup("fuzz");
	stk__archive_index_begin(&out, kind, 1);
	stk__archive_index_put(&out, &x, "fuzz");
	stk__put_hash(&out);
	if (stk__archive_index_parse(kind, out.data, out.n, "fuzz", &back, &count, NULL) || count != 1 || back->members != x.members ||
		back->header_hash != x.header_hash || back->last != x.last || !stk__archive_index_fits(kind, back, f))
		abort();
	if (kind == STK_ARCHIVE_TAR)
		s = stk__webdataset_add(o, 0, back, t, &have, err);
	free_indexes(back, count);
	stk__free(out.data);
	free(x.path);
	x.path = NULL;
	stk__archive_index_free(&x);
	return s;
}

static void fuzz_samples(int kind, const uint8_t *data, size_t size)
{
	struct stk_webdataset_options o = {.paths = archives,
		.path_count = 1,
		.endings = endings,
		.part_count = 2,
		.ignore_case = kind & 1,
		.missing = (enum stk_missing)(kind % 3),
		.elements = elements};
	struct stk_archive_file f = {.path = "fuzz", .fd = -1, .size = (int64_t)size, .buffer = (uint8_t *)(uintptr_t)data};
	struct stk_error err = {0};
	struct stk_samples t;
	if (stk__samples_init(&t, archives, 1, kind < 4 ? 2 : 1, &err))
		return;
	struct stk_components have = {0};
	enum stk_status s;
	if (kind < 2 || kind == 4)
		s = fuzz_archive(kind == 4 ? STK_ARCHIVE_TFRECORD : STK_ARCHIVE_TAR, &o, &f, &t, &err);
	else if (kind < 4)
		s = stk__webdataset_parse_index(&o, 0, (const char *)data, size, "fuzz", &t, &have, &err);
	else
		s = stk__tfrecord_parse_index(0, (const char *)data, size, "fuzz", &t, &err);
	if (s ? !strstr(err.message, "fuzz") : false)
		abort();
	if (!s)
		check_samples(&t);
	stk__samples_free(&t);
}

static void fuzz_example(const uint8_t *data, size_t size)
{
	static const char *const specs[] = {"int64[*]", "float32[*,2]", "string[]=x"};
	static const char *const names[] = {"i", "f", "s"};
	struct stk_feature features[3];
	struct stk_feature_values values[3];
	const uint8_t *payload = data;
	for (int k = 0; k < 3; k++)
		if (stk__feature_parse(names[k], specs[k], &features[k], NULL))
			abort();
	if (stk__tfrecord_payload(0, data, size, &payload, &size, NULL)) /* the input is no record, so all of it is used as the message */
		payload = data;
	if (stk__example_find(payload, size, features, 3, values, NULL))
		return;
	for (int k = 0; k < 2; k++) {
		size_t element = k ? sizeof(float) : sizeof(int64_t);
		void *out = malloc((size_t)values[k].count * element + 1);
		if (out && values[k].data)
			stk__example_numbers(&features[k], &values[k], out);
		free(out);
	}
	size_t length;
	if (values[2].data && values[2].count) {
		const uint8_t *string = stk__example_string(&values[2], &length);
		if (length > size || (length && (string < payload || string + length > payload + size)))
			abort();
	}
}

static void fuzz_spec(const uint8_t *data, size_t size)
{
	char text[200];
	struct stk_feature f;
	struct stk_error err = {0};
	size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
	memcpy(text, data, n);
	text[n] = '\0';
	if (stk__feature_parse("name", text, &f, &err) ? !strstr(err.message, "name") : f.elements < 0 || f.ndim + f.varies > STK_MAX_DIMS)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	int kind = data[0] & 7;
	if (kind < 6)
		fuzz_samples(kind, data + 1, size - 1);
	else if (kind == 6)
		fuzz_example(data + 1, size - 1);
	else
		fuzz_spec(data + 1, size - 1);
	return 0;
}
