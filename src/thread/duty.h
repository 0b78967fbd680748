/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides how many of a pool's threads are on duty; the others rest. If many threads wake for the same batch, they share memory, caches and the halves of
 * cores, and the work takes up to twice the CPU time that a few threads need. So at most four times as many threads are on duty as were awake on average,
 * but at least a few. As soon as the threads on duty have had no pause for a while, their number doubles: a consumer that takes every batch at once soon has
 * all threads working.
 *
 * This code uses no thread, lock or clock of its own: the pool calls it with the pool's lock held, except for stk__duty_full, stk__duty_busy and
 * stk__duty_load. */
#ifndef STK_THREAD_DUTY_H
#define STK_THREAD_DUTY_H

#include <stdbool.h>
#include <stdint.h>

/* Minimum length of a window, over which awake threads are averaged: several batches of a training loop. */
#define STK_DUTY_WINDOW_NS 100000000

struct stk_duty {
	_Atomic int32_t on;       /* number of threads on duty, which are those with the lowest numbers */
	_Atomic int64_t since_ns; /* time since which all threads on duty are awake; 0: some sleep, or `on` was just doubled */
	_Atomic int32_t load;     /* percentage of threads that were awake on average in the last window */
	int32_t most, awake;      /* number of all threads, and of awake threads */
	int64_t window_ns, last_ns,
		awake_ns; /* time of the window's beginning; time of the last change; sum of the awake threads' time since the window began */
};

/* Starts with all threads on duty and awake. */
void stk__duty_init(struct stk_duty *d, int32_t threads, int64_t now);
/* Records that a thread on duty wakes. */
void stk__duty_wakes(struct stk_duty *d, int64_t now);
/* Records that a thread goes to sleep or to rest. At the end of a window, also computes the load in it, and lowers the number of threads on duty to the number
 * that was needed. Only stk__duty_raise raises that number again. */
void stk__duty_sleeps(struct stk_duty *d, int64_t now);
/* Returns whether all threads on duty are awake while others rest. Call it between two units of work, without the lock. If it returns false there is no need
 * to read the clock for stk__duty_busy. */
bool stk__duty_full(const struct stk_duty *d);
/* Returns whether stk__duty_full has held for so long that more threads should be on duty; stk__duty_raise adds them. */
bool stk__duty_busy(const struct stk_duty *d, int64_t now);
/* Returns the percentage of threads that were awake on average in the last finished window; 100 if all have been awake for a window's length. Call it
 * without the lock. */
int32_t stk__duty_load(const struct stk_duty *d, int64_t now);
/* Doubles the number of threads on duty if stk__duty_busy holds. */
void stk__duty_raise(struct stk_duty *d, int64_t now);

#endif
