/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that tells how far a command is: on a terminal only, on stderr, a few times a second. */
#ifndef STOKER_CLI_PROGRESS_H
#define STOKER_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool shown;
	const char *what;   /* "images" */
	int64_t total;      /* 0: not known */
	double start, last; /* seconds */
};

void progress_begin(struct progress *p, const char *what, int64_t total, bool quiet);
void progress_update(struct progress *p, int64_t done);
/* Removes the line, so that what follows starts clean. */
void progress_end(struct progress *p);

/* Seconds of the monotonic clock, and CPU seconds of this process. */
double wall_seconds(void);
double cpu_seconds(void);
double thread_seconds(void); /* of CPU time of the calling thread */

#endif
