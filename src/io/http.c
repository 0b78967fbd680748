/* SPDX-License-Identifier: Apache-2.0
 * The source: requests that wait, how many may be under way, and what is known of stores. */
#include "io/http_impl.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "thread/thread.h"

#include <math.h>
#include <string.h>

enum { FIRST_LIMIT = 128, LEAST_LIMIT = 8, WINDOW = 256 };

static enum stk_status cancelled(struct stk_request *r)
{
	return stk__fail(r->error, STK_CANCELLED, "%.*s: reading was cancelled", stk__uri_shown(r->uri), r->uri);
}

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

/* With the lock: curl and the threads come with the first request. One thread is enough to go on. */
static enum stk_status start(struct stk_http_source *s, struct stk_error *err)
{
	enum stk_status status = s->curl.library ? STK_OK : stk__curl_load(&s->curl, err);
	while (!status && s->loop_count < s->settings.threads) {
		status = stk__http_loop_start(&s->loops[s->loop_count], s, err);
		s->loop_count += !status;
	}
	return s->loop_count ? STK_OK : status;
}

static struct stk_http_loop *sleeping_loop(struct stk_http_source *s)
{
	struct stk_http_loop *best = NULL;
	for (int i = 0; i < s->loop_count; i++)
		if (s->loops[i].sleeping && (!best || s->loops[i].count < best->count))
			best = &s->loops[i];
	return best;
}

static void submit(void *source, struct stk_io *io, struct stk_request *r)
{
	struct stk_http_source *s = source;
	struct stk_http_loop *wake = NULL;
	pthread_mutex_lock(&s->lock);
	bool wanted = !s->cancelled && !atomic_load(&r->cancelled);
	enum stk_status status = wanted ? start(s, r->error) : STK_OK;
	if (wanted && !status) {
		stk__queue_push(&s->queue, r);
		if (s->under_way < (int)s->limit && (wake = sleeping_loop(s)))
			wake->sleeping = false;
	}
	pthread_mutex_unlock(&s->lock);
	if (wake)
		stk__http_loop_wake(wake);
	if (!wanted)
		stk__io_finish(io, r, cancelled(r));
	else if (status)
		stk__io_finish(io, r, status);
}

struct stk_request *stk__http_next(struct stk_http_source *s, struct stk_http_loop *l)
{
	pthread_mutex_lock(&s->lock);
	int share = (s->settings.requests + s->loop_count - 1) / s->loop_count;
	bool room = l->count < share && s->under_way < (int)s->limit;
	struct stk_request *r = room ? stk__queue_pop(&s->queue) : NULL;
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
	bool may = s->hedges * 20 < s->under_way + 40 && (!s->slowed_ns || now - s->slowed_ns > calm_ns);
	s->hedges += may;
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
	if (s->queue.root && s->under_way < (int)s->limit && (wake = sleeping_loop(s)))
		wake->sleeping = false;
	pthread_mutex_unlock(&s->lock);
	if (wake)
		stk__http_loop_wake(wake);
}

/* One that is under way is ended by its loop, which looks for it. */
static void cancel(void *source, struct stk_request *r)
{
	struct stk_http_source *s = source;
	pthread_mutex_lock(&s->lock);
	bool waits = stk__queue_remove(&s->queue, r);
	int loops = waits ? 0 : s->loop_count;
	pthread_mutex_unlock(&s->lock);
	if (waits)
		stk__io_finish(s->io, r, cancelled(r));
	for (int i = 0; i < loops; i++)
		if (!atomic_exchange(&s->loops[i].look, true))
			stk__http_loop_wake(&s->loops[i]);
}

static void cancel_all(void *source)
{
	struct stk_http_source *s = source;
	pthread_mutex_lock(&s->lock);
	s->cancelled = true;
	struct stk_request_queue queue = s->queue;
	s->queue.root = NULL;
	int loops = s->loop_count;
	pthread_mutex_unlock(&s->lock);
	atomic_store(&s->ending, true);
	for (struct stk_request *r; (r = stk__queue_pop(&queue));)
		stk__io_finish(s->io, r, cancelled(r));
	for (int i = 0; i < loops; i++)
		stk__http_loop_wake(&s->loops[i]);
}

static void destroy(void *source)
{
	struct stk_http_source *s = source;
	atomic_store(&s->ending, true);
	for (int i = 0; i < s->loop_count; i++)
		stk__http_loop_join(&s->loops[i]);
	stk__http_keeper_join(s);
	stk__curl_unload(&s->curl);
	for (struct stk_http_region *g = s->regions, *next; g; g = next) {
		next = g->next;
		stk__free(g);
	}
	stk__http_account_unref(s->account);
	pthread_cond_destroy(&s->keeper_wake);
	pthread_mutex_destroy(&s->lock);
	stk__free(s);
}

static struct stk_http_settings with_defaults(const struct stk_http_settings *given)
{
	struct stk_http_settings s = given ? *given : (struct stk_http_settings){0};
	s.threads = s.threads ? s.threads : 2;
	s.threads = s.threads < STK_HTTP_THREADS ? s.threads : STK_HTTP_THREADS;
	s.requests = s.requests ? s.requests : 1024;
	s.connect_ms = s.connect_ms ? s.connect_ms : 5000;
	s.first_byte_ms = s.first_byte_ms ? s.first_byte_ms : 20000;
	s.stall_ms = s.stall_ms ? s.stall_ms : 10000;
	s.retries = s.retries ? s.retries : 10;
	s.backoff_ms = s.backoff_ms ? s.backoff_ms : 100;
	s.most_backoff_ms = s.most_backoff_ms ? s.most_backoff_ms : 5000;
	return s;
}

enum stk_status stk__http_add(struct stk_io *io, const struct stk_http_settings *settings, struct stk_error *err)
{
	struct stk_http_source *s = stk__calloc(1, sizeof *s);
	if (s)
		s->account = stk__http_read_account();
	if (!s || !s->account) {
		stk__free(s);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the source of http:// and s3://");
	}
	s->io = io;
	s->settings = with_defaults(settings);
	s->limit = s->settings.requests < FIRST_LIMIT ? s->settings.requests : FIRST_LIMIT;
	s->ops = (struct stk_source_ops){
		.scheme = "s3 s3list http https",
		.retries = s->settings.retries,
		.backoff_ns = s->settings.backoff_ms * 1000000,
		.most_backoff_ns = s->settings.most_backoff_ms * 1000000,
		.remote = true,
		.submit = submit,
		.cancel = cancel,
		.cancel_all = cancel_all,
		.refresh = stk__http_refresh,
		.destroy = destroy,
	};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->keeper_wake, NULL);
	return stk__io_add_source(io, &s->ops, s, err);
}
