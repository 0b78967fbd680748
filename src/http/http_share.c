/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the state that the loops of a source share: waiting requests, the limit of requests under way, and what answers have shown about stores. */
#include "http/http_connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#include <string.h>
#include <unistd.h>

enum { HEDGES_AT_FIRST = 4, REQUESTS_A_HEDGE = 20 };
enum { SEARCH_NS = 20000000 }; /* time until the queue is searched again after a search that found nothing */
enum { LEAST_LIMIT = 8, LEAST_WINDOW = 64, MOST_WINDOW = 256, PROBE = 32 };

/* ---- facts about stores ---- */

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

/* Stores a bucket's region. If memory is short, the next request to the bucket finds the region out again. */
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
	ssize_t n = write(l->event, &one, sizeof one); /* fails only if the counter is full; then the loop is awake */
	(void)n;
}

static bool is_awaited(const struct stk_request *r, const void *unused)
{
	(void)unused;
	return !r->admission || stk__request_awaited(r);
}

/* Returns whether a request that its caller waits for may begin. Requests under way that wait for memory do not count towards the limit, because they may wait
 * until a paused pipeline continues. */
static bool may_begin_awaited(const struct stk_http_source *s)
{
	int waiting = 0;
	for (int i = 0; i < s->loop_count; i++)
		waiting += atomic_load(&s->loops[i].waiting_for_memory);
	return s->under_way - waiting < (int)s->limit;
}

bool stk__http_may_begin(const struct stk_http_source *s, const struct stk_request *r)
{
	return s->under_way < (int)s->limit || (is_awaited(r, NULL) && may_begin_awaited(s));
}

/* Returns the request that begins next, or NULL. If the limit is reached, only an awaited request may begin. A queued request may become awaited at any
 * time, so a search that found none is repeated after SEARCH_NS. */
static struct stk_request *pop_next(struct stk_http_source *s, int64_t now)
{
	if (s->under_way < (int)s->limit)
		return stk__queue_pop(&s->queue);
	if (!s->queue.root || now < s->search_ns || !may_begin_awaited(s))
		return NULL;
	struct stk_request *r = stk__queue_pop_wanted(&s->queue, is_awaited, NULL);
	s->search_ns = r ? 0 : now + SEARCH_NS;
	return r;
}

