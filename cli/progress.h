/* SPDX-License-Identifier: Apache-2.0
 *
 * A line on stderr that shows the progress of a command and how long is left. It is shown only on a terminal, fits its width, and is redrawn a few times a
 * second. Ctrl-C is noted here too, so that a command can report what it has found so far. */
#ifndef STOKER_CLI_PROGRESS_H
#define STOKER_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool shown;
	const char *unit;   /* the noun for what is counted: "images" */
	int64_t total;      /* 0: unknown */
	double start, last; /* times in seconds of progress_begin and of the last drawing */
};

void progress_begin(struct progress *p, const char *what, int64_t total, bool quiet);
void progress_update(struct progress *p, int64_t done);
/* Erases the line, so that the next output begins on an empty one. */
void progress_end(struct progress *p);

/* From now on the first SIGINT, SIGTERM or SIGHUP only makes interrupted() return true; a second one ends the process, as without this call. Signals that are
 * ignored, as under nohup, stay ignored. */
void catch_interrupts(void);
bool interrupted(void);

double wall_seconds(void);   /* time of the monotonic clock */
double cpu_seconds(void);    /* CPU time of this process */
double thread_seconds(void); /* CPU time of the calling thread */

#endif
