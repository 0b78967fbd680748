/* SPDX-License-Identifier: Apache-2.0
 * Reads the CPU quota of this process's control groups, from cpu.max (v2) or from cpu.cfs_quota_us and cpu.cfs_period_us (v1). A quota is a number of
 * processors, which may be a fraction. A group's quota also holds for the groups inside it, so the result is the least quota from the process's own group up
 * to the mount of the hierarchy. See cgroups(7) and the kernel's admin-guide/cgroup-v2. */
#include "thread/thread.h"

#include "base/memory.h"

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

/* Reads the file `name` in the folder `dir`, a path of less than PATH_MAX bytes. */
static bool read_in(const char *dir, const char *name, char *text, size_t capacity)
{
	char path[PATH_MAX + 32];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return read_text(path, text, capacity);
}

static double quota_v2(const char *dir)
{
	char text[128];
	long long quota, period;
	if (!read_in(dir, "cpu.max", text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0)
		return 0; /* "max 100000" is no quota */
	return (double)quota / (double)period;
}

static double quota_v1(const char *dir)
{
	char text[64];
	long long quota = read_in(dir, "cpu.cfs_quota_us", text, sizeof text) ? atoll(text) : -1;
	long long period = read_in(dir, "cpu.cfs_period_us", text, sizeof text) ? atoll(text) : 0;
	return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

static double least(double a, double b)
{
	return a <= 0 ? b : b <= 0 ? a : a < b ? a : b;
}

/* Returns the least quota of the groups from mount/group up to the mount itself, whose paths begin with `root`; 0: none has a quota. v2: the mount is of cgroup
 * v2, not v1. */
static double quota_upwards(const char *root, const char *mount, const char *group, bool v2)
{
	char dir[PATH_MAX];
	size_t stop = strlen(root) + strlen(mount);
	if ((size_t)snprintf(dir, sizeof dir, "%s%s%s", root, mount, group) >= sizeof dir)
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

/* Ends the word that begins at `at` with a NUL. Returns the begin of the next word, or the end of the text. */
static char *end_word(char *at, const char *separators)
{
	at += strcspn(at, separators);
	if (*at)
		*at++ = 0;
	return at;
}

/* Finds the path of the process's group in `text`, the contents of /proc/self/cgroup: in "0::/path" (v2), or in "4:cpu,cpuacct:/path". Returns NULL if there is
 * no such line. Splits the lines of the text by NULs. */
static const char *find_group(char *text, const char *end, bool v2)
{
	for (char *line = text; line < end;) {
		char *next = end_word(line, "\n"), *controllers = end_word(line, ":"), *path = end_word(controllers, ":");
		if (v2 ? strcmp(line, "0") == 0 && !*controllers : *controllers && has_cpu(controllers))
			return path;
		line = next;
	}
	return NULL;
}

/* Returns the CPU quota of the mount in one line of /proc/self/mountinfo: "36 35 98:0 /root /mount options - type source superoptions"; 0 if it has none or
 * does not control CPU time. Inside a container the mount's root is often the group itself; then the part of the group's path below the root is empty. Splits
 * the line by NULs. */
static double quota_of_mount(char *line, const char *root)
{
	enum { MOST = 8192 };
	char path[PATH_MAX], *dash = strstr(line, " - "), *fields[5];
	if (!dash)
		return 0;
	*dash = 0;
	for (int i = 0; i < 5; i++, line = end_word(line, " "))
		fields[i] = line;
	char *type = dash + 3, *source = end_word(type, " "), *super = end_word(source, " ");
	const char *inner = fields[3], *mount = fields[4];
	const bool v2 = strcmp(type, "cgroup2") == 0;
	if (!*mount || (!v2 && (strcmp(type, "cgroup") != 0 || !has_cpu(super))))
		return 0;
	char *text = stk__alloc(MOST);
	snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
	const char *group = text && read_text(path, text, MOST) ? find_group(text, text + strlen(text), v2) : NULL;
	double quota = 0;
	if (group) {
		const size_t n = strcmp(inner, "/") == 0 ? 0 : strlen(inner);
		const char *subpath = strncmp(group, inner, n) == 0 && (group[n] == '/' || !group[n]) ? group + n : "";
		quota = quota_upwards(root, mount, strcmp(subpath, "/") == 0 || strstr(subpath, "..") ? "" : subpath, v2);
	}
	stk__free(text);
	return quota;
}

double stk__cgroup_quota(const char *root)
{
	char path[PATH_MAX], *line = NULL;
	size_t capacity = 0;
	double quota = 0;
	snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
	FILE *mounts = fopen(path, "re");
	if (!mounts)
		return 0;
	while (getline(&line, &capacity, mounts) > 0) {
		line[strcspn(line, "\n")] = 0;
		quota = least(quota, quota_of_mount(line, root));
	}
	free(line);
	fclose(mounts);
	return quota;
}
