/* SPDX-License-Identifier: Apache-2.0
 * An open archive, a local file or an object of a store, from which the headers of its members are read from front to back. */
#ifndef STK_FORMAT_ARCHIVE_FILE_H
#define STK_FORMAT_ARCHIVE_FILE_H

#include "format/archive_stream.h"

#include <stddef.h>

struct stk_archive_file {
	const char *path; /* path of the file or URI of the object; also for messages */
	int fd;           /* descriptor of a local file; -1: the archive is an object, comes from `read`, or is in `buffer` as a whole */
	int64_t size;
	int64_t modified_ns; /* modified_ns, changed_ns, inode: for a local file; 0: not known */
	int64_t changed_ns;
	uint64_t inode;           /* the inode's number without its lowest bit, so that it has 63 bits like all numbers of an index */
	struct stk_object object; /* size and version of an object, as its store has reported them */
	uint8_t *first;           /* for an object: its first bytes, which were read when it was opened */
	size_t first_size;
	int64_t at;    /* offset of the bytes in `buffer` */
	size_t filled; /* number of bytes in `buffer` */
	uint8_t *buffer;
	struct stk_io *io;               /* reads an object; NULL for a local file; owned by the caller */
	const struct stk_access *access; /* lets the user interrupt waits for the store; may be NULL */
	_Atomic bool *stop;              /* set by another thread to end a search with STK_CANCELLED; may be NULL */
	_Atomic int64_t *found;          /* number of members that a search has found so far; may be NULL */
	struct stk_archive_pace pace;
	struct stk_archive_stream *stream; /* reads the object's bytes after `first`; NULL until they are needed */
	/* If not NULL, stk__archive_read returns the result of this function, which has the bytes in memory, instead of reading the file. */
	const uint8_t *(*read)(void *user, int64_t offset, size_t n, struct stk_error *err);
	void *read_user;
};

/* Returns whether an archive is an object of a store, and not a local file. */
bool stk__is_object(const char *path);

/* Opens an archive. `path` must live as long as the archive. io: reads objects; NULL for a local file. access: lets the user interrupt waits for the store;
 * may be NULL. least: size of the smallest valid archive of this kind; an object's first `least` bytes are read at once, and an object with fewer bytes is
 * an error. pace: used only for objects. */
struct stk_access;
STK_MUST_USE enum stk_status stk__archive_open(struct stk_archive_file *f, const char *path, struct stk_io *io,
	const struct stk_access *access, struct stk_archive_pace pace, size_t least, struct stk_error *err);
void stk__archive_close(struct stk_archive_file *f);

/* Returns n bytes at `offset`, valid until the next call, or NULL with *err filled. The caller must have checked that the archive has these bytes. n is at
 * most STK_ARCHIVE_PIECE. */
enum { STK_ARCHIVE_PIECE = 1 << 20 };
const uint8_t *stk__archive_read(struct stk_archive_file *f, int64_t offset, size_t n, struct stk_error *err);

/* Fails with `code` because of the archive's bytes at `offset`. The message consists of the path, the offset and the text from `fmt`. */
STK_MUST_USE enum stk_status stk__archive_bad(const struct stk_archive_file *f, int64_t offset, struct stk_error *err, enum stk_status code,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* A member of an archive: a byte range that is a sample or a part of one. */
struct stk_archive_member {
	const char *name; /* NUL-terminated; "" if members have no names; a symbolic link's name ends in a slash */
	int64_t offset, size;
	uint32_t header_hash; /* hash of the member's header; 0: not known */
};
typedef enum stk_status stk_archive_found(void *user, const struct stk_archive_member *m, struct stk_error *err);

#endif
