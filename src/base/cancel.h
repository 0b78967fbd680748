/* SPDX-License-Identifier: Apache-2.0
 * A flag that asks long work to end early. The code that wants the work to end sets the flag. Long loops check the flag about once a millisecond and, if it
 * is set, return with their output unfinished. Any thread. */
#ifndef STK_BASE_CANCEL_H
#define STK_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Asks the caller about twenty times per second whether work on the caller's own thread was interrupted. After `interrupted` has returned true, it is not
 * called again. */
struct stk_cancel_poll {
	bool (*interrupted)(void *user); /* nullable */
	void *user;
	int64_t next;         /* time of the next call of `interrupted`; 0: not set yet, so the first check sets it and does not call */
	bool has_interrupted; /* `interrupted` has returned true */
};

struct stk_cancel {
	_Atomic bool requested;
	struct stk_cancel_poll *poll; /* nullable; only for work that runs on one thread */
};

/* Returns whether `interrupted` has returned true. Calls it if it was not called for a twentieth of a second. */
bool stk__cancel_polled(struct stk_cancel_poll *p);

/* Returns whether the work should end. NULL stands for work that is never cancelled. */
static inline bool stk__cancelled(const struct stk_cancel *c)
{
	return c && (atomic_load_explicit(&c->requested, memory_order_relaxed) || (c->poll && stk__cancel_polled(c->poll)));
}

#endif
