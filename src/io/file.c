/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads local files on threads of its own, so that workers do not wait for the disk. */
#include "io/file.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/served.h"

enum { MAX_THREADS = 1024 };

struct stk_file_source {
	struct stk_file_habits habits;
	struct stk_io *io;
	struct stk_served served; /* served.lock guards `cancelled` too */
	bool cancelled;
	pthread_t threads[];
};

static uint64_t threads(void *source)
{
	struct stk_file_source *s = source;
	pthread_mutex_lock(&s->served.lock);
	uint64_t n = (uint64_t)s->served.started;
	pthread_mutex_unlock(&s->served.lock);
	return n;
}

static void read_one(struct stk_file_source *s, struct stk_request *r)
{
	const uint64_t admission_changes = stk__io_admission_changes(s->io);
	size_t refused;
	enum stk_status status = stk__file_read(&s->habits, s->io, r, &refused);
	if (refused && stk__io_await_admission(s->io, r, refused, admission_changes))
		return;
	stk__io_finish(s->io, r, refused ? stk__request_cancelled(r) : status);
}

static void *read_files(void *arg)
{
	struct stk_file_source *s = arg;
	pthread_mutex_lock(&s->served.lock);
	for (struct stk_request *r; (r = stk__served_next(&s->served));) {
		pthread_mutex_unlock(&s->served.lock);
		read_one(s, r);
		pthread_mutex_lock(&s->served.lock);
	}
	pthread_mutex_unlock(&s->served.lock);
	return NULL;
}

static bool try_now(void *source, struct stk_io *io, struct stk_request *r)
{
	struct stk_file_source *s = source;
	return stk__file_read_now(&s->habits, io, r, &r->status);
}

static void end_cancelled(struct stk_file_source *s, struct stk_request *r)
{
	stk__io_finish(s->io, r, stk__request_cancelled(r));
}

static void submit(void *source, struct stk_io *io, struct stk_request *r)
{
	struct stk_file_source *s = source;
	enum stk_status status = STK_CANCELLED;
	pthread_mutex_lock(&s->served.lock);
	if (!s->cancelled && !atomic_load(&r->cancelled))
		status = stk__served_push(&s->served, r, r->error);
	pthread_mutex_unlock(&s->served.lock);
	if (status == STK_CANCELLED)
		end_cancelled(s, r);
	else if (status)
		stk__io_finish(io, r, status);
}

static void cancel(void *source, struct stk_request *r)
{
	struct stk_file_source *s = source;
	pthread_mutex_lock(&s->served.lock);
	bool waits = stk__served_remove(&s->served, r);
	pthread_mutex_unlock(&s->served.lock);
	if (waits)
		end_cancelled(s, r);
}

static void cancel_all(void *source)
{
	struct stk_file_source *s = source;
	pthread_mutex_lock(&s->served.lock);
	s->cancelled = true;
	struct stk_request_queue queue = stk__served_take_all(&s->served);
	pthread_mutex_unlock(&s->served.lock);
	for (struct stk_request *r; (r = stk__queue_pop(&queue));)
		end_cancelled(s, r);
}

static void destroy(void *source)
{
	struct stk_file_source *s = source;
	stk__served_end(&s->served);
	stk__served_destroy(&s->served);
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
	stk__served_init(&s->served, "stoker-read", read_files, s, limit, s->threads);
	return stk__io_add_source(io, &file_source_ops, s, err);
}
