/* SPDX-License-Identifier: Apache-2.0
 * One request to a server: what curl is told, and what its callbacks do with the response. Header lines are read by hand, since they are needed before the
 * body's first byte: how much room, and which part of the object comes. */
#include "io/http_impl.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIRST_SIZE = 64 << 10, STALL_BYTES = 4096 };

#define SHOWN(t) stk__uri_shown((t)->r->uri), (t)->r->uri

/* ---- room ---- */

static enum stk_status check_size(const struct stk_transfer *t, uint64_t size)
{
	const struct stk_request *r = t->r;
	return !r->follow && r->most && size > r->most ? stk__fail_memory_limit(r->error, size, r->most) : STK_OK;
}

/* Makes room for `size` bytes and keeps those that have come. */
static enum stk_status reserve(struct stk_transfer *t, size_t size)
{
	struct stk_request *r = t->r;
	struct stk_io *io = t->loop->source->io;
	const bool own = r->room && !r->follow;
	struct stk_buffer *b = own ? NULL : stk__buffer_take(io, size);
	uint8_t *data = own ? r->room(r->room_user, size) : b ? stk__buffer_data(b) : NULL;
	if (!data)
		return stk__fail(r->error, STK_NO_MEMORY, "%.*s: no memory for its %zu bytes", SHOWN(t), size);
	if (t->used)
		memmove(data, t->data, t->used);
	stk__buffer_release(io, t->buffer);
	t->buffer = b;
	t->data = data;
	t->capacity = b ? stk__buffer_capacity(b) : size;
	return STK_OK;
}

/* ---- the header of a response ---- */

static void take_text(char *out, size_t capacity, const char *value, size_t n)
{
	snprintf(out, capacity, "%.*s", (int)n, value);
}

/* "bytes 0-99/1000". A star stands for a size that is not known, or for a range where there is none. */
static void take_range(struct stk_http_response *p, const char *value, size_t n)
{
	char text[96];
	long long first, last;
	take_text(text, sizeof text, value, n);
	const char *size = strchr(text, '/');
	if (sscanf(text, "bytes %lld-%lld", &first, &last) == 2 && first >= 0 && last >= first) {
		p->first = first;
		p->last = last;
	}
	if (size && size[1] >= '0' && size[1] <= '9')
		p->size = strtoll(size + 1, NULL, 10);
}

/* An HTTP date in the form that servers must send: "Sun, 06 Nov 1994 08:49:37 GMT". */
static int64_t parse_date(const char *value, size_t n)
{
	char text[40];
	struct tm tm = {0};
	take_text(text, sizeof text, value, n);
	const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
	return end ? (int64_t)timegm(&tm) : 0;
}

/* -1 for what is no length. */
static int64_t parse_length(const char *value, size_t n)
{
	int64_t length = n > 0 && n < 19 ? 0 : -1;
	for (size_t i = 0; i < n && length >= 0; i++)
		length = value[i] >= '0' && value[i] <= '9' ? length * 10 + (value[i] - '0') : -1;
	return length;
}

static void take_line(struct stk_http_response *p, const char *line, size_t n)
{
	const char *colon = memchr(line, ':', n);
	if (!colon)
		return;
	size_t name = (size_t)(colon - line);
	const char *value = colon + 1;
	n -= name + 1;
	while (n && (*value == ' ' || *value == '\t')) {
		value++;
		n--;
	}
	while (n && (value[n - 1] == '\r' || value[n - 1] == '\n' || value[n - 1] == ' '))
		n--;
#define IS(text) (name == sizeof text - 1 && strncasecmp(line, text, name) == 0)
	if (IS("content-length"))
		p->length = parse_length(value, n);
	else if (IS("content-range"))
		take_range(p, value, n);
	else if (IS("etag"))
		take_text(p->etag, sizeof p->etag, value, n);
	else if (IS("x-amz-bucket-region"))
		take_text(p->region, sizeof p->region, value, n);
	else if (IS("date"))
		p->date = parse_date(value, n);
#undef IS
}

