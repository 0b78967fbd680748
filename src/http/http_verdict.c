/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides the result of a response that has ended: success, a failure of the object, or a failure of the source. */
#include "http/http_impl.h"

#include "base/error.h"
#include "base/xxhash.h"

#include <stdio.h>
#include <string.h>

#define SHOWN(t) stk__uri_shown((t)->r->uri), (t)->r->uri

/* LONGEST_PAUSE_S: longest time that a request waits because a server asks for it (Retry-After). */
enum { LONGEST_SKEW_S = 300, LONGEST_PAUSE_S = 20 };

/* Copies the text of an element of the store's XML to `out`: up to the next tag; "" if the element is missing. Replaces control characters by blanks. */
static void find_element(const struct stk_transfer *t, const char *name, char *out, size_t capacity)
{
	char tag[32];
	int n = snprintf(tag, sizeof tag, "<%s>", name);
	const char *begin = memmem(t->text, t->text_size, tag, (size_t)n);
	const char *end = begin ? memchr(begin + n, '<', t->text_size - (size_t)(begin + n - t->text)) : NULL;
	snprintf(out, capacity, "%.*s", end ? (int)(end - begin - n) : 0, begin ? begin + n : "");
	for (char *c = out; *c; c++)
		*c = (unsigned char)*c < ' ' ? ' ' : *c;
}

/* Allows only two retries. Failures of this kind rarely go away, but for example a permission may have been granted a moment ago. */
static void limit_retries(struct stk_transfer *t)
{
	t->r->no_retry |= t->r->retries >= 2;
}

/* Stores the bucket's region if an error answer names it, in a header or, as MinIO does, in the error's text. Returns true if the request was signed for
 * another region and may be tried again. */
static bool learn_region(struct stk_transfer *t, const char *code)
{
	struct stk_http_source *s = t->loop->source;
	char assumed[64] = "", region[64];
	snprintf(region, sizeof region, "%s", t->response.message.region);
	if (!region[0] && strcmp(code, "AuthorizationHeaderMalformed") == 0)
		find_element(t, "Region", region, sizeof region);
	if (!region[0] || !t->target.bucket[0])
		return false;
	if (!stk__http_region(s, t->target.bucket, assumed))
		snprintf(assumed, sizeof assumed, "%s", t->account->aws.region);
	stk__http_set_region(s, t->target.bucket, region);
	return strcmp(assumed, region) != 0 && t->r->retries < 3; /* three tries at most, in case a store names a new region each time */
}

/* Corrects the region, the clock or the keys if an error answer shows that they were wrong. Returns whether a retry may then succeed. */
static bool correct_settings(struct stk_transfer *t, const char *code)
{
	struct stk_http_source *s = t->loop->source;
	const struct stk_response *p = &t->response.message;
	if (learn_region(t, code))
		return true;
	if (strcmp(code, "ExpiredToken") == 0 && t->account && stk__http_keys_refused(s, t->account))
		return true;
	int64_t skew = p->date - stk__http_now(s);
	if (strcmp(code, "RequestTimeTooSkewed") != 0 || !p->date || (skew < LONGEST_SKEW_S && skew > -LONGEST_SKEW_S))
		return false;
	stk__http_set_now(s, p->date);
	return true;
}

/* Returns whether the server answers that a plain request must use TLS. */
static bool wants_tls(const struct stk_transfer *t)
{
	return t->response.message.status == 400 && strncmp(t->target.url.s, "http://", 7) == 0 &&
	       memmem(t->text, t->text_size, "HTTPS", 5);
}

/* Returns advice on an error code of a store, as the end of a message; NULL for other codes. */
static const char *store_error_hint(const char *code)
{
	static const struct {
		const char *code, *hint;
	} hints[] = {
		{"NoSuchBucket", ": check the bucket's name and the endpoint (AWS_ENDPOINT_URL)"},
		{"ExpiredToken", ": renew the session's credentials (AWS_SESSION_TOKEN)"},
		{"InvalidToken", ": renew the session's credentials (AWS_SESSION_TOKEN)"},
		{"SignatureDoesNotMatch", ": check the access key and its secret"},
		{"InvalidAccessKeyId", ": check the access key and its secret"},
		{"RequestTimeTooSkewed", ": set this machine's clock, or the store's (chrony, ntpd)"},
		{"AuthorizationHeaderMalformed", ": check the region (AWS_REGION, stoker.Storage(region=))"},
		{"PermanentRedirect", ": check the region (AWS_REGION, stoker.Storage(region=)) and the endpoint (AWS_ENDPOINT_URL)"},
		{"IllegalLocationConstraintException",
			": check the region (AWS_REGION, stoker.Storage(region=)) and the endpoint (AWS_ENDPOINT_URL)"},
		{"InvalidObjectState", ": it is archived, and has to be restored before it can be read"},
		{"SlowDown", ": the store limits its rate: ask for less at a time (stoker.Storage(requests=)), or later"},
	};
	for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
		if (strcmp(code, hints[i].code) == 0)
			return hints[i].hint;
	return NULL;
}

