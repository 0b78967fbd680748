/* SPDX-License-Identifier: Apache-2.0
 * A local archive that is scanned for where its members lie: small reads, few of them near each other. */
#ifndef STK_FORMAT_ARCHIVE_FILE_H
#define STK_FORMAT_ARCHIVE_FILE_H

#include "stoker/status.h"

#include <stddef.h>

struct stk_archive_file {
	const char *path; /* for messages */
	int fd;           /* -1: all of it is in `buffer`, of `size` bytes */
	int64_t size;
	int64_t at; /* of what `buffer` holds */
	size_t held;
	uint8_t *buffer;
};

/* STK_UNSUPPORTED for what lies elsewhere; the message asks for an index of the kind that `maker` makes. */
STK_MUST_USE enum stk_status stk__archive_open(struct stk_archive_file *f, const char *path, const char *maker, struct stk_error *err);
void stk__archive_close(struct stk_archive_file *f);

/* n bytes at `offset`, valid until the next call; NULL with *err filled. The caller has checked that they exist. n is at most STK_ARCHIVE_PIECE. */
enum { STK_ARCHIVE_PIECE = 1 << 20 };
const uint8_t *stk__archive_read(struct stk_archive_file *f, int64_t offset, size_t n, struct stk_error *err);

/* A failure of the archive's bytes, which are at `offset`. */
STK_MUST_USE enum stk_status stk__archive_bad(const struct stk_archive_file *f, int64_t offset, struct stk_error *err, enum stk_status code,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
