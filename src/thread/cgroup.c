/* SPDX-License-Identifier: Apache-2.0
 * Reads the CPU quota of this process's control groups, from cpu.max (v2) or from cpu.cfs_quota_us and cpu.cfs_period_us (v1). A quota is a number of
 * processors, which may be a fraction. A group's quota also holds for the groups inside it, so the result is the least quota from the process's own group up
 * to the mount of the hierarchy. See cgroups(7) and the kernel's admin-guide/cgroup-v2. */
#include "thread/thread.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads at most capacity - 1 bytes of a file as a string. Returns false if the file cannot be opened or is empty. */
static bool read_text(const char *path, char *text, size_t capacity)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	size_t used = 0;
	ssize_t n;
	while (used + 1 < capacity && (n = read(fd, text + used, capacity - 1 - used)) > 0)
		used += (size_t)n;
	close(fd);
	text[used] = 0;
	return used > 0;
}

static double quota_v2(const char *dir)
{
	char path[PATH_MAX + 32], text[128];
	long long quota, period;
	snprintf(path, sizeof path, "%s/cpu.max", dir);
	if (!read_text(path, text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0)
		return 0; /* "max 100000" is no quota */
	return (double)quota / (double)period;
}

static double quota_v1(const char *dir)
{
	char path[PATH_MAX + 32], text[64];
	snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
	long long quota = read_text(path, text, sizeof text) ? atoll(text) : -1;
	snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
	long long period = read_text(path, text, sizeof text) ? atoll(text) : 0;
	return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

static double least(double a, double b)
{
	return a <= 0 ? b : b <= 0 ? a : a < b ? a : b;
}

/* Returns the least quota of the groups from mount/group up to the mount itself; 0: none has a quota. v2: the mount is of cgroup v2, not v1. */
static double quota_upwards(const char *mount, const char *group, bool v2)
{
	char dir[PATH_MAX];
	size_t stop = strlen(mount);
	if ((size_t)snprintf(dir, sizeof dir, "%s%s", mount, group) >= sizeof dir)
		return 0;
	double quota = 0;
	for (;;) {
		quota = least(quota, v2 ? quota_v2(dir) : quota_v1(dir));
		char *slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < stop)
			return quota;
		*slash = 0;
	}
}

/* Returns whether the comma-separated `list` contains "cpu". */
static bool has_cpu(const char *list)
{
	for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, "cpu", 3) == 0 && (p[3] == 0 || p[3] == ','))
			return true;
	return false;
}

/* Copies the path of the process's group from `text`, the contents of /proc/self/cgroup: from "0::/path" (v2), or from "4:cpu,cpuacct:/path". Returns false
 * if there is no such line. */
static bool find_group(const char *text, bool v2, char *group, size_t capacity)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		char controllers[256], path[PATH_MAX];
		int id;
		controllers[0] = 0;
		bool is_v2 = sscanf(line, "%d::%4095[^\n]", &id, path) == 2;
		bool named = !is_v2 && sscanf(line, "%d:%255[^:]:%4095[^\n]", &id, controllers, path) == 3;
		if (v2 ? is_v2 && id == 0 : named && has_cpu(controllers)) {
			snprintf(group, capacity, "%s", path);
			return true;
		}
	}
	return false;
}

/* Returns the CPU quota of the mount in one line of /proc/self/mountinfo: "36 35 98:0 /root /mount options - type source superoptions"; 0 if it has none or
 * does not control CPU time. Inside a container the mount's root is often the group itself; then the part of the group's path below the root is empty. */
static double quota_of_mount(const char *line, const char *root, const char *cgroup)
{
	char inner[PATH_MAX], mount[PATH_MAX], type[32], super[512], group[PATH_MAX], mount_path[PATH_MAX];
	const char *dash = strstr(line, " - ");
	if (!dash || sscanf(line, "%*s %*s %*s %4095s %4095s", inner, mount) != 2 || sscanf(dash, " - %31s %*s %511s", type, super) != 2)
		return 0;
	bool v2 = strcmp(type, "cgroup2") == 0;
	if (!v2 && (strcmp(type, "cgroup") != 0 || !has_cpu(super)))
		return 0;
	if (!find_group(cgroup, v2, group, sizeof group) ||
		(size_t)snprintf(mount_path, sizeof mount_path, "%s%s", root, mount) >= sizeof mount_path)
		return 0;
	size_t n = strcmp(inner, "/") == 0 ? 0 : strlen(inner);
	const char *subpath = strncmp(group, inner, n) == 0 && (group[n] == '/' || !group[n]) ? group + n : "";
	if (strcmp(subpath, "/") == 0 || strstr(subpath, ".."))
		subpath = "";
	return quota_upwards(mount_path, subpath, v2);
}

double stk__cgroup_quota(const char *root)
{
	char path[PATH_MAX], cgroup[8192], line[8192];
	double quota = 0;
	snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
	if (!read_text(path, cgroup, sizeof cgroup))
		return 0;
	snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
	FILE *mounts = fopen(path, "re");
	if (!mounts)
		return 0;
	while (fgets(line, sizeof line, mounts)) {
		line[strcspn(line, "\n")] = 0;
		quota = least(quota, quota_of_mount(line, root, cgroup));
	}
	fclose(mounts);
	return quota;
}
