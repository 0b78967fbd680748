/* SPDX-License-Identifier: Apache-2.0
 * What lies below prefixes of a bucket, by many pages of listings at a time. A page tells where the next one begins, so that a listing is one page after
 * another; but stores give keys in the order of their bytes, and begin behind any key that they are told. So a long listing is cut at names that its keys
 * may have behind those already seen, and its parts are listed side by side. A cut that no key lies behind costs one request. */
#ifndef STK_FORMAT_LIST_SWEEP_H
#define STK_FORMAT_LIST_SWEEP_H

#include "format/list.h"

struct stk_sweep {
	struct stk_io *io;
	const struct stk_access *access; /* who may end it; nullable */
	const char *root;                /* what the user named, for messages */
	const char *bucket;
	const char *delimiter; /* "/": only what lies below a prefix directly, and what its folders are; "": keys at any depth */
	/* Each key, or what keys have in common up to the delimiter, once, when all of their prefix has come. `which` is the
	 * prefix's number. On the caller's thread; another status than STK_OK ends it. */
	enum stk_status (*object)(void *user, int64_t which, const char *key, struct stk_list_object object, struct stk_error *err);
	enum stk_status (*folder)(void *user, int64_t which, const char *prefix, struct stk_error *err);
	void *user;
	int64_t entries; /* met so far, which access->listed is told */
};

/* Lists `count` prefixes to their ends. After a failure what is under way is waited for. */
STK_MUST_USE enum stk_status stk__sweep(struct stk_sweep *s, const char *const *prefixes, int64_t count, struct stk_error *err);

#endif