static bool moved_for_good(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 308;
}

static const char *hint(const char *uri, int status, const char *code)
{
	const bool denied = status == 401 || status == 403, listing = stk__s3_is_listing(uri);
	if (status == 407)
		return ": that is the proxy's answer, which wants a name and a password: http://NAME:PASSWORD@HOST:PORT in https_proxy or "
		       "stoker.Storage(proxy=)";
	if (status == 429 && !*code)
		code = "SlowDown";
	if (strncmp(uri, "http", 4) == 0 && strcmp(code, "SlowDown") != 0)
		return denied ? ": http:// is read without a log-in; for a bucket use s3://BUCKET/KEY, whose requests are signed" : "";
	if (store_error_hint(code))
		return store_error_hint(code);
	if (moved_for_good(status) || status == 307)
		return ", which says that the bucket is elsewhere: check the region (AWS_REGION, stoker.Storage(region=)) and the endpoint "
		       "(AWS_ENDPOINT_URL, stoker.Storage(endpoint=))";
	if (status == 404 && listing)
		return ": nothing is listed there: check the endpoint (AWS_ENDPOINT_URL), which must not contain the bucket";
	if (denied && strncmp(uri, "gs", 2) == 0)
		return listing ? ": check the credentials, and whether they may list the bucket (storage.objects.list)"
			       : ": check the credentials and what they may read (storage.objects.get); a key that does not exist looks the same where "
				 "listing is not allowed";
	if (denied && listing)
		return ": check the credentials, and whether they may list the bucket (s3:ListBucket); files, or an index that was made "
		       "elsewhere, need no listing";
	return denied ? ": check the credentials and what they may read (s3:GetObject); a key that does not exist looks the same where "
			"listing is not allowed"
		      : "";
}

/* Returns the bit in stk_http_source.read_well for a URI's bucket or host: "s3://bucket" in "s3://bucket/key", "http://host" in "http://host/path". */
static uint64_t root_bit(const char *uri)
{
	const char *name = strstr(uri, "://");
	const size_t n = name ? (size_t)(name + 3 - uri) + strcspn(name + 3, "/") : strlen(uri);
	return UINT64_C(1) << stk__xxh64(uri, n, 0) % 64;
}

/* Returns whether access to only this object is denied: the same keys have read other objects of the bucket or host, and two retries had the same result. */
static bool denied_object(const struct stk_transfer *t, const char *code)
{
	const bool denied = t->response.message.status == 403 && (!*code || strcmp(code, "AccessDenied") == 0);
	return denied && !stk__s3_is_listing(t->r->uri) && t->r->retries >= 2 &&
	       (atomic_load(&t->loop->source->read_well) & root_bit(t->r->uri));
}

/* Returns the time for which the server asks to wait before the next try, at most LONGEST_PAUSE_S; 0 if it does not ask. */
static int64_t asked_pause_ns(const struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	if (p->status != 429 && p->status != 503)
		return 0;
	int64_t seconds = p->retry_at ? p->retry_at - stk__http_now(t->loop->source) : p->retry_s;
	seconds = seconds < 0 ? 0 : seconds < LONGEST_PAUSE_S ? seconds : LONGEST_PAUSE_S;
	return seconds * 1000000000;
}

