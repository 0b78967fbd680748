/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes requests to the cache or to the sources of their schemes, repeats failed ones, and counts them. */
#include "io/io.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/buffer.h"
#include "io/retry.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_SOURCES = 16 };

struct stk_io {
	struct stk_buffer_pool *buffers;
	struct {
		const struct stk_source_ops *ops;
		void *source;
	} sources[MAX_SOURCES]; /* sources[0] reads local files */
	int source_count;
	struct stk_retry retry;
	const struct stk_io_cache_ops *cache_ops; /* NULL: no cache */
	void *cache;
	struct stk_histogram latency, wait; /* for remote requests: time from beginning to end, and time from submission to beginning */
	_Atomic uint64_t remote, remote_bytes, retries;
	_Atomic uint64_t requests, completed, failed, bytes, tried_now;
	/* The lock guards the members below. under_way: number of submitted requests that have not ended; destroy waits until it is 0. It is not atomic, because the
	 * thread that ends the last request must not touch io after destroy continues. */
	pthread_mutex_t lock;
	pthread_cond_t idle;
	uint64_t under_way;
	/* For remote requests. since_ns, ended: the time at which the present window began, and the number of requests that have ended in it. pace_ns: mean time
	 * between the ends of two requests in earlier windows, of which recent ones have more weight; 0: no window has ended. */
	int64_t since_ns, ended, pace_ns;
};

static void add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void fetch_request(void *user, struct stk_request *r);

enum stk_status stk__io_make(struct stk_io **out, struct stk_error *err)
{
	struct stk_io *io = *out = stk__calloc(1, sizeof *io);
	if (io)
		io->buffers = stk__buffer_pool_create();
	if (!io || !io->buffers) {
		stk__free(io);
		*out = NULL;
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the reading of files");
	}
	stk__retry_init(&io->retry, fetch_request, io);
	pthread_mutex_init(&io->lock, NULL);
	pthread_cond_init(&io->idle, NULL);
	return STK_OK;
}

struct stk_error *stk__request_error(struct stk_request *r)
{
	if (!r->error)
		r->error = stk__calloc(1, sizeof *r->error);
	return r->error;
}

enum stk_status stk__request_cancelled(struct stk_request *r)
{
	return stk__fail(r->error, STK_CANCELLED, "%.*s: reading was cancelled", stk__uri_shown(r->uri), r->uri);
}

static void end_cancelled(struct stk_io *io, struct stk_request *r)
{
	stk__io_finish(io, r, stk__request_cancelled(r));
}

void stk__io_destroy(struct stk_io *io)
{
	if (!io)
		return;
	for (struct stk_request *r = stk__retry_end(&io->retry), *next; r; r = next) {
		next = r->next;
		end_cancelled(io, r);
	}
	if (io->cache_ops)
		io->cache_ops->end(io->cache);
	for (int i = 0; i < io->source_count; i++)
		io->sources[i].ops->cancel_all(io->sources[i].source);
	pthread_mutex_lock(&io->lock);
	while (io->under_way)
		pthread_cond_wait(&io->idle, &io->lock);
	pthread_mutex_unlock(&io->lock);
	if (io->cache_ops)
		io->cache_ops->destroy(io->cache);
	for (int i = 0; i < io->source_count; i++)
		io->sources[i].ops->destroy(io->sources[i].source);
	stk__retry_destroy(&io->retry);
	stk__buffer_pool_close(io->buffers);
	pthread_cond_destroy(&io->idle);
	pthread_mutex_destroy(&io->lock);
	stk__free(io);
}

/* Returns the length of the scheme of "scheme://..."; 0 for a plain path. */
static size_t scheme_length(const char *uri)
{
	size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
	return n > 0 && strncmp(uri + n, "://", 3) == 0 ? n : 0;
}

/* Returns whether `scheme`, which has n letters, is one of the words of `schemes`; words are separated by single blanks. */
static bool serves(const char *schemes, const char *scheme, size_t n)
{
	while (*schemes) {
		size_t word = strcspn(schemes, " ");
		if (word == n && memcmp(schemes, scheme, n) == 0)
			return true;
		schemes += word + (schemes[word] == ' ');
	}
	return false;
}

/* Returns whether the URI names a page of a listing: its scheme ends in "list", as in "s3list://...". */
static bool is_listing(const char *uri)
{
	size_t n = scheme_length(uri);
	return n > 4 && memcmp(uri + n - 4, "list", 4) == 0;
}

