/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/storage.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/system.h"
#include "http/http.h"
#include "io/cache.h"
#include "io/user.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { FILE_THREADS = 16, MOST_FETCH_THREADS = 512, MOST_MS = 1000000000 };

struct stk_storage {
	_Atomic int refs;
	pid_t process; /* id of the process that made the storage: the threads do not exist in a forked child */
	struct stk_aws_given given;
	struct stk_io *io;
	struct stk_cache *cache; /* owned by io; NULL: no cache */
};

/* ---- settings from the program ---- */

static enum stk_status bad_string(const char *name, const char *why, struct stk_error *err)
{
	return stk__fail(err, STK_INVALID, "storage: %s %s", name, why);
}

/* Checks the settings. The message quotes numbers and the path of ca_bundle, but no other value, because it may have been meant for another
 * setting, such as a key. */
static enum stk_status check(const struct stk_storage_config *c, struct stk_error *err)
{
	if (!c->access_key != !c->secret_key)
		return bad_string("access_key and secret_key", "go together: give both, or neither", err);
	if (c->session_token && !c->access_key)
		return bad_string("session_token", "goes with access_key and secret_key", err);
	if (c->anonymous && c->access_key)
		return bad_string("anonymous", "and access_key exclude each other", err);
	if (c->profile && c->access_key)
		return bad_string("profile", "and access_key exclude each other: the profile names keys of its own", err);
	if ((unsigned)c->addressing > STK_ADDRESSING_VIRTUAL)
		return bad_string("addressing", "is auto, path or virtual", err);
	const struct {
		const char *name;
		int64_t value, least, most;
	} numbers[] = {
		{"threads", c->threads, 0, STK_HTTP_THREADS},
		{"requests", c->requests, 0, INT32_MAX},
		{"retries", c->retries, -1, INT32_MAX},
		{"fetch_threads", c->fetch_threads, 0, MOST_FETCH_THREADS},
		{"connect_ms", c->connect_ms, 0, MOST_MS},
		{"first_byte_ms", c->first_byte_ms, 0, MOST_MS},
		{"stall_ms", c->stall_ms, 0, MOST_MS},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (numbers[i].value < numbers[i].least || numbers[i].value > numbers[i].most)
			return stk__fail(err, STK_INVALID, "storage: %s is %lld; it must be from %lld to %lld", numbers[i].name,
				(long long)numbers[i].value, (long long)numbers[i].least, (long long)numbers[i].most);
	if (c->ca_bundle && access(c->ca_bundle, R_OK))
		return stk__fail_errno(err, errno, "storage: ca_bundle: %s: cannot read it", c->ca_bundle);
	if (c->cache && !*c->cache)
		return bad_string("cache", "is empty: name a folder, or leave it out", err);
	const char *scheme = c->cache ? strstr(c->cache, "://") : NULL;
	if (scheme && !memchr(c->cache, '/', (size_t)(scheme - c->cache)))
		return bad_string("cache", "is a folder of this machine, not a URI", err);
	if (c->cache_limit < 0 || (c->cache_limit && !c->cache))
		return bad_string("cache_limit", "goes with cache, and is a number of bytes", err);
	if (c->fetch && c->cache && !(c->fetch_name && *c->fetch_name))
		return bad_string("fetch_name",
			"is missing: with fetch and cache, name the store that fetch reads (such as its account), so that the cache "
			"does not confuse its objects with those of another store",
			err);
	return stk__aws_check_endpoint(c->endpoint, "endpoint", err);
}

enum { GIVEN = 8 };

static void given_strings(struct stk_aws_given *g, char **out[GIVEN])
{
	char **all[GIVEN] = {&g->endpoint, &g->region, &g->profile, &g->key, &g->secret, &g->token, &g->ca_bundle, &g->proxy};
	memcpy(out, all, sizeof all);
}

static bool is_secret(const struct stk_aws_given *g, char *const *field)
{
	return field == &g->secret || field == &g->token;
}

static bool keep_given(struct stk_aws_given *g, const struct stk_storage_config *c)
{
	const char *const values[GIVEN] = {
		c->endpoint, c->region, c->profile, c->access_key, c->secret_key, c->session_token, c->ca_bundle, c->proxy};
	char **fields[GIVEN];
	bool ok = true;
	given_strings(g, fields);
	for (int i = 0; i < GIVEN; i++) {
		*fields[i] = !values[i] ? NULL : is_secret(g, fields[i]) ? stk__secret_copy(values[i]) : stk__strdup(values[i]);
		ok &= !values[i] || *fields[i];
	}
	g->anonymous = c->anonymous;
	g->style = (enum stk_s3_style)c->addressing;
	return ok;
}

static void forget_given(struct stk_aws_given *g)
{
	char **fields[GIVEN];
	given_strings(g, fields);
	for (int i = 0; i < GIVEN; i++)
		(is_secret(g, fields[i]) ? stk__secret_free : stk__erase_free)(*fields[i]);
}

/* ---- making and ending ---- */

static enum stk_status add_sources(struct stk_storage *s, const struct stk_storage_config *c, int file_threads, struct stk_error *err)
{
	struct stk_http_settings http = {.given = &s->given,
		.threads = c->threads,
		.requests = c->requests,
		.retries = c->retries,
		.connect_ms = c->connect_ms,
		.first_byte_ms = c->first_byte_ms,
		.stall_ms = c->stall_ms,
		.no_hedging = c->no_hedging};
	enum stk_status status = stk__io_create(file_threads, &s->io, err);
	if (c->fetch && status && c->fetch_done)
		c->fetch_done(c->fetch_user);
	if (!status && c->fetch) /* before the other sources, so that the user's function can replace them for their schemes */
		status = stk__user_source_add(s->io, c, err);
	if (!status)
		status = stk__http_add(s->io, &http, err);
	http.google = true;
	if (!status && !(c->fetch && !c->fetch_schemes)) /* a user's function without named schemes also reads gs:// */
		status = stk__http_add(s->io, &http, err);
	if (!status && c->cache)
		status = stk__cache_add(s->io, c->cache, (uint64_t)c->cache_limit, &s->cache, err);
	return status;
}

enum stk_status stk__storage_create(
	const struct stk_storage_config *config, int file_threads, struct stk_storage **out, struct stk_error *err)
{
	struct stk_storage *s = stk__calloc(1, sizeof *s);
	*out = NULL;
	if (!s || !keep_given(&s->given, config)) {
		if (s)
			forget_given(&s->given);
		stk__free(s);
		if (config->fetch && config->fetch_done)
			config->fetch_done(config->fetch_user);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a storage");
	}
	s->refs = 1;
	s->process = getpid();
	enum stk_status status = add_sources(s, config, file_threads, err);
	if (status)
		stk_storage_unref(&s);
	*out = s;
	return status;
}

enum stk_status stk_storage_create(const struct stk_storage_config *config, struct stk_storage **out, struct stk_error *err)
{
	struct stk_storage_config c = {.size = sizeof c};
	if (out)
		*out = NULL;
	if (config && config->size != sizeof c)
		return stk__fail(err, STK_INVALID, "stk_storage_config.size is %zu; this library expects %zu", config->size, sizeof c);
	if (config)
		c = *config;
	enum stk_status status = STK_NEED(err, out);
	if (!status)
		status = check(&c, err);
	if (!status)
		return stk__storage_create(&c, FILE_THREADS, out, err);
	if (c.fetch && c.fetch_done)
		c.fetch_done(c.fetch_user);
	return status;
}

struct stk_storage *stk_storage_ref(struct stk_storage *s)
{
	if (!s)
		return NULL;
	atomic_fetch_add(&s->refs, 1);
	return s;
}

void stk_storage_unref(struct stk_storage **storage)
{
	if (!storage)
		return;
	struct stk_storage *s = *storage;
	*storage = NULL;
	if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	if (s->process != getpid()) /* a forked child has no threads to end, so the resources stay */
		return;
	stk__io_destroy(s->io);
	forget_given(&s->given);
	stk__free(s);
}

struct stk_io *stk__storage_io(const struct stk_storage *s)
{
	return s->io;
}

bool stk__storage_has_cache(const struct stk_storage *s)
{
	return s->cache;
}

bool stk__storage_notice(const struct stk_storage *s, char text[512])
{
	return s->cache && stk__cache_notice(s->cache, text);
}

size_t stk_storage_counters(struct stk_storage *s, struct stk_counter *out, size_t n)
{
	if (!s)
		return 0;
	n = out ? n : 0;
	struct stk_io_counters io;
	struct stk_cache_counters cache = {0};
	stk__io_counters(s->io, &io);
	if (s->cache)
		stk__cache_counters(s->cache, &cache);
	const struct stk_counter all[] = {
		{"storage_requests", (double)io.remote},
		{"storage_bytes", (double)io.remote_bytes},
		{"storage_retries", (double)io.retries},
		{"storage_hedges", (double)io.facts.hedges},
		{"storage_slowdowns", (double)io.facts.slowdowns},
		{"storage_in_flight", (double)io.in_flight},
		{"storage_limit", io.facts.limit},
		{"storage_latency_ms", io.latency.half},
		{"storage_latency_ms_p95", io.latency.p95},
		{"storage_latency_ms_p99", io.latency.p99},
		{"storage_wait_ms", io.wait.half},
		{"storage_wait_ms_p95", io.wait.p95},
		{"storage_wait_ms_p99", io.wait.p99},
		{"cache_hits", (double)cache.hits},
		{"cache_hit_bytes", (double)cache.hit_bytes},
		{"cache_misses", (double)cache.misses},
		{"cache_kept", (double)cache.kept},
		{"cache_kept_bytes", (double)cache.kept_bytes},
		{"cache_left_out", (double)cache.left_out},
		{"cache_damaged", (double)cache.damaged},
		{"cache_stale", (double)cache.stale},
		{"cache_waits", (double)cache.waits},
		{"cache_pending_bytes", (double)cache.pending},
		{"cache_bytes", (double)cache.used},
		{"cache_limit", (double)cache.limit},
	};
	size_t total = sizeof all / sizeof *all;
	total -= s->cache ? 0 : 12; /* the number of rows that begin with "cache_" */
	for (size_t i = 0; i < n && i < total; i++)
		out[i] = all[i];
	return total;
}

/* ---- access ---- */

enum stk_status stk__access_open(const struct stk_access *access, const char *uri, struct stk_storage **out, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	if (access && access->storage)
		*out = stk_storage_ref(access->storage);
	else
		status = stk__storage_create(&(struct stk_storage_config){0}, 1, out, err);
	if (!status && !(access && access->known))
		status = stk__io_refresh((*out)->io, uri, access, err);
	if (*out && access && access->interrupted && access->interrupted(access->user))
		status = stk__fail(err, STK_CANCELLED, "%.*s: it was interrupted", stk__uri_shown(uri), uri);
	if (status)
		stk_storage_unref(out);
	return status;
}

bool stk__access_lists(const struct stk_access *access, const char *uri)
{
	if (access && access->storage && stk__io_lists(access->storage->io, uri))
		return true;
	return strncmp(uri, "s3://", 5) == 0 || ((!access || !access->storage) && strncmp(uri, "gs://", 5) == 0);
}
