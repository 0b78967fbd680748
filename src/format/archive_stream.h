/* SPDX-License-Identifier: Apache-2.0
 * A remote archive of which headers are read, from front to back. Where members are small, reading all of it costs less than a request for each header:
 * then pieces are asked for ahead of need. Where they are large, each header is a request of its own. */
#ifndef STK_FORMAT_ARCHIVE_STREAM_H
#define STK_FORMAT_ARCHIVE_STREAM_H

#include "io/storage.h"

/* What fits the number of archives that are read at a time. */
struct stk_archive_pace {
	int ahead;    /* pieces of 1 MiB under way, at least 1 */
	int64_t jump; /* headers that lie further apart than this on average are asked for one by one */
};

struct stk_archive_stream;

/* object: what the source said of the archive, which later answers must agree with. access: who may end waits; nullable. Keeps the addresses of uri and access. */
STK_MUST_USE enum stk_status stk__archive_stream_create(struct stk_io *io, const char *uri, const struct stk_object *object,
	struct stk_archive_pace pace, const struct stk_access *access, struct stk_archive_stream **out, struct stk_error *err);
/* Ends what is under way. Takes NULL. */
void stk__archive_stream_destroy(struct stk_archive_stream *s);

/* n bytes at `offset`, which exist, valid until the next call; NULL with *err filled. n is at most 1 MiB. */
const uint8_t *stk__archive_stream_read(struct stk_archive_stream *s, int64_t offset, size_t n, struct stk_error *err);

#endif