static int find_source(const struct stk_io *io, const char *uri)
{
	size_t n = uri[0] == '/' ? 0 : scheme_length(uri);
	if (n == 0)
		return 0;
	int fallback = -1;
	for (int i = 0; i < io->source_count; i++) {
		if (serves(io->sources[i].ops->scheme, uri, n))
			return i;
		if (strcmp(io->sources[i].ops->scheme, "*") == 0)
			fallback = i;
	}
	return fallback;
}

enum stk_status stk__io_add_source(struct stk_io *io, const struct stk_source_ops *ops, void *source, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	if (io->source_count == MAX_SOURCES)
		status = stk__fail(err, STK_LIMIT, "more than %d sources of bytes", MAX_SOURCES);
	for (int i = 0; i < io->source_count && !status; i++)
		if (strcmp(io->sources[i].ops->scheme, ops->scheme) == 0)
			status = stk__fail(err, STK_INVALID, "%s:// has a source already", ops->scheme);
	if (status) {
		ops->destroy(source);
		return status;
	}
	io->sources[io->source_count].ops = ops;
	io->sources[io->source_count++].source = source;
	return STK_OK;
}

/* Stores the result of a request and counts it. Called before the request's owner is notified. */
static void record_end(struct stk_io *io, struct stk_request *r, enum stk_status status)
{
	r->status = status;
	add(status ? &io->failed : &io->completed, 1);
	if (status) {
		r->buffer = NULL;
		r->data = NULL;
		r->size = 0;
		stk__error_set_sample(r->error, r->uri, -1, -1);
	} else if (!r->exact_size) { /* the bytes of pieces are counted with the whole request */
		add(&io->bytes, r->size);
	}
}

/* ---- the cache ---- */

void stk__io_use_cache(struct stk_io *io, const struct stk_io_cache_ops *ops, void *cache)
{
	io->cache_ops = ops;
	io->cache = cache;
}

/* Returns whether a request may use the cache. Listings may not, since they must be current. */
static bool may_use_cache(const struct stk_io *io, const struct stk_request *r, int source)
{
	return io->cache_ops && !r->uncached && source >= 0 && io->sources[source].ops->remote && !is_listing(r->uri);
}

static uint64_t place_of(const struct stk_io *io, const char *uri, int source)
{
	const struct stk_source_ops *ops = io->sources[source].ops;
	return ops->endpoint_hash ? ops->endpoint_hash(io->sources[source].source, uri) : 0;
}

static bool try_cache(struct stk_io *io, struct stk_request *r, int source)
{
	r->cache.store = place_of(io, r->uri, source);
	if (!io->cache_ops->try_now(io->cache, r))
		return false;
	if (r->check && r->check(r, NULL, r->data, NULL)) {
		stk__buffer_release(r->buffer);
		r->buffer = NULL;
		r->uncached = true;
		return false;
	}
	add(&io->requests, 1);
	add(&io->tried_now, 1);
	record_end(io, r, STK_OK);
	return true;
}

void stk__io_unclaim(struct stk_io *io, struct stk_request *r)
{
	if (r->cache.state != STK_CACHE_CLAIMED)
		return;
	io->cache_ops->unclaim(io->cache, r);
	r->cache.state = STK_CACHE_MISSED;
}

bool stk__io_submit_at(struct stk_io *io, struct stk_request *r, int64_t due_ns)
{
	return stk__retry_at(&io->retry, r, due_ns);
}

/* ---- requests ---- */

bool stk__io_try(struct stk_io *io, struct stk_request *r)
{
	int i = find_source(io, r->uri);
	if (may_use_cache(io, r, i))
		return try_cache(io, r, i);
	if (i < 0 || !io->sources[i].ops->try_now || !io->sources[i].ops->try_now(io->sources[i].source, io, r))
		return false;
	if (stk__io_source_failed(r->status) && r->retries < STK_IO_RETRIES) {
		r->retries++;
		return false;
	}
	add(&io->requests, 1);
	add(&io->tried_now, 1);
	record_end(io, r, r->status);
	return true;
}

bool stk__io_source_failed(enum stk_status s)
{
	return s == STK_IO || s == STK_TIMEOUT || s == STK_SYSTEM;
}

void stk__io_fetch(struct stk_io *io, struct stk_request *r)
{
	r->buffer = NULL;
	int i = find_source(io, r->uri);
	if (i >= 0) {
		io->sources[i].ops->submit(io->sources[i].source, io, r);
		return;
	}
	int n = (int)scheme_length(r->uri);
	stk__io_finish(io, r,
		stk__fail(r->error, STK_UNSUPPORTED, "%s: there is no source that reads %.*s://%s", r->uri, n, r->uri,
			stk__scheme_hint(r->uri)));
}

