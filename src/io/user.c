/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads bytes with a function of the user, on threads of this source.
 *
 * A call of such a function cannot be stopped and may take long. So a cancelled request ends at once while its call continues, and the bytes of that
 * call are dropped. For the same reason the source does not wait for these threads when it is destroyed: the last thread frees the source.
 *
 * The function may itself read through its storage. Its thread then makes that call too: if other threads were needed, all of them might wait for calls that
 * no thread is left to make. */
#include "io/user.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/xxhash.h"
#include "io/served.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
	THREADS = 32,
	SLACK = 64,
	RETRIES = 10,
	LARGE = 1 << 20, /* minimum size of answers that are mapped, so that their memory returns to the system at once */
	BLIND = 4,       /* maximum number of concurrent calls for whole objects while no object's size is known */
	NESTED = 16, /* maximum number of calls of a thread that are under way, each of which but the first is made by the call before it */
};

/* The bytes that one call of the fetch function has returned. */
struct stk_fetched {
	uint8_t *data;
	size_t size, mapped; /* mapped: size of the mapping that contains `data`; 0: data is allocated */
};

/* A running call of the fetch function. */
struct job {
	struct job *next;
	struct stk_request *r; /* NULL if the request was cancelled */
	pthread_t thread;
	const struct stk_fetch_call *call;
	bool is_whole_object;
	struct stk_fetched fetched;
};

struct user_source {
	struct stk_source_ops ops;
	struct stk_io *io; /* valid while requests are in flight, since io waits for them before it ends */
	stk_fetch_fn fetch;
	void (*done)(void *user);
	void *user;
	char *schemes;
	uint64_t endpoint_hash;   /* hash of the store's name; 0: it has none */
	struct stk_served served; /* its lock guards all members below */
	int refs;                 /* number of references: one of io, and one of each thread */
	/* Waiting requests for whole objects of unknown size. Until the first object has arrived, at most BLIND calls for whole objects may run. */
	struct stk_request_queue unsized;
	struct job *jobs;   /* running jobs */
	int whole_jobs;     /* number of running jobs for whole objects */
	int64_t mean_bytes; /* mean size of recent whole objects; 0 if none has arrived */
};

/* Releases a reference, and frees the source with the last one. Call with the lock held, which this function releases. */
static void unref(struct user_source *s)
{
	const bool last = --s->refs == 0;
	pthread_mutex_unlock(&s->served.lock);
	if (!last)
		return;
	if (s->done)
		s->done(s->user);
	stk__served_destroy(&s->served);
	stk__free(s->schemes);
	stk__free(s);
}

static void drop(struct stk_fetched *fetched)
{
	if (fetched->mapped)
		stk__unmap(fetched->data, fetched->mapped);
	else
		stk__free(fetched->data);
	*fetched = (struct stk_fetched){0};
}

void *stk_fetch_room(const struct stk_fetch_call *fetch, size_t size)
{
	if (!fetch || !fetch->out || size == SIZE_MAX)
		return NULL;
	struct stk_fetched *fetched = fetch->out;
	drop(fetched);
	fetched->mapped = size >= LARGE ? size : 0;
	fetched->data = fetched->mapped ? stk__map(size) : stk__alloc(size + 1);
	fetched->size = fetched->data ? size : 0;
	return fetched->data;
}

/* ---- an answer ---- */

/* Checks the number of bytes, copies them to the request, and frees the answer at once, so that a large object has two copies only briefly. */
static enum stk_status take_answer(struct stk_io *io, struct stk_request *r, struct stk_fetched *fetched)
{
	const int shown = stk__uri_shown(r->uri);
	if (r->length >= 0 && fetched->size < (size_t)r->length)
		return stk__fail(r->error, STK_CORRUPT, "%.*s: %lld bytes from byte %lld were asked for, and the fetch function gave %zu",
			shown, r->uri, (long long)r->length, (long long)r->offset, fetched->size);
	if (r->length >= 0 && fetched->size > (size_t)r->length) {
		r->no_retry = true;
		return stk__fail(r->error, STK_IO, "%.*s: %lld bytes were asked for, and the fetch function gave %zu", shown, r->uri,
			(long long)r->length, fetched->size);
	}
	if (r->max_bytes && fetched->size > r->max_bytes)
		return stk__fail_memory_limit(r->error, fetched->size, r->max_bytes);
	struct stk_buffer *b;
	uint8_t *data = stk__request_memory(io, r, fetched->size, &b);
	if (!data)
		return stk__fail(r->error, STK_NO_MEMORY, "%.*s: no memory for its %zu bytes", shown, r->uri, fetched->size);
	if (fetched->size)
		memcpy(data, fetched->data, fetched->size);
	const size_t size = fetched->size;
	drop(fetched);
	memset(data + size, 0, SLACK);
	if (r->object)
		*r->object = (struct stk_object){.size = r->length < 0 ? r->offset + (int64_t)size : -1};
	r->buffer = b;
	r->data = data;
	r->size = size;
	return STK_OK;
}

