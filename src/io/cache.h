/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache between io and the remote sources. A request is looked up in the folder first. Bytes from a source are copied, handed to the caller at
 * once, and written later by threads of the cache. The cache never makes a request fail: if the disk refuses a write or is too slow, the object is
 * downloaded again when it is next needed. */
#ifndef STK_IO_CACHE_H
#define STK_IO_CACHE_H

#include "io/io.h"

struct stk_cache;

/* Puts a cache in front of the remote sources of io, which owns the cache from then on. dir, limit: as in stk__cache_disk_open. */
STK_MUST_USE enum stk_status stk__cache_add(
	struct stk_io *io, const char *dir, uint64_t limit, struct stk_cache **out, struct stk_error *err);

struct stk_cache_counters {
	uint64_t hits, hit_bytes, misses;
	uint64_t kept, kept_bytes; /* entries that this process has written, and their bytes */
	/* requests whose bytes were downloaded and not stored: there was no room, the disk refuses writes or is too slow, or the object is another version
	 * than the request expects */
	uint64_t left_out;
	/* entries that were found and fetched again: damaged ones (a wrong checksum or header, or no regular file), and stale ones, whose object has changed */
	uint64_t damaged, stale;
	uint64_t waits;       /* requests that waited while another request, of this or another process, was fetching the same bytes */
	uint64_t pending;     /* bytes that are still to be written */
	uint64_t used, limit; /* bytes in the folder, from all processes, and the limit for them */
};
void stk__cache_counters(struct stk_cache *c, struct stk_cache_counters *out);
/* Copies a notice if there is a new one, and returns whether there is. */
bool stk__cache_notice(struct stk_cache *c, char text[512]);

#endif
