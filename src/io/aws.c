/* SPDX-License-Identifier: Apache-2.0 */
#include "io/aws.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_FILE = 1 << 20 };

/* The two files, "" where there is none, and the section that each has for the profile. */
struct profiles {
	char *credentials, *config;
	const char *name;
	char section[256]; /* in config; in credentials it is the name */
};

static char *copy_env(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? stk__strdup(value) : NULL;
}

static bool is_yes(const char *name)
{
	const char *v = getenv(name);
	return v && (strcmp(v, "1") == 0 || strcasecmp(v, "yes") == 0 || strcasecmp(v, "true") == 0);
}

static char *read_file(const char *path)
{
	char *text = NULL;
	FILE *f = fopen(path, "re");
	if (f && (text = stk__alloc(LONGEST_FILE + 1)))
		text[fread(text, 1, LONGEST_FILE, f)] = 0;
	if (f)
		fclose(f);
	return text ? text : stk__calloc(1, 1);
}

/* The file that the environment names, or ~/.aws/NAME. */
static char *read_profile_file(const char *variable, const char *name)
{
	const char *given = getenv(variable), *home = getenv("HOME");
	char path[4096];
	if (given && given[0] == '~' && given[1] == '/' && home)
		snprintf(path, sizeof path, "%s%s", home, given + 1);
	else if (given && *given)
		snprintf(path, sizeof path, "%s", given);
	else
		snprintf(path, sizeof path, "%s/.aws/%s", home ? home : "", name);
	return read_file(path);
}

static void take(char **slot, char *value)
{
	if (!*slot && value && *value)
		*slot = value;
	else
		stk__free(value);
}

/* From the config file, and for `s3` from what lies below that line. */
static void take_config(char **slot, const struct profiles *p, const char *parent, const char *key)
{
	take(slot, stk__ini_find(p->config, p->section, parent, key));
}

/* The issuer's address, by the first of two variables, or as it always is. */
static char *copy_endpoint(const char *variable, const char *otherwise)
{
	char *found = copy_env(variable);
	return found ? found : stk__strdup(otherwise);
}

static void use_web_identity(struct stk_aws_settings *s, const struct profiles *p)
{
	struct stk_aws_issuer *i = &s->issuer;
	char sts[128];
	take(&i->token_file, copy_env("AWS_WEB_IDENTITY_TOKEN_FILE"));
	take(&i->role, copy_env("AWS_ROLE_ARN"));
	take(&i->session, copy_env("AWS_ROLE_SESSION_NAME"));
	take_config(&i->token_file, p, NULL, "web_identity_token_file");
	take_config(&i->role, p, NULL, "role_arn");
	take_config(&i->session, p, NULL, "role_session_name");
	take(&i->session, stk__strdup("stoker"));
	if (!i->token_file || !i->role)
		return;
	snprintf(sts, sizeof sts, "https://sts.%.64s.amazonaws.com%s", s->region, strncmp(s->region, "cn-", 3) == 0 ? ".cn" : "");
	i->where = copy_endpoint("AWS_ENDPOINT_URL_STS", sts);
	i->kind = STK_AWS_WEB_IDENTITY;
}

