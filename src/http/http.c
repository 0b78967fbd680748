/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP source: accepts requests, and starts and ends the threads (loops) that serve them. */
#include "http/http_impl.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/safe_text.h"
#include "io/io_split.h"
#include "thread/thread.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_REQUESTS = 2048, FIRST_LIMIT = 128, UNHEARD_RETRIES = 4, UNHEARD_WAITS = 1 };

/* ---- requests ---- */

/* Loads curl and starts the threads that do not run yet. Succeeds if at least one thread runs. Call with the lock held. */
static enum stk_status start(struct stk_http_source *s, struct stk_error *err)
{
	enum stk_status status = s->curl.library ? STK_OK : stk__curl_load(&s->curl, err);
	while (!status && s->loop_count < s->settings.threads) {
		status = stk__http_loop_start(&s->loops[s->loop_count], s, err);
		s->loop_count += !status;
	}
	return s->loop_count ? STK_OK : status;
}

static void submit(void *source, struct stk_io *io, struct stk_request *r)
{
	struct stk_http_source *s = source;
	struct stk_http_loop *wake = NULL;
	if (stk__split_begin(io, &s->pieces, r))
		return;
	pthread_mutex_lock(&s->lock);
	bool wanted = !s->cancelled && !atomic_load(&r->cancelled);
	enum stk_status status = wanted ? start(s, r->error) : STK_OK;
	if (wanted && !status) {
		stk__queue_push(&s->queue, r);
		if (stk__http_may_begin(s, r)) {
			s->search_ns = 0;
			wake = stk__http_sleeping(s);
		}
		if (wake)
			wake->sleeping = false;
	}
	pthread_mutex_unlock(&s->lock);
	if (wake)
		stk__http_loop_wake(wake);
	if (!wanted)
		stk__io_finish(io, r, stk__request_cancelled(r));
	else if (status)
		stk__io_finish(io, r, status);
}

/* Cancels a request. If it is under way, its loop finds and ends it. */
static void cancel(void *source, struct stk_request *r)
{
	struct stk_http_source *s = source;
	stk__split_cancel(s->io, &s->pieces, r);
	pthread_mutex_lock(&s->lock);
	bool removed = stk__queue_remove(&s->queue, r);
	int loops = removed ? 0 : s->loop_count;
	pthread_mutex_unlock(&s->lock);
	if (removed)
		stk__io_finish(s->io, r, stk__request_cancelled(r));
	for (int i = 0; i < loops; i++)
		if (!atomic_exchange(&s->loops[i].look_at_cancelled, true))
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
		stk__io_finish(s->io, r, stk__request_cancelled(r));
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
	pthread_mutex_destroy(&s->pieces);
	pthread_mutex_destroy(&s->lock);
	stk__free(s);
}

static uint64_t endpoint_hash(void *source, const char *uri)
{
	const struct stk_http_source *s = source;
	return stk__s3_is_store(uri) ? atomic_load(&s->endpoint_hash) : 0;
}

static void retry_admission(void *source)
{
	struct stk_http_source *s = source;
	for (int i = 0; i < STK_HTTP_THREADS; i++) {
		struct stk_http_loop *l = &s->loops[i];
		if (atomic_load(&l->waiting_for_memory) && !atomic_exchange(&l->can_admit, true))
			stk__http_loop_wake(l);
	}
}

static void facts(void *source, struct stk_source_facts *out)
{
	struct stk_http_source *s = source;
	pthread_mutex_lock(&s->lock);
	out->hedges += s->hedged_requests;
	out->slowdowns += s->slowdowns;
	/* every storage has a source for gs://, even if nothing is read from it, so its limit counts only after its first request */
	out->limit += s->settings.google && !s->loop_count ? 0 : s->limit;
	pthread_mutex_unlock(&s->lock);
}