/* Returns the status with which r ends after the fetch function has failed with `status`. Sets r->no_retry and r->object_fails. Fills r->error even if the
 * caller gave none, so that io does not repeat the call just to learn the reason. */
static enum stk_status take_failure(struct stk_request *r, enum stk_status status, const struct stk_error *why)
{
	struct stk_error *err = stk__request_error(r);
	r->no_retry |= status != STK_IO && status != STK_TIMEOUT && status != STK_NOT_FOUND;
	r->object_fails = !r->no_retry;
	status = status == STK_NOT_FOUND || status == STK_TIMEOUT || status == STK_NO_MEMORY ? status : STK_IO;
	status = stk__fail(
		err, status, "%.*s: %s", stk__uri_shown(r->uri), r->uri, why->message[0] ? why->message : "the fetch function failed");
	if (err)
		err->missing = status == STK_NOT_FOUND;
	return status;
}

/* Updates the mean size of whole objects and the number of running jobs for them after a call of the fetch function. Call with the lock held. */
static void update_mean_size(struct user_source *s, const struct job *job)
{
	const int64_t size = (int64_t)job->fetched.size;
	if (job->is_whole_object && job->fetched.data)
		s->mean_bytes = s->mean_bytes ? s->mean_bytes + (size - s->mean_bytes) / 8 : size + 1;
	s->whole_jobs -= job->is_whole_object;
}

/* Returns whether another call for a whole object may begin although no object has arrived yet. Call with the lock held. */
static bool may_fetch_unknown_size(const struct user_source *s)
{
	return s->served.waiting + s->whole_jobs < BLIND;
}

static void submit_to_threads(struct user_source *s, struct stk_request *r);

/* Submits the requests that waited for the first object. Until one has arrived, submits only as many as may_fetch_unknown_size allows. Call with the lock held;
 * it is released meanwhile. */
static void release_unsized(struct user_source *s)
{
	for (struct stk_request *r; (s->mean_bytes || may_fetch_unknown_size(s)) && (r = stk__queue_pop(&s->unsized));) {
		pthread_mutex_unlock(&s->served.lock);
		submit_to_threads(s, r);
		pthread_mutex_lock(&s->served.lock);
	}
}

/* Calls the user's function for r, and ends r with the result. The function gets a copy of the URI, because r and its URI may be freed if r is cancelled during
 * the call. Call with the lock held; it is released meanwhile. */
static void run_job(struct user_source *s, struct stk_request *r)
{
	struct job job = {.next = s->jobs, .r = r, .thread = pthread_self(), .is_whole_object = r->length < 0}, **at;
	struct stk_error why = {0};
	char *uri = stk__strdup(r->uri);
	struct stk_fetch_call call = {.uri = uri, .offset = r->offset, .length = r->length, .out = &job.fetched};
	job.call = &call;
	enum stk_status status = STK_NO_MEMORY;
	s->jobs = &job;
	s->whole_jobs += job.is_whole_object;
	r->begun_ns = stk__clock_ns();
	pthread_mutex_unlock(&s->served.lock);
	if (uri)
		status = s->fetch(s->user, &call, &why);
	if (!status && !job.fetched.data) {
		snprintf(why.message, sizeof why.message, "the fetch function gave no bytes");
		status = STK_INVALID;
	}
	pthread_mutex_lock(&s->served.lock);
	for (at = &s->jobs; *at != &job;)
		at = &(*at)->next;
	*at = job.next;
	update_mean_size(s, &job);
	r = job.r;
	pthread_mutex_unlock(&s->served.lock);
	if (r)
		stk__io_finish(s->io, r, status ? take_failure(r, status, &why) : take_answer(s->io, r, &job.fetched));
	drop(&job.fetched);
	stk__free(uri);
	pthread_mutex_lock(&s->served.lock);
	release_unsized(s);
}

