/* SPDX-License-Identifier: Apache-2.0
 * TFRecord: records of a length, a check of it, the bytes and a check of them; and tf.train.Example, the message that most of them hold
 * (tensorflow/core/lib/io/record_writer.h, tensorflow/core/example/example.proto). Indexes are those of tfrecord2idx: "OFFSET SIZE" a line. */
#ifndef STK_FORMAT_TFRECORD_H
#define STK_FORMAT_TFRECORD_H

#include "format/archive_file.h"
#include "format/samples.h"
#include "io/storage.h"
#include "stoker/tensor.h"

/* ---- files ---- */

struct stk_tfrecord_options {
	const struct stk_access *access; /* nullable */
	const char *const *paths;
	const char *const *index_paths; /* one for each; NULL: the files are searched */
	int32_t path_count;
};

/* Each sample is one part: the whole record, with its length and checks. */
STK_MUST_USE enum stk_status stk__tfrecord_open(const struct stk_tfrecord_options *o, struct stk_samples *out, struct stk_error *err);

/* Add one file's records to `t`: from its index, or by a scan of the file itself. */
STK_MUST_USE enum stk_status stk__tfrecord_parse_index(
	int32_t file, const char *text, size_t size, const char *path, struct stk_samples *t, struct stk_error *err);
STK_MUST_USE enum stk_status stk__tfrecord_scan(struct stk_archive_file *f, stk_archive_found *found, void *user, struct stk_error *err);

/* ---- a record ---- */

/* The record's own bytes, if its checks agree. A check of 0 is none: DALI asks for none, so there are files without. cpu: stk__cpu_capabilities. */
STK_MUST_USE enum stk_status stk__tfrecord_payload(
	unsigned cpu, const uint8_t *record, size_t size, const uint8_t **payload, size_t *payload_size, struct stk_error *err);

/* What a feature is asked to be. */
struct stk_feature {
	const char *name;
	enum stk_dtype dtype; /* INT64, FLOAT, or UINT8: a string's bytes */
	bool varies;          /* as many values as there are, in groups of `shape`; else exactly the shape */
	int32_t ndim;
	int64_t shape[STK_MAX_DIMS];
	int64_t each;     /* the shape's elements */
	bool has_default; /* for records without it: a value for each element; `text` for strings */
	int64_t whole;
	float real;
	const char *text;
};

/* "int64[3,2]=0", "float32[]", "string[]=none"; "int64[*]" for any number of values, "int64[*,3]" for groups of three. Keeps addresses inside `spec`. */
STK_MUST_USE enum stk_status stk__feature_parse(const char *name, const char *spec, struct stk_feature *out, struct stk_error *err);

/* A feature's values in a record: valid as long as it. data NULL: the record has none. */
struct stk_feature_values {
	const uint8_t *data; /* the message that holds them */
	size_t size;
	int64_t count;
};

/* Finds n features in an Example, and counts their values. */
STK_MUST_USE enum stk_status stk__example_find(const uint8_t *data, size_t size, const struct stk_feature *features, int32_t n,
	struct stk_feature_values *out, struct stk_error *err);
/* count values as elements of the feature's type. */
void stk__example_numbers(const struct stk_feature *f, const struct stk_feature_values *v, void *out);
/* The first string. */
const uint8_t *stk__example_string(const struct stk_feature_values *v, size_t *size);

/* CRC-32C (Castagnoli). */
uint32_t stk__crc32c(unsigned cpu, const uint8_t *data, size_t size);

#endif