static enum stk_status status_failed(struct stk_transfer *t)
{
	const int status = t->response.message.status;
	char code[64], message[512];
	find_element(t, "Code", code, sizeof code);
	find_element(t, "Message", message, sizeof message);
	bool bucket = strcmp(code, "NoSuchBucket") == 0;
	const bool missing = (status == 404 && !bucket) || status == 410;
	enum stk_status result = missing || denied_object(t, code) ? STK_NOT_FOUND : STK_IO;
	bool better = correct_settings(t, code);
	t->r->retry.pause_ns = asked_pause_ns(t);
	t->r->no_retry |= moved_for_good(status) && !better; /* a retry would get the same answer */
	if (result == STK_IO && status < 500 && status != 408 && status != 429 && !better)
		limit_retries(t);
	struct stk_error *err = stk__request_error(t->r);
	result = stk__fail(err, result, "%.*s: the server answers %d%s%s%s%s%s", SHOWN(t), status, *code ? " " : "", code,
		*message ? ", " : "", message, wants_tls(t) ? ": it needs TLS; use https:// instead" : hint(t->r->uri, status, code));
	if (err)
		err->missing = missing;
	return result;
}

bool stk__http_object_fails(const struct stk_transfer *t)
{
	const int status = t->response.message.status;
	const bool sent = t->request.length && t->sent == t->request.length,
		   refused = status >= 300 && status < 500 && status != 408 && status != 429;
	return atomic_load(&t->loop->source->heard) && sent && !refused;
}

enum stk_status stk__http_fail_short(const struct stk_transfer *t)
{
	t->r->replaced = t->r->expected.pin == STK_PIN_READ; /* the bytes were there in the earlier answer */
	return stk__fail(stk__request_error(t->r), STK_CORRUPT,
		"%.*s: it ends before byte %lld, where %lld bytes from byte %lld were asked for", SHOWN(t),
		(long long)(t->first + t->length), (long long)t->length, (long long)t->first);
}

/* Returns whether to request the rest of a cut body at once, and counts it: bytes must have arrived since the last try, and the rest may be requested at most
 * STK_HTTP_RESUMES times. */
static bool may_resume(struct stk_transfer *t)
{
	bool ok = t->response.message.status == 200 || t->response.message.status == 206;
	if (!ok || !t->data || t->expected < 0 || !t->window_bytes || !t->used || t->resumes == STK_HTTP_RESUMES)
		return false;
	t->resumes++;
	return true;
}

/* Returns whether no server has answered yet. Then the server's name is probably wrong or the network is down, so this also lowers the number of retries.
 * waited: the request timed out. */
static bool is_unanswered(struct stk_transfer *t, bool waited)
{
	const struct stk_http_source *s = t->loop->source;
	if (t->response_begun || atomic_load(&s->heard))
		return false;
	t->r->no_retry = t->r->retries >= (waited ? s->unheard_waits : s->unheard_retries);
	return true;
}

/* Returns advice for the case that no server has answered, as the end of a message. */
static const char *no_answer_hint(const struct stk_transfer *t)
{
	return strncmp(t->r->uri, "http", 4) == 0
		       ? "; check the address, the network and the proxy"
		       : "; check the endpoint (AWS_ENDPOINT_URL, stoker.Storage(endpoint=)), the region, the network and the proxy";
}

enum stk_status stk__http_fail_silent(struct stk_transfer *t)
{
	const double seconds = (double)t->loop->source->settings.first_byte_ms / 1000;
	return stk__fail(stk__request_error(t->r), STK_TIMEOUT, "%.*s: no answer within %g s%s", SHOWN(t), seconds,
		is_unanswered(t, true) ? no_answer_hint(t) : "");
}

/* Returns whether the TLS library's error `why` shows that the server does not speak TLS. */
static bool server_lacks_tls(CURLcode code, const char *why)
{
	static const char *const messages[] = {
		"wrong version number", "packet length too long", "unexpected TLS packet", "unknown protocol"};
	bool found = false;
	for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
		found |= code == CURLE_SSL_CONNECT_ERROR && strstr(why, messages[i]);
	return found;
}

/* Returns advice about a failed connection, as the end of a message. Limits the retries if a setting or the server is probably wrong. */
static const char *advise(struct stk_transfer *t, CURLcode code, const char *why)
{
	const bool plain = strncmp(t->target.url.s, "http://", 7) == 0;
	if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
		limit_retries(t);
		return ": name the file of its authority's certificates (AWS_CA_BUNDLE, stoker.Storage(ca_bundle=))";
	}
	if (code == CURLE_USE_SSL_FAILED) {
		limit_retries(t);
		return "; use https:// instead";
	}
	const bool nobody = is_unanswered(t, code == CURLE_OPERATION_TIMEDOUT);
	if (server_lacks_tls(code, why))
		return ": the server does not use TLS; use http:// instead";
	if (!nobody)
		return t->used ? " (after a part of it)" : "";
	if (plain && (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR))
		return "; if it needs TLS, use https:// instead";
	if (strstr(why, "SSL connection timeout"))
		return "; if it does not use TLS, use http:// instead";
	return no_answer_hint(t);
}

