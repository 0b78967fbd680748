/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the members of archives lie, in memory and as a file:
 *
 *   "STKPARTS"  version (1)  kind                         one byte each
 *   number of archives                                    number
 *   for each archive: path, size, times of modification and of change, inode (0: not known), version (its ETag, or ""), texts and numbers
 *     seal, which is a hash of its first and its last header, where the last one lies
 *     number of members, number of bytes that follow for them
 *     for each member: name behind the one before, bytes between the two members, size, seal of its header in 4 bytes
 *   hash of all before
 *
 * Numbers and texts are those of format/coded.h. */
#ifndef STK_FORMAT_ARCHIVE_INDEX_H
#define STK_FORMAT_ARCHIVE_INDEX_H

#include "format/archive_file.h"
#include "format/coded.h"

enum stk_archive_kind { STK_ARCHIVE_TAR, STK_ARCHIVE_TFRECORD };

struct stk_archive_index {
	char *path; /* of the archive */
	int64_t size, modified_ns, changed_ns;
	uint64_t inode;
	char version[128];
	uint64_t seal;
	int64_t last; /* where the last header begins; -1: there is no member */
	int64_t members;
	struct stk_coded_out bytes; /* of the members */
};
/* A hash of a member's header, never 0. least: its bytes. */
uint32_t stk__header_seal(const uint8_t *header, size_t least);
void stk__archive_index_free(struct stk_archive_index *x);

/* Bytes that any archive of a kind has: what it is opened with, and a header's. */
size_t stk__archive_least(enum stk_archive_kind kind);
/* Fills x, whose path stays NULL, from the archive itself. found: hears of each member meanwhile; nullable. */
STK_MUST_USE enum stk_status stk__archive_index_scan(enum stk_archive_kind kind, struct stk_archive_file *f, stk_archive_found *found,
	void *user, struct stk_archive_index *x, struct stk_error *err);
/* The members in order, to `found`. */
STK_MUST_USE enum stk_status stk__archive_index_each(
	const struct stk_archive_index *x, stk_archive_found *found, void *user, struct stk_error *err);
/* Whether it is an index of this archive as it is now: of the same size and version, or of the same size, times and inode. A copy, which has another inode,
 * must have the same headers at the first and the last member and at some between them. */
bool stk__archive_index_fits(enum stk_archive_kind kind, const struct stk_archive_index *x, struct stk_archive_file *f);

/* A file of them: begin, put each, stk__put_hash. */
void stk__archive_index_begin(struct stk_coded_out *out, enum stk_archive_kind kind, int32_t count);
void stk__archive_index_put(struct stk_coded_out *out, const struct stk_archive_index *x, const char *path);
/* Whether the bytes begin as such a file does. */
bool stk__archive_index_is(const void *data, size_t n);
/* All archives of a file: *out is stk__alloc'ed, its `count` entries the caller's. name: of the file, in messages. */
STK_MUST_USE enum stk_status stk__archive_index_parse(enum stk_archive_kind kind, const uint8_t *data, size_t n, const char *name,
	struct stk_archive_index **out, int32_t *count, struct stk_error *err);

#endif