/* Passes r to the cache if r may use it and was not looked up in it yet; otherwise to the source of its scheme. */
static void fetch_request(void *user, struct stk_request *r)
{
	struct stk_io *io = user;
	r->buffer = NULL;
	if (r->cache.state == STK_CACHE_UNASKED && may_use_cache(io, r, find_source(io, r->uri)))
		io->cache_ops->submit(io->cache, r);
	else
		stk__io_fetch(io, r);
}

enum stk_status stk__io_refresh(struct stk_io *io, const char *uri, const struct stk_access *access, struct stk_error *err)
{
	int i = find_source(io, uri);
	return i >= 0 && io->sources[i].ops->refresh ? io->sources[i].ops->refresh(io->sources[i].source, uri, access, err) : STK_OK;
}

void stk__io_describe(struct stk_io *io, const char *uri, struct stk_storage_report *out)
{
	int i = find_source(io, uri);
	out->clock_s = INT64_MIN;
	if (i >= 0 && io->sources[i].ops->describe)
		io->sources[i].ops->describe(io->sources[i].source, uri, out);
}

bool stk__io_lists(const struct stk_io *io, const char *uri)
{
	int i = find_source(io, uri);
	return i >= 0 && io->sources[i].ops->lists;
}

bool stk__io_remote(const struct stk_io *io, const char *uri)
{
	int i = find_source(io, uri);
	return i >= 0 && io->sources[i].ops->remote;
}

void stk__io_submit(struct stk_io *io, struct stk_request *r)
{
	int i = find_source(io, r->uri);
	add(&io->requests, 1);
	r->cache.state = STK_CACHE_UNASKED;
	r->cache.cache_waits = 0;
	r->begun_ns = r->http.starved_ns = r->retry.pause_ns = 0;
	r->object_fails = r->replaced = false;
	r->got = (struct stk_read_version){0};
	r->asked_ns = i > 0 ? stk__clock_ns() : 0;
	/* A request that a user's function makes must not wait for the cache, which may wait for that function. */
	if (may_use_cache(io, r, i) && io->sources[i].ops->is_calling && io->sources[i].ops->is_calling(io->sources[i].source))
		r->uncached = true;
	r->cache.store = may_use_cache(io, r, i) ? place_of(io, r->uri, i) : 0;
	pthread_mutex_lock(&io->lock);
	if (!io->under_way++ && r->asked_ns) { /* no request was under way, so the idle time before this one must not count */
		io->since_ns = r->asked_ns;
		io->ended = 0;
	}
	pthread_mutex_unlock(&io->lock);
	fetch_request(io, r);
}

void stk__io_cancel(struct stk_io *io, struct stk_request *r)
{
	atomic_store(&r->cancelled, true);
	if (stk__retry_remove(&io->retry, r)) {
		end_cancelled(io, r);
		return;
	}
	if (io->cache_ops && io->cache_ops->cancel(io->cache, r)) {
		end_cancelled(io, r);
		return;
	}
	int i = find_source(io, r->uri);
	if (i >= 0 && io->sources[i].ops->cancel)
		io->sources[i].ops->cancel(io->sources[i].source, r);
}

/* Returns whether to try a failed request again: at once if *delay_ns is 0, otherwise after that delay. */
static bool try_again(struct stk_io *io, struct stk_request *r, enum stk_status status, int64_t *delay_ns)
{
	*delay_ns = 0;
	if (status == STK_OK || status == STK_CANCELLED || atomic_load(&r->cancelled))
		return false;
	const bool unheard =
		!r->error && stk__request_error(r); /* the request had no error to fill, so it is repeated once to learn the reason */
	int i = find_source(io, r->uri);
	const struct stk_source_ops *ops = i < 0 ? NULL : io->sources[i].ops;
	if (!ops || r->no_retry || !stk__io_source_failed(status) || r->retries >= (ops->retries ? ops->retries : STK_IO_RETRIES))
		return unheard;
	if (ops->backoff_ns)
		*delay_ns = stk__retry_delay(
			ops->backoff_ns, ops->most_backoff_ns, r->retries, (uint64_t)stk__clock_ns() ^ (uint64_t)(uintptr_t)r);
	*delay_ns += r->retry.pause_ns;
	r->retry.pause_ns = 0;
	r->retries++;
	add(&io->retries, ops->remote);
	return true;
}