static enum stk_status transfer_failed(struct stk_transfer *t, bool *resume)
{
	const CURLcode code = t->code;
	/* a reason with an @ is not shown: libcurl quotes a proxy's URL that it does not understand, with its password */
	const bool has_reason = t->reason[0] && !strchr(t->reason, '@') && !strcasestr(t->reason, "%40");
	const char *reason = has_reason ? t->reason : t->loop->source->curl.curl_easy_strerror(code);
	if (code == CURLE_OUT_OF_MEMORY)
		return stk__fail(stk__request_error(t->r), STK_NO_MEMORY, "%.*s: out of memory", SHOWN(t));
	if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
		return stk__fail(
			stk__request_error(t->r), STK_INVALID, "%.*s: %s", SHOWN(t), t->loop->source->curl.curl_easy_strerror(code));
	/* In an invalid answer, for example one with a chunk that is longer than its size, earlier bytes may be wrong too, so none is used. */
	*resume = code != CURLE_WEIRD_SERVER_REPLY && may_resume(t);
	if (*resume)
		return STK_OK;
	return stk__fail(stk__request_error(t->r), code == CURLE_OPERATION_TIMEDOUT ? STK_TIMEOUT : STK_IO, "%.*s: %s%s", SHOWN(t), reason,
		advise(t, code, reason));
}

/* Sets the object's size and the hash of its version in the request, for the cache. */
static void set_object(struct stk_transfer *t)
{
	t->r->got.size = t->object_size > 0 ? t->object_size : 0;
	t->r->got.tag = stk__etag_hash(t->etag);
}

/* Handles a body that has ended. If bytes of the object are missing, has the rest requested (*resume) or fails. */
static enum stk_status body_ended(struct stk_transfer *t, bool *resume)
{
	bool incomplete = t->expected >= 0 && t->used < (size_t)t->expected;
	if (incomplete && t->response.message.status == 200 &&
		t->response.message.length < 0) /* without a length the object ends where the body ends */
		return stk__http_fail_short(t);
	if (incomplete) {
		*resume = may_resume(t);
		return *resume ? STK_OK
			       : stk__fail(stk__request_error(t->r), STK_IO, "%.*s: the server sent %zu bytes of %lld", SHOWN(t), t->used,
					 (long long)t->expected);
	}
	if (!t->r->exact_size)
		memset(t->data + t->used, 0, STK_HTTP_SLACK);
	set_object(t);
	if (!stk__s3_is_listing(t->r->uri))
		atomic_fetch_or_explicit(&t->loop->source->read_well, root_bit(t->r->uri), memory_order_relaxed);
	return STK_OK;
}

/* Provides memory for the result of a request that has no bytes, such as an empty object, which is no error. */
static enum stk_status empty(struct stk_transfer *t)
{
	struct stk_request *r = t->r;
	t->data = stk__request_memory(t->loop->source->io, r, 0, &t->buffer);
	if (!t->data)
		return stk__fail(stk__request_error(t->r), STK_NO_MEMORY, "%.*s: out of memory", SHOWN(t));
	memset(t->data, 0, STK_HTTP_SLACK);
	return STK_OK;
}

/* Handles status 416: the range begins after the end of the object. A range without an end is then empty, as with a file. A range with an end is an error,
 * and so is an answer that contradicts earlier ones. */
static enum stk_status range_after_end(struct stk_transfer *t)
{
	const int64_t next = t->first + (int64_t)t->used, size = t->response.message.size;
	if (t->resumes)
		return stk__fail(stk__request_error(t->r), STK_IO,
			"%.*s: the server said that it has %lld bytes, and has no more than %lld", SHOWN(t),
			(long long)(t->first + t->expected), (long long)next);
	if (t->length <= 0 && !next) {
		limit_retries(t);
		return stk__fail(stk__request_error(t->r), STK_IO,
			"%.*s: the server answers 416 (no such range), where no range was asked for", SHOWN(t));
	}
	if (size > next && (t->length < 0 || size >= next + t->length)) {
		limit_retries(t);
		return stk__fail(stk__request_error(t->r), STK_IO,
			"%.*s: the server answers 416 (no such range) for the bytes from %lld on, and that it has %lld bytes", SHOWN(t),
			(long long)next, (long long)size);
	}
	if (t->length > 0)
		return stk__http_fail_short(t);
	return empty(t);
}