static void *serve(void *arg)
{
	struct user_source *s = arg;
	pthread_mutex_lock(&s->served.lock);
	for (struct stk_request *r; !s->served.ending && (r = stk__served_next(&s->served));)
		run_job(s, r);
	unref(s);
	return NULL;
}

/* ---- requests ---- */

/* Queues the request for the threads. Call with the lock held. */
static enum stk_status push(struct user_source *s, struct stk_request *r)
{
	const int before = s->served.started;
	enum stk_status status = stk__served_push(&s->served, r, r->error);
	s->refs += s->served.started - before;
	return status;
}

/* Asks whether as many bytes are admitted as a whole object probably has: its size in a listing, or otherwise the mean size of recent objects. This must happen
 * before the call, which cannot be stopped. If neither number is known, admits up to BLIND requests at a time without asking. Returns false if r waits or has
 * ended. */
static bool admit(struct user_source *s, struct stk_request *r)
{
	pthread_mutex_lock(&s->served.lock);
	const int64_t expected = r->expected.size > r->offset ? r->expected.size - r->offset : s->mean_bytes;
	const bool waits = !expected && !s->served.ending && !atomic_load(&r->cancelled) && !may_fetch_unknown_size(s);
	if (waits)
		stk__queue_push(&s->unsized, r);
	pthread_mutex_unlock(&s->served.lock);
	if (waits || !expected)
		return !waits;
	const size_t bytes = stk__buffer_rounded((size_t)expected);
	const uint64_t admission_changes = stk__io_admission_changes(s->io);
	if (r->admission->admit(r->admission, r, bytes))
		return true;
	if (!stk__io_await_admission(s->io, r, bytes, admission_changes))
		stk__io_finish(s->io, r, stk__request_cancelled(r));
	return false;
}

static void submit_to_threads(struct user_source *s, struct stk_request *r)
{
	enum stk_status status = STK_CANCELLED;
	if (r->length < 0 && r->admission && !admit(s, r))
		return;
	pthread_mutex_lock(&s->served.lock);
	if (!s->served.ending && !atomic_load(&r->cancelled))
		status = push(s, r);
	pthread_mutex_unlock(&s->served.lock);
	if (status)
		stk__io_finish(s->io, r, status == STK_CANCELLED ? stk__request_cancelled(r) : status);
}

/* Returns the number of calls of the fetch function that are under way on this thread. Sets *is_same if one of them is for the bytes of r; both may be NULL. Call
 * with the lock held. */
static int calls_of_this_thread(const struct user_source *s, const struct stk_request *r, bool *is_same)
{
	int calls = 0;
	for (const struct job *j = s->jobs; j; j = j->next) {
		if (!pthread_equal(j->thread, pthread_self()))
			continue;
		calls++;
		if (r && j->call->uri && j->call->offset == r->offset && j->call->length == r->length && strcmp(j->call->uri, r->uri) == 0)
			*is_same = true;
	}
	return calls;
}

/* If the fetch function submits r, calls the function for r at once, on this thread. If that fails, r is not tried again, since another thread would have to do
 * that. The call that has submitted r then fails too, and is tried again. */
static void submit(void *source, struct stk_io *io, struct stk_request *r)
{
	struct user_source *s = source;
	bool is_same = false;
	pthread_mutex_lock(&s->served.lock);
	const int calls = calls_of_this_thread(s, r, &is_same);
	const bool is_nested = calls && !s->served.ending && !atomic_load(&r->cancelled), may_run = is_nested && calls < NESTED && !is_same;
	if (may_run) {
		r->no_retry = true;
		run_job(s, r);
	}
	pthread_mutex_unlock(&s->served.lock);
	if (!is_nested)
		submit_to_threads(s, r);
	else if (!may_run)
		stk__io_finish(io, r,
			stk__fail(stk__request_error(r), STK_UNSUPPORTED,
				"%.*s: the fetch function reads through its own storage again and again, without end: let it read these bytes in "
				"another way, such as through another storage",
				stk__uri_shown(r->uri), r->uri));
}

