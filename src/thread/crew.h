/* SPDX-License-Identifier: Apache-2.0
 * Some threads that do a list of things for a caller who waits, with a word now and then about how far they are. */
#ifndef STK_THREAD_CREW_H
#define STK_THREAD_CREW_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { STK_MOST_CREW = 64 }; /* threads at a time, whatever is asked for */

struct stk_crew {
	int32_t count; /* things */
	int threads;   /* at most; where fewer start, these do it all, and the caller itself where none does */
	enum stk_status (*run)(void *user, int32_t i, struct stk_error *err);
	/* On the caller's thread, ten times a second. False: no more is begun, `stop` is set, and the caller gets STK_CANCELLED. Nullable. */
	bool (*progress)(void *user, int32_t done);
	void *user;
	_Atomic bool *stop; /* for what runs long, to look at; nullable without progress */
};

/* Things are begun in order, none after a failure, and each that was begun is done to its end: so the first that fails, whose error is the caller's, does not
 * depend on who was faster. */
STK_MUST_USE enum stk_status stk__crew_run(const struct stk_crew *crew, struct stk_error *err);

#endif
