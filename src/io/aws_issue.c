/* SPDX-License-Identifier: Apache-2.0 */
#include "io/aws_issue.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/system.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LONGEST_ANSWER = 1 << 20, LONGEST_TOKEN = 64 << 10 };

static void forget(struct stk_text *t)
{
	if (t->s)
		stk__erase(t->s, t->capacity);
	stk__text_free(t);
}

/* ---- asking ---- */

struct question {
	const struct stk_curl *curl;
	const _Atomic bool *stop;
	const char *url, *method;
	const char *headers[2]; /* NULL: none */
	const char *body;       /* NULL: none */
	long connect_ms, all_ms;
	bool local;             /* a service of this machine: no proxy */
	const char *ca, *proxy; /* NULL: the system's */
};

static size_t take_answer(char *bytes, size_t size, size_t count, void *user)
{
	struct stk_text *out = user;
	if (out->length + size * count > LONGEST_ANSWER)
		return 0;
	stk__text_add(out, "%.*s", (int)(size * count), bytes);
	return out->failed ? 0 : size * count;
}

static int look_up(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const _Atomic bool *stop = user;
	(void)a, (void)b, (void)c, (void)d;
	return atomic_load(stop);
}

/* The HTTP status, 0 where there was no answer. */
static long ask(const struct question *q, struct stk_text *out)
{
	const struct stk_curl *c = q->curl;
	CURL *e = c->curl_easy_init();
	struct curl_slist *headers = NULL;
	long status = 0;
	out->length = 0;
	for (int i = 0; i < 2 && q->headers[i]; i++)
		headers = c->curl_slist_append(headers, q->headers[i]);
	if (e) {
		c->curl_easy_setopt(e, CURLOPT_URL, q->url);
		c->curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
		c->curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, q->method);
		c->curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
		if (q->body)
			c->curl_easy_setopt(e, CURLOPT_POSTFIELDS, q->body);
		if (q->local)
			c->curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
		else
			c->curl_easy_setopt(e, CURLOPT_PROXY, q->proxy);
		stk__curl_trust(c, e, q->ca);
		c->curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, q->connect_ms);
		c->curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, q->all_ms);
		c->curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_answer);
		c->curl_easy_setopt(e, CURLOPT_WRITEDATA, out);
		c->curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
		c->curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, look_up);
		c->curl_easy_setopt(e, CURLOPT_XFERINFODATA, (void *)(uintptr_t)q->stop);
		if (c->curl_easy_perform(e) == CURLE_OK)
			c->curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
		c->curl_easy_cleanup(e);
	}
	c->curl_slist_free_all(headers);
	return status;
}

/* ---- answers ---- */

static int64_t parse_time(const char *text)
{
	struct tm tm = {0};
	return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) : 0;
}

static bool replace(char **slot, const char *value)
{
	stk__free(*slot);
	*slot = value && *value ? stk__strdup(value) : NULL;
	return *slot;
}

static bool take_keys(struct stk_aws_settings *s, const char *id, const char *secret, const char *token, const char *expires)
{
	replace(&s->token, token);
	s->expires = parse_time(expires);
	return replace(&s->key, id) & replace(&s->secret, secret);
}

/* {"AccessKeyId": .., "SecretAccessKey": .., "Token" or "SessionToken": .., "Expiration": ..} */
static bool take_json(struct stk_aws_settings *s, const struct stk_text *answer)
{
	json_t *o = json_loadb(answer->s ? answer->s : "", answer->length, 0, NULL);
	const char *token = json_string_value(json_object_get(o, "SessionToken"));
	bool good = take_keys(s, json_string_value(json_object_get(o, "AccessKeyId")),
		json_string_value(json_object_get(o, "SecretAccessKey")), token ? token : json_string_value(json_object_get(o, "Token")),
		json_string_value(json_object_get(o, "Expiration")));
	json_decref(o);
	return good;
}

/* Appends the text of an element of STS's answer. */
static void find_element(const char *xml, const char *name, struct stk_text *out)
{
	char open[40];
	snprintf(open, sizeof open, "<%s>", name);
	const char *begin = strstr(xml, open);
	if (begin)
		stk__text_add(out, "%.*s", (int)strcspn(begin + strlen(open), "<"), begin + strlen(open));
}

static bool take_xml(struct stk_aws_settings *s, const struct stk_text *answer)
{
	static const char *const names[4] = {"AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"};
	const char *begin = answer->s ? strstr(answer->s, "<Credentials>") : NULL;
	struct stk_text found[4] = {{0}};
	for (int i = 0; i < 4 && begin; i++)
		find_element(begin, names[i], &found[i]);
	bool good = take_keys(s, found[0].s, found[1].s, found[2].s, found[3].s);
	for (int i = 0; i < 4; i++)
		forget(&found[i]);
	return good;
}

/* ---- issuers ---- */

static bool read_token(const char *path, struct stk_text *out)
{
	char *text = stk__alloc(LONGEST_TOKEN + 1);
	FILE *f = text ? fopen(path, "re") : NULL;
	size_t n = f ? fread(text, 1, LONGEST_TOKEN, f) : 0;
	if (f)
		fclose(f);
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	stk__text_add(out, "%.*s", (int)n, text ? text : "");
	if (text)
		stk__erase(text, LONGEST_TOKEN);
	stk__free(text);
	return n && !out->failed;
}

