/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache between io and the remote sources. A request is looked up in the cache's folder first. Bytes from a source are copied and passed to the caller at
 * once; threads of the cache write the copies later. The cache never makes a request fail: if the disk refuses a write or is too slow, the object is
 * downloaded again when it is next needed. */
#ifndef STK_IO_CACHE_H
#define STK_IO_CACHE_H

#include "io/io.h"

struct stk_cache;

/* Installs a cache for the remote sources of io, which owns the cache from then on. dir, limit: as in stk__cache_disk_open. */
STK_MUST_USE enum stk_status stk__cache_add(
	struct stk_io *io, const char *dir, uint64_t limit, struct stk_cache **out, struct stk_error *err);

struct stk_cache_counters {
	uint64_t hits, hit_bytes, misses;
	uint64_t kept, kept_bytes; /* number of entries that this process has written, and their total size */
	/* number of requests whose bytes were downloaded and not stored, for example because there was no room, the disk refused a write or was too slow, or the
	 * object had another version than the request expected */
	uint64_t left_out;
	/* numbers of entries that were found but could not be used: damaged ones (a wrong checksum or header, or no regular file), and stale ones, whose
	 * object has changed */
	uint64_t damaged, stale;
	uint64_t waits;       /* number of requests that waited because another one, of any process, was fetching the same bytes */
	uint64_t pending;     /* number of bytes that are still to be written */
	uint64_t used, limit; /* number of bytes in the folder, written by all processes, and their maximum */
};
void stk__cache_counters(struct stk_cache *c, struct stk_cache_counters *out);
/* Copies the cache's notice (a warning for the user) to `text`, once. Returns false if there is no notice, or it was copied before. */
bool stk__cache_notice(struct stk_cache *c, char text[512]);

#endif
