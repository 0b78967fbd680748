/* SPDX-License-Identifier: Apache-2.0
 * TFRecord files, whose records are a length, its checksum, the payload and its checksum; and tf.train.Example, the message that most records contain
 * (tensorflow/core/lib/io/record_writer.h, tensorflow/core/example/example.proto). Indexes are those of tfrecord2idx: "OFFSET SIZE" a line. */
#ifndef STK_FORMAT_TFRECORD_H
#define STK_FORMAT_TFRECORD_H

#include "format/archive_file.h"
#include "format/samples.h"
#include "stoker/tensor.h"
#include "storage/storage.h"

/* ---- files ---- */

struct stk_tfrecord_options {
	const struct stk_access *access; /* may be NULL */
	const char *const *paths;
	const char *const *index_paths; /* one for each path; NULL: indexes of earlier runs are used, and files without one are searched */
	int32_t path_count;
};

/* Opens the files, and fills *out with their samples. Each sample has one part: the whole record, with its length and checksums. */
STK_MUST_USE enum stk_status stk__tfrecord_open(const struct stk_tfrecord_options *o, struct stk_samples *out, struct stk_error *err);

/* stk__tfrecord_parse_index adds the records of a file to `t`, from the text of the file's index. stk__tfrecord_scan searches the file itself, and calls
 * `found` for each record. */
STK_MUST_USE enum stk_status stk__tfrecord_parse_index(
	int32_t file, const char *text, size_t size, const char *path, struct stk_samples *t, struct stk_error *err);
STK_MUST_USE enum stk_status stk__tfrecord_scan(struct stk_archive_file *f, stk_archive_found *found, void *user, struct stk_error *err);

/* ---- a record ---- */

enum { STK_TFRECORD_FRAME = 16 }; /* number of bytes of a record in addition to its payload: its length and both checksums */

/* Sets *payload to a view of the payload in `record`. STK_CORRUPT: a checksum or the length is wrong. A checksum of 0 counts as absent: DALI requires none,
 * so some files have none. cpu: stk__cpu_capabilities. */
STK_MUST_USE enum stk_status stk__tfrecord_payload(
	unsigned cpu, const uint8_t *record, size_t size, const uint8_t **payload, size_t *payload_size, struct stk_error *err);

/* The type and shape that a feature must have. */
struct stk_feature {
	const char *name;
	enum stk_dtype dtype; /* INT64, FLOAT, or UINT8 for the bytes of a string */
	bool varies;          /* true: any number of values, in groups of `shape`; false: exactly the shape */
	int32_t ndim;
	int64_t shape[STK_MAX_DIMS];
	int64_t elements; /* number of the shape's elements */
	bool has_default; /* true if a record without the feature gets a default: `integer`, `real` or `text`, by dtype, for each element */
	int64_t integer;
	float real;
	const char *text;
};

/* Parses a specification such as "int64[3,2]=0", "float32[]", "string[]=none", "int64[*]" (any number of values) or "int64[*,3]" (groups of three). *out
 * refers to `name` and `spec`, which must stay valid. */
STK_MUST_USE enum stk_status stk__feature_parse(const char *name, const char *spec, struct stk_feature *out, struct stk_error *err);

/* The values of a feature in a record, valid as long as the record. data NULL: the record lacks the feature. */
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
/* Returns the first string of the values, and its length in *size; NULL if they contain no string. */
const uint8_t *stk__example_string(const struct stk_feature_values *v, size_t *size);

/* Returns the CRC-32C (Castagnoli) of the bytes. cpu: stk__cpu_capabilities. */
uint32_t stk__crc32c(unsigned cpu, const uint8_t *data, size_t size);

#endif
