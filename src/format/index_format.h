/* SPDX-License-Identifier: Apache-2.0
 *
 * The format of an index.
 *
 *   "STKINDEX"  version (1)  flags                      one byte each
 *   root                                                text
 *   number of classes                                   number
 *   for each class: name, number of files               text, number
 *   for each file of a class: number of bytes shared with the previous name, the rest of the name, and if they are known
 *     its size and a hash of its ETag (8 bytes, little endian)
 *   hash of everything before                           8 bytes, little endian
 *
 * Numbers and texts are those of format/coded.h. */
#ifndef STK_FORMAT_INDEX_FORMAT_H
#define STK_FORMAT_INDEX_FORMAT_H

#include "stoker/status.h"

enum {
	STK_INDEX_VERSION = 1,
	STK_INDEX_SIZED = 1, /* flags: SIZED: files have sizes; TAGGED: files have hashes of their ETags */
	STK_INDEX_TAGGED = 2,
	STK_INDEX_MAGIC_BYTES = 8
};

/* Fails if `path` is a file that has contents and is not an index, of a tree or of archives: it may be one of the data set's own files. */
STK_MUST_USE enum stk_status stk__index_check_output(const char *path, struct stk_error *err);

#endif
