/* SPDX-License-Identifier: Apache-2.0
 *
 * Obtains keys by single sign-on (IAM Identity Center). `aws sso login` stores a token, for which the portal returns keys of a role. A token that expires soon
 * is exchanged for a new one, which replaces it in the file for AWS's own tools. */
#include "aws/aws_ask.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/system.h"
#include "io/read_small.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	EARLY_S = 900, /* number of seconds before the expiry of a token at which it is exchanged, as AWS's tools do */
	YEAR_S = 366 * 86400,
	LONGEST_TOKEN = 1 << 20
};

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s && *s ? s : NULL;
}

static enum stk_status log_in(const struct stk_aws_issuer *i, const char *reason, struct stk_error *err)
{
	bool is_default = strcmp(i->profile, "default") == 0;
	return stk__fail(err, STK_IO, "no credentials: the single sign-on of the profile \"%.64s\" %s: run `aws sso login%s%.64s`",
		i->profile, reason, is_default ? "" : " --profile ", is_default ? "" : i->profile);
}

/* ---- the token ---- */

/* Stores a token in its file. If that fails, the file keeps the old token, which is used until it expires. */
static void keep_token(const char *path, const json_t *token)
{
	struct stk_new_file f;
	if (stk__new_file_begin(&f, path, 0600) && !stk__new_file_end(&f, json_dumpfd(token, f.fd, JSON_COMPACT) == 0))
		errno = 0;
}

static json_t *load_token(const char *path)
{
	size_t size;
	char *text = path ? stk__read_small(path, LONGEST_TOKEN, &size) : NULL;
	json_t *token = text ? json_loadb(text, size, 0, NULL) : NULL;
	if (text)
		stk__erase(text, size);
	stk__free(text);
	return token;
}

static void set_time(json_t *token, time_t t)
{
	char text[32];
	struct tm tm;
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
	json_object_set_new(token, "expiresAt", json_string(text));
}

static json_t *exchange(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, const json_t *token, struct stk_text *answer)
{
	struct stk_text url = {0};
	json_t *o = json_pack("{ss ss ss ss}", "grantType", "refresh_token", "clientId", text_of(token, "clientId"), "clientSecret",
		text_of(token, "clientSecret"), "refreshToken", text_of(token, "refreshToken"));
	char *body = json_dumps(o, JSON_COMPACT);
	stk__text_add(&url, "%s/token", i->renewal);
	const struct stk_aws_question q = {.url = url.s, .method = "POST", .headers = {"Content-Type: application/json"}, .body = body};
	long code = body && !url.failed ? stk__aws_ask(client, &q, answer) : 0;
	if (body)
		stk__erase(body, strlen(body));
	free(body);
	json_decref(o);
	stk__text_free(&url);
	return code == 200 ? json_loadb(answer->s, answer->length, 0, NULL) : NULL;
}

/* Exchanges a token that expires soon for a new one, if the session can be renewed. On failure the token stays as it is. */
static void renew(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, json_t *token, struct stk_text *answer)
{
	time_t now = time(NULL);
	int64_t registered = stk__aws_time(text_of(token, "registrationExpiresAt"));
	if (stk__aws_time(text_of(token, "expiresAt")) > now + EARLY_S || !text_of(token, "refreshToken") || !text_of(token, "clientId") ||
		!text_of(token, "clientSecret") || registered <= now)
		return;
	json_t *o = exchange(i, client, token, answer);
	if (text_of(o, "accessToken")) {
		json_object_set(token, "accessToken", json_object_get(o, "accessToken"));
		int64_t seconds = json_integer_value(json_object_get(o, "expiresIn"));
		set_time(token,
			now + (seconds > 0 && seconds < YEAR_S
					      ? (time_t)seconds
					      /* without a valid lifetime the token counts as expired, so that it is exchanged again next time */
					      : 0));
		if (text_of(o, "refreshToken"))
			json_object_set(token, "refreshToken", json_object_get(o, "refreshToken"));
		keep_token(i->token_file, token);
	}
	json_decref(o);
}

/* ---- the portal ---- */

bool stk__aws_take_portal(struct stk_aws_fresh *out, const struct stk_text *answer)
{
	json_t *o = json_loadb(answer->s ? answer->s : "", answer->length, 0, NULL), *k = json_object_get(o, "roleCredentials");
	bool ok = stk__aws_take_keys(out, text_of(k, "accessKeyId"), text_of(k, "secretAccessKey"), text_of(k, "sessionToken"), NULL);
	out->expires = json_integer_value(json_object_get(k, "expiration")) / 1000; /* the portal reports milliseconds */
	json_decref(o);
	return ok;
}

static long ask_portal(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, const char *token, struct stk_text *answer)
{
	struct stk_text url = {0}, shown = {0};
	stk__text_add(&url, "%s/federation/credentials?role_name=", i->endpoint);
	stk__uri_encode(&url, i->role, "");
	stk__text_add(&url, "&account_id=");
	stk__uri_encode(&url, i->account, "");
	stk__text_add(&shown, "x-amz-sso_bearer_token: %s", token);
	const struct stk_aws_question q = {.url = url.s, .method = "GET", .headers = {shown.s}};
	long code = url.failed || shown.failed ? 0 : stk__aws_ask(client, &q, answer);
	stk__text_free(&url);
	stk__text_erase_free(&shown);
	return code;
}

enum stk_status stk__aws_ask_sso(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	json_t *token = load_token(i->token_file);
	if (!text_of(token, "accessToken")) {
		json_decref(token);
		return log_in(i, "has left no token (~/.aws/sso/cache)", err);
	}
	renew(i, client, token, answer);
	int64_t expires = stk__aws_time(text_of(token, "expiresAt"));
	long code = expires > (int64_t)time(NULL) ? ask_portal(i, client, text_of(token, "accessToken"), answer) : 401;
	enum stk_status s = STK_OK;
	if (code == 401)
		s = log_in(i, "has expired", err);
	else if (code != 200 || !stk__aws_take_portal(out, answer))
		s = stk__fail(err, STK_IO, "no credentials: %.*s gives none for the role %s of the account %s (status %ld)",
			stk__uri_shown(i->endpoint), i->endpoint, i->role, i->account, code);
	json_decref(token);
	return s;
}
