/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/aws_ask.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/system.h"
#include "io/read_small.h"
#include "io/time_text.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LONGEST_ANSWER = 1 << 20, LONGEST_TOKEN = 64 << 10 };

void stk__aws_fresh_clear(struct stk_aws_fresh *f)
{
	stk__erase_free(f->key);
	stk__secret_free(f->secret);
	stk__secret_free(f->token);
	*f = (struct stk_aws_fresh){0};
}

bool stk__aws_is_over(const struct stk_aws_asking *client)
{
	const struct stk_access *a = client->access;
	return atomic_load(client->stop) || (a && a->interrupted && a->interrupted(a->user));
}

/* ---- asking ---- */

static size_t take_answer(char *bytes, size_t size, size_t count, void *user)
{
	struct stk_text *out = user;
	if (out->length + size * count > LONGEST_ANSWER)
		return 0;
	stk__text_append(out, bytes, size * count);
	return out->failed ? 0 : size * count;
}

static int look_up(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	(void)a, (void)b, (void)c, (void)d;
	return stk__aws_is_over(user);
}

static long ask_once(const struct stk_aws_asking *client, const struct stk_aws_question *q, struct stk_text *out)
{
	const struct stk_curl *c = client->curl;
	CURL *e = c->curl_easy_init();
	struct curl_slist *headers = NULL;
	struct stk_certificates *certificates = NULL;
	long status = 0;
	out->length = 0;
	if (out->s)
		out->s[0] = 0;
	for (int i = 0; i < STK_AWS_HEADERS && q->headers[i]; i++)
		headers = c->curl_slist_append(headers, q->headers[i]);
	if (e) {
		c->curl_easy_setopt(e, CURLOPT_URL, q->url);
		c->curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
		c->curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, stk__curl_open_socket);
		c->curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, q->method);
		c->curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
		if (q->body)
			c->curl_easy_setopt(e, CURLOPT_POSTFIELDS, q->body);
		if (q->local)
			c->curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
		else
			c->curl_easy_setopt(e, CURLOPT_PROXY, client->proxy);
		if (strncmp(q->url, "https:", 6) == 0)
			stk__curl_trust(c, e, client->ca, &certificates);
		c->curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, q->local ? 1000L : 5000L);
		c->curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, q->local ? 5000L : 20000L);
		c->curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_answer);
		c->curl_easy_setopt(e, CURLOPT_WRITEDATA, out);
		c->curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
		c->curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, look_up);
		c->curl_easy_setopt(e, CURLOPT_XFERINFODATA, (void *)(uintptr_t)client);
		if (c->curl_easy_perform(e) == CURLE_OK)
			c->curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
		c->curl_easy_cleanup(e);
	}
	c->curl_slist_free_all(headers);
	stk__certificates_free(certificates);
	return status;
}

/* Waits for `ms` milliseconds, or until stk__aws_is_over returns true. */
static void pause_ms(const struct stk_aws_asking *client, int ms)
{
	enum { STEP_MS = 50 };
	const struct timespec step = {0, STEP_MS * 1000000};
	for (int waited = 0; waited < ms && !stk__aws_is_over(client); waited += STEP_MS)
		nanosleep(&step, NULL);
}

long stk__aws_ask(const struct stk_aws_asking *client, const struct stk_aws_question *q, struct stk_text *out)
{
	enum { TRIES = 4, FIRST_PAUSE_MS = 200 };
	long status = ask_once(client, q, out);
	for (int i = 0; i < TRIES - 1 && stk__aws_may_pass(status) && !stk__aws_is_over(client); i++) {
		pause_ms(client, FIRST_PAUSE_MS << i);
		status = ask_once(client, q, out);
	}
	return status;
}

/* ---- answers ---- */

int64_t stk__aws_time(const char *text)
{
	int64_t at;
	return text && stk__iso_time(text, strlen(text), &at) ? at : 0;
}

static bool replace(char **slot, const char *value)
{
	stk__secret_free(*slot);
	*slot = value && *value ? stk__secret_copy(value) : NULL;
	return *slot;
}

bool stk__aws_take_keys(struct stk_aws_fresh *out, const char *id, const char *secret, const char *token, const char *expires)
{
	replace(&out->token, token);
	out->expires = stk__aws_time(expires);
	stk__free(out->key);
	out->key = id && *id ? stk__strdup(id) : NULL;
	return replace(&out->secret, secret) & (out->key != NULL) & (!expires || out->expires);
}

bool stk__aws_take_json(struct stk_aws_fresh *out, const struct stk_text *answer)
{
	json_t *o = json_loadb(answer->s ? answer->s : "", answer->length, 0, NULL);
	const char *token = json_string_value(json_object_get(o, "SessionToken"));
	bool ok = stk__aws_take_keys(out, json_string_value(json_object_get(o, "AccessKeyId")),
		json_string_value(json_object_get(o, "SecretAccessKey")), token ? token : json_string_value(json_object_get(o, "Token")),
		json_string_value(json_object_get(o, "Expiration")));
	json_decref(o);
	return ok;
}

bool stk__aws_read_token(const char *path, struct stk_text *out)
{
	size_t n, size;
	char *text = stk__read_small(path, LONGEST_TOKEN, &size);
	n = size;
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	const bool valid = n && !memchr(text, 0, n);
	if (valid)
		stk__text_append(out, text, n);
	if (text)
		stk__erase(text, size);
	stk__free(text);
	return valid && !out->failed;
}
