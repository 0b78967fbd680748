/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs transfers and their connections on a thread of the HTTP source, with epoll. */
#include "http/http_connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/system.h"
#include "thread/thread.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, LOOK_NS = 20000000 };

static void unlink_active(struct stk_transfer *t)
{
	*(t->previous ? &t->previous->next : &t->loop->active) = t->next;
	if (t->next)
		t->next->previous = t->previous;
}

/* Detaches the transfer from its request and makes it idle. Its twin continues. */
static void retire(struct stk_transfer *t)
{
	if (t->twin) {
		t->twin->twin = NULL;
		t->twin = NULL;
		stk__http_end_hedge(t->loop->source);
	}
	unlink_active(t);
	stk__transfer_clear(t);
	t->next = t->loop->idle;
	t->loop->idle = t;
}

/* Stops a transfer and makes it idle. */
static void drop(struct stk_transfer *t)
{
	stk__transfer_stop(t);
	retire(t);
}

/* Ends the request with this status. The transfer becomes idle before the owner is notified, because the owner may submit another request at once. */
static void end(struct stk_transfer *t, enum stk_status status)
{
	struct stk_http_loop *l = t->loop;
	struct stk_http_source *s = l->source;
	struct stk_request *r = t->r;
	const struct stk_http_end e = {.well = !status,
		.slow = t->response.message.status == 503 || t->response.message.status == 429,
		.begun_ns = t->begun_ns,
		.now_ns = stk__clock_ns(),
		.bytes = t->used};
	const bool joined = r->http.joined;
	r->object_fails = status && stk__http_object_fails(t);
	struct stk_buffer *bytes = NULL;
	const uint8_t *data = t->data;
	if (!status && joined) {
		bytes = t->buffer;
		t->buffer = NULL;
	} else if (!status) {
		r->buffer = t->buffer;
		r->data = t->data;
		r->size = t->used;
		t->buffer = NULL;
	}
	if (t->twin)
		drop(t->twin);
	retire(t);
	stk__http_ended(s, l, &e);
	if (!joined) {
		stk__io_finish(s->io, r, status);
		return;
	}
	stk__http_end_joined(s, r, data, status);
	stk__buffer_release(bytes);
}

static void abandon(struct stk_transfer *t, enum stk_status status)
{
	stk__transfer_stop(t);
	end(t, status);
}

/* Returns an idle or a new transfer for the request, or NULL if memory is short. */
static struct stk_transfer *take_transfer(struct stk_http_loop *l, struct stk_request *r, int64_t begun_ns)
{
	struct stk_transfer *t = l->idle;
	if (t)
		l->idle = t->next;
	else
		t = stk__transfer_create(l);
	if (!t)
		return NULL;
	t->r = r;
	t->first = r->offset;
	t->length = stk__http_span(r);
	t->begun_ns = begun_ns;
	t->previous = NULL;
	t->next = l->active;
	if (l->active)
		l->active->previous = t;
	l->active = t;
	return t;
}

static void begin(struct stk_http_loop *l, struct stk_request *r)
{
	r->begun_ns = stk__clock_ns();
	struct stk_transfer *t = take_transfer(l, r, r->begun_ns);
	if (!t) {
		stk__http_ended(l->source, l, &(struct stk_http_end){0});
		stk__http_end_joined(l->source, r, NULL, stk__fail(r->error, STK_NO_MEMORY, "out of memory for a request"));
		return;
	}
	enum stk_status status = stk__transfer_begin(t);
	if (status)
		end(t, status);
}

/* Starts a second transfer (twin) for the request of a late transfer, if possible. If a twin exists already, it is late too: then first drops the transfer of
 * the two that has waited for less time. Returns whether a transfer was dropped. */
static bool hedge(struct stk_transfer *t, int64_t now)
{
	struct stk_http_source *s = t->loop->source;
	const bool hedged = t->twin;
	if (hedged && t->twin->window_ns < t->window_ns)
		t = t->twin;
	if (hedged)
		drop(t->twin);
	if (!stk__connections_have_room(t->loop, now) || !stk__http_begin_hedge(s, now))
		return hedged;
	struct stk_transfer *twin = take_transfer(t->loop, t->r, t->begun_ns);
	if (!twin) {
		stk__http_end_hedge(s);
		return hedged;
	}
	t->twin = twin;
	twin->twin = t;
	t->hedges += t->hedges < UINT8_MAX;
	twin->hedges = t->hedges;
	if (stk__transfer_begin(twin))
		retire(twin);
	return hedged;
}

