/* SPDX-License-Identifier: Apache-2.0
 *
 * Begins the transfer of a request to a server: finds its target, composes it and sends it. Also checks the pace of transfers. */
#include "http/http_connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* PARKED_NS: time for which a transfer waits for memory before other requests may fetch its object. Most waits are shorter, since a consumer that takes
 * batches releases memory all the time; a second request for each of them would waste the network. */
enum { STALL_BYTES = 4096, PARKED_NS = 500000000 };

static const char ALWAYS[] = "User-Agent: stoker/" STK_VERSION "\r\nAccept: */*\r\nAccept-Encoding: identity\r\n";

#define SHOWN(t) stk__uri_shown((t)->r->uri), (t)->r->uri

/* ---- the request ---- */

static void connected(struct stk_transfer *t)
{
	while (t->sent < t->request.length) {
		ssize_t n = stk__connection_send(t->connection, t->request.s + t->sent, t->request.length - t->sent);
		if (n == STK_WOULD_BLOCK) {
			stk__connection_watch_writes(t->connection, true);
			return;
		}
		if (n < 0) {
			stk__transfer_disconnected(t, STK_BROKEN);
			return;
		}
		t->sent += (size_t)n;
	}
	stk__connection_watch_writes(t->connection, false);
}

static void ready(struct stk_transfer *t, bool writable)
{
	if (writable && t->sent < t->request.length)
		connected(t);
	if (t->connection)
		stk__transfer_receive(t);
}

/* Sets the target's URL to the request's URL, with bytes that a URL must not contain written as %XX. Fails if the URL has no server, or a password. */
static enum stk_status plain_target(struct stk_transfer *t)
{
	const char *allowed = "!#$%&'()*+,/:;=?@[]", *uri = t->r->uri;
	const char *server = strstr(uri, "://");
	if (!server || !server[3] || server[3] == '/')
		return stk__fail(stk__request_error(t->r), STK_INVALID, "%.*s: a URL without the name of a server", SHOWN(t));
	if (stk__uri_shown(uri) < 9)
		return stk__fail(stk__request_error(t->r), STK_INVALID,
			"%.*s...: a URL with a password in it would show in messages and is not read", SHOWN(t));
	stk__uri_encode(&t->target.url, uri, allowed);
	return t->target.url.failed ? stk__fail(stk__request_error(t->r), STK_NO_MEMORY, "%.*s: out of memory for its URL", SHOWN(t))
				    : STK_OK;
}

static enum stk_status find_target(struct stk_transfer *t)
{
	struct stk_http_source *s = t->loop->source;
	char bucket[256] = "", region[64];
	stk__http_target_reset(&t->target);
	if (!t->account)
		t->account = stk__http_account(s);
	if (t->redirect_url.length) {
		stk__text_append(&t->target.url, t->redirect_url.s, t->redirect_url.length);
		return t->target.url.failed
			       ? stk__fail(stk__request_error(t->r), STK_NO_MEMORY, "%.*s: out of memory for its URL", SHOWN(t))
			       : STK_OK;
	}
	if (strncmp(t->r->uri, "http", 4) == 0)
		return plain_target(t);
	enum stk_status status = t->account->error.code;
	if (status) {
		t->r->no_retry = true;
		return stk__fail(stk__request_error(t->r), status, "%s: %s", t->r->uri, t->account->error.message);
	}
	bool other_region = stk__s3_bucket(t->r->uri, bucket) && stk__http_region(s, bucket, region);
	struct stk_error why;
	status = stk__s3_target(&t->target, &t->account->aws, other_region ? region : NULL, t->r->uri, stk__http_now(s), &why);
	struct stk_error *error = status ? stk__request_error(t->r) : NULL;
	if (error)
		*error = why;
	t->r->no_retry |= status != STK_OK;
	return status;
}

/* Appends the target's headers, the range, and in a resumed transfer the condition that the object is unchanged. */
static void add_headers(struct stk_transfer *t)
{
	struct stk_text *q = &t->request;
	const int64_t first = t->first + (int64_t)t->used;
	for (int i = 0; i < t->target.header_count; i++) {
		stk__text_append(q, t->target.headers[i].s, t->target.headers[i].length);
		stk__text_append(q, "\r\n", 2);
	}
	stk__text_append(q, ALWAYS, sizeof ALWAYS - 1);
	if (t->route.absolute)
		stk__text_append(q, t->route.authorization.s, t->route.authorization.length);
	if (t->length > 0)
		stk__text_add(q, "Range: bytes=%lld-%lld\r\n", (long long)first, (long long)(t->first + t->length - 1));
	else if (first > 0)
		stk__text_add(q, "Range: bytes=%lld-\r\n", (long long)first);
	if (t->resumes && t->etag[0] == '"') /* If-Match never accepts a weak ETag; continue_body in http_receive.c compares weak ones */
		stk__text_add(q, "If-Match: %s\r\n", t->etag);
	stk__text_append(q, "\r\n", 2);
}

/* Returns whether the request's header can be written: no value contains a line end, which would begin another field, and the URL is visible ASCII. */
static bool plain_lines(const struct stk_transfer *t)
{
	for (int i = 0; i < t->target.header_count; i++)
		if (strpbrk(t->target.headers[i].s, "\r\n"))
			return false;
	for (const char *c = t->target.url.s; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127)
			return false;
	return !strpbrk(t->etag, "\r\n");
}