bool stk__io_await_admission(struct stk_io *io, struct stk_request *r, size_t bytes, uint64_t admission_changes)
{
	const bool claimed = r->cache.state == STK_CACHE_CLAIMED;
	stk__io_unclaim(io, r);
	if (claimed)
		r->cache.state = STK_CACHE_UNASKED; /* nothing was fetched yet, and another request may store the bytes meanwhile */
	return stk__retry_park(&io->retry, r, bytes, admission_changes);
}

uint64_t stk__io_admission_changes(struct stk_io *io)
{
	return stk__retry_admission_changes(&io->retry);
}

void stk__io_admission_changed(struct stk_io *io)
{
	stk__retry_admission_changed(&io->retry);
	for (int i = 0; i < io->source_count; i++)
		if (io->sources[i].ops->allocate)
			io->sources[i].ops->allocate(io->sources[i].source);
}

/* Returns the ns since the present window began, divided by the number of requests that have ended in it; 0 if none has ended. Call with the lock held. */
static int64_t recent_pace(const struct stk_io *io, int64_t now)
{
	return io->ended ? (now - io->since_ns) / io->ended : 0;
}

int64_t stk__io_pace_ns(struct stk_io *io)
{
	pthread_mutex_lock(&io->lock);
	int64_t pace = io->pace_ns ? io->pace_ns : recent_pace(io, stk__clock_ns());
	pthread_mutex_unlock(&io->lock);
	return pace;
}

static void measure_pace(struct stk_io *io, int64_t now)
{
	enum { WINDOW = 16, WEIGHT = 4 };
	pthread_mutex_lock(&io->lock);
	if (++io->ended == WINDOW) {
		int64_t pace = recent_pace(io, now);
		io->pace_ns = io->pace_ns ? io->pace_ns + (pace - io->pace_ns) / WEIGHT : pace;
		io->since_ns = now;
		io->ended = 0;
	}
	pthread_mutex_unlock(&io->lock);
}

/* Counts a successful remote request and its bytes, and records its latency and its wait. Does nothing for requests that the cache has answered. */
static void measure(struct stk_io *io, const struct stk_request *r)
{
	if (!r->begun_ns || !r->asked_ns)
		return;
	add(&io->remote, 1);
	add(&io->remote_bytes, r->size);
	const int64_t now = stk__clock_ns();
	measure_pace(io, now);
	stk__histogram_add(&io->latency, now - r->begun_ns);
	stk__histogram_add(&io->wait, r->begun_ns - r->asked_ns);
}

/* Returns whether the object has another size than the request expects. */
static bool is_other_size(const struct stk_request *r)
{
	return r->expected.size > 0 && r->got.size >= 0 && r->got.size != r->expected.size;
}

/* Fails a request of STK_PIN_READ. Sends no request again: the object would not turn back into the earlier version. */
static enum stk_status fail_replaced(struct stk_request *r, struct stk_error *err)
{
	r->no_retry = true;
	r->object_fails = true;
	r->replaced = true;
	return stk__fail(err, STK_IO,
		"%.*s: it was replaced again and again while parts of it were read, or its servers give different ETags or times of the last change for it",
		stk__uri_shown(r->uri), r->uri);
}

/* Refuses an object that has changed since it was indexed, or since an earlier part of it was read: releases its bytes, fills r->error, returns STK_IO. */
static enum stk_status refuse_changed(struct stk_request *r)
{
	stk__buffer_release(r->buffer);
	r->buffer = NULL;
	if (r->expected.pin == STK_PIN_READ)
		return fail_replaced(r, stk__request_error(r));
	r->no_retry = true;
	r->object_fails = false; /* the whole index is outdated, so reads of other objects would fail too */
	return stk__fail(stk__request_error(r), STK_IO,
		"%.*s: it has changed since its index was made (it has another ETag): start again, with a new index (stoker index) if you gave one",
		stk__uri_shown(r->uri), r->uri);
}

enum stk_status stk__io_check_size(struct stk_request *r, struct stk_error *err)
{
	if (!is_other_size(r))
		return STK_OK;
	if (r->expected.pin == STK_PIN_READ)
		return fail_replaced(r, err);
	if (r->got.etag && stk__request_other_version(r))
		return STK_OK;
	return stk__fail(err, STK_IO,
		"%.*s: its source has %lld bytes of it, and the listing or the index says %lld: if it was replaced, list it again",
		stk__uri_shown(r->uri), r->uri, (long long)r->got.size, (long long)r->expected.size);
}

