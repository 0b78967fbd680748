/* SPDX-License-Identifier: Apache-2.0
 * Shared by the readers whose samples are parts of archives. Their `shared` is a struct stk_samples. */
#ifndef STK_OP_READER_SAMPLES_H
#define STK_OP_READER_SAMPLES_H

#include "format/names.h"
#include "format/samples.h"
#include "op/readers/reader_args.h"

/* Paths of archives and of their indexes, with braces and globs expanded. There are as many indexes as archives, or none. */
struct stk_archive_paths {
	struct stk_names archives, indexes;
};
STK_MUST_USE enum stk_status stk__archive_paths(const struct stk_access *access, const char *archives_name,
	const struct stk_strings *archives, const char *indexes_name, const struct stk_strings *indexes, struct stk_archive_paths *out,
	struct stk_error *err);
void stk__archive_paths_free(struct stk_archive_paths *p);

/* Checks the reader's arguments for the number of samples in *from, and moves *from to allocated memory, *shared, which stk__reader_samples_close frees. Frees
 * *from on failure. */
STK_MUST_USE enum stk_status stk__reader_samples_keep(
	struct stk_samples *from, const struct stk_reader_args *reader, void **shared, struct stk_error *err);
void stk__reader_samples_close(void *shared);

/* Functions for struct stk_reader_def. */
int64_t stk__reader_samples_size(const void *shared);
uint64_t stk__reader_samples_fingerprint(const void *shared, enum stk_digest_form form);
uint64_t stk__reader_samples_digest(const void *shared, int64_t first, int64_t count);
size_t stk__reader_samples_uri(const void *shared, int64_t id, char *uri, size_t capacity);
void stk__reader_samples_parts(const void *shared, int64_t id, struct stk_part *out);
void stk__reader_samples_object(const void *shared, int64_t uri, struct stk_known_object *out);
/* Compares a tar member's header with the index: by header_hash, or by the member's size if header_hash is 0. STK_IO: they differ. tar: name of the tar for the
 * message. */
enum stk_status stk__tar_part_check(
	const char *tar, const struct stk_sample_part *part, uint32_t header_hash, const uint8_t *header, struct stk_error *err);
enum stk_status stk__reader_samples_check(const void *shared, int64_t id, int32_t part, const uint8_t *header, struct stk_error *err);
size_t stk__reader_samples_part_uri(const void *shared, int64_t object, char *uri, size_t capacity);

#endif
