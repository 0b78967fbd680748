/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes the storage and the user's callbacks to functions that read objects while a pipeline is made. */
#ifndef STK_IO_ACCESS_H
#define STK_IO_ACCESS_H

#include "stoker/storage.h"

#include <stdbool.h>
#include <stdint.h>

struct stk_access {
	struct stk_storage *storage;
	/* Called from time to time while a function waits, on the thread that makes the pipeline; true ends the wait with STK_CANCELLED. May be NULL. */
	bool (*interrupted)(void *user);
	void (*listed)(void *user,
		int64_t entries); /* called ten times a second on the same thread; entries: number of objects and folders listed so far; may be NULL */
	void *user;
	/* Receives warnings about behaviour that may be unexpected; called by one thread at a time. May be NULL. */
	void (*notice)(void *user, const char *text);
	void *notice_user;
	bool known; /* true if `storage` has already read the keys and settings for the URI that the function reads */
};

#endif
