/* SPDX-License-Identifier: Apache-2.0
 * Opens media files by path or URI, as an input of src/media. Objects of stores are read in blocks, of which the last few stay in memory, because demuxers
 * read a few bytes at a time. */
#ifndef STK_FORMAT_MEDIA_SOURCE_H
#define STK_FORMAT_MEDIA_SOURCE_H

#include "media/input.h"

struct stk_access;
struct stk_media_source;

/* Opens a media file. access: the storage, and the function by which the user interrupts waits; copied; may be NULL. STK_UNSUPPORTED: the store does not
 * report the object's size. Any thread. */
STK_MUST_USE enum stk_status stk__media_source_open(
	const char *path, const struct stk_access *access, struct stk_media_source **out, struct stk_error *err);
void stk__media_source_close(struct stk_media_source *s); /* accepts NULL */
/* Sets the minimum number of bytes that one request reads from an object, 1 MiB by default; only a request at the object's end reads fewer. Call it before
 * the first read. */
void stk__media_source_read_least(struct stk_media_source *s, int64_t bytes);
const struct stk_media_input *stk__media_source_input(const struct stk_media_source *s);
const struct stk_media_version *stk__media_source_version(const struct stk_media_source *s);
/* Returns the number of requests that the source has made so far, including the one that opened it; 0 for local files. */
int64_t stk__media_source_requests(const struct stk_media_source *s);

#endif