static void describe(void *source, const char *uri, struct stk_storage_report *out)
{
	struct stk_http_source *s = source;
	struct stk_http_account *a = stk__http_account(s);
	char bucket[256];
	out->clock_s = atomic_load(&s->clock_s);
	if (stk__s3_is_store(uri)) {
		snprintf(out->endpoint, sizeof out->endpoint, "%s", a->aws.endpoint ? a->aws.endpoint : "AWS");
		stk__safe_text(out->endpoint, sizeof out->endpoint);
		snprintf(out->region, sizeof out->region, "%s", a->aws.region ? a->aws.region : "");
		snprintf(out->keys, sizeof out->keys, "%s", a->aws.anonymous ? "" : a->aws.origin ? a->aws.origin : "nowhere");
		if (stk__s3_bucket(uri, bucket))
			stk__http_region(s, bucket, out->region);
	}
	stk__http_account_unref(a);
}

/* Divides the descriptors among the loops, and lowers the limit of requests to the number of connections that this allows. Connections get half of the
 * descriptors that the process may open, less two for each loop, but at least LEAST for each loop. They use no descriptor in the highest quarter, which is left
 * to the rest of the process. If few files may be open, only one loop runs. */
static void share_descriptors(struct stk_http_source *s)
{
	enum { MANY = 1 << 16, FEW = 256, OF_LOOP = 2, LEAST = STK_CURL_MULTI_FDS + 1 };
	struct rlimit files;
	int limit = getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur > MANY ? MANY : (int)files.rlim_cur;
	s->settings.threads = limit < FEW ? 1 : s->settings.threads;
	s->most_fds = limit / 2 / s->settings.threads - OF_LOOP;
	s->most_fds = s->most_fds > LEAST ? s->most_fds : LEAST;
	s->last_fd = limit - limit / 4;
	const int connections = s->most_fds * s->settings.threads;
	s->settings.requests = s->settings.requests < connections ? s->settings.requests : connections;
}

static struct stk_http_settings with_defaults(const struct stk_http_settings *given)
{
	struct stk_http_settings s = given ? *given : (struct stk_http_settings){0};
	s.threads = s.threads ? s.threads : 2;
	s.threads = s.threads < STK_HTTP_THREADS ? s.threads : STK_HTTP_THREADS;
	s.requests = s.requests ? s.requests : MOST_REQUESTS;
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
		s->account = stk__http_read_account(settings);
	if (!s || !s->account) {
		stk__free(s);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the source of http:// and s3://");
	}
	s->io = io;
	s->clock_s = INT64_MIN;
	s->endpoint_hash = stk__http_endpoint_hash(s->account);
	s->settings = with_defaults(settings);
	share_descriptors(s);
	const bool given = settings && settings->retries;
	s->unheard_retries = given ? settings->retries : UNHEARD_RETRIES;
	s->unheard_waits = given ? settings->retries : UNHEARD_WAITS;
	s->limit = s->settings.requests < FIRST_LIMIT ? s->settings.requests : FIRST_LIMIT;
	s->ops = (struct stk_source_ops){
		.scheme = s->settings.google ? "gs gslist" : "s3 s3list http https",
		.lists = s->settings.google,
		.retries = s->settings.retries,
		.backoff_ns = s->settings.backoff_ms * 1000000,
		.most_backoff_ns = s->settings.most_backoff_ms * 1000000,
		.remote = true,
		.submit = submit,
		.cancel = cancel,
		.cancel_all = cancel_all,
		.refresh = stk__http_refresh,
		.endpoint_hash = endpoint_hash,
		.describe = describe,
		.facts = facts,
		.allocate = retry_admission,
		.destroy = destroy,
	};
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->pieces, NULL);
	pthread_cond_init(&s->keeper_wake, NULL);
	return stk__io_add_source(io, &s->ops, s, err);
}

struct stk_http_library stk__http_library(void)
{
	struct stk_curl c;
	if (stk__curl_load(&c, NULL))
		return (struct stk_http_library){0};
	const curl_version_info_data *v = c.curl_version_info(CURLVERSION_NOW);
	struct stk_http_library library = {
		v->version, v->ssl_version}; /* the texts remain valid, since the library is never unloaded (NODELETE) */
	stk__curl_unload(&c);
	return library;
}
