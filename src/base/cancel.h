/* SPDX-License-Identifier: Apache-2.0
 * A flag that asks long work to end early. The code that wants the work to end sets the flag. Long loops check the flag about once a millisecond and, if it
 * is set, return with their output unfinished. Any thread. */
#ifndef STK_BASE_CANCEL_H
#define STK_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct stk_cancel {
	_Atomic bool asked;
};

/* Returns whether the work should end. NULL stands for work that is never cancelled. */
static inline bool stk__cancelled(const struct stk_cancel *c)
{
	return c && atomic_load_explicit(&c->asked, memory_order_relaxed);
}

#endif
