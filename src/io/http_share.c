/* SPDX-License-Identifier: Apache-2.0
 * What the loops of a source share: requests that wait, how many may be under way, and what is known of stores. */
#include "io/http_impl.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_LIMIT = 8, WINDOW = 256 };

/* ---- what is known of stores ---- */

static struct stk_http_region *find_region(struct stk_http_source *s, const char *bucket)
{
	struct stk_http_region *g = s->regions;
	while (g && strcmp(g->bucket, bucket) != 0)
		g = g->next;
	return g;
}

bool stk__http_region(struct stk_http_source *s, const char *bucket, char region[64])
{
	pthread_mutex_lock(&s->lock);
	struct stk_http_region *g = find_region(s, bucket);
	if (g)
		memcpy(region, g->region, sizeof g->region);
	pthread_mutex_unlock(&s->lock);
	return g;
}

/* Without memory for it the server says so again next time. */
void stk__http_set_region(struct stk_http_source *s, const char *bucket, const char *region)
{
	pthread_mutex_lock(&s->lock);
	struct stk_http_region *g = find_region(s, bucket);
	if (!g && (g = stk__calloc(1, sizeof *g))) {
		memcpy(g->bucket, bucket, strlen(bucket) + 1);
		g->next = s->regions;
		s->regions = g;
	}
	if (g)
		memcpy(g->region, region, strlen(region) + 1);
	pthread_mutex_unlock(&s->lock);
}

int64_t stk__http_now(struct stk_http_source *s)
{
	pthread_mutex_lock(&s->lock);
	int64_t skew = s->skew_s;
	pthread_mutex_unlock(&s->lock);
	return (int64_t)time(NULL) + skew;
}

void stk__http_set_now(struct stk_http_source *s, int64_t now)
{
	pthread_mutex_lock(&s->lock);
	s->skew_s = now - (int64_t)time(NULL);
	pthread_mutex_unlock(&s->lock);
}

/* ---- requests ---- */

struct stk_http_loop *stk__http_sleeping(struct stk_http_source *s)
{
	struct stk_http_loop *best = NULL;
	for (int i = 0; i < s->loop_count; i++)
		if (s->loops[i].sleeping && (!best || s->loops[i].count < best->count))
			best = &s->loops[i];
	return best;
}

void stk__http_loop_wake(struct stk_http_loop *l)
{
	uint64_t one = 1;
	ssize_t n = write(l->event, &one, sizeof one); /* full: it is awake */
	(void)n;
}

struct stk_request *stk__http_next(struct stk_http_source *s, struct stk_http_loop *l)
{
	pthread_mutex_lock(&s->lock);
	int share = (s->settings.requests + s->loop_count - 1) / s->loop_count;
	bool room = l->count < share && s->under_way < (int)s->limit;
	struct stk_request *r = room ? stk__queue_pop(&s->queue) : NULL;
	if (r)
		stk__http_join(&s->queue, r);
	s->under_way += r != NULL;
	l->count += r != NULL;
	l->sleeping = !r && l->count < share;
	pthread_mutex_unlock(&s->lock);
	return r;
}

bool stk__http_begin_hedge(struct stk_http_source *s, int64_t now)
{
	const int64_t calm_ns = 5000000000;
	pthread_mutex_lock(&s->lock);
	bool may = !s->settings.no_hedging && s->hedges * 20 < s->under_way + 40 && (!s->slowed_ns || now - s->slowed_ns > calm_ns);
	s->hedges += may;
	s->hedged += may;
	pthread_mutex_unlock(&s->lock);
	return may;
}

void stk__http_end_hedge(struct stk_http_source *s)
{
	pthread_mutex_lock(&s->lock);
	s->hedges--;
	pthread_mutex_unlock(&s->lock);
}

void stk__http_awake(struct stk_http_source *s, struct stk_http_loop *l)
{
	pthread_mutex_lock(&s->lock);
	l->sleeping = false;
	pthread_mutex_unlock(&s->lock);
}

/* A window of requests has ended: where they took longer than they need to, more of them under way bring no more bytes, and only wait for each other
 * (the gradient of Netflix's concurrency limits). The time that they need is the least of all windows, which is forgotten slowly, and where the mean size
 * changes. */
static void end_window(struct stk_http_source *s)
{
	const double tolerance = 1.25, forget = 1.0 / 256;
	double mean = (double)s->window.ns / s->window.count, size = (double)s->window.bytes / s->window.count;
	bool limited = s->window.limited, other = size > 2 * s->base_size || size < s->base_size / 2;
	s->window = (struct stk_http_window){0};
	if (!s->base_ns || other) {
		s->base_ns = mean;
		s->base_size = size;
		return;
	}
	s->base_ns += mean < s->base_ns ? mean - s->base_ns : (mean - s->base_ns) * forget;
	double gradient = tolerance * s->base_ns / mean;
	if (gradient < 1)
		s->steady = true;
	if (!limited)
		return;
	double limit = s->limit * (gradient > 1 ? 1 : gradient < 0.5 ? 0.5 : gradient) + sqrt(s->limit);
	s->limit = limit < LEAST_LIMIT ? LEAST_LIMIT : limit > s->settings.requests ? s->settings.requests : limit;
}

/* With the lock. A server that asks to slow down gets half; the refusals of one burst count once. Until the limit has first been too high, it grows by half a
 * request for each that ends well. */
static void adapt(struct stk_http_source *s, const struct stk_http_end *e)
{
	enum { BURST_NS = 500000000 };
	if (e->slow && e->now_ns - s->slowed_ns > BURST_NS) {
		s->limit = s->limit / 2 > LEAST_LIMIT ? s->limit / 2 : LEAST_LIMIT;
		s->slowed_ns = e->now_ns;
		s->slowdowns++;
		s->steady = true;
	}
	if (!e->well)
		return;
	if (!s->steady && s->queue.root && s->limit < s->settings.requests)
		s->limit += 0.5;
	s->window.limited |= s->queue.root != NULL;
	s->window.ns += e->now_ns - e->begun_ns;
	s->window.bytes += (int64_t)e->bytes;
	if (++s->window.count == WINDOW)
		end_window(s);
}

void stk__http_ended(struct stk_http_source *s, struct stk_http_loop *l, const struct stk_http_end *e)
{
	struct stk_http_loop *wake = NULL;
	pthread_mutex_lock(&s->lock);
	s->under_way--;
	l->count--;
	adapt(s, e);
	if (s->queue.root && s->under_way < (int)s->limit && (wake = stk__http_sleeping(s)))
		wake->sleeping = false;
	pthread_mutex_unlock(&s->lock);
	if (wake)
		stk__http_loop_wake(wake);
}
