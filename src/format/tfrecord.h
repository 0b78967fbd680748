/* SPDX-License-Identifier: Apache-2.0
 * TFRecord files, whose records are a length, its checksum, the bytes and their checksum; and tf.train.Example, the message that most records hold
 * (tensorflow/core/lib/io/record_writer.h, tensorflow/core/example/example.proto). Indexes are those of tfrecord2idx: "OFFSET SIZE" a line. */
#ifndef STK_FORMAT_TFRECORD_H
#define STK_FORMAT_TFRECORD_H

#include "format/archive_file.h"
#include "format/samples.h"
#include "stoker/tensor.h"
#include "storage/storage.h"

/* ---- files ---- */

struct stk_tfrecord_options {
	const struct stk_access *access; /* nullable */
	const char *const *paths;
	const char *const *index_paths; /* one for each path; NULL: kept indexes are used, and files without one are searched */
	int32_t path_count;
};

/* Opens the files. Each sample is one part: the whole record, with its length and checksums. */
STK_MUST_USE enum stk_status stk__tfrecord_open(const struct stk_tfrecord_options *o, struct stk_samples *out, struct stk_error *err);

/* stk__tfrecord_parse_index adds the records of a file to `t`, from the text of the file's index. stk__tfrecord_scan searches the file itself, and calls
 * `found` for each record. */
STK_MUST_USE enum stk_status stk__tfrecord_parse_index(
	int32_t file, const char *text, size_t size, const char *path, struct stk_samples *t, struct stk_error *err);
STK_MUST_USE enum stk_status stk__tfrecord_scan(struct stk_archive_file *f, stk_archive_found *found, void *user, struct stk_error *err);

/* ---- a record ---- */

enum { STK_TFRECORD_FRAME = 16 }; /* bytes of a record in addition to its payload: its length and both checksums */

/* Returns a view of the record's own bytes, if its checksums agree. A checksum of 0 counts as absent: DALI requires none, so there are files without. cpu:
 * stk__cpu_capabilities. */
STK_MUST_USE enum stk_status stk__tfrecord_payload(
	unsigned cpu, const uint8_t *record, size_t size, const uint8_t **payload, size_t *payload_size, struct stk_error *err);

/* The type and shape that a feature must have. */
struct stk_feature {
	const char *name;
	enum stk_dtype dtype; /* INT64, FLOAT, or UINT8: a string's bytes */
	bool varies;          /* any number of values, in groups of `shape`; else exactly the shape */
	int32_t ndim;
	int64_t shape[STK_MAX_DIMS];
	int64_t each;     /* number of the shape's elements */
	bool has_default; /* whether records without the feature get, for each element, the one of the next members that dtype names */
	int64_t whole;
	float real;
	const char *text;
};

/* Parses "int64[3,2]=0", "float32[]", "string[]=none"; "int64[*]" for any number of values, "int64[*,3]" for groups of three. Keeps addresses inside `spec`. */
STK_MUST_USE enum stk_status stk__feature_parse(const char *name, const char *spec, struct stk_feature *out, struct stk_error *err);

/* A feature's values in a record, valid as long as the record. data NULL: the record lacks the feature. */
struct stk_feature_values {
	const uint8_t *data; /* the message tf.train.Feature that contains the values */
	size_t size;
	int64_t count;
};

/* Finds n features in an Example, and counts their values. STK_CORRUPT: the Example is damaged, or a feature has values of another type. */
STK_MUST_USE enum stk_status stk__example_find(const uint8_t *data, size_t size, const struct stk_feature *features, int32_t n,
	struct stk_feature_values *out, struct stk_error *err);
/* Writes all values as elements of the feature's type. */
void stk__example_numbers(const struct stk_feature *f, const struct stk_feature_values *v, void *out);
/* Returns the first string, and its length in *size; NULL if there is none. */
const uint8_t *stk__example_string(const struct stk_feature_values *v, size_t *size);

/* Computes CRC-32C (Castagnoli). */
uint32_t stk__crc32c(unsigned cpu, const uint8_t *data, size_t size);

#endif
