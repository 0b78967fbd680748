/* SPDX-License-Identifier: Apache-2.0
 * A flag that asks long work to end early. Code that wants the work to end sets the flag. Long loops check it about once a millisecond; if it is set, they
 * return with their output unfinished. Any thread. */
#ifndef STK_BASE_CANCEL_H
#define STK_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lets checks of struct stk_cancel ask the caller's function `interrupted` whether work on the caller's own thread was interrupted: at most twenty times per
 * second, and not again after it has returned true. */
struct stk_cancel_poll {
	bool (*interrupted)(void *user); /* may be NULL */
	void *user;
	int64_t next;         /* time of the next call of `interrupted`; 0: not set yet; the first check then sets it, without a call */
	bool has_interrupted; /* true if `interrupted` has returned true */
};

struct stk_cancel {
	_Atomic bool requested;
	struct stk_cancel_poll *poll; /* only for work that runs on one thread; may be NULL */
};

/* Returns whether `interrupted` has returned true. Calls it if the last call was a twentieth of a second ago or more. */
bool stk__cancel_polled(struct stk_cancel_poll *p);

/* Returns whether the work should end. NULL stands for work that is never cancelled. */
static inline bool stk__cancelled(const struct stk_cancel *c)
{
	return c && (atomic_load_explicit(&c->requested, memory_order_relaxed) || (c->poll && stk__cancel_polled(c->poll)));
}

#endif
