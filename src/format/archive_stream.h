/* SPDX-License-Identifier: Apache-2.0
 * Reads the headers of a remote archive, from front to back. If members are small, reading the whole archive costs less than a request for each header: then
 * pieces are requested ahead of need. If members are large, each header is requested separately. */
#ifndef STK_FORMAT_ARCHIVE_STREAM_H
#define STK_FORMAT_ARCHIVE_STREAM_H

#include "storage/storage.h"

/* Settings that depend on the number of archives that are read at the same time. */
struct stk_archive_pace {
	int max_requests; /* maximum number of requests of 1 MiB in flight: at least 1; more than 16 count as 16 */
	int64_t jump;     /* headers whose average distance is larger than this are requested one by one */
};

struct stk_archive_stream;

/* Creates a stream over an archive. object: size and version of the archive, with which all answers of the store must agree. access: lets the user interrupt
 * waits; may be NULL. `uri` and `access` must live as long as the stream. */
STK_MUST_USE enum stk_status stk__archive_stream_create(struct stk_io *io, const char *uri, const struct stk_object *object,
	struct stk_archive_pace pace, const struct stk_access *access, struct stk_archive_stream **out, struct stk_error *err);
/* Ends requests in flight, and frees the stream. Accepts NULL. */
void stk__archive_stream_destroy(struct stk_archive_stream *s);

/* Returns n bytes at `offset`, which the archive must have, valid until the next call; or NULL with *err filled. n is at most 1 MiB. */
const uint8_t *stk__archive_stream_read(struct stk_archive_stream *s, int64_t offset, size_t n, struct stk_error *err);

#endif
