/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double clock_seconds(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double wall_seconds(void)
{
	return clock_seconds(CLOCK_MONOTONIC);
}

double cpu_seconds(void)
{
	return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double thread_seconds(void)
{
	return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

void progress_begin(struct progress *p, const char *what, int64_t total, bool quiet)
{
	const char *term = getenv("TERM");
	bool terminal = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
	*p = (struct progress){.shown = terminal && !quiet, .what = what, .total = total, .start = wall_seconds()};
}

void progress_update(struct progress *p, int64_t done)
{
	double now = wall_seconds();
	if (!p->shown || now - p->last < 0.1)
		return;
	p->last = now;
	double rate = now > p->start ? (double)done / (now - p->start) : 0;
	if (p->total > 0) {
		char bar[31];
		int filled = (int)(30 * done / p->total);
		for (int i = 0; i < 30; i++)
			bar[i] = i < filled ? '#' : '.';
		bar[30] = '\0';
		fprintf(stderr, "\r\033[K[%s] %" PRId64 " of %" PRId64 " %s, %.0f/s", bar, done, p->total, p->what, rate);
	} else {
		fprintf(stderr, "\r\033[K%" PRId64 " %s, %.0f/s", done, p->what, rate);
	}
	fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (p->shown && p->last > 0)
		fputs("\r\033[K", stderr);
}
