/* SPDX-License-Identifier: Apache-2.0 */
#include "http/s3.h"

#include "base/error.h"
#include "base/system.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The parts of a URI. "s3list://BUCKET?query" is a page of a listing. In "s3://BUCKET/key" only the slash after the bucket separates parts. */
struct s3_uri_parts {
	char bucket[256];
	const char *key, *query;
};

bool stk__s3_bucket(const char *uri, char bucket[256])
{
	const char *begin = strstr(uri, "://");
	begin = begin ? begin + 3 : uri;
	size_t n = strcspn(begin, "/?");
	if (n < 1 || n > 255 || strspn(begin, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:") < n)
		return false;
	memcpy(bucket, begin, n);
	bucket[n] = 0;
	return true;
}

bool stk__s3_is_store(const char *uri)
{
	return strncmp(uri, "s3", 2) == 0 || strncmp(uri, "gs:", 3) == 0 || strncmp(uri, "gslist:", 7) == 0;
}

bool stk__s3_is_listing(const char *uri)
{
	const size_t n = strcspn(uri, ":");
	return n > 4 && memcmp(uri + n - 4, "list", 4) == 0;
}

static enum stk_status parse(const char *uri, struct s3_uri_parts *p, struct stk_error *err)
{
	const bool list = stk__s3_is_listing(uri);
	const int scheme = (int)strcspn(uri, ":") - (list ? 4 : 0);
	if (!stk__s3_bucket(uri, p->bucket))
		return stk__fail(err, STK_INVALID, "%s: it names no bucket (%.*s://BUCKET/KEY)", uri, scheme, uri);
	const char *tail = strstr(uri, "://") + 3 + strlen(p->bucket);
	p->key = list ? "" : *tail == '/' ? tail + 1 : tail;
	p->query = list && *tail == '?' ? tail + 1 : "";
	if (!list && !*p->key)
		return stk__fail(err, STK_INVALID, "%s: it names a bucket and no object (%.*s://BUCKET/KEY)", uri, scheme, uri);
	return STK_OK;
}

/* Returns whether the bucket's name can be part of a host's name. The name must be valid for every resolver, and with TLS must not contain a dot, because a
 * wildcard in a certificate does not match a dot. */
static bool fits_host(const char *bucket, bool tls)
{
	size_t n = strlen(bucket);
	return n >= 3 && n <= 63 && strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-.") == n && bucket[0] != '-' &&
	       bucket[n - 1] != '-' && !(tls && strchr(bucket, '.'));
}

/* Scheme and host of an endpoint, and its path. */
struct endpoint {
	const char *scheme;
	char host[512], path[256];
};

static void copy(char *out, size_t capacity, const char *s, size_t n)
{
	n = n < capacity ? n : capacity - 1;
	memcpy(out, s, n);
	out[n] = 0;
}

static void split_endpoint(const struct stk_aws_settings *s, const char *region, struct endpoint *e)
{
	if (!s->endpoint) {
		e->scheme = "https";
		snprintf(e->host, sizeof e->host, "s3.%s.amazonaws.com%s", region, strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
		e->path[0] = 0;
		return;
	}
	e->scheme = strncmp(s->endpoint, "https", 5) == 0 ? "https" : "http";
	const char *host = strstr(s->endpoint, "://") + 3;
	size_t n = strcspn(host, "/");
	copy(e->host, sizeof e->host, host, n);
	copy(e->path, sizeof e->path, host + n, strlen(host + n));
}

static void add(struct stk_text *t, const char *s)
{
	stk__text_append(t, s, strlen(s));
}

static void add_header(struct stk_http_target *t, const char *name, const char *value)
{
	struct stk_text *h = &t->headers[t->header_count++];
	add(h, name);
	add(h, ": ");
	add(h, value);
}

static void add_signature(struct stk_http_target *t, const struct stk_aws_settings *s, const char *region, const char *host,
	const char *path, const char *query, time_t now)
{
	char date[STK_SIGV4_DATE];
	stk__sigv4_date(now, date);
	struct stk_sigv4_header headers[] = {{"host", host}, {"x-amz-content-sha256", STK_SIGV4_EMPTY}, {"x-amz-date", date},
		{"x-amz-security-token", s->token ? s->token : ""}};
	struct stk_aws_keys keys = {s->key, s->secret, s->token};
	struct stk_sigv4_request q = {.method = "GET",
		.path = path,
		.query = query,
		.headers = headers,
		.header_count = s->token ? 4 : 3,
		.payload = STK_SIGV4_EMPTY,
		.region = region,
		.service = "s3",
		.date = date};
	for (int i = 1; i < q.header_count; i++)
		add_header(t, headers[i].name, headers[i].value);
	struct stk_text *authorization = &t->headers[t->header_count++];
	stk__text_append(authorization, "Authorization: ", 15);
	stk__sigv4_authorization(&q, &keys, t->signer ? &t->signer->key : NULL, authorization);
}

enum stk_status stk__s3_target(
	struct stk_http_target *t, const struct stk_aws_settings *s, const char *region, const char *uri, time_t now, struct stk_error *err)
{
	struct s3_uri_parts p;
	struct endpoint e;
	enum stk_status status = parse(uri, &p, err);
	if (status)
		return status;
	if (s->google && !s->anonymous && !(s->key && s->secret))
		return stk__fail(err, STK_IO,
			"%s: there are no credentials (looked in GCS_KEY and GCS_SECRET, GOOGLE_OAUTH_ACCESS_TOKEN, GOOGLE_APPLICATION_CREDENTIALS, gcloud's "
			"file of application default credentials, and the metadata server); for a public bucket give --anonymous, in Python "
			"stoker.Storage(anonymous=True)",
			uri);
	if (!s->anonymous && !(s->key && s->secret))
		return stk__fail(err, STK_IO,
			"%s: there are no credentials (looked in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and for profile \"%.64s\" in "
			"~/.aws/credentials and ~/.aws/config); for a public bucket set AWS_NO_SIGN_REQUEST=yes",
			uri, s->profile);
	if (t->signer && t->signer->settings != s->number)
		*t->signer = (struct stk_http_signer){.settings = s->number};
	region = region ? region : s->region;
	split_endpoint(s, region, &e);
	bool in_host = s->style != STK_S3_PATH && (s->style == STK_S3_VIRTUAL || !s->endpoint) &&
		       fits_host(p.bucket, strcmp(e.scheme, "https") == 0);
	copy(t->bucket, sizeof t->bucket, p.bucket, strlen(p.bucket));
	add(&t->host, in_host ? p.bucket : "");
	add(&t->host, in_host ? "." : "");
	add(&t->host, e.host);
	add(&t->path, e.path);
	add(&t->path, "/");
	add(&t->path, in_host ? "" : p.bucket);
	add(&t->path, in_host || !*p.key ? "" : "/");
	stk__uri_encode(&t->path, p.key, "/");
	const char *const parts[] = {e.scheme, "://", t->host.s, t->path.s, *p.query ? "?" : "", p.query};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		add(&t->url, parts[i] ? parts[i] : "");
	bool failed = t->url.failed || t->path.failed || t->host.failed;
	if (!failed)
		add_header(t, "Host", t->host.s);
	if (!failed && !s->anonymous && s->bearer) {
		add(&t->headers[t->header_count], "Authorization: Bearer ");
		add(&t->headers[t->header_count++], s->secret);
	} else if (!failed && !s->anonymous)
		add_signature(t, s, region, t->host.s, t->path.s, p.query, now);
	for (int i = 0; i < t->header_count; i++)
		failed |= t->headers[i].failed;
	return failed ? stk__fail(err, STK_NO_MEMORY, "%s: out of memory for its request", uri) : STK_OK;
}

static void empty(struct stk_text *t)
{
	t->length = 0;
	t->failed = false;
}

void stk__http_target_reset(struct stk_http_target *t)
{
	empty(&t->url);
	empty(&t->host);
	empty(&t->path);
	for (size_t i = 0; i < sizeof t->headers / sizeof *t->headers; i++) {
		if (t->headers[i].s) /* erases a header, because it may contain the session's token */
			stk__erase(t->headers[i].s, t->headers[i].length);
		empty(&t->headers[i]);
	}
	t->header_count = 0;
	t->bucket[0] = 0;
}

void stk__http_target_free(struct stk_http_target *t)
{
	stk__text_free(&t->url);
	stk__text_free(&t->host);
	stk__text_free(&t->path);
	for (size_t i = 0; i < sizeof t->headers / sizeof *t->headers; i++)
		stk__text_erase_free(&t->headers[i]);
}

void stk__s3_list_uri(struct stk_text *out, const char *root, const char *bucket, const char *prefix, const char *delimiter,
	const char *token, const char *after)
{
	stk__text_add(out, "%.*slist://%s?", (int)strcspn(root, ":"), root, bucket);
	if (token) {
		stk__text_add(out, "continuation-token=");
		stk__uri_encode(out, token, "");
		stk__text_add(out, "&");
	}
	if (*delimiter) {
		stk__text_add(out, "delimiter=");
		stk__uri_encode(out, delimiter, "");
		stk__text_add(out, "&");
	}
	stk__text_add(out, "encoding-type=url&list-type=2&prefix=");
	stk__uri_encode(out, prefix, "");
	if (after) {
		stk__text_add(out, "&start-after=");
		stk__uri_encode(out, after, "");
	}
}