/* ---- redirects ---- */

/* Returns whether to follow a redirect: never for a store, since its requests are signed for one host. */
static bool redirects(const struct stk_transfer *t)
{
	const int status = t->response.message.status;
	return (moved_for_good(status) || status == 307) && strncmp(t->r->uri, "http", 4) == 0;
}

static enum stk_status fail_location(struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	t->r->no_retry = true; /* a retry would get the same answer */
	return stk__fail(stk__request_error(t->r), STK_IO, "%.*s: the server answers %d, a redirect, %s: give the URL of the object itself",
		SHOWN(t), p->status, p->long_location ? "to a URL that is too long" : "without a Location that says where");
}

/* Sets t->redirect_url to the target of the response's Location, which may be relative. Returns false if Stoker does not follow such a URL, or if memory is
 * short. *weaker: set to whether the redirect is from https:// to http://. */
static bool find_location(struct stk_transfer *t, bool *weaker)
{
	const struct stk_curl *c = &t->loop->source->curl;
	CURLU *url = c->curl_url();
	char *location = NULL;
	bool ok = url && !c->curl_url_set(url, CURLUPART_URL, t->target.url.s, CURLU_PATH_AS_IS) &&
		  !c->curl_url_set(url, CURLUPART_URL, t->response.message.location, CURLU_PATH_AS_IS | CURLU_URLENCODE) &&
		  !c->curl_url_get(url, CURLUPART_URL, &location, 0);
	ok = ok && (strncmp(location, "http://", 7) == 0 || strncmp(location, "https://", 8) == 0) && stk__uri_shown(location) >= 9;
	*weaker = ok && strncmp(t->target.url.s, "https:", 6) == 0 && strncmp(location, "http:", 5) == 0;
	t->redirect_url.length = 0;
	if (ok)
		stk__text_append(&t->redirect_url, location, strlen(location));
	c->curl_free(location);
	c->curl_url_cleanup(url);
	return ok && !t->redirect_url.failed;
}

static enum stk_status follow(struct stk_transfer *t, bool *repeat)
{
	if (t->moves++ == STK_HTTP_MOVES)
		return stk__fail(
			stk__request_error(t->r), STK_INVALID, "%.*s: it was redirected more than %d times", SHOWN(t), STK_HTTP_MOVES);
	bool weaker = false;
	if (!find_location(t, &weaker))
		return stk__fail(stk__request_error(t->r), STK_INVALID,
			"%.*s: the server redirects to something other than an http:// or https:// URL", SHOWN(t));
	if (weaker)
		return stk__fail(stk__request_error(t->r), STK_INVALID,
			"%.*s: the server redirects from https:// to http://, where anyone on the way can change the bytes: give that URL itself if you trust it",
			SHOWN(t));
	*repeat = true;
	return STK_OK;
}

/* ---- the verdict ---- */

enum stk_status stk__http_verdict(struct stk_transfer *t, bool *resume)
{
	const int status = t->response.message.status;
	if (t->response.message.date)
		atomic_store(&t->loop->source->clock_s, t->response.message.date - (int64_t)time(NULL));
	if (status)
		atomic_store(&t->loop->source->heard, true);
	*resume = false;
	if (t->failed)
		return t->failed;
	if (t->stale) {
		*resume = true;
		return STK_OK;
	}
	if (t->code && !t->complete)
		return transfer_failed(t, resume);
	if (redirects(t))
		return t->response.message.location[0] ? follow(t, resume) : fail_location(t);
	if (status == 200 || status == 206)
		return body_ended(t, resume);
	if (status == 412 && t->resumes)
		return stk__fail(stk__request_error(t->r), STK_IO,
			"%.*s: it changed while it was read: after %zu bytes its ETag is no longer %s", SHOWN(t), t->used, t->etag);
	if (status == 416)
		return range_after_end(t);
	return status_failed(t);
}
