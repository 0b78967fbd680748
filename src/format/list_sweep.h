/* SPDX-License-Identifier: Apache-2.0
 * Lists the keys below prefixes of a bucket, with many pages of listings in flight. A page says where the next one begins, so the pages of a listing must be
 * requested one after the other. But stores return keys in the order of their bytes, and can start after any given key. So a long listing is cut at names that
 * later keys may have, and its parts are listed in parallel. If no key follows a cut, that part costs one request. */
#ifndef STK_FORMAT_LIST_SWEEP_H
#define STK_FORMAT_LIST_SWEEP_H

#include "format/list.h"

struct stk_sweep {
	struct stk_io *io;
	const struct stk_access *access; /* lets the user end the listing; may be NULL */
	const char *root;                /* root that the user gave, for messages */
	const char *bucket;
	const char *delimiter; /* "/": only the keys and folders directly below a prefix; "": keys at any depth */
	/* Called for each key, and once for each common prefix of keys up to the delimiter, after all pages of the listed prefix have arrived. `which`:
	 * index of the listed prefix. Called on the caller's thread; a status other than STK_OK ends the listing and is returned. */
	enum stk_status (*object)(void *user, int64_t which, const char *key, struct stk_list_object object, struct stk_error *err);
	enum stk_status (*folder)(void *user, int64_t which, const char *prefix, struct stk_error *err);
	void *user;
	int64_t entries; /* number of entries listed so far, which is passed to access->listed */
};

/* Lists `count` prefixes completely. On failure, first waits for the requests in flight. */
STK_MUST_USE enum stk_status stk__sweep(struct stk_sweep *s, const char *const *prefixes, int64_t count, struct stk_error *err);

#endif
