/* SPDX-License-Identifier: Apache-2.0
 * A storage's inside: an io with all its sources, and the settings that they were made with. */
#ifndef STK_IO_STORAGE_H
#define STK_IO_STORAGE_H

#include "io/io.h"
#include "stoker/storage.h"

#include <pthread.h>

/* As stk_storage_create. file_threads: of blocking reads of local files. */
STK_MUST_USE enum stk_status stk__storage_create(
	const struct stk_storage_config *config, int file_threads, struct stk_storage **out, struct stk_error *err);
bool stk__storage_has_cache(const struct stk_storage *s);
/* What its cache has to tell, once; false: nothing. */
bool stk__storage_notice(const struct stk_storage *s, char text[512]);
struct stk_io *stk__storage_io(const struct stk_storage *s);

/* How data sets are reached while a pipeline is made. */
struct stk_access {
	struct stk_storage *storage;
	/* Asked now and then by whoever waits, on the thread that makes the pipeline: true ends the wait with STK_CANCELLED. Nullable. */
	bool (*interrupted)(void *user);
	void (*listed)(void *user, int64_t entries); /* what a listing has met so far, ten times a second, on the same thread. Nullable */
	void *user;
	void (*notice)(void *user, const char *text); /* what is done in another way than may be expected; one thread at a time. Nullable */
	void *notice_user;
};

/* The storage to read this URI with; the caller's reference. Its source has looked at the environment. access NULL, or without a storage: one of its own.
 */
STK_MUST_USE enum stk_status stk__access_open(
	const struct stk_access *access, const char *uri, struct stk_storage **out, struct stk_error *err);
/* Whether what lies below a URI can be listed: s3://, and what a user's function lists. */
bool stk__access_lists(const struct stk_access *access, const char *uri);
/* Waits for `wake` with the lock, which it gives up meanwhile, for a moment at most. False: interrupted. */
bool stk__access_wait(const struct stk_access *access, pthread_cond_t *wake, pthread_mutex_t *lock);

/* user.c: a source of bytes behind a function of the user's. Adds it to io, also on failure; `schemes` as in struct stk_storage_config. */
STK_MUST_USE enum stk_status stk__user_source_add(struct stk_io *io, const struct stk_storage_config *config, struct stk_error *err);

#endif
