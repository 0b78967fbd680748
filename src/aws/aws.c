/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/aws.h"

#include "aws/aws_profile.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Reads the keys. Keys from the program take precedence, then a profile named by the program, even over keys in the environment. The id, the secret and the
 * token always come from the same source. If an issuer must be asked for keys, sets only s->issuer. */
static enum stk_status read_keys(
	struct stk_aws_settings *s, const struct stk_aws_profile *p, const struct stk_aws_given *g, struct stk_error *err)
{
	if (g->key) {
		s->key = stk__strdup(g->key);
		s->secret = stk__secret_copy(g->secret);
		s->token = stk__secret_copy(g->token);
		s->origin = "the program";
		return STK_OK;
	}
	s->key = g->profile ? NULL : stk__aws_env("AWS_ACCESS_KEY_ID");
	s->secret = s->key ? stk__aws_secret_env("AWS_SECRET_ACCESS_KEY") : NULL;
	if (s->secret) {
		s->token = stk__aws_secret_env("AWS_SESSION_TOKEN");
		s->origin = "the environment";
		return STK_OK;
	}
	stk__free(s->key);
	s->key = NULL;
	enum stk_status status = stk__aws_choose_issuer(p, s->region, &s->issuer, err);
	if (status || s->issuer.kind != STK_AWS_STATIC)
		return status;
	s->key = s->issuer.key;
	s->secret = s->issuer.secret;
	s->token = s->issuer.token;
	s->issuer.key = s->issuer.secret = s->issuer.token = NULL;
	stk__aws_issuer_clear(&s->issuer);
	s->origin = "AWS's files";
	return STK_OK;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

enum stk_status stk__aws_check_keys(const struct stk_aws_settings *s, struct stk_error *err)
{
	const struct {
		const char *text, *name;
	} parts[] = {{s->key, "id of the key"}, {s->secret, s->bearer ? "token" : "secret key"}, {s->token, "session's token"}};
	for (int i = 0; i < 3; i++) {
		const char *text = parts[i].text;
		const size_t n = text ? strlen(text) : 0;
		if (n && (is_space(text[0]) || is_space(text[n - 1]) || strpbrk(text, "\r\n")))
			return stk__fail(err, STK_INVALID,
				"the %s, from %s, begins or ends with a blank or a line break, or has a line break in it: remove that",
				parts[i].name, s->origin);
	}
	return STK_OK;
}

static void trim_endpoint(struct stk_aws_settings *s)
{
	for (size_t n = s->endpoint ? strlen(s->endpoint) : 0; n && s->endpoint[n - 1] == '/'; n--)
		s->endpoint[n - 1] = 0;
}

enum stk_status stk__aws_check_endpoint(const char *e, const char *name, struct stk_error *err)
{
	if (!e)
		return STK_OK;
	size_t scheme = strncmp(e, "http://", 7) == 0 ? 7 : strncmp(e, "https://", 8) == 0 ? 8 : 0;
	if (!scheme || !e[scheme] || strpbrk(e, "?#@ "))
		return stk__fail(err, STK_INVALID, "the endpoint (%s) is not http://HOST[:PORT][/PATH] or https://...", name);
	return STK_OK;
}

static enum stk_status read_style(struct stk_aws_settings *s, const struct stk_aws_profile *p, struct stk_error *err)
{
	if (s->style != STK_S3_AUTO) /* the program has chosen a style, which takes precedence */
		return STK_OK;
	static const char *const names[] = {"auto", "path", "virtual"};
	char *style = stk__aws_env("STOKER_S3_ADDRESSING");
	stk__aws_take(&style, stk__aws_config(p, "s3", "addressing_style"));
	enum stk_status status = STK_OK;
	int i = 0;
	while (style && i < 3 && strcmp(names[i], style) != 0)
		i++;
	if (i == 3)
		status = stk__fail(err, STK_INVALID,
			"\"%.32s\" is not a way to address buckets (STOKER_S3_ADDRESSING, or addressing_style in the profile); valid are auto, "
			"path and virtual",
			style);
	else
		s->style = (enum stk_s3_style)i;
	stk__free(style);
	return status;
}

static char *copy_given(const char *value)
{
	return value ? stk__strdup(value) : NULL;
}

static enum stk_status read_all(
	struct stk_aws_settings *s, const struct stk_aws_profile *p, const struct stk_aws_given *g, struct stk_error *err)
{
	s->anonymous = g->anonymous || (!g->key && !g->profile && stk__aws_env_says_yes("AWS_NO_SIGN_REQUEST"));
	s->profile = stk__strdup(p->name);
	s->style = g->style;
	stk__aws_take(&s->region, copy_given(g->region));
	stk__aws_take(&s->region, stk__aws_env("AWS_REGION"));
	stk__aws_take(&s->region, stk__aws_env("AWS_DEFAULT_REGION"));
	stk__aws_take(&s->region, stk__aws_config(p, NULL, "region"));
	stk__aws_take(&s->region, stk__strdup("us-east-1"));
	enum stk_status status = !s->anonymous && s->region ? read_keys(s, p, g, err) : STK_OK;
	if (status)
		return status;
	stk__aws_take(&s->ca_bundle, copy_given(g->ca_bundle));
	stk__aws_take(&s->ca_bundle, stk__aws_env("AWS_CA_BUNDLE"));
	stk__aws_take(&s->ca_bundle, stk__aws_config(p, NULL, "ca_bundle"));
	stk__aws_take(&s->endpoint, copy_given(g->endpoint));
	if (!s->endpoint)
		s->endpoint = stk__aws_service_endpoint(p, "s3", "AWS_ENDPOINT_URL_S3");
	trim_endpoint(s);
	s->proxy = copy_given(g->proxy);
	if (!s->region || !s->profile)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the settings of the object store");
	if (s->region[strspn(s->region, "abcdefghijklmnopqrstuvwxyz0123456789-")])
		return stk__fail(err, STK_INVALID, "\"%.32s\" is not a region (AWS_REGION, or region in the profile)", s->region);
	status = stk__aws_check_keys(s, err);
	if (status)
		return status;
	status = stk__aws_check_endpoint(s->endpoint, "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint_url", err);
	return status ? status : read_style(s, p, err);
}

enum stk_status stk__aws_settings_read(const struct stk_aws_given *given, struct stk_aws_settings *out, struct stk_error *err)
{
	const struct stk_aws_given nothing = {0}, *g = given ? given : &nothing;
	const char *profile = g->profile ? g->profile : getenv("AWS_PROFILE");
	profile = profile && *profile ? profile : getenv("AWS_DEFAULT_PROFILE");
	profile = profile && *profile ? profile : NULL;
	struct stk_aws_profile p;
	*out = (struct stk_aws_settings){0};
	bool ok = stk__aws_profile_read(profile ? profile : "default", !g->profile, &p);
	enum stk_status status = STK_OK;
	if (!ok)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory for AWS's profile files");
	else if (profile && !g->key && !stk__aws_profile_exists(&p))
		status = stk__fail(err, STK_INVALID,
			"the profile (AWS_PROFILE) is \"%.64s\", which is in neither of AWS's files (~/.aws/config, ~/.aws/credentials)",
			profile);
	else
		status = read_all(out, &p, g, err);
	stk__aws_profile_clear(&p);
	return status;
}
