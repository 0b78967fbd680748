/* SPDX-License-Identifier: Apache-2.0
 * Finds the cores near a PCI device, which the kernel lists in sysfs (Documentation/ABI/testing/sysfs-bus-pci: local_cpulist). */
#include "thread/thread.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses a list such as "0-15,32-47". Sets in `out` the cores that are both in the list and in `allowed`, and counts all cores of the list. */
static void read_list(const char *text, const cpu_set_t *allowed, struct stk_device_cores *out)
{
	for (const char *p = text; *p;) {
		char *end;
		unsigned long first = strtoul(p, &end, 10), last = first;
		if (end == p)
			return;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++) {
			out->n_near++;
			if (CPU_ISSET(cpu, allowed))
				CPU_SET(cpu, &out->cpus);
		}
		p = *end == ',' ? end + 1 : "";
	}
}

/* Writes the cores as a list such as "0-15,32-47"; if they do not all fit, the list ends in ",...". */
static void write_list(const cpu_set_t *cpus, char *text, size_t capacity)
{
	size_t used = 0;
	text[0] = 0;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		int first = cpu;
		char run[32];
		if (!CPU_ISSET(cpu, cpus))
			continue;
		while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, cpus))
			cpu++;
		int n = cpu > first ? snprintf(run, sizeof run, "%d-%d", first, cpu) : snprintf(run, sizeof run, "%d", first);
		if (used + (size_t)n + sizeof ",,..." > capacity) {
			snprintf(text + used, capacity - used, ",...");
			return;
		}
		used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? "," : "", run);
	}
}

void stk__device_cores_list(struct stk_device_cores *cores)
{
	cores->count = CPU_COUNT(&cores->cpus);
	write_list(&cores->cpus, cores->list, sizeof cores->list);
}

void stk__device_cores(const char *root, const char *pci, const cpu_set_t *allowed, struct stk_device_cores *out)
{
	char id[32], path[PATH_MAX], text[4096] = "";
	size_t n = 0;
	*out = (struct stk_device_cores){0};
	for (; pci[n] && n + 1 < sizeof id; n++) /* the driver writes capital letters, as in 0000:3B:00.0 */
		id[n] = (char)tolower((unsigned char)pci[n]);
	id[n] = 0;
	if (!id[0] || strchr(id, '/'))
		return;
	snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/local_cpulist", root, id);
	FILE *f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(text, sizeof text, f))
		read_list(text, allowed, out);
	fclose(f);
	stk__device_cores_list(out);
}
