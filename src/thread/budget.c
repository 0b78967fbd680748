/* SPDX-License-Identifier: Apache-2.0
 * Determines how many processors, open files and pinned bytes this process may use, and its number of workers. */
#include "thread/thread.h"

#include "base/memory.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Returns the number of processors in the affinity mask, or `otherwise` on failure. The kernel returns EINVAL until the mask has room for all processors of
 * the machine, which may be more than CPU_SETSIZE. */
static int count_affinity(int otherwise)
{
	for (int cpus = CPU_SETSIZE; cpus <= 1 << 20; cpus *= 4) {
		size_t size = CPU_ALLOC_SIZE((size_t)cpus);
		cpu_set_t *set = stk__calloc(1, size);
		if (!set)
			break;
		int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
		stk__free(set);
		if (count > 0)
			return count;
	}
	return otherwise;
}

static int64_t limit_of(int resource)
{
	struct rlimit r;
	if (getrlimit((__rlimit_resource_t)resource, &r) || r.rlim_cur == RLIM_INFINITY)
		return -1;
	return (int64_t)r.rlim_cur;
}

static int local_world_size(void)
{
	const char *text = getenv("LOCAL_WORLD_SIZE");
	char *end;
	if (!text)
		return 1;
	long n = strtol(text, &end, 10);
	return end != text && *end == 0 && n > 0 && n <= INT_MAX ? (int)n : 1;
}

void stk__cpu_budget(struct stk_cpu_budget *b)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	*b = (struct stk_cpu_budget){
		.online = online > 0 ? (int)online : 1,
		.quota = stk__cgroup_quota(""),
		.local_world_size = local_world_size(),
		.nofile = limit_of(RLIMIT_NOFILE),
		.memlock = limit_of(RLIMIT_MEMLOCK),
	};
	b->affinity = count_affinity(b->online);
	b->cpus = b->affinity < b->online ? b->affinity : b->online;
	if (b->quota > 0 && b->quota < b->cpus) {
		int whole = (int)b->quota;
		b->cpus = whole + (b->quota > whole);
	}
	b->threads = b->cpus / b->local_world_size;
	if (b->threads < 1)
		b->threads = 1;
}
