/* SPDX-License-Identifier: Apache-2.0
 *
 * A line on stderr that shows the progress of a command. It is shown only on a terminal and redrawn a few times a second. */
#ifndef STOKER_CLI_PROGRESS_H
#define STOKER_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool shown;
	const char *what;   /* "images" */
	int64_t total;      /* 0: unknown */
	double start, last; /* seconds */
};

void progress_begin(struct progress *p, const char *what, int64_t total, bool quiet);
void progress_update(struct progress *p, int64_t done);
/* Erases the line, so that the next output begins on an empty one. */
void progress_end(struct progress *p);

double wall_seconds(void);   /* of the monotonic clock */
double cpu_seconds(void);    /* CPU time of this process */
double thread_seconds(void); /* CPU time of the calling thread */

#endif
