/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/progressive.h"

#include "base/clock.h"
#include "exec/device.h"
#include "thread/duty.h"
#include "thread/pool.h"

#include <stdlib.h>
#include <string.h>

enum {
	FEW = 16,   /* one file in this many */
	MOST = 200, /* hundredths of the mean: about one photograph in fourteen is larger */
	FULL = 90,  /* workers awake, per hundred: the cores delay the run */
	FREE = 75,  /* workers awake, per hundred, at most: the cores have time */
	UP = 25,    /* hundredths of the mean, added for each window in which the cores were full */
	DOWN = 10,  /* subtracted for each window in which they had time */
};

void stk__progressive_init(struct stk_progressive *s)
{
	const char *side = getenv("STOKER_PROGRESSIVE");
	s->forced = side && (strcmp(side, "gpu") == 0 || strcmp(side, "cores") == 0);
	s->large = s->forced && *side == 'c' ? 0 : MOST;
	s->changed_ns = stk__clock_ns();
}

/* Follows the load: quickly if the cores delay the run, slowly if they have time. */
static int32_t follow(struct stk_progressive *s, const struct stk_pool *pool)
{
	int64_t now = stk__clock_ns(), last = atomic_load_explicit(&s->changed_ns, memory_order_relaxed);
	int32_t large = atomic_load_explicit(&s->large, memory_order_relaxed);
	if (s->forced || now - last < STK_DUTY_WINDOW_NS ||
		!atomic_compare_exchange_strong_explicit(&s->changed_ns, &last, now, memory_order_relaxed, memory_order_relaxed))
		return large;
	int32_t load = stk__pool_load(pool);
	large += load >= FULL ? UP : load <= FREE ? -DOWN : 0;
	large = large < 0 ? 0 : large > MOST ? MOST : large;
	atomic_store_explicit(&s->large, large, memory_order_relaxed);
	return large;
}

bool stk__progressive_is_for_cores(struct stk_pipeline *p, size_t size)
{
	int64_t progressive = STK_COUNT(p, progressive, 1) + 1, all = atomic_load_explicit(&p->counters.decodes, memory_order_relaxed) + 1;
	int64_t bytes = STK_COUNT(p, progressive_bytes, (int64_t)size) + (int64_t)size;
	double large = follow(&p->parts.device->progressive, p->ctx->pool) / 100.0;
	return progressive * FEW < all || (double)size * (double)progressive > large * (double)bytes;
}