static bool use_container(struct stk_aws_issuer *i)
{
	const char *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	char url[1024];
	snprintf(url, sizeof url, "http://169.254.170.2%s", relative ? relative : "");
	i->where = relative && *relative ? stk__strdup(url) : copy_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	if (!i->where)
		return false;
	take(&i->token_file, copy_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
	take(&i->token, copy_env("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
	i->kind = STK_AWS_CONTAINER;
	return true;
}

/* Who is asked where neither the environment nor a file holds keys. */
static void choose_issuer(struct stk_aws_settings *s, const struct profiles *p)
{
	struct stk_aws_issuer *i = &s->issuer;
	take_config(&i->where, p, NULL, "credential_process");
	if (i->where)
		i->kind = STK_AWS_PROCESS;
	else if (!use_container(i) && !is_yes("AWS_EC2_METADATA_DISABLED")) {
		i->where = copy_endpoint("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254");
		i->kind = STK_AWS_INSTANCE;
	}
}

/* Keys that were given are the whole answer; so is a profile, whatever keys the environment has. */
static void read_keys(struct stk_aws_settings *s, const struct profiles *p, const struct stk_aws_given *g)
{
	const struct {
		const char *text, *section;
	} files[] = {{p->credentials, p->name}, {p->config, p->section}};
	if (g->key) {
		s->key = stk__strdup(g->key);
		s->secret = stk__strdup(g->secret);
		s->token = g->token ? stk__strdup(g->token) : NULL;
		s->origin = "the program";
		return;
	}
	s->key = g->profile ? NULL : copy_env("AWS_ACCESS_KEY_ID");
	s->secret = g->profile ? NULL : copy_env("AWS_SECRET_ACCESS_KEY");
	s->token = s->key ? copy_env("AWS_SESSION_TOKEN") : NULL;
	s->origin = s->key && s->secret ? "the environment" : NULL;
	if (!(s->key && s->secret))
		use_web_identity(s, p);
	for (int i = 0; i < 2 && !(s->key && s->secret) && !s->issuer.kind; i++) { /* the parts of a key come from one place */
		stk__free(s->key);
		stk__free(s->secret);
		stk__free(s->token);
		s->key = stk__ini_find(files[i].text, files[i].section, NULL, "aws_access_key_id");
		s->secret = stk__ini_find(files[i].text, files[i].section, NULL, "aws_secret_access_key");
		s->token = stk__ini_find(files[i].text, files[i].section, NULL, "aws_session_token");
	}
	if (!s->origin && s->key && s->secret)
		s->origin = "AWS's files";
	if (!(s->key && s->secret) && !s->issuer.kind)
		choose_issuer(s, p);
}

static void trim_endpoint(struct stk_aws_settings *s)
{
	for (size_t n = s->endpoint ? strlen(s->endpoint) : 0; n && s->endpoint[n - 1] == '/'; n--)
		s->endpoint[n - 1] = 0;
}

static void read_endpoint(struct stk_aws_settings *s, const struct profiles *p)
{
	const char *ignore = getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
	if (ignore && strcasecmp(ignore, "true") == 0)
		return;
	take(&s->endpoint, copy_env("AWS_ENDPOINT_URL_S3"));
	take(&s->endpoint, copy_env("AWS_ENDPOINT_URL"));
	char *services = stk__ini_find(p->config, p->section, NULL, "services");
	if (services) {
		char section[256];
		snprintf(section, sizeof section, "services %s", services);
		take(&s->endpoint, stk__ini_find(p->config, section, "s3", "endpoint_url"));
		stk__free(services);
	}
	take_config(&s->endpoint, p, "s3", "endpoint_url");
	take_config(&s->endpoint, p, NULL, "endpoint_url");
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

static enum stk_status read_style(struct stk_aws_settings *s, const struct profiles *p, struct stk_error *err)
{
	if (s->style != STK_S3_AUTO) /* it was given */
		return STK_OK;
	static const char *const names[] = {"auto", "path", "virtual"};
	char *style = copy_env("STOKER_S3_ADDRESSING");
	take_config(&style, p, "s3", "addressing_style");
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

static enum stk_status read_all(struct stk_aws_settings *s, const struct profiles *p, const struct stk_aws_given *g, struct stk_error *err)
{
	s->anonymous = g->anonymous || (!g->key && !g->profile && is_yes("AWS_NO_SIGN_REQUEST"));
	s->profile = stk__strdup(p->name);
	s->style = g->style;
	take(&s->region, copy_given(g->region));
	take(&s->region, copy_env("AWS_REGION"));
	take(&s->region, copy_env("AWS_DEFAULT_REGION"));
	take_config(&s->region, p, NULL, "region");
	take(&s->region, stk__strdup("us-east-1"));
	if (!s->anonymous && s->region)
		read_keys(s, p, g);
	take(&s->ca_bundle, copy_given(g->ca_bundle));
	take(&s->ca_bundle, copy_env("AWS_CA_BUNDLE"));
	take_config(&s->ca_bundle, p, NULL, "ca_bundle");
	take(&s->endpoint, copy_given(g->endpoint));
	if (!s->endpoint)
		read_endpoint(s, p);
	trim_endpoint(s);
	s->proxy = copy_given(g->proxy);
	if (!s->region || !s->profile)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the settings of the object store");
	if (s->region[strspn(s->region, "abcdefghijklmnopqrstuvwxyz0123456789-")])
		return stk__fail(err, STK_INVALID, "\"%.32s\" is not a region (AWS_REGION, or region in the profile)", s->region);
	enum stk_status status =
		stk__aws_check_endpoint(s->endpoint, "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint_url", err);
	return status ? status : read_style(s, p, err);
}

enum stk_status stk__aws_settings_read(const struct stk_aws_given *given, struct stk_aws_settings *out, struct stk_error *err)
{
	const struct stk_aws_given nothing = {0}, *g = given ? given : &nothing;
	const char *asked = g->profile ? g->profile : getenv("AWS_PROFILE");
	asked = asked && *asked ? asked : getenv("AWS_DEFAULT_PROFILE");
	struct profiles p = {.name = asked && *asked ? asked : "default"};
	*out = (struct stk_aws_settings){0};
	p.credentials = read_profile_file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
	p.config = read_profile_file("AWS_CONFIG_FILE", "config");
	snprintf(p.section, sizeof p.section, "%s%.200s", strcmp(p.name, "default") == 0 ? "" : "profile ", p.name);
	enum stk_status status = STK_OK;
	if (!p.credentials || !p.config)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory for AWS's profile files");
	else if (asked && *asked && !g->key && !stk__ini_has(p.config, p.section) && !stk__ini_has(p.credentials, p.name))
		status = stk__fail(err, STK_INVALID,
			"the profile (AWS_PROFILE) is \"%.64s\", which is in neither of AWS's files (~/.aws/config, ~/.aws/credentials)",
			asked);
	else
		status = read_all(out, &p, g, err);
	if (p.credentials)
		stk__erase(p.credentials, strlen(p.credentials));
	stk__free(p.credentials);
	stk__free(p.config);
	return status;
}

enum { STRINGS = 13 };

static void strings(struct stk_aws_settings *s, char **out[STRINGS])
{
	char **all[STRINGS] = {&s->endpoint, &s->region, &s->ca_bundle, &s->key, &s->secret, &s->token, &s->profile, &s->issuer.where,
		&s->issuer.role, &s->issuer.session, &s->issuer.token, &s->issuer.token_file, &s->proxy};
	memcpy(out, all, sizeof all);
}

void stk__aws_settings_clear(struct stk_aws_settings *s)
{
	char **all[STRINGS];
	strings(s, all);
	for (int i = 0; i < STRINGS; i++) {
		if (*all[i])
			stk__erase(*all[i], strlen(*all[i]));
		stk__free(*all[i]);
	}
	*s = (struct stk_aws_settings){0};
}

bool stk__aws_settings_copy(const struct stk_aws_settings *from, struct stk_aws_settings *to)
{
	char **all[STRINGS];
	bool good = true;
	*to = *from;
	strings(to, all);
	for (int i = 0; i < STRINGS; i++) {
		char *s = *all[i] ? stk__strdup(*all[i]) : NULL;
		good &= !*all[i] || s;
		*all[i] = s;
	}
	return good;
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool stk__aws_issuer_equal(const struct stk_aws_issuer *a, const struct stk_aws_issuer *b)
{
	return a->kind == b->kind && same(a->where, b->where) && same(a->role, b->role) && same(a->session, b->session) &&
	       same(a->token, b->token) && same(a->token_file, b->token_file);
}