/* Handles the transfers that have ended since the last call. */
static void handle_ended(struct stk_http_loop *l)
{
	for (struct stk_transfer *t; (t = l->ended);) {
		l->ended = t->next_ended;
		if (t->twin && !t->response_begun) { /* the twin may still get an answer */
			retire(t);
			continue;
		}
		if (t->twin)
			drop(t->twin);
		if (t->starved) {
			struct stk_request *r = t->r;
			retire(t);
			stk__http_requeue(l->source, l, r, stk__clock_ns());
			continue;
		}
		bool repeat = false;
		enum stk_status status = stk__http_verdict(t, &repeat);
		if (!status && repeat)
			status = stk__transfer_begin(t);
		if (status || !repeat)
			end(t, status);
	}
}

/* Which transfers may belong to cancelled requests. For NONE, check_transfer need not read the requests, which would miss the processor's cache. */
enum cancelled { NONE, SOME, ALL };

/* Ends a transfer that was cancelled or has waited for too long; starts a twin for a late one. Returns true if a transfer has ended. */
static bool check_transfer(struct stk_http_loop *l, struct stk_transfer *t, int64_t now, enum cancelled which)
{
	struct stk_request *r = t->r;
	enum stk_status status = STK_OK;
	stk__rest_check(t, now);
	if (which == ALL || (which == SOME && stk__http_all_cancelled(r)))
		status = stk__request_cancelled(r);
	else
		status = stk__transfer_check_pace(t, now);
	if (status)
		abandon(t, status);
	return status || (stk__hedge_due(l, t, now) && hedge(t, now));
}

static int by_deadline(const void *a, const void *b)
{
	const int64_t x = (*(struct stk_transfer *const *)a)->r->deadline, y = (*(struct stk_transfer *const *)b)->r->deadline;
	return (x > y) - (x < y);
}

/* Asks again whether the transfers that wait for memory are admitted, the earliest deadline first. After a refusal, asks about no later transfer of the same
 * caller, so that small transfers do not overtake a large one, except those without which the caller cannot continue (stk__request_awaited). */
static void retry_admission(struct stk_http_loop *l)
{
	enum { MOST = 2048, CALLERS = 16 };
	struct stk_transfer *waiting[MOST];
	const struct stk_admission *refused[CALLERS];
	int n = 0, callers = 0;
	for (struct stk_transfer *t = l->active; t && n < MOST; t = t->next)
		if (t->waits_for_memory)
			waiting[n++] = t;
	/* cppcheck-suppress uninitvar ; the first n are set */
	qsort(waiting, (size_t)n, sizeof(struct stk_transfer *), by_deadline);
	for (int i = 0; i < n; i++) {
		bool waits = false;
		for (int k = 0; k < callers; k++)
			waits |= refused[k] == waiting[i]->r->admission;
		waits &= !stk__request_awaited(waiting[i]->r);
		if (!waits && !stk__transfer_continue(waiting[i]) && callers < CALLERS)
			refused[callers++] = waiting[i]->r->admission;
	}
}

/* Calls check_transfer for all active transfers. If one has ended, its twin may have left the list too, so the scan starts again. */
static void check_transfers(struct stk_http_loop *l, enum cancelled which)
{
	int64_t now = stk__clock_ns();
	stk__hedge_copy_statistics(l);
	for (struct stk_transfer *t = l->active; t;)
		t = check_transfer(l, t, now, which) ? l->active : t->next;
}

