/* SPDX-License-Identifier: Apache-2.0
 *
 * Obtains the keys of a role from STS, with a web identity's token or with a request that other keys sign. */
#include "aws/aws_ask.h"

#include "aws/sigv4.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* Appends the text of an element of STS's answer; nothing if the element is missing. */
static void find_element(const char *xml, const char *name, struct stk_text *out)
{
	char open[40];
	snprintf(open, sizeof open, "<%s>", name);
	const char *begin = strstr(xml, open);
	if (begin)
		stk__text_add(out, "%.*s", (int)strcspn(begin + strlen(open), "<"), begin + strlen(open));
}

bool stk__aws_take_sts(struct stk_aws_fresh *out, const struct stk_text *answer)
{
	static const char *const names[4] = {"AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"};
	const char *begin = answer->s ? strstr(answer->s, "<Credentials>") : NULL;
	struct stk_text found[4] = {{0}};
	for (int i = 0; i < 4 && begin; i++)
		find_element(begin, names[i], &found[i]);
	bool ok = stk__aws_take_keys(out, found[0].s, found[1].s, found[2].s, found[3].s);
	for (int i = 0; i < 4; i++)
		stk__text_erase_free(&found[i]);
	return ok;
}

/* Appends the error code in STS's answer, such as ", AccessDenied". Leaves out a code with characters other than letters and dots, since a message must not
 * quote anything else from the answer. */
static void add_code(struct stk_text *out, const struct stk_text *answer)
{
	struct stk_text code = {0};
	find_element(answer->s ? answer->s : "", "Code", &code);
	if (code.s && code.length < 64 && !code.s[strspn(code.s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.")])
		stk__text_add(out, ", %s", code.s);
	stk__text_free(&code);
}

static enum stk_status refused(const struct stk_aws_issuer *i, long code, const struct stk_text *answer, struct stk_error *err)
{
	struct stk_text code_text = {0};
	add_code(&code_text, answer);
	enum stk_status s = stk__fail(err, STK_IO, "no credentials: %.*s gives none for the role %s (status %ld%s)",
		stk__uri_shown(i->endpoint), i->endpoint, i->role, code, code_text.s ? code_text.s : "");
	stk__text_free(&code_text);
	return s;
}

static void add_role(struct stk_text *body, const struct stk_aws_issuer *i, const char *action)
{
	stk__text_add(body, "Action=%s&Version=2011-06-15&RoleArn=", action);
	stk__uri_encode(body, i->role, "");
	stk__text_add(body, "&RoleSessionName=");
	stk__uri_encode(body, i->session, "");
}

enum stk_status stk__aws_ask_web_identity(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	struct stk_text token = {0}, body = {0};
	if (!stk__aws_read_token(i->token_file, &token)) {
		stk__text_erase_free(&token);
		return stk__fail(
			err, STK_IO, "no credentials: the token of the web identity, %s, cannot be read or is no text", i->token_file);
	}
	add_role(&body, i, "AssumeRoleWithWebIdentity");
	stk__text_add(&body, "&WebIdentityToken=");
	stk__uri_encode(&body, token.s, "");
	const struct stk_aws_question q = {.url = i->endpoint, .method = "POST", .body = body.s};
	long code = body.failed ? 0 : stk__aws_ask(client, &q, answer);
	enum stk_status s = code == 200 && stk__aws_take_sts(out, answer) ? STK_OK : refused(i, code, answer, err);
	stk__text_erase_free(&token);
	stk__text_erase_free(&body);
	return s;
}

/* ---- signed ---- */

/* Splits a URL into host[:port] and path, which is "/" if missing. */
static void split(const char *url, struct stk_text *host, struct stk_text *path)
{
	const char *authority = strstr(url, "://");
	authority = authority ? authority + 3 : url;
	size_t n = strcspn(authority, "/");
	stk__text_add(host, "%.*s", (int)n, authority);
	stk__text_add(path, "%s", authority[n] ? authority + n : "/");
}

static void hash(const struct stk_text *body, char hex[STK_SHA256_HEX])
{
	struct stk_sha256 sha;
	uint8_t digest[STK_SHA256_SIZE];
	stk__sha256_init(&sha);
	stk__sha256_add(&sha, body->s, body->length);
	stk__sha256_end(&sha, digest);
	stk__sha256_hex(digest, hex);
}

static long ask_signed(const struct stk_aws_issuer *i, const struct stk_aws_fresh *base, const struct stk_aws_asking *client,
	const struct stk_text *body, struct stk_text *answer)
{
	static const char type[] = "application/x-www-form-urlencoded; charset=utf-8";
	struct stk_text host = {0}, path = {0}, lines[4] = {{0}};
	char date[STK_SIGV4_DATE], payload[STK_SHA256_HEX];
	stk__sigv4_date(time(NULL), date);
	hash(body, payload);
	split(i->endpoint, &host, &path);
	const struct stk_sigv4_header headers[] = {
		{"content-type", type}, {"host", host.s}, {"x-amz-date", date}, {"x-amz-security-token", base->token}};
	const struct stk_sigv4_request r = {.method = "POST",
		.path = path.s,
		.query = "",
		.headers = headers,
		.header_count = base->token ? 4 : 3,
		.payload = payload,
		.region = i->region,
		.service = "sts",
		.date = date};
	const struct stk_aws_keys keys = {base->key, base->secret, base->token};
	bool ok = !host.failed && !path.failed;
	if (ok) {
		stk__text_add(&lines[0], "Authorization: ");
		stk__sigv4_authorization(&r, &keys, NULL, &lines[0]);
		stk__text_add(&lines[1], "Content-Type: %s", type);
		stk__text_add(&lines[2], "X-Amz-Date: %s", date);
		stk__text_add(&lines[3], "X-Amz-Security-Token: %s", base->token ? base->token : "");
	}
	for (int k = 0; k < 4; k++)
		ok &= !lines[k].failed;
	const struct stk_aws_question q = {.url = i->endpoint,
		.method = "POST",
		.body = body->s,
		.headers = {lines[0].s, lines[1].s, lines[2].s, base->token ? lines[3].s : NULL}};
	long code = ok ? stk__aws_ask(client, &q, answer) : 0;
	for (int k = 0; k < 4; k++)
		stk__text_erase_free(&lines[k]);
	stk__text_free(&host);
	stk__text_free(&path);
	return code;
}

enum stk_status stk__aws_ask_role(const struct stk_aws_issuer *i, const struct stk_aws_fresh *base, const struct stk_aws_asking *client,
	struct stk_text *answer, struct stk_aws_fresh *out, struct stk_error *err)
{
	struct stk_text body = {0};
	add_role(&body, i, "AssumeRole");
	if (i->external_id) {
		stk__text_add(&body, "&ExternalId=");
		stk__uri_encode(&body, i->external_id, "");
	}
	if (i->seconds)
		stk__text_add(&body, "&DurationSeconds=%s", i->seconds);
	long code = body.failed ? 0 : ask_signed(i, base, client, &body, answer);
	enum stk_status s = code == 200 && stk__aws_take_sts(out, answer) ? STK_OK : refused(i, code, answer, err);
	stk__text_free(&body);
	return s;
}
