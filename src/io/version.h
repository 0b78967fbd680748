/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes and compares the texts that distinguish versions of an object: an ETag, or the time of the last change. */
#ifndef STK_IO_VERSION_H
#define STK_IO_VERSION_H

#include "base/error.h"

#include <stdint.h>

struct stk_object;

/* Returns a 64-bit hash of an ETag without its quotes and without the prefix W/ of weak ETags; 0 if nothing is left. */
uint64_t stk__etag_hash(const char *etag);

/* Returns a 64-bit hash, never 0, that differs between versions of a local file. `modified_ns`: time of the last change of its bytes. The number of the inode
 * is not hashed, because file systems in user space (FUSE) may give a file another number at each opening. */
uint64_t stk__file_version_hash(int64_t size, int64_t modified_ns);

/* Returns "ETag" or, if the version is a date, "Last-Modified", for messages. */
const char *stk__version_word(const char *version);

/* Fails if two answers about an object are of different versions of it, or of different sizes. verb: what was done meanwhile: "read", "searched". */
STK_MUST_USE enum stk_status stk__check_same_object(
	const char *uri, const char *verb, const struct stk_object *was, const struct stk_object *now, struct stk_error *err);

#endif
