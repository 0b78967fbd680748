/* SPDX-License-Identifier: Apache-2.0
 * Reads this process's memory use from /proc. */
#ifndef STK_TEST_PROCESS_MEMORY_H
#define STK_TEST_PROCESS_MEMORY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the value of a line of /proc/self/status in KiB: "VmRSS:" for the current use, "VmHWM:" for the peak. */
static inline long status_kb(const char *field)
{
	char line[256];
	long kb = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, field, strlen(field)) == 0)
			kb = strtol(line + strlen(field), NULL, 10);
	if (f)
		fclose(f);
	return kb;
}

/* Resets the peak to the current use. */
static inline void forget_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "w");
	if (f) {
		fputs("5", f);
		fclose(f);
	}
}

#endif
