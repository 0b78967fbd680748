/* SPDX-License-Identifier: Apache-2.0
 *
 * How many of a pool's threads are on duty; the others rest. Threads that all wake for the same batch share memory, caches and the halves of cores: the same
 * work takes up to twice the CPU time that a few of them need. So no more are on duty than four times as many as were awake on average, a few at least, and
 * twice as many as soon as those on duty have had no pause for a while: a consumer who takes all that there is has all threads at work.
 *
 * It knows no thread, no lock and no clock: the pool calls it with its lock held, but for stk__duty_full, stk__duty_busy and stk__duty_load. */
#ifndef STK_THREAD_DUTY_H
#define STK_THREAD_DUTY_H

#include <stdbool.h>
#include <stdint.h>

#define STK_DUTY_WINDOW_NS 100000000 /* that awake threads are counted over: some batches of a training loop */

struct stk_duty {
	_Atomic int32_t on;       /* the first so many */
	_Atomic int64_t since_ns; /* all on duty are awake; 0: not all of them */
	_Atomic int32_t load;     /* of a hundred threads, how many were awake on average in the last window */
	int32_t most, awake;
	int64_t window_ns, last_ns, awake_ns; /* when the window began, the last change, and awake threads' time since then, in sum */
};

/* All are on duty, and awake. */
void stk__duty_init(struct stk_duty *d, int32_t threads, int64_t now);
/* A thread on duty wakes. */
void stk__duty_wakes(struct stk_duty *d, int64_t now);
/* It goes to sleep, or to rest. */
void stk__duty_sleeps(struct stk_duty *d, int64_t now);
/* Between two units of work, without the lock: whether all on duty are awake while others rest. Before that, nobody need ask for the time. */
bool stk__duty_full(const struct stk_duty *d);
/* Likewise, and they have been for so long that more should be on duty, which stk__duty_raise sees to. */
bool stk__duty_busy(const struct stk_duty *d, int64_t now);
/* Without the lock: of a hundred threads, how many were awake on average in the window that ended last. */
int32_t stk__duty_load(const struct stk_duty *d, int64_t now);
void stk__duty_raise(struct stk_duty *d, int64_t now);

#endif
