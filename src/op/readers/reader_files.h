/* SPDX-License-Identifier: Apache-2.0
 * Shared by the readers whose samples are files of a list. Their `shared` is a struct stk_file_list. */
#ifndef STK_OP_READER_FILES_H
#define STK_OP_READER_FILES_H

#include "format/format.h"
#include "op/readers/reader_args.h"

/* Creates the list of files and checks the reader's arguments for its number of files. Sets *shared to the list, which stk__reader_files_close frees. */
STK_MUST_USE enum stk_status stk__reader_files_open(
	const struct stk_file_list_options *o, const struct stk_reader_args *reader, void **shared, struct stk_error *err);
void stk__reader_files_close(void *shared);

/* Functions for struct stk_reader_def. */
int64_t stk__reader_files_size(const void *shared);
uint64_t stk__reader_files_fingerprint(const void *shared, enum stk_digest_form form);
uint64_t stk__reader_files_digest(const void *shared, int64_t first, int64_t count);
void stk__reader_files_object(const void *shared, int64_t uri, struct stk_known_object *out);
size_t stk__reader_files_uri(const void *shared, int64_t id, char *uri, size_t capacity);

/* Returns the strings of an optional argument, or NULL and a count of 0 if it was not given. */
static inline const char *const *stk__strings_or_none(const struct stk_strings *s, size_t *count)
{
	*count = s->count < 0 ? 0 : (size_t)s->count;
	return s->count < 0 ? NULL : s->v;
}

#endif
