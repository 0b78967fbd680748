/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/aws_issue.h"

#include "aws/aws_ask.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static enum stk_status ask_container(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	struct stk_aws_question q = {.url = i->endpoint, .method = "GET", .local = true};
	struct stk_text header = {0};
	stk__text_add(&header, "Authorization: ");
	bool proves = i->token_file ? stk__aws_read_token(i->token_file, &header) : i->token != NULL;
	if (!i->token_file && i->token)
		stk__text_add(&header, "%s", i->token);
	q.headers[0] = proves ? header.s : NULL;
	long code = stk__aws_ask(client, &q, answer);
	stk__text_erase_free(&header);
	if (code != 200 || !stk__aws_take_json(out, answer))
		return stk__fail(err, STK_IO, "no credentials: the container's service %.*s gives none (status %ld)",
			stk__uri_shown(i->endpoint), i->endpoint, code);
	return STK_OK;
}

/* Asks the metadata service of an EC2 instance for a token, then for the role's name, then for the role's keys. */
static enum stk_status ask_instance(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	static const char path[] = "/latest/meta-data/iam/security-credentials/";
	struct stk_aws_question q = {.method = "PUT", .local = true};
	struct stk_text url = {0}, token = {0};
	stk__text_add(&url, "%s/latest/api/token", i->endpoint);
	q.url = url.s;
	q.headers[0] = "X-aws-ec2-metadata-token-ttl-seconds: 21600";
	long code = stk__aws_ask(client, &q, answer);
	stk__text_add(&token, "X-aws-ec2-metadata-token: %s", answer->s ? answer->s : "");
	q.method = "GET";
	q.headers[0] = token.s;
	for (int step = 0; step < 2 && code == 200; step++) {
		char role[256] = "";
		if (step)
			snprintf(role, sizeof role, "%.*s", (int)strcspn(answer->s ? answer->s : "", "\r\n"), answer->s ? answer->s : "");
		url.length = 0;
		stk__text_add(&url, "%s%s%s", i->endpoint, path, role);
		q.url = url.s;
		code = url.failed ? 0 : stk__aws_ask(client, &q, answer);
	}
	bool ok = code == 200 && stk__aws_take_json(out, answer);
	stk__text_free(&url);
	stk__text_erase_free(&token);
	return ok ? STK_OK : stk__fail(err, STK_NOT_FOUND, "this machine's metadata service gives no credentials (status %ld)", code);
}

static enum stk_status copy_static(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	(void)client;
	(void)answer;
	return stk__aws_take_keys(out, i->key, i->secret, i->token, NULL)
		       ? STK_OK
		       : stk__fail(err, STK_NO_MEMORY, "out of memory for keys of the object store");
}

static const struct {
	stk_aws_issue_fn *ask;
	const char *origin;
} issuers[STK_AWS_ISSUER_KINDS] = {
	[STK_AWS_STATIC] = {copy_static, "AWS's files"},
	[STK_AWS_ROLE] = {NULL, "a role of the profile (STS)"},
	[STK_AWS_WEB_IDENTITY] = {stk__aws_ask_web_identity, "a web identity (STS)"},
	[STK_AWS_SSO] = {stk__aws_ask_sso, "single sign-on"},
	[STK_AWS_PROCESS] = {stk__aws_ask_process, "the profile's credential_process"},
	[STK_AWS_CONTAINER] = {ask_container, "the container's service"},
	[STK_AWS_INSTANCE] = {ask_instance, "the instance's metadata service"},
	[STK_GOOGLE_USER] = {stk__google_ask_user, "a user's file of Google credentials"},
	[STK_GOOGLE_SERVICE] = {stk__google_ask_service, "a service account's file"},
	[STK_GOOGLE_METADATA] = {stk__google_ask_metadata, "Google's metadata server"},
};

/* Fails if issued keys have expired already. The requests that they sign would fail, with a message of the store that does not name the issuer. An instance's
 * service may give expired keys while it has trouble to renew them; AWS's tools use these too. */
static enum stk_status check_expiry(const struct stk_aws_issuer *i, const struct stk_aws_fresh *keys, struct stk_error *err)
{
	char when[32];
	struct tm parts;
	const time_t expires = (time_t)keys->expires;
	if (!expires || i->kind == STK_AWS_INSTANCE || expires > time(NULL) || !gmtime_r(&expires, &parts))
		return STK_OK;
	strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
	return stk__fail(err, STK_IO, "no credentials: the keys of %s expired at %s: have it give new ones, or check this machine's clock",
		issuers[i->kind].origin, when);
}

/* Obtains keys from an issuer. For a role, first obtains the keys of the base issuer, which sign the request. */
static enum stk_status issue(
	const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_aws_fresh *out, struct stk_error *err)
{
	struct stk_aws_fresh base = {0};
	struct stk_text answer = {0};
	enum stk_status s;
	if (i->kind == STK_AWS_ROLE) {
		s = issue(i->base, client, &base, err);
		if (s == STK_NOT_FOUND)
			s = stk__fail(err, STK_IO,
				"no credentials: the profile's role takes the keys of this machine (credential_source = Ec2InstanceMetadata), whose metadata service "
				"gives none");
		s = s ? s : stk__aws_ask_role(i, &base, client, &answer, out, err);
	} else if (i->kind == STK_AWS_NOBODY) {
		s = stk__fail(err, STK_NOT_FOUND, "the environment and AWS's files name no issuer of keys");
	} else {
		s = issuers[i->kind].ask(i, client, &answer, out, err);
	}
	s = s ? s : check_expiry(i, out, err);
	stk__aws_fresh_clear(&base);
	stk__text_erase_free(&answer);
	return s;
}

enum stk_status stk__aws_issue(struct stk_aws_settings *s, const struct stk_curl *curl, const _Atomic bool *stop,
	const struct stk_access *access, struct stk_error *err)
{
	const struct stk_aws_asking client = {.curl = curl, .stop = stop, .access = access, .ca = s->ca_bundle, .proxy = s->proxy};
	struct stk_aws_fresh fresh = {0}, old = {s->key, s->secret, s->token, 0};
	enum stk_status status = issue(&s->issuer, &client, &fresh, err);
	if (status) {
		stk__aws_fresh_clear(&fresh);
		return status;
	}
	s->key = fresh.key;
	s->secret = fresh.secret;
	s->token = fresh.token;
	s->expires = fresh.expires;
	s->origin = issuers[s->issuer.kind].origin;
	stk__aws_fresh_clear(&old);
	return STK_OK;
}
