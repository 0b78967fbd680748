/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

void progress_begin(struct progress *p, const char *unit, int64_t total, bool quiet)
{
	const char *term = getenv("TERM");
	bool terminal = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
	*p = (struct progress){.shown = terminal && !quiet, .unit = unit, .total = total, .start = wall_seconds()};
}

static int terminal_width(void)
{
	struct winsize size;
	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Writes the remaining time as ", 1:05 left" to `text`; "" if it is not known (in the first second, without a total) or at least 100 hours. */
static void time_left(const struct progress *p, int64_t done, double elapsed, char text[32])
{
	*text = '\0';
	if (p->total <= 0 || done <= 0 || done > p->total || elapsed < 1)
		return;
	const double left = elapsed * (double)(p->total - done) / (double)done;
	if (left < 360000) {
		const int s = (int)(left + 0.5);
		if (s < 3600)
			snprintf(text, 32, ", %d:%02d left", s / 60, s % 60);
		else
			snprintf(text, 32, ", %d:%02d:%02d left", s / 3600, s / 60 % 60, s % 60);
	}
}

/* Prints "[###...] facts", with a bar of up to 30 characters if it fits. Cuts the line at the terminal's width, since a wrapped line cannot be erased. */
static void draw(const struct progress *p, int64_t done, const char *facts)
{
	enum { LONGEST = 30, SHORTEST = 5 };
	char bar[LONGEST + 1];
	const int width = terminal_width() - 1, capacity = width - (int)strlen(facts) - 3;
	const int length = p->total <= 0 || capacity < SHORTEST ? 0 : capacity < LONGEST ? capacity : LONGEST;
	const int64_t filled = length ? length * (done < p->total ? done : p->total) / p->total : 0;
	for (int i = 0; i < length; i++)
		bar[i] = i < filled ? '#' : '.';
	bar[length] = '\0';
	fprintf(stderr, "\r\033[K%s%s%s%.*s", length ? "[" : "", bar, length ? "] " : "", width > 0 ? width : 0, facts);
	fflush(stderr);
}

void progress_update(struct progress *p, int64_t done)
{
	double now = wall_seconds();
	char facts[160], left[32];
	if (!p->shown || now - p->last < 0.1)
		return;
	p->last = now;
	const double elapsed = now - p->start, rate = elapsed > 0 ? (double)done / elapsed : 0;
	time_left(p, done, elapsed, left);
	if (p->total > 0)
		snprintf(facts, sizeof(facts), "%" PRId64 " of %" PRId64 " %s, %.*f/s%s", done, p->total, p->unit, rate < 10, rate, left);
	else
		snprintf(facts, sizeof(facts), "%" PRId64 " %s, %.*f/s", done, p->unit, rate < 10, rate);
	draw(p, done, facts);
}

void progress_end(struct progress *p)
{
	if (p->shown && p->last > 0)
		fputs("\r\033[K", stderr);
}

static volatile sig_atomic_t was_interrupted;

static void on_interrupt(int number)
{
	(void)number;
	was_interrupted = 1;
}

void catch_interrupts(void)
{
	/* Without SA_RESTART: a write to a pipe returns when a signal comes. SA_RESETHAND: a second signal ends the process. */
	const struct sigaction note = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	for (int i = 0; i < 3; i++) {
		struct sigaction before;
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &note, NULL);
	}
}

bool interrupted(void)
{
	return was_interrupted != 0;
}
