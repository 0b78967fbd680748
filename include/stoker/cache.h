/* SPDX-License-Identifier: Apache-2.0
 *
 * Inspects, verifies and clears caches of objects in local folders (struct stk_storage_config.cache). Any thread, also while pipelines use the cache. */
#ifndef STOKER_CACHE_H
#define STOKER_CACHE_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stk_cache_entry {
	const char
		*uri; /* the object's URI, without the query of a URL; "" if the entry is too damaged to have one; valid during the call */
	int64_t offset, length; /* the requested range; length -1: to the object's end */
	int64_t bytes;
	int64_t used; /* time of the last recorded use, in seconds since 1970. While any process has the cache open, only the first use is recorded */
	bool damaged; /* true if the entry's name, size or header is wrong; in stk_cache_verify also if its contents are wrong */
};

struct stk_cache_facts {
	size_t size;                    /* sizeof(struct stk_cache_facts), set by the caller */
	int64_t entries, bytes;         /* number of undamaged entries that remain, and total size in bytes of their files */
	int64_t damaged;                /* number of damaged entries; stk_cache_verify has removed them */
	int64_t removed, removed_bytes; /* number and size in bytes of the entries that stk_cache_clear has removed; entries that cannot
					 * be removed remain counted in `entries` */
};

/* Called for each entry, in any order. Returns false to end the walk. */
typedef bool (*stk_cache_visit)(void *user, const struct stk_cache_entry *entry);

/* Visits the headers of all entries. dir: as in struct stk_storage_config. visit and facts may be NULL. STK_INVALID: the folder is not a cache. */
STK_API STK_MUST_USE enum stk_status stk_cache_list(
	const char *dir, stk_cache_visit visit, void *user, struct stk_cache_facts *facts, struct stk_error *err);
/* Reads all entries, removes the damaged ones, and recounts the size of the cache. */
STK_API STK_MUST_USE enum stk_status stk_cache_verify(
	const char *dir, stk_cache_visit visit, void *user, struct stk_cache_facts *facts, struct stk_error *err);
/* Removes the entries whose URI begins with `prefix`; NULL: all entries. Files that are not entries are not touched. */
STK_API STK_MUST_USE enum stk_status stk_cache_clear(
	const char *dir, const char *prefix, struct stk_cache_facts *facts, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