static int timeout_ms(const struct stk_http_loop *l, int64_t look_ns)
{
	int64_t wake_ns = l->active ? look_ns : -1, timer_ns = stk__connection_due(l);
	if (l->starved_until_ns > l->round_ns && (wake_ns < 0 || l->starved_until_ns < wake_ns))
		wake_ns = l->starved_until_ns;
	if (timer_ns >= 0 && (wake_ns < 0 || timer_ns < wake_ns))
		wake_ns = timer_ns;
	if (l->ended)
		return 0;
	if (wake_ns < 0)
		return -1;
	int64_t wait = wake_ns - stk__clock_ns();
	return wait > 0 ? (int)((wait + 999999) / 1000000) : 0;
}

static void serve(struct stk_http_loop *l, const struct epoll_event *events, int n)
{
	for (int i = 0; i < n; i++) {
		uint64_t count;
		if (events[i].data.fd != l->event)
			stk__connection_event(l, events[i].data.fd, events[i].events);
		else if (read(l->event, &count, sizeof count) < 0)
			continue;
	}
	if (l->opening)
		stk__connection_timers(l, stk__clock_ns());
}

static void pause_reading(const struct stk_http_loop *l)
{
	int64_t end_ns = l->round_ns + stk__rest_pause(l);
	if (end_ns < stk__clock_ns() + 50000)
		return;
	struct timespec t = {end_ns / 1000000000, end_ns % 1000000000};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void *run(void *arg)
{
	struct stk_http_loop *l = arg;
	struct epoll_event events[EVENTS];
	int64_t look_ns = 0;
	int n = 0;
	while (!atomic_load(&l->source->ending)) {
		for (struct stk_request *r; (r = stk__http_next(l->source, l));)
			begin(l, r);
		if (n < EVENTS) /* otherwise more events are ready, so a pause is useless */
			pause_reading(l);
		n = epoll_wait(l->epoll, events, EVENTS, timeout_ms(l, look_ns));
		l->round_ns = stk__clock_ns();
		stk__http_awake(l->source, l);
		serve(l, events, n);
		if (atomic_exchange(&l->can_admit, false) || (atomic_load(&l->waiting_for_memory) && l->round_ns >= look_ns))
			retry_admission(l);
		handle_ended(l);
		const bool some = atomic_exchange(&l->look_at_cancelled, false);
		if (some || stk__clock_ns() >= look_ns) {
			check_transfers(l, some ? SOME : NONE);
			look_ns = stk__clock_ns() + LOOK_NS;
		}
	}
	check_transfers(l, ALL);
	return NULL;
}

static void release(struct stk_http_loop *l)
{
	for (struct stk_transfer *t = l->idle, *next; t; t = next) {
		next = t->next;
		stk__transfer_destroy(t);
	}
	l->idle = NULL;
	stk__connections_close(l);
	stk__certificates_free(l->certificates);
	if (l->curl_share)
		l->source->curl.curl_share_cleanup(l->curl_share);
	stk__erase(&l->signer, sizeof l->signer);
	stk__free(l->scratch);
	if (l->epoll >= 0)
		close(l->epoll);
	if (l->event >= 0)
		close(l->event);
}

static bool watch_event(struct stk_http_loop *l)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = l->event};
	return l->epoll >= 0 && l->event >= 0 && !epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->event, &e);
}

/* Makes a share object for DNS names and TLS sessions, without locks, because only one thread uses it. NULL: memory is short. */
static CURLSH *make_share(const struct stk_curl *curl)
{
	CURLSH *share = curl->curl_share_init();
	if (share) {
		curl->curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
		curl->curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
	}
	return share;
}

enum stk_status stk__http_loop_start(struct stk_http_loop *l, struct stk_http_source *s, struct stk_error *err)
{
	*l = (struct stk_http_loop){
		.source = s, .most_fds = s->most_fds, .curl_share = make_share(&s->curl), .scratch = stk__alloc(STK_HTTP_SCRATCH)};
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	enum stk_status status = STK_OK;
	if (!l->curl_share || !l->scratch || !watch_event(l))
		status = stk__fail(err, STK_SYSTEM, "cannot wait for requests: no memory, or too many open files (ulimit -n)");
	if (!status)
		status = stk__thread_start(&l->thread, "stoker-http", run, l, err);
	if (status)
		release(l);
	return status;
}

void stk__http_loop_join(struct stk_http_loop *l)
{
	stk__http_loop_wake(l);
	stk__thread_join(l->thread);
	release(l);
}