static enum stk_status write_request(struct stk_transfer *t)
{
	const struct stk_text *url = &t->target.url;
	struct stk_text *q = &t->request;
	const size_t origin = stk__url_origin(url->s), n = strcspn(url->s, "#") - origin;
	const char *path = url->s + origin, *host = strstr(url->s, "://") + 3;
	if (!plain_lines(t))
		return stk__fail(stk__request_error(t->r), STK_INVALID, "%.*s: a line break or a blank in a setting or its URL", SHOWN(t));
	if (strncmp(t->r->uri, "http", 4) == 0 && memchr(host, '%', origin - (size_t)(host - url->s)))
		return stk__fail(
			stk__request_error(t->r), STK_INVALID, "%.*s: its host is not written in ASCII; write it as xn--...", SHOWN(t));
	q->length = 0;
	q->failed = false;
	t->sent = 0;
	stk__text_append(q, "GET ", 4);
	if (t->route.absolute)
		stk__text_append(q, url->s, origin);
	if (*path != '/')
		stk__text_append(q, "/", 1);
	stk__text_append(q, path, n);
	stk__text_append(q, " HTTP/1.1\r\n", 11);
	if (!t->target.bucket[0])
		stk__text_add(q, "Host: %.*s\r\n", (int)(origin - (size_t)(host - url->s)), host);
	add_headers(t);
	return q->failed ? stk__fail(stk__request_error(t->r), STK_NO_MEMORY, "%.*s: out of memory for its request", SHOWN(t)) : STK_OK;
}

static const struct stk_connection_user user = {.connected = connected, .ready = ready, .failed = stk__transfer_ended};

enum stk_status stk__transfer_begin(struct stk_transfer *t)
{
	const bool new_connection = t->stale;
	stk__response_begin(&t->response);
	t->text_size = 0;
	t->reason[0] = 0;
	t->code = CURLE_OK;
	t->failed = STK_OK;
	t->complete = t->response_begun = t->has_body_memory = t->piecewise = t->stale = t->starved = false;
	t->skip = 0;
	t->end_used = -1;
	t->window_bytes = 0;
	t->window_ns = stk__clock_ns();
	enum stk_status status = find_target(t);
	if (status)
		return status;
	const struct stk_http_account *a = t->account;
	const bool route_found = stk__route_find(&t->route, t->target.url.s, a->aws.number, &a->proxies, a->aws.proxy, a->aws.ca_bundle);
	status = route_found ? write_request(t) : STK_OK;
	if (!status && (!route_found || !stk__connection_take(t, &t->route, new_connection, &user)))
		status = stk__fail(stk__request_error(t->r), STK_NO_MEMORY, "%.*s: out of memory for its request", SHOWN(t));
	return status;
}

/* ---- beginning and end ---- */

struct stk_transfer *stk__transfer_create(struct stk_http_loop *l)
{
	struct stk_transfer *t = stk__alloc(sizeof *t);
	if (t) {
		*t = (struct stk_transfer){0};
		t->loop = l;
		t->target.signer = &l->signer;
	}
	return t;
}

void stk__transfer_destroy(struct stk_transfer *t)
{
	stk__http_target_free(&t->target);
	stk__route_free(&t->route);
	stk__text_erase_free(&t->request);
	stk__text_free(&t->redirect_url);
	stk__free(t);
}

void stk__transfer_clear(struct stk_transfer *t)
{
	stk__http_account_unref(t->account);
	t->account = NULL;
	if (t->waits_for_memory)
		atomic_fetch_sub(&t->loop->waiting_for_memory, 1);
	t->waits_for_memory = false;
	stk__buffer_release(t->buffer);
	t->buffer = NULL;
	t->data = NULL;
	t->capacity = t->used = 0;
	t->resumes = t->hedges = 0;
	t->moves = 0;
	t->redirect_url.length = 0;
	stk__http_target_reset(&t->target);
	if (t->request.s)
		stk__erase(t->request.s, t->request.length);
	t->request.length = 0;
	t->stale = t->starved = false;
	t->etag[0] = 0;
	t->r = NULL;
}

enum stk_status stk__transfer_check_pace(struct stk_transfer *t, int64_t now)
{
	const struct stk_http_settings *set = &t->loop->source->settings;
	if (t->waits_for_memory) { /* the transfer delays the response, not the server */
		if (now - t->window_ns > PARKED_NS)
			stk__io_unclaim(t->loop->source->io, t->r);
		return STK_OK;
	}
	int64_t limit = (t->response_begun ? set->stall_ms : set->first_byte_ms) * 1000000;
	if (now - t->window_ns < limit)
		return STK_OK;
	if (!t->response_begun)
		return stk__http_fail_silent(t);
	if (t->window_bytes < STALL_BYTES)
		return stk__fail(stk__request_error(t->r), STK_TIMEOUT, "%.*s: %zu bytes in %lld ms, after %zu bytes in all", SHOWN(t),
			t->window_bytes, (long long)set->stall_ms, t->used);
	t->window_ns = now;
	t->window_bytes = 0;
	return STK_OK;
}
