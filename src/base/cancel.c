/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cancel.h"

#include "base/clock.h"

bool stk__cancel_polled(struct stk_cancel_poll *p)
{
	enum { EVERY_MS = 50 };
	if (p->has_interrupted || !p->interrupted)
		return p->has_interrupted;
	int64_t now = stk__clock_ns();
	if (now < p->next)
		return false;
	p->has_interrupted = p->next && p->interrupted(p->user);
	p->next = stk__clock_after_ms(stk__clock_ns(), EVERY_MS);
	return p->has_interrupted;
}
