/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of archives: the offset and size of each member, in memory and as a file:
 *
 *   "STKPARTS"  version (2)  kind                         one byte each
 *   number of archives                                    number
 *   for each archive: path, size, times of modification and of change, inode (0: not known), version (its ETag, or ""), texts and numbers
 *     header hash, a hash of its first and its last header, and the offset of the last header plus 1 (0: no member)
 *     number of members, number of bytes that follow for them
 *     for each member: name (coded against the previous one), bytes between the two members, size, hash of its header in 4 bytes
 *   hash of everything before
 *
 * Numbers and texts are those of format/coded.h. */
#ifndef STK_FORMAT_ARCHIVE_INDEX_H
#define STK_FORMAT_ARCHIVE_INDEX_H

#include "format/archive_file.h"
#include "format/coded.h"

enum stk_archive_kind { STK_ARCHIVE_TAR, STK_ARCHIVE_TFRECORD };

struct stk_archive_index {
	char *path; /* path or URI of the archive */
	/* Size of the archive; for a local file also the times and the inode, as in stk_archive_file; 0: not known. */
	int64_t size, modified_ns, changed_ns;
	uint64_t inode;
	char version[128];    /* for an object: ETag or another text that differs between versions; "" if not known */
	uint64_t header_hash; /* hash of the first and the last header */
	int64_t last;         /* offset of the last header; -1: the archive has no member */
	int64_t members;
	struct stk_coded_out bytes; /* the members, coded as in an index file */
	bool unkept;                /* true if the index was made by this process and could not be stored */
};
/* Returns a hash of a member's header, never 0. least: the header's size. */
uint32_t stk__header_hash(const uint8_t *header, size_t least);
void stk__archive_index_free(struct stk_archive_index *x);

/* Returns the size of a header, which is also the size of the smallest valid archive of this kind. */
size_t stk__archive_least(enum stk_archive_kind kind);
/* Fills x, except its path, by a search of the archive. found: called for each member during the search; may be NULL. */
STK_MUST_USE enum stk_status stk__archive_index_scan(enum stk_archive_kind kind, struct stk_archive_file *f, stk_archive_found *found,
	void *user, struct stk_archive_index *x, struct stk_error *err);
/* Calls `found` for each member, in order. */
STK_MUST_USE enum stk_status stk__archive_index_each(
	const struct stk_archive_index *x, stk_archive_found *found, void *user, struct stk_error *err);
/* Returns whether x is an index of this archive in its present state. The sizes must be equal; for an object also the versions; for a local file also the
 * times and the inode. If an object's version is not known, its first and its last header are compared instead. A local file of another time of change or
 * another inode may be a copy: if the time of modification is the same or not known, these two headers and some between them are compared. */
bool stk__archive_index_fits(enum stk_archive_kind kind, const struct stk_archive_index *x, struct stk_archive_file *f);

/* Writes the beginning of an index file. Call stk__archive_index_put for each archive next, and then stk__put_hash. */
void stk__archive_index_begin(struct stk_coded_out *out, enum stk_archive_kind kind, int32_t count);
void stk__archive_index_put(struct stk_coded_out *out, const struct stk_archive_index *x, const char *path);
/* Returns whether the bytes begin like those of an index file. */
bool stk__archive_index_is(const void *data, size_t n);
/* Reads all archives of an index file. The caller frees the `count` entries with stk__archive_index_free, and *out with stk__free. name: the file's name,
 * for messages. STK_INVALID: the index is of another kind. STK_UNSUPPORTED: the index has another version. STK_CORRUPT: the index is damaged. */
STK_MUST_USE enum stk_status stk__archive_index_parse(enum stk_archive_kind kind, const uint8_t *data, size_t n, const char *name,
	struct stk_archive_index **out, int32_t *count, struct stk_error *err);

#endif
