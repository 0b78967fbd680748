/* SPDX-License-Identifier: Apache-2.0 */
#include "io/access.h"

#include <time.h>

bool stk__access_wait(const struct stk_access *access, pthread_cond_t *wake, pthread_mutex_t *lock)
{
	enum { SLICE_NS = 50000000 };
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += SLICE_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	if (!pthread_cond_timedwait(wake, lock, &until) || !access || !access->interrupted)
		return true;
	pthread_mutex_unlock(lock);
	bool on = !access->interrupted(access->user);
	pthread_mutex_lock(lock);
	return on;
}
