/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that wait for local files, so that workers need not wait. */
#include "io/file.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/queue.h"
#include "thread/thread.h"

enum { MAX_THREADS = 1024 };

struct stk_file_source {
	struct stk_file_habits habits;
	struct stk_io *io;
	pthread_mutex_t lock; /* guards all members below */
	pthread_cond_t wake;
	struct stk_request_queue queue;
	int waiting, idle; /* requests in the queue; threads that wait for a request */
	int started, limit;
	bool cancelled, ending;
	pthread_t threads[];
};

static uint64_t threads(void *source)
{
	struct stk_file_source *s = source;
	pthread_mutex_lock(&s->lock);
	uint64_t n = (uint64_t)s->started;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void read_one(struct stk_file_source *s, struct stk_request *r)
{
	const uint64_t rooms = stk__io_rooms(s->io);
	size_t refused;
	enum stk_status status = stk__file_read(&s->habits, s->io, r, &refused);
	if (refused && stk__io_await_room(s->io, r, refused, rooms))
		return;
	stk__io_finish(s->io, r, refused ? stk__request_cancelled(r) : status);
}

static void *read_files(void *arg)
{
	struct stk_file_source *s = arg;
	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct stk_request *r = stk__queue_pop(&s->queue);
		if (!r && s->ending)
			break;
		if (!r) {
			s->idle++;
			pthread_cond_wait(&s->wake, &s->lock);
			s->idle--;
			continue;
		}
		s->waiting--;
		pthread_mutex_unlock(&s->lock);
		read_one(s, r);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static bool try_now(void *source, struct stk_io *io, struct stk_request *r)
{
	struct stk_file_source *s = source;
	return stk__file_read_now(&s->habits, io, r, &r->status);
}

/* Starts one more thread if all are busy. A failure is an error only if there is no thread at all. Call with the lock held. */
static enum stk_status start_thread(struct stk_file_source *s, struct stk_error *err)
{
	if (s->waiting < s->idle || s->started == s->limit)
		return STK_OK;
	enum stk_status status = stk__thread_start(&s->threads[s->started], "stoker-read", read_files, s, err);
	if (!status)
		s->started++;
	return s->started ? STK_OK : status;
}

static void end_cancelled(struct stk_file_source *s, struct stk_request *r)
{
	stk__io_finish(s->io, r, stk__request_cancelled(r));
}

static void submit(void *source, struct stk_io *io, struct stk_request *r)
{
	struct stk_file_source *s = source;
	enum stk_status status = STK_CANCELLED;
	pthread_mutex_lock(&s->lock);
	if (!s->cancelled && !atomic_load(&r->cancelled))
		status = start_thread(s, r->error);
	if (!status) {
		stk__queue_push(&s->queue, r);
		s->waiting++;
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&s->lock);
	if (status == STK_CANCELLED)
		end_cancelled(s, r);
	else if (status)
		stk__io_finish(io, r, status);
}

static void cancel(void *source, struct stk_request *r)
{
	struct stk_file_source *s = source;
	pthread_mutex_lock(&s->lock);
	bool waits = stk__queue_remove(&s->queue, r);
	s->waiting -= waits;
	pthread_mutex_unlock(&s->lock);
	if (waits)
		end_cancelled(s, r);
}

static void cancel_all(void *source)
{
	struct stk_file_source *s = source;
	pthread_mutex_lock(&s->lock);
	s->cancelled = true;
	struct stk_request_queue queue = s->queue;
	s->queue.root = NULL;
	s->waiting = 0;
	pthread_mutex_unlock(&s->lock);
	for (struct stk_request *r; (r = stk__queue_pop(&queue));)
		end_cancelled(s, r);
}

static void destroy(void *source)
{
	struct stk_file_source *s = source;
	pthread_mutex_lock(&s->lock);
	s->ending = true;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
	for (int i = 0; i < s->started; i++)
		stk__thread_join(s->threads[i]);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	stk__free(s);
}

static const struct stk_source_ops file_source_ops = {
	.scheme = "file",
	.try_now = try_now,
	.submit = submit,
	.cancel = cancel,
	.cancel_all = cancel_all,
	.threads = threads,
	.destroy = destroy,
};

enum stk_status stk__file_source_add(struct stk_io *io, int threads, struct stk_error *err)
{
	int limit = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
	struct stk_file_source *s = stk__calloc(1, sizeof *s + (size_t)limit * sizeof(pthread_t));
	if (!s)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d reading threads", limit);
	s->io = io;
	s->limit = limit;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	return stk__io_add_source(io, &file_source_ops, s, err);
}