/* Checks that the object has the size that the listing or index states. Otherwise releases the bytes, since some are missing or all are of another version. */
static enum stk_status check_whole(struct stk_request *r)
{
	const bool whole = !r->offset && r->length < 0;
	if (whole)
		r->got.size = (int64_t)r->size;
	if (!r->got.size && !whole) /* the source did not report a size */
		return STK_OK;
	enum stk_status status = stk__io_check_size(r, r->expected.size != r->got.size ? stk__request_error(r) : NULL);
	if (status) {
		stk__buffer_release(r->buffer);
		r->buffer = NULL;
		r->object_fails = true;
	}
	return status;
}

enum stk_status stk__io_check_bytes(struct stk_request *r)
{
	struct stk_error failure = {0};
	enum stk_status status = r->check(r, NULL, r->data, &failure);
	if (!status)
		return STK_OK;
	struct stk_error *err = stk__request_error(r);
	if (err)
		*err = failure;
	stk__buffer_release(r->buffer);
	r->buffer = NULL;
	return status;
}

/* Checks the bytes of a remote request, and returns the result. If wrong bytes came from the cache, which may have those of an older version, a retry reads
 * them from the source. If they came from the source, there is no retry. */
static enum stk_status check_remote(struct stk_request *r)
{
	enum stk_status status = stk__io_check_bytes(r);
	if (!status)
		return STK_OK;
	r->no_retry = r->begun_ns;
	r->object_fails = false; /* the whole index is outdated, so reads of other objects would fail too */
	r->uncached = true;
	return status;
}

void stk__io_finish(struct stk_io *io, struct stk_request *r, enum stk_status status)
{
	int64_t delay_ns;
	if (!status && r->expected.size && r->asked_ns)
		status = check_whole(r);
	if (!status && r->expected.pin != STK_PIN_NONE && stk__request_other_version(r))
		status = refuse_changed(r);
	if (!status && r->check && !r->before)
		status = check_remote(r);
	if (try_again(io, r, status, &delay_ns)) {
		if (!delay_ns || !stk__retry_at(&io->retry, r, stk__clock_ns() + delay_ns))
			fetch_request(io, r);
		return;
	}
	if (io->cache_ops)
		io->cache_ops->take(io->cache, r, status);
	record_end(io, r, status);
	if (!status)
		measure(io, r);
	r->done(r);
	pthread_mutex_lock(&io->lock);
	if (--io->under_way == 0)
		pthread_cond_broadcast(&io->idle);
	pthread_mutex_unlock(&io->lock);
}

struct stk_buffer *stk__buffer_take(struct stk_io *io, size_t size)
{
	return stk__buffer_pool_take(io->buffers, size);
}

uint8_t *stk__request_memory(struct stk_io *io, const struct stk_request *r, size_t size, struct stk_buffer **buffer)
{
	*buffer = NULL;
	if (r->allocate && !r->http.joined)
		return r->allocate(r->allocate_user, size);
	*buffer = stk__buffer_take(io, size);
	return *buffer ? stk__buffer_data(*buffer) : NULL;
}

bool stk__request_admitted(struct stk_request *r, size_t bytes)
{
	return r->length >= 0 || r->allocate || !r->admission || r->admission->admit(r->admission, r, bytes);
}

void stk__io_counters(const struct stk_io *io, struct stk_io_counters *out)
{
	struct stk_buffer_pool *pool = io->buffers;
	*out = (struct stk_io_counters){
		.requests = atomic_load(&io->requests),
		.completed = atomic_load(&io->completed),
		.failed = atomic_load(&io->failed),
		.bytes = atomic_load(&io->bytes),
		.tried_now = atomic_load(&io->tried_now),
	};
	out->remote = atomic_load(&io->remote);
	out->remote_bytes = atomic_load(&io->remote_bytes);
	out->retries = atomic_load(&io->retries);
	out->latency = stk__histogram_read(&io->latency);
	out->wait = stk__histogram_read(&io->wait);
	pthread_mutex_lock((pthread_mutex_t *)&io->lock);
	out->in_flight = io->under_way;
	pthread_mutex_unlock((pthread_mutex_t *)&io->lock);
	for (int i = 0; i < io->source_count; i++)
		if (io->sources[i].ops->facts)
			io->sources[i].ops->facts(io->sources[i].source, &out->facts);
	for (int i = 0; i < io->source_count; i++)
		out->threads += io->sources[i].ops->threads ? io->sources[i].ops->threads(io->sources[i].source) : 0;
	pthread_mutex_lock(&pool->lock);
	out->buffers_bytes = pool->held;
	out->buffers_peak_bytes = pool->peak_held;
	pthread_mutex_unlock(&pool->lock);
}