static enum stk_status say_changed(const struct stk_transfer *t)
{
	return stk__fail(t->r->error, STK_IO, "%.*s: it changed while it was read: its ETag was %s after %zu bytes, and is now %s",
		SHOWN(t), t->etag, t->used, t->response.etag[0] ? t->response.etag : "another");
}

/* The rest of a body that was cut. A server that knows no ranges sends all of it again. */
static enum stk_status continue_body(struct stk_transfer *t)
{
	const struct stk_http_response *p = &t->response;
	if (t->etag[0] && strcmp(t->etag, p->etag) != 0)
		return say_changed(t);
	int64_t at = t->first + (int64_t)t->used;
	if (p->status == 200)
		t->skip = at;
	else if (p->first != at)
		return stk__fail(t->r->error, STK_IO, "%.*s: asked for the bytes from %lld on, the server sends those from %lld on",
			SHOWN(t), (long long)at, (long long)p->first);
	return STK_OK;
}

/* A body of 200 or 206 comes next: where it goes. */
static enum stk_status begin_body(struct stk_transfer *t)
{
	const struct stk_http_response *p = &t->response;
	const struct stk_request *r = t->r;
	if (t->resumes)
		return continue_body(t);
	memcpy(t->etag, p->etag, sizeof t->etag);
	bool whole = p->status == 200;
	if (r->object) {
		r->object->size = whole ? p->length : p->size;
		memcpy(r->object->version, p->etag, sizeof r->object->version);
	}
	if (!whole && p->first != t->first)
		return stk__fail(r->error, STK_IO, "%.*s: asked for the bytes from %lld on, the server sends those from %lld on", SHOWN(t),
			(long long)t->first, (long long)p->first);
	t->skip = whole ? t->first : 0;
	int64_t there = p->length < 0 ? -1 : p->length > t->skip ? p->length - t->skip : 0;
	if (t->length >= 0 && there >= 0 && there < t->length)
		return stk__http_say_short(t);
	t->expected = t->length >= 0 ? t->length : there;
	enum stk_status status = check_size(t, t->expected > 0 ? (uint64_t)t->expected : 0);
	return status ? status : reserve(t, t->expected >= 0 ? (size_t)t->expected : FIRST_SIZE);
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
	struct stk_transfer *t = user;
	size_t n = size * count;
	if (stk__hedge_lost(t))
		return 0;
	if (!t->begun) {
		stk__hedge_learn(t->loop->source, stk__clock_ns() - t->window_ns);
		if (t->twin)
			atomic_store(&t->loop->look, true); /* the other one is given up soon */
	}
	t->begun = true;
	if (n > 9 && memcmp(line, "HTTP/", 5) == 0) { /* of a redirect, or the one that counts */
		const char *blank = memchr(line, ' ', n - 1);
		t->response =
			(struct stk_http_response){.status = blank ? atoi(blank) : 0, .length = -1, .first = -1, .last = -1, .size = -1};
		return n;
	}
	bool end = n && (line[0] == '\r' || line[0] == '\n'); /* as curl sees it */
	if (!end)
		take_line(&t->response, line, n);
	else if (t->response.status == 200 || t->response.status == 206)
		t->failed = begin_body(t);
	return t->failed ? 0 : n;
}

/* ---- the body ---- */

/* Makes room in a body whose length is not known. */
static enum stk_status grow(struct stk_transfer *t, size_t more)
{
	enum stk_status status = check_size(t, t->used + more);
	if (status || t->used + more <= t->capacity)
		return status;
	return reserve(t, t->used + more + t->used / 2);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
	struct stk_transfer *t = user;
	size_t n = size * count, take = n;
	t->window_bytes += n;
	if (t->response.status != 200 && t->response.status != 206) {
		size_t room = sizeof t->text - 1 - t->text_size;
		take = n < room ? n : room;
		memcpy(t->text + t->text_size, bytes, take);
		t->text_size += take;
		return n;
	}
	size_t skip = (size_t)(t->skip < (int64_t)n ? t->skip : (int64_t)n);
	t->skip -= (int64_t)skip;
	take -= skip;
	if (t->expected >= 0 && take > (size_t)t->expected - t->used)
		take = (size_t)t->expected - t->used;
	else if (t->expected < 0 && (t->failed = grow(t, take)))
		return 0;
	memcpy(t->data + t->used, bytes + skip, take);
	t->used += take;
	stk__rest_body_came(t);
	t->complete = take < n - skip; /* more than was asked for: the rest is not waited for */
	return t->complete ? 0 : n;
}

