/* SPDX-License-Identifier: Apache-2.0 */
#include "base/machine_memory.h"

#include <stdio.h>
#include <string.h>

int64_t stk__kernel_number(const char *path, const char *key)
{
	char line[256];
	int64_t value = -1;
	FILE *f = fopen(path, "re");
	while (f && value < 0 && fgets(line, sizeof(line), f)) {
		long long number;
		if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%lld", &number) == 1)
			value = number;
	}
	if (f)
		fclose(f);
	return value;
}

/* Returns the number of bytes of memory that a control group has left, including its inactive page cache; -1: limit_file or used_file has no number ("max": no
 * limit) or cannot be read. cache_key: the line of stat_file that has the size of that cache, which counts as 0 if it is missing. */
static int64_t left_in_group(const char *limit_file, const char *used_file, const char *stat_file, const char *cache_key)
{
	int64_t limit = stk__kernel_number(limit_file, ""), used = stk__kernel_number(used_file, "");
	if (limit < 0 || used < 0)
		return -1;
	int64_t cache = stk__kernel_number(stat_file, cache_key), left = limit - used + (cache > 0 ? cache : 0);
	return left > 0 ? left : 0;
}

size_t stk__memory_available(void)
{
	int64_t kib = stk__kernel_number("/proc/meminfo", "MemAvailable:");
	size_t available = kib < 0 ? SIZE_MAX : (size_t)kib * 1024;
	int64_t left =
		left_in_group("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file ");
	if (left < 0)
		left = left_in_group("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
			"/sys/fs/cgroup/memory/memory.stat", "total_inactive_file ");
	return left >= 0 && (size_t)left < available ? (size_t)left : available;
}
