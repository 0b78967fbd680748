/* SPDX-License-Identifier: Apache-2.0 */
#include "thread/duty.h"

#include <stdatomic.h>

enum {
	LEAST = 4,    /* minimum number of threads on duty: for the same work 4 need as much CPU time as 1, and 16 need 1.5 times as much */
	HEADROOM = 4, /* number of threads on duty for each thread that was awake on average */
	PATIENCE_NS = 5000000, /* time without a pause after which the number on duty doubles */
};

void stk__duty_init(struct stk_duty *d, int32_t threads, int64_t now)
{
	*d = (struct stk_duty){.on = threads, .most = threads, .awake = threads, .window_ns = now, .last_ns = now};
}

/* Changes the number of awake threads by `awake`, and first adds to awake_ns the time that they were awake since the last change. A thread that is no longer
 * on duty counts as awake until it has finished its unit of work. */
static void set_awake(struct stk_duty *d, int32_t awake, int64_t now)
{
	d->awake_ns += d->awake * (now - d->last_ns);
	d->last_ns = now;
	d->awake += awake;
}

static void update_all_awake_since(struct stk_duty *d, int64_t now)
{
	bool all = d->awake >= atomic_load(&d->on);
	if (!all || !atomic_load(&d->since_ns))
		atomic_store(&d->since_ns, all ? now : 0);
}

void stk__duty_wakes(struct stk_duty *d, int64_t now)
{
	set_awake(d, 1, now);
	update_all_awake_since(d, now);
}

void stk__duty_sleeps(struct stk_duty *d, int64_t now)
{
	set_awake(d, -1, now);
	int64_t window = now - d->window_ns;
	if (window >= STK_DUTY_WINDOW_NS) {
		atomic_store(&d->load, (int32_t)(100 * d->awake_ns / (window * d->most)));
		int64_t target = (HEADROOM * d->awake_ns + window - 1) / window;
		target = target > LEAST ? target : LEAST;
		if (target < atomic_load(&d->on)) /* never in a pool of at most LEAST threads */
			atomic_store(&d->on, (int32_t)target);
		d->window_ns = now;
		d->awake_ns = 0;
	}
	update_all_awake_since(d, now);
}

bool stk__duty_full(const struct stk_duty *d)
{
	return atomic_load(&d->since_ns) && atomic_load(&d->on) < d->most;
}

bool stk__duty_busy(const struct stk_duty *d, int64_t now)
{
	int64_t since = atomic_load(&d->since_ns); /* read only once, since another thread may set it to 0 */
	return since && stk__duty_full(d) && now - since >= PATIENCE_NS;
}

void stk__duty_raise(struct stk_duty *d, int64_t now)
{
	if (!stk__duty_busy(d, now)) /* another thread has raised the number already */
		return;
	int32_t on = 2 * atomic_load(&d->on);
	atomic_store(&d->on, on < d->most ? on : d->most);
	atomic_store(&d->since_ns, 0);
}

int32_t stk__duty_load(const struct stk_duty *d, int64_t now)
{
	int64_t since = atomic_load(&d->since_ns);
	return since && atomic_load(&d->on) >= d->most && now - since >= STK_DUTY_WINDOW_NS
		       ? 100 /* no thread sleeps, so no window ends and `load` is old */
		       : atomic_load(&d->load);
}
