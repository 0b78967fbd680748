/* SPDX-License-Identifier: Apache-2.0
 * Whether work that takes long should end early. Whoever wants it to end sets the flag. Long loops check it about once a millisecond and then return
 * with their output unfinished. Any thread. */
#ifndef STK_BASE_CANCEL_H
#define STK_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct stk_cancel {
	_Atomic bool asked;
};

/* NULL: never. */
static inline bool stk__cancelled(const struct stk_cancel *c)
{
	return c && atomic_load_explicit(&c->asked, memory_order_relaxed);
}

#endif
