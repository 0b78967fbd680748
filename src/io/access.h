/* SPDX-License-Identifier: Apache-2.0
 *
 * How a function that makes a pipeline reads from a storage, and asks whether the user has interrupted it. */
#ifndef STK_IO_ACCESS_H
#define STK_IO_ACCESS_H

#include "stoker/storage.h"

#include <stdbool.h>
#include <stdint.h>

/* The storage and callbacks with which a function that makes a pipeline reads from data sets. */
struct stk_access {
	struct stk_storage *storage;
	/* Called from time to time by functions that wait, on the thread that makes the pipeline; if it returns true, the wait ends with STK_CANCELLED. May
	 * be NULL. */
	bool (*interrupted)(void *user);
	void (*listed)(void *user,
		int64_t entries); /* called ten times a second with the number of objects listed so far, on the same thread. Nullable */
	void *user;
	/* Reports behaviour that may be unexpected; called by one thread at a time. Nullable. */
	void (*notice)(void *user, const char *text);
	void *notice_user;
	bool known; /* this storage has read the URI before, so keys and settings are not looked for again */
};

#endif