struct stk_request *stk__http_next(struct stk_http_source *s, struct stk_http_loop *l)
{
	const int64_t now = stk__clock_ns();
	const int working = l->count - atomic_load(&l->waiting_for_memory);
	/* checked before the lock is taken, because the check makes system calls */
	const bool open = working < s->settings.requests && stk__connections_have_room(l, now);
	pthread_mutex_lock(&s->lock);
	int loop_limit = (s->settings.requests + s->loop_count - 1) / s->loop_count;
	const bool allowed = open && working < loop_limit;
	struct stk_request *r = allowed ? pop_next(s, now) : NULL;
	if (r)
		stk__http_join(&s->queue, r);
	s->under_way += r != NULL;
	s->requests += r != NULL;
	l->count += r != NULL;
	l->sleeping = !r && allowed;
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Puts a request that found no free descriptor back into the queue. Returns false if the request must end instead: the source is ending, the request was
 * cancelled, or it has waited for first_byte_ms. */
static bool may_requeue(struct stk_http_source *s, struct stk_request *r, int64_t now)
{
	r->http.starved_ns = r->http.starved_ns ? r->http.starved_ns : now;
	const bool on = !s->cancelled && !atomic_load(&r->cancelled) && now - r->http.starved_ns < s->settings.first_byte_ms * 1000000;
	if (on)
		stk__queue_push(&s->queue, r);
	return on;
}

void stk__http_requeue(struct stk_http_source *s, struct stk_http_loop *l, struct stk_request *r, int64_t now)
{
	struct stk_request *late = NULL;
	pthread_mutex_lock(&s->lock);
	s->under_way--;
	l->count--;
	for (struct stk_request *next; r; r = next) {
		next = r->http.joined;
		r->http.joined = NULL;
		if (may_requeue(s, r, now))
			continue;
		r->http.joined = late;
		late = r;
	}
	const bool cancelled = s->cancelled;
	pthread_mutex_unlock(&s->lock);
	for (struct stk_request *next; late; late = next) {
		next = late->http.joined;
		late->http.joined = NULL;
		if (cancelled || atomic_load(&late->cancelled))
			stk__io_finish(s->io, late, stk__request_cancelled(late));
		else
			stk__io_finish(s->io, late,
				stk__fail(stk__request_error(late), STK_SYSTEM,
					"%.*s: no connection within %g s: too many files are open in this process; raise the limit (ulimit -n)",
					stk__uri_shown(late->uri), late->uri, (double)s->settings.first_byte_ms / 1000));
	}
}

bool stk__http_begin_hedge(struct stk_http_source *s, int64_t now)
{
	const int64_t calm_ns = 5000000000;
	pthread_mutex_lock(&s->lock);
	bool allowed = !s->settings.no_hedging && s->hedged_requests < HEDGES_AT_FIRST + s->requests / REQUESTS_A_HEDGE &&
		       s->hedges * REQUESTS_A_HEDGE < s->under_way + 40 && (!s->slowed_ns || now - s->slowed_ns > calm_ns);
	s->hedges += allowed;
	s->hedged_requests += allowed;
	pthread_mutex_unlock(&s->lock);
	return allowed;
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

static void set_limit(struct stk_http_source *s, double limit, int64_t now)
{
	s->limit = limit < LEAST_LIMIT ? LEAST_LIMIT : limit;
	s->limit = s->limit > s->settings.requests ? s->settings.requests : s->limit;
	s->changed_ns = now;
	s->window = (struct stk_http_window){0};
}

/* Returns the next limit as a multiple of the present one. mean, rate: mean time in ns of the last window's requests, and number of requests per ns. The
 * limit is doubled until it has been too high once. */
static double next_factor(struct stk_http_source *s, double mean, double rate)
{
	const double ahead = 4.0 / 3, least = 0.5, probe = 0.75;
	double factor = ahead * s->base_ns / mean;
	s->limit_was_exceeded |= factor < 1;
	if (factor > 1.25 && !s->limit_was_exceeded)
		return 2;
	if (s->limit_was_exceeded && ++s->windows % PROBE == 0 && mean > 1.15 * s->base_ns)
		factor = factor < probe ? factor : probe;
	if (factor < 0.9) {
		s->last_limit = s->limit;
		s->last_limit_rate = rate;
	}
	return factor < least ? least : factor;
}

/* Sets the limit after a window of requests that all began under the present limit. If they took longer on average than s->base_ns, the shortest mean time
 * so far, they spent the rest of the time waiting for each other (as in TCP Vegas). The new limit is the number of requests that delivers the full rate,
 * plus a third, so that the network is never idle. One window in PROBE has a lower limit, to measure the shortest time again. If the lower limit also
 * lowered the rate, s->base_ns was too short and is set to the present mean; this also happens when the mean size of objects has doubled or halved. If no
 * other request waited during the window, the limit does not change. */
static void end_window(struct stk_http_source *s, int64_t now)
{
	const struct stk_http_window w = s->window;
	double mean = (double)w.ns / w.count, size = (double)w.bytes / w.count, rate = w.count / (double)(now - w.begun_ns + 1);
	bool other = size > 2 * s->base_size || size < s->base_size / 2;
	bool missed = s->last_limit > 0 && rate < s->last_limit_rate * (1 + s->limit / s->last_limit) / 2;
	s->last_limit = 0;
	if (!s->base_ns || other || missed || mean < s->base_ns) {
		s->base_ns = mean;
		s->base_size = size;
	}
	s->window = (struct stk_http_window){0};
	if (w.limited)
		set_limit(s, s->limit * next_factor(s, mean, rate), now);
}

/* Adapts the limit after a request has ended: counts a request that succeeded in the window, and at its end sets the limit. If the server asks to slow
 * down, halves the limit, but only once per BURST_NS. Call with the lock held. */
static void adapt_limit(struct stk_http_source *s, const struct stk_http_end *e)
{
	enum { BURST_NS = 500000000 };
	if (e->slow && e->now_ns - s->slowed_ns > BURST_NS) {
		set_limit(s, s->limit / 2, e->now_ns);
		s->slowed_ns = e->now_ns;
		s->slowdowns++;
		s->limit_was_exceeded = true;
	}
	if (!e->well || e->begun_ns < s->changed_ns)
		return;
	if (!s->window.count)
		s->window.begun_ns = e->now_ns;
	s->window.limited |= s->queue.root != NULL;
	s->window.ns += e->now_ns - e->begun_ns;
	s->window.bytes += (int64_t)e->bytes;
	s->window.count++;
	if (s->window.count >= (s->limit < LEAST_WINDOW ? LEAST_WINDOW : s->limit > MOST_WINDOW ? MOST_WINDOW : (int)s->limit))
		end_window(s, e->now_ns);
}

void stk__http_ended(struct stk_http_source *s, struct stk_http_loop *l, const struct stk_http_end *e)
{
	struct stk_http_loop *wake = NULL;
	pthread_mutex_lock(&s->lock);
	s->under_way--;
	l->count--;
	adapt_limit(s, e);
	if (s->queue.root && s->under_way < (int)s->limit && (wake = stk__http_sleeping(s)))
		wake->sleeping = false;
	pthread_mutex_unlock(&s->lock);
	if (wake)
		stk__http_loop_wake(wake);
}
