/* SPDX-License-Identifier: Apache-2.0
 * Runs a list of items on a few threads while the caller waits, and reports progress to the caller now and then. */
#ifndef STK_THREAD_CREW_H
#define STK_THREAD_CREW_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { STK_MOST_CREW = 64 }; /* maximum number of threads at a time */

struct stk_crew {
	int32_t count; /* number of items */
	/* maximum number of threads; without `progress` the caller is one of them. If the system starts fewer, these do all the work; if it starts none, the
	 * caller does it */
	int threads;
	enum stk_status (*run)(void *user, int32_t i, struct stk_error *err);
	/* Called on the caller's thread with the number of items that have ended, about ten times a second and whenever a thread ends; not if no thread
	 * was started. If it returns false, no more items are started, `stop` is set, and stk__crew_run returns STK_CANCELLED. May be NULL. */
	bool (*progress)(void *user, int32_t done);
	void *user;
	_Atomic bool *stop; /* flag that long items should check; may be NULL if progress is NULL */
};

/* Runs all items. They are started in order, and none is started after a failure; every started item is finished. So the caller
 * gets the error of the failing item with the lowest index, whatever the threads' speed. */
STK_MUST_USE enum stk_status stk__crew_run(const struct stk_crew *crew, struct stk_error *err);

#endif
