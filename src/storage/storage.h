/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's own functions for storages. A storage consists of an io with all its sources, and of the settings with which they were made. */
#ifndef STK_STORAGE_STORAGE_H
#define STK_STORAGE_STORAGE_H

#include "io/access.h"
#include "io/io.h"
#include "stoker/storage.h"

/* Like stk_storage_create, but does not check the settings' values. file_threads: maximum number of threads for blocking reads of local files. */
STK_MUST_USE enum stk_status stk__storage_create(
	const struct stk_storage_config *config, int file_threads, struct stk_storage **out, struct stk_error *err);
bool stk__storage_has_cache(const struct stk_storage *s);
/* Copies the cache's warning for the user to `text`. Returns false if there is none, or if it was copied before. */
bool stk__storage_notice(const struct stk_storage *s, char text[512]);
struct stk_io *stk__storage_io(const struct stk_storage *s);

/* Sets *out to the storage with which to read this URI: access->storage, or a new one if `access` is NULL or has none. The caller owns a reference. Unless
 * access->known is set, the settings for the URI are read from the environment again. STK_CANCELLED: access->interrupted returned true. */
STK_MUST_USE enum stk_status stk__access_open(
	const struct stk_access *access, const char *uri, struct stk_storage **out, struct stk_error *err);
/* Returns whether the objects below a URI can be listed. Those of s3:// always can. Those of gs:// can unless they are read by a user's function that does not
 * answer listings. Those of other schemes can only if a user's function answers listings. */
bool stk__access_lists(const struct stk_access *access, const char *uri);
#endif
