/* SPDX-License-Identifier: Apache-2.0
 * An archive that is scanned for where its members lie: small reads, from front to back, of a local file or of an object. */
#ifndef STK_FORMAT_ARCHIVE_FILE_H
#define STK_FORMAT_ARCHIVE_FILE_H

#include "format/archive_stream.h"

#include <stddef.h>

struct stk_archive_file {
	const char *path; /* for messages, and of an object its URI */
	int fd;           /* -1: an object, or all of it is in `buffer`, of `size` bytes */
	int64_t size;
	int64_t modified_ns; /* of a local file, as the next two; 0: not known */
	int64_t changed_ns;
	uint64_t inode;
	struct stk_object object; /* of an object */
	uint8_t *first;           /* of an object: its first bytes, as many as it was opened with */
	size_t first_size;
	int64_t at; /* of what `buffer` holds */
	size_t held;
	uint8_t *buffer;
	struct stk_io *io;               /* of an object; the caller's */
	const struct stk_access *access; /* who may end waits; nullable */
	_Atomic bool *stop;              /* searches end with STK_CANCELLED; nullable */
	_Atomic int64_t *found;          /* members, counted by searches; nullable */
	struct stk_archive_pace pace;
	struct stk_archive_stream *stream; /* of an object, from the first read behind `first` on */
	/* In place of the file: who else has its bytes, as stk__archive_read. Nullable. */
	const uint8_t *(*read)(void *user, int64_t offset, size_t n, struct stk_error *err);
	void *read_user;
};

/* Whether an archive is an object of some store, and not a local file. */
bool stk__is_object(const char *path);

/* Keeps the address of path. io: for an object; NULL for local files. access: who may end the wait for an object; nullable. least: bytes that any archive of
 * the kind has. */
struct stk_access;
STK_MUST_USE enum stk_status stk__archive_open(struct stk_archive_file *f, const char *path, struct stk_io *io,
	const struct stk_access *access, struct stk_archive_pace pace, size_t least, struct stk_error *err);
void stk__archive_close(struct stk_archive_file *f);

/* n bytes at `offset`, valid until the next call; NULL with *err filled. The caller has checked that they exist. n is at most STK_ARCHIVE_PIECE. */
enum { STK_ARCHIVE_PIECE = 1 << 20 };
const uint8_t *stk__archive_read(struct stk_archive_file *f, int64_t offset, size_t n, struct stk_error *err);

/* A failure of the archive's bytes, which are at `offset`. */
STK_MUST_USE enum stk_status stk__archive_bad(const struct stk_archive_file *f, int64_t offset, struct stk_error *err, enum stk_status code,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* A stretch of an archive that is a sample, or a part of one. */
struct stk_archive_member {
	const char *name; /* ends with a NUL; "" where members have none */
	int64_t offset, size;
	uint32_t seal; /* of its header; 0: not known */
};
typedef enum stk_status stk_archive_found(void *user, const struct stk_archive_member *m, struct stk_error *err);

#endif