static enum stk_status ask_sts(struct stk_aws_settings *s, struct question q, struct stk_text *answer, struct stk_error *err)
{
	struct stk_text token = {0}, body = {0};
	enum stk_status status = STK_OK;
	if (!read_token(s->issuer.token_file, &token))
		status = stk__fail(err, STK_IO, "no credentials: the token of the web identity, %s, cannot be read", s->issuer.token_file);
	stk__text_add(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
	stk__uri_encode(&body, s->issuer.role, "");
	stk__text_add(&body, "&RoleSessionName=");
	stk__uri_encode(&body, s->issuer.session, "");
	stk__text_add(&body, "&WebIdentityToken=");
	stk__uri_encode(&body, token.s ? token.s : "", "");
	q.method = "POST";
	q.body = body.s;
	q.connect_ms = 5000;
	q.all_ms = 20000;
	q.local = false;
	long code = status || body.failed ? 0 : ask(&q, answer);
	if (!status && (code != 200 || !take_xml(s, answer)))
		status = stk__fail(
			err, STK_IO, "no credentials: %s gives none for the role %s (status %ld)", s->issuer.where, s->issuer.role, code);
	forget(&token);
	forget(&body);
	return status;
}

static enum stk_status run_process(struct stk_aws_settings *s, struct stk_text *answer, struct stk_error *err)
{
	FILE *f = popen(s->issuer.where, "re");
	char part[4096];
	for (size_t n; f && answer->length < LONGEST_ANSWER && (n = fread(part, 1, sizeof part, f)) > 0;)
		stk__text_add(answer, "%.*s", (int)n, part);
	stk__erase(part, sizeof part);
	int code = f ? pclose(f) : -1;
	if (code || !take_json(s, answer))
		return stk__fail(err, STK_IO, "no credentials: the profile's credential_process gives none (it ends with %d)", code);
	return STK_OK;
}

static enum stk_status ask_container(struct stk_aws_settings *s, struct question q, struct stk_text *answer, struct stk_error *err)
{
	struct stk_text header = {0};
	stk__text_add(&header, "Authorization: ");
	bool proves = s->issuer.token_file ? read_token(s->issuer.token_file, &header) : s->issuer.token != NULL;
	if (!s->issuer.token_file && s->issuer.token)
		stk__text_add(&header, "%s", s->issuer.token);
	q.headers[0] = proves ? header.s : NULL;
	long code = ask(&q, answer);
	forget(&header);
	if (code != 200 || !take_json(s, answer))
		return stk__fail(err, STK_IO, "no credentials: the container's service %.*s gives none (status %ld)",
			stk__uri_shown(s->issuer.where), s->issuer.where, code);
	return STK_OK;
}

/* A token first, then the role's name, then its keys. */
static enum stk_status ask_instance(struct stk_aws_settings *s, struct question q, struct stk_text *answer, struct stk_error *err)
{
	static const char path[] = "/latest/meta-data/iam/security-credentials/";
	struct stk_text url = {0}, token = {0};
	stk__text_add(&url, "%s/latest/api/token", s->issuer.where);
	q.url = url.s;
	q.method = "PUT";
	q.headers[0] = "X-aws-ec2-metadata-token-ttl-seconds: 21600";
	long code = ask(&q, answer);
	stk__text_add(&token, "X-aws-ec2-metadata-token: %s", answer->s ? answer->s : "");
	q.method = "GET";
	q.headers[0] = token.s;
	for (int i = 0; i < 2 && code == 200; i++) {
		char role[256] = "";
		if (i)
			snprintf(role, sizeof role, "%.*s", (int)strcspn(answer->s ? answer->s : "", "\r\n"), answer->s ? answer->s : "");
		url.length = 0;
		stk__text_add(&url, "%s%s%s", s->issuer.where, path, role);
		q.url = url.s;
		code = url.failed ? 0 : ask(&q, answer);
	}
	bool good = code == 200 && take_json(s, answer);
	stk__text_free(&url);
	forget(&token);
	return good ? STK_OK : stk__fail(err, STK_NOT_FOUND, "this machine's metadata service gives no credentials (status %ld)", code);
}

enum stk_status stk__aws_issue(struct stk_aws_settings *s, const struct stk_curl *curl, const _Atomic bool *stop, struct stk_error *err)
{
	struct stk_text answer = {0};
	const struct question q = {.curl = curl,
		.stop = stop,
		.url = s->issuer.where,
		.method = "GET",
		.connect_ms = 1000,
		.all_ms = 5000,
		.local = true,
		.ca = s->ca_bundle,
		.proxy = s->proxy};
	enum stk_status status = STK_NOT_FOUND;
	switch (s->issuer.kind) {
	case STK_AWS_NOBODY:
		break;
	case STK_AWS_WEB_IDENTITY:
		status = ask_sts(s, q, &answer, err);
		break;
	case STK_AWS_PROCESS:
		status = run_process(s, &answer, err);
		break;
	case STK_AWS_CONTAINER:
		status = ask_container(s, q, &answer, err);
		break;
	case STK_AWS_INSTANCE:
		status = ask_instance(s, q, &answer, err);
		break;
	}
	static const char *const origins[] = {NULL, "a web identity (STS)", "the profile's credential_process", "the container's service",
		"the instance's metadata service"};
	s->origin = status ? s->origin : origins[s->issuer.kind];
	forget(&answer);
	return status;
}