/* ---- life ---- */

static bool set_up(struct stk_transfer *t)
{
	const struct stk_http_source *s = t->loop->source;
	const struct stk_curl *c = &s->curl;
	CURL *e = t->easy;
	CURLcode code = c->curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	code |= c->curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	code |= c->curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	code |= c->curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	code |= c->curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
	code |= c->curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	code |= c->curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
	code |= c->curl_easy_setopt(e, CURLOPT_PRIVATE, t);
	code |= c->curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->why);
	code |= c->curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)STK_HTTP_RECEIVE);
	code |= c->curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)s->settings.connect_ms);
	code |= c->curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	code |= c->curl_easy_setopt(e, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
	code |= c->curl_easy_setopt(e, CURLOPT_MAXREDIRS, 5L);
	code |= c->curl_easy_setopt(e, CURLOPT_USERAGENT, "stoker/" STK_VERSION);
#if LIBCURL_VERSION_NUM >= 0x075500
	c->curl_easy_setopt(
		e, CURLOPT_PROTOCOLS_STR, "http,https"); /* an older library has its own list, which is as good but for FTP in redirects */
	c->curl_easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#endif
	return code == CURLE_OK;
}

struct stk_transfer *stk__transfer_create(struct stk_http_loop *l)
{
	struct stk_transfer *t = stk__calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->loop = l;
	t->easy = l->source->curl.curl_easy_init();
	if (t->easy && set_up(t))
		return t;
	stk__transfer_destroy(t);
	return NULL;
}

void stk__transfer_destroy(struct stk_transfer *t)
{
	if (t->easy)
		t->loop->source->curl.curl_easy_cleanup(t->easy);
	stk__http_target_free(&t->target);
	stk__free(t);
}

/* A URL as it was given, but for bytes that no URL may hold. */
static enum stk_status plain_target(struct stk_transfer *t)
{
	const char *allowed = "!#$%&'()*+,/:;=?@[]", *uri = t->r->uri;
	if (stk__uri_shown(uri) < 9)
		return stk__fail(
			t->r->error, STK_INVALID, "%.*s...: a URL with a password in it would show in messages and is not read", SHOWN(t));
	stk__uri_encode(&t->target.url, uri, allowed);
	return t->target.url.failed ? stk__fail(t->r->error, STK_NO_MEMORY, "%.*s: out of memory for its URL", SHOWN(t)) : STK_OK;
}

static enum stk_status find_target(struct stk_transfer *t)
{
	struct stk_http_source *s = t->loop->source;
	char bucket[256] = "", region[64];
	stk__http_target_reset(&t->target);
	if (!t->account)
		t->account = stk__http_account(s);
	if (strncmp(t->r->uri, "http", 4) == 0)
		return plain_target(t);
	enum stk_status status = t->account->error.code;
	if (status) {
		t->r->hopeless = true;
		return stk__fail(t->r->error, status, "%s: %s", t->r->uri, t->account->error.message);
	}
	bool moved = stk__s3_bucket(t->r->uri, bucket) && stk__http_region(s, bucket, region);
	status = stk__s3_target(&t->target, &t->account->aws, moved ? region : NULL, t->r->uri, stk__http_now(s), t->r->error);
	t->r->hopeless |= status != STK_OK;
	return status;
}

static bool add_header(struct stk_transfer *t, const char *line)
{
	struct curl_slist *more = t->loop->source->curl.curl_slist_append(t->headers, line);
	t->headers = more ? more : t->headers;
	return more;
}