static bool is_calling(void *source)
{
	struct user_source *s = source;
	pthread_mutex_lock(&s->served.lock);
	const bool found = calls_of_this_thread(s, NULL, NULL);
	pthread_mutex_unlock(&s->served.lock);
	return found;
}

static void cancel(void *source, struct stk_request *r)
{
	struct user_source *s = source;
	pthread_mutex_lock(&s->served.lock);
	bool removed = stk__served_remove(&s->served, r) || stk__queue_remove(&s->unsized, r);
	for (struct job *j = s->jobs; j && !removed; j = j->next)
		if (j->r == r) {
			j->r = NULL;
			removed = true;
		}
	release_unsized(s);
	pthread_mutex_unlock(&s->served.lock);
	if (removed)
		stk__io_finish(s->io, r, stk__request_cancelled(r));
}

/* Removes and returns a request that is queued, waits or runs; NULL: no request is left. */
static struct stk_request *abandon_one(struct user_source *s)
{
	struct stk_request *r;
	pthread_mutex_lock(&s->served.lock);
	r = stk__queue_pop(&s->served.queue);
	r = r ? r : stk__queue_pop(&s->unsized);
	for (struct job *j = s->jobs; j && !r; j = j->next) {
		r = j->r;
		j->r = NULL;
	}
	pthread_mutex_unlock(&s->served.lock);
	return r;
}

static void cancel_all(void *source)
{
	struct user_source *s = source;
	stk__served_end(&s->served);
	for (struct stk_request *r; (r = abandon_one(s));)
		stk__io_finish(s->io, r, stk__request_cancelled(r));
}

static void destroy(void *source)
{
	struct user_source *s = source;
	stk__served_end(&s->served);
	pthread_mutex_lock(&s->served.lock);
	unref(s);
}

static uint64_t endpoint_hash(void *source, const char *uri)
{
	const struct user_source *s = source;
	(void)uri;
	return s->endpoint_hash;
}

/* Copies the names of the schemes that the user's function reads; "*" if it named none. Adds the schemes of listings if schemes were named and the function
 * also lists objects. NULL: out of memory. */
static char *copy_schemes(const struct stk_storage_config *c)
{
	struct stk_text out = {0};
	const char *given = c->fetch_schemes ? c->fetch_schemes : "*";
	stk__text_add(&out, "%s", given);
	for (const char *word = given; c->fetch_lists && c->fetch_schemes && *word;) {
		size_t n = strcspn(word, " ");
		stk__text_add(&out, " %.*slist", (int)n, word);
		word += n + (word[n] == ' ');
	}
	if (out.failed)
		stk__text_free(&out);
	return out.s;
}

enum stk_status stk__user_source_add(struct stk_io *io, const struct stk_storage_config *c, struct stk_error *err)
{
	struct user_source *s = stk__calloc(1, sizeof *s);
	char *schemes = copy_schemes(c);
	if (!s || !schemes) {
		stk__free(s);
		stk__free(schemes);
		if (c->fetch_done)
			c->fetch_done(c->fetch_user);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a storage");
	}
	s->refs = 1;
	s->io = io;
	s->fetch = c->fetch;
	s->done = c->fetch_done;
	s->user = c->fetch_user;
	s->schemes = schemes;
	s->endpoint_hash = c->fetch_name ? stk__xxh64(c->fetch_name, strlen(c->fetch_name), 0) : 0;
	const int limit = c->fetch_threads ? c->fetch_threads : THREADS;
	stk__served_init(&s->served, "stoker-fetch", serve, s, limit, NULL);
	s->ops = (struct stk_source_ops){.scheme = schemes,
		.retries = c->retries ? c->retries : RETRIES,
		.backoff_ns = 100000000,
		.most_backoff_ns = 5000000000,
		.lists = c->fetch_lists,
		.remote = true,
		.submit = submit,
		.is_calling = is_calling,
		.cancel = cancel,
		.cancel_all = cancel_all,
		.endpoint_hash = endpoint_hash,
		.destroy = destroy};
	return stk__io_add_source(io, &s->ops, s, err);
}
