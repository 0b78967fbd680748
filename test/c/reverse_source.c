/* SPDX-License-Identifier: Apache-2.0 */
#include "reverse_source.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "thread/thread.h"

#include <string.h>

struct reverse_source {
	int64_t latency;
	struct stk_io *io;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct stk_request *stack; /* the requests of the current wave; the latest is first */
	int64_t due;               /* time in ns at which the wave completes: `latency` after its first request */
	int in_flight, peak;
	bool started, cancelled, ending;
	pthread_t thread;
};

struct reverse_source *reverse_source_create(int64_t latency)
{
	struct reverse_source *s = stk__calloc(1, sizeof *s);
	pthread_condattr_t attr;
	if (!s)
		return NULL;
	s->latency = latency;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
	return s;
}

size_t reverse_size(const char *uri)
{
	return 1 + stk__random_stream(uri) % 100000;
}

uint8_t reverse_byte(const char *uri, size_t i)
{
	return (uint8_t)(stk__random_stream(uri) >> 8) ^ (uint8_t)(i * 31);
}

static void complete(struct reverse_source *s, struct stk_request *r)
{
	size_t size = reverse_size(r->uri);
	struct stk_buffer *b = stk__buffer_take(s->io, size);
	if (!b) {
		stk__io_finish(s->io, r, stk__fail(r->error, STK_NO_MEMORY, "%s: no memory", r->uri));
		return;
	}
	for (size_t i = 0; i < size; i++)
		stk__buffer_data(b)[i] = reverse_byte(r->uri, i);
	memset(stk__buffer_data(b) + size, 0, 64);
	r->buffer = b;
	r->data = stk__buffer_data(b);
	r->size = size;
	stk__io_finish(s->io, r, STK_OK);
}

/* Completes all requests of the wave. Call with the lock held, which this releases while requests complete. */
static void complete_all(struct reverse_source *s)
{
	struct stk_request *r = s->stack;
	bool cancelled = s->cancelled;
	s->stack = NULL;
	pthread_mutex_unlock(&s->lock);
	int done = 0;
	while (r) {
		struct stk_request *next = r->next;
		if (cancelled)
			stk__io_finish(s->io, r, stk__fail(r->error, STK_CANCELLED, "%s: cancelled", r->uri));
		else
			complete(s, r);
		r = next;
		done++;
	}
	pthread_mutex_lock(&s->lock);
	s->in_flight -= done;
}

static void *keep_time(void *arg)
{
	struct reverse_source *s = arg;
	pthread_mutex_lock(&s->lock);
	while (!s->ending || s->stack) {
		if (!s->stack) {
			pthread_cond_wait(&s->wake, &s->lock);
			continue;
		}
		struct timespec t = {s->due / 1000000000, s->due % 1000000000};
		if (!s->cancelled && stk__clock_ns() < s->due)
			pthread_cond_timedwait(&s->wake, &s->lock, &t);
		else
			complete_all(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void submit(void *source, struct stk_io *io, struct stk_request *r)
{
	struct reverse_source *s = source;
	enum stk_status status = STK_OK;
	pthread_mutex_lock(&s->lock);
	if (!s->io)
		s->io = io;
	if (!s->started) {
		status = stk__thread_start(&s->thread, "reverse", keep_time, s, r->error);
		s->started = status == STK_OK;
	}
	if (!status) {
		if (!s->stack)
			s->due = stk__clock_ns() + s->latency;
		r->next = s->stack;
		s->stack = r;
		s->peak = ++s->in_flight > s->peak ? s->in_flight : s->peak;
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&s->lock);
	if (status)
		stk__io_finish(io, r, status);
}

static void cancel_all(void *source)
{
	struct reverse_source *s = source;
	pthread_mutex_lock(&s->lock);
	s->cancelled = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

static void destroy(void *source)
{
	struct reverse_source *s = source;
	pthread_mutex_lock(&s->lock);
	s->ending = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	if (s->started)
		stk__thread_join(s->thread);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	stk__free(s);
}

int reverse_source_peak(struct reverse_source *s)
{
	pthread_mutex_lock(&s->lock);
	int peak = s->peak;
	pthread_mutex_unlock(&s->lock);
	return peak;
}

const struct stk_source_ops reverse_source_ops = {
	.scheme = "reverse",
	.submit = submit,
	.cancel_all = cancel_all,
	.destroy = destroy,
};