/* Headers of the target, the range, and for the rest of an object that it be the same. */
static bool add_headers(struct stk_transfer *t)
{
	int64_t first = t->first + (int64_t)t->used;
	char line[192];
	bool ok = true;
	for (int i = 0; i < t->target.header_count; i++)
		ok &= add_header(t, t->target.headers[i].s);
	if (t->length > 0) {
		snprintf(line, sizeof line, "Range: bytes=%lld-%lld", (long long)first, (long long)(t->first + t->length - 1));
		ok &= add_header(t, line);
	} else if (first > 0) {
		snprintf(line, sizeof line, "Range: bytes=%lld-", (long long)first);
		ok &= add_header(t, line);
	}
	if (t->resumes && t->etag[0] == '"') { /* a weak ETag matches nothing; begin_body compares it */
		snprintf(line, sizeof line, "If-Match: %s", t->etag);
		ok &= add_header(t, line);
	}
	return ok;
}

enum stk_status stk__transfer_begin(struct stk_transfer *t)
{
	const struct stk_curl *c = &t->loop->source->curl;
	t->response = (struct stk_http_response){.length = -1, .first = -1, .last = -1, .size = -1};
	t->text_size = 0;
	t->why[0] = 0;
	t->failed = STK_OK;
	t->complete = t->begun = t->eager = false;
	t->fd = -1;
	t->awaited = 1;
	t->skip = 0;
	t->window_bytes = 0;
	t->window_ns = stk__clock_ns();
	c->curl_slist_free_all(t->headers);
	t->headers = NULL;
	enum stk_status status = find_target(t);
	if (status)
		return status;
	const struct stk_aws_settings *aws = &t->account->aws;
	CURLcode code = add_headers(t) ? CURLE_OK : CURLE_OUT_OF_MEMORY;
	code |= c->curl_easy_setopt(t->easy, CURLOPT_URL, t->target.url.s);
	code |= c->curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
	code |= c->curl_easy_setopt(
		t->easy, CURLOPT_FOLLOWLOCATION, strncmp(t->r->uri, "s3", 2) == 0 ? 0L : 1L); /* a signature is for one place */
	code |= stk__curl_trust(c, t->easy, aws->ca_bundle);
	code |= c->curl_easy_setopt(t->easy, CURLOPT_PROXY, aws->proxy); /* NULL: the environment's */
	if (code || c->curl_multi_add_handle(t->loop->multi, t->easy))
		return stk__fail(t->r->error, STK_NO_MEMORY, "%.*s: out of memory for its request", SHOWN(t));
	return STK_OK;
}

void stk__transfer_clear(struct stk_transfer *t)
{
	t->loop->source->curl.curl_slist_free_all(t->headers);
	t->headers = NULL;
	stk__http_account_unref(t->account);
	t->account = NULL;
	stk__buffer_release(t->loop->source->io, t->buffer);
	t->buffer = NULL;
	t->data = NULL;
	t->capacity = t->used = 0;
	t->resumes = 0;
	t->etag[0] = 0;
	t->r = NULL;
}

enum stk_status stk__transfer_check_pace(struct stk_transfer *t, int64_t now)
{
	const struct stk_http_settings *set = &t->loop->source->settings;
	int64_t limit = (t->begun ? set->stall_ms : set->first_byte_ms) * 1000000;
	if (now - t->window_ns < limit)
		return STK_OK;
	if (!t->begun)
		return stk__fail(t->r->error, STK_TIMEOUT, "%.*s: no answer within %lld ms", SHOWN(t), (long long)set->first_byte_ms);
	if (t->window_bytes < STALL_BYTES)
		return stk__fail(t->r->error, STK_TIMEOUT, "%.*s: %zu bytes in %lld ms, after %zu bytes in all", SHOWN(t), t->window_bytes,
			(long long)set->stall_ms, t->used);
	t->window_ns = now;
	t->window_bytes = 0;
	return STK_OK;
}
